//! The keys of the registry: name, range and meaning, once for validation, editing and display.

use super::schema::{
    BinaryPolicy, Credential, SafetyPolicy, StaleReadings, Strategy, Unmeasured, WorkerEnvironment,
};
use super::shape::Shape;
use crate::id::ProviderKind;

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What it is for.
    pub meaning: &'static str,
}

const fn key(name: &'static str, shape: Shape, meaning: &'static str) -> Key {
    Key {
        name,
        shape,
        meaning,
    }
}

/// Keys beside the tables.
pub const TOP: &[Key] = &[
    key("version", Shape::Whole(1, i64::MAX), "format of the file"),
    key(
        "install_id",
        Shape::Token,
        "ties the registry to its state root",
    ),
];

/// `[settings]`.
pub const SETTINGS: &[Key] = &[
    key(
        "lease_ttl_seconds",
        Shape::Whole(1, 86_400),
        "how long a reservation waits for its exec",
    ),
    key(
        "quota_fresh_seconds",
        Shape::Whole(1, 86_400),
        "a reading older than this is stale",
    ),
    key(
        "stale_readings",
        Shape::Word(StaleReadings::WORDS),
        "what a stale reading is worth",
    ),
    key(
        "unmeasured",
        Shape::Word(Unmeasured::WORDS),
        "what a profile without any reading is worth",
    ),
    key(
        "active_lease_penalty",
        Shape::Number(0.0, 100.0),
        "headroom points taken off per live lease",
    ),
    key(
        "strategy",
        Shape::Word(Strategy::WORDS),
        "how candidates are ranked",
    ),
    key(
        "worker_env",
        Shape::Word(WorkerEnvironment::WORDS),
        "how a worker's environment begins",
    ),
];

/// `[providers.<name>]`.
pub const PROVIDER: &[Key] = &[
    key("binary", Shape::Path, "the provider's native binary"),
    key(
        "binary_policy",
        Shape::Word(BinaryPolicy::WORDS),
        "whether links to the binary are followed at launch",
    ),
    key(
        "base_home",
        Shape::PathOrFalse,
        "the default CLI login, which no worker may share",
    ),
    key(
        "desktop_identity_file",
        Shape::PathOrFalse,
        "the Desktop app's login, which no worker may share",
    ),
    key(
        "shared_entries",
        Shape::Entries,
        "entries of the base home linked into each home",
    ),
    key(
        "inherit_settings",
        Shape::Inherited,
        "settings of the base home merged into each home",
    ),
    key(
        "quota_reader",
        Shape::Reader,
        "who reads quota and identity",
    ),
    key(
        "worker_options",
        Shape::Options,
        "provider options that workers may pass, on top of the built-in ones",
    ),
    key(
        "service",
        Shape::Path,
        "scripted only: the directory that plays the server",
    ),
];

/// `[projects]` and `[projects.<provider>]`.
pub const PROJECTS: &[Key] = &[key(
    "trusted",
    Shape::Paths,
    "worktree roots that may host workers",
)];

/// `[profiles."<id>"]`.
pub const PROFILE: &[Key] = &[
    key("provider", Shape::Word(&PROVIDERS), "which service"),
    key("home", Shape::Path, "the provider home"),
    key("pools", Shape::Pools, "pools it joins"),
    key("enabled", Shape::Flag, "whether it is routed"),
    key(
        "credential",
        Shape::Word(Credential::WORDS),
        "where its credential is",
    ),
    key("max_concurrent", Shape::Whole(1, 1000), "slots"),
    key(
        "reserve_percent",
        Shape::Number(0.0, 99.0),
        "percent of each window left untouched",
    ),
    key(
        "weight",
        Shape::Whole(1, 100),
        "preference; each step above 1 is worth five points of headroom",
    ),
    key(
        "safety_policy",
        Shape::Word(SafetyPolicy::WORDS),
        "what it may be used for",
    ),
    key(
        "allow_overage",
        Shape::Flag,
        "whether usage beyond the subscription may be paid for",
    ),
];

const PROVIDERS: [&str; 3] = [
    ProviderKind::ALL[0].name(),
    ProviderKind::ALL[1].name(),
    ProviderKind::ALL[2].name(),
];

/// Entries of a base home that hold neither credentials nor state and may be linked into a home.
pub const fn linkable(provider: ProviderKind) -> &'static [&'static str] {
    match provider {
        ProviderKind::Claude => &[
            "CLAUDE.md",
            "skills",
            "agents",
            "commands",
            "output-styles",
            "rules",
            "themes",
            "keybindings.json",
        ],
        ProviderKind::Codex => &["AGENTS.md", "skills", "rules", "prompts", "themes"],
        ProviderKind::Scripted => &[],
    }
}

/// Settings that would move the account, the billing or our own hooks, and are never merged into a home.
pub const fn never_inherited(provider: ProviderKind) -> &'static [&'static str] {
    match provider {
        ProviderKind::Claude => &[
            "env",
            "apiKeyHelper",
            "awsAuthRefresh",
            "awsCredentialExport",
            "gcpAuthRefresh",
            "otelHeadersHelper",
            "forceLoginMethod",
            "forceLoginOrgUUID",
        ],
        ProviderKind::Codex => &[
            "model_provider",
            "model_providers",
            "openai_base_url",
            "chatgpt_base_url",
            "forced_login_method",
            "forced_chatgpt_workspace_id",
            "cli_auth_credentials_store",
            "profile",
            "profiles",
            "projects",
            "features",
            "hooks",
            "notify",
        ],
        ProviderKind::Scripted => &[],
    }
}

/// The key of this name in a table.
pub fn find(table: &'static [Key], name: &str) -> Option<&'static Key> {
    table.iter().find(|key| key.name == name)
}

/// The known name that a misspelt one most likely means: at most two letters off.
pub fn nearest<'a>(names: impl Iterator<Item = &'a str>, wrong: &str) -> Option<&'a str> {
    names
        .map(|name| (distance(name, wrong), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (index, right) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[index + 1];
            row[index + 1] = substituted.min(row[index] + 1).min(row[index + 1] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{PROFILE, nearest};

    #[test]
    fn misspelt_keys_find_their_name_and_new_ones_do_not() {
        let names = || PROFILE.iter().map(|key| key.name);
        assert_eq!(nearest(names(), "max_concurent"), Some("max_concurrent"));
        assert_eq!(nearest(names(), "homes"), Some("home"));
        assert_eq!(nearest(names(), "colour"), None);
    }
}
