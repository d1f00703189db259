//! The `--settings` overlay that every Claude Code worker gets.
//!
//! Claude Code reloads settings while it runs: a worker's own tool that wrote a token into the project's
//! settings moved the next requests to another account. Command-line settings win over those of project and
//! home, so the overlay states every key that was seen to move the account or its route: blank, or with the
//! value that the launch really has. A key must never be `null`: it would be sent as the text "null".
//!
//! Limits: tools and hooks see these variables empty. A proxy whose URL carries a password is not repeated
//! here, because argv is public; for such a launch a project's settings can still name another proxy.
//! The two variables by which a token arrives on a descriptor are not blanked: settings cannot open one.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use super::environment::FRUGAL;
use crate::env::Variables;
use crate::provider::{AllowedOption, LaunchFacts};

/// Environment keys of settings that are blanked, each with what it does when it is not.
pub const BLANK: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "bills the key's account"),
    (
        "ANTHROPIC_AUTH_TOKEN",
        "sends this token instead of the login",
    ),
    ("ANTHROPIC_BASE_URL", "sends the login's token to that host"),
    (
        "ANTHROPIC_BEDROCK_BASE_URL",
        "sends requests to another provider",
    ),
    (
        "ANTHROPIC_CUSTOM_HEADERS",
        "replaces the login by a header of its own",
    ),
    (
        "ANTHROPIC_FEDERATION_RULE_ID",
        "exchanges another identity for a token, with the organisation",
    ),
    (
        "ANTHROPIC_FOUNDRY_BASE_URL",
        "sends requests to another provider",
    ),
    (
        "ANTHROPIC_ORGANIZATION_ID",
        "exchanges another identity for a token, with the rule",
    ),
    ("ANTHROPIC_PROFILE", "names another stored login"),
    (
        "ANTHROPIC_UNIX_SOCKET",
        "sends requests into a local socket",
    ),
    (
        "CLAUDE_CODE_API_BASE_URL",
        "sends requests about the account to that host",
    ),
    (
        "CLAUDE_CODE_CUSTOM_OAUTH_URL",
        "renews the login with another server",
    ),
    (
        "CLAUDE_CODE_HOST_CREDS_FILE",
        "takes the login from that file",
    ),
    (
        "CLAUDE_CODE_OAUTH_TOKEN",
        "sends this token instead of the login",
    ),
    (
        "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
        "takes the token of a remote session",
    ),
    ("CLAUDE_CODE_SIMPLE", "ignores the home's login"),
    (
        "CLAUDE_CODE_USE_ANTHROPIC_AWS",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_BEDROCK",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_FOUNDRY",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_GATEWAY",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_MANTLE",
        "sends requests to another provider",
    ),
    (
        "CLAUDE_CODE_USE_VERTEX",
        "sends requests to another provider",
    ),
    (
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "lets anyone in between read the login's token",
    ),
];

/// Environment keys that keep the launch's own value, blank when it has none: the route to the server.
pub const CARRIED: &[(&str, &str)] = &[
    ("ALL_PROXY", "sends requests through that proxy"),
    ("HTTPS_PROXY", "sends requests through that proxy"),
    ("HTTP_PROXY", "sends requests through that proxy"),
    (
        "NODE_EXTRA_CA_CERTS",
        "replaces the certificates that the launch trusts",
    ),
    ("NO_PROXY", "sends requests around the launch's proxy"),
    ("all_proxy", "sends requests through that proxy"),
    ("http_proxy", "sends requests through that proxy"),
    ("https_proxy", "sends requests through that proxy"),
    ("no_proxy", "sends requests around the launch's proxy"),
];

/// Environment key that is set to the home: blank, the CLI finds no login; planted, it takes another's.
pub const STORE: &str = "CLAUDE_SECURESTORAGE_CONFIG_DIR";

/// Environment key that is set to a directory that does not exist, see [`profiles`].
pub const PROFILES: &str = "ANTHROPIC_CONFIG_DIR";

/// Where workers are told to look for the profiles of Anthropic's own tools: nowhere.
///
/// A federation profile there outranks the home's login (run with 2.1.332), and without this the person's
/// own in `~/.config/anthropic` counts.
pub fn profiles(home: &Utf8Path) -> Utf8PathBuf {
    home.join("no-anthropic-profiles")
}

/// Settings keys outside `env` that are blanked, with what they do when they are not.
pub const BLANK_SETTINGS: &[(&str, &str)] = &[("apiKeyHelper", "replaces the login by its output")];

/// The setting by which a person has answered the CLI's question about running without permissions.
const ANSWERED: &str = "skipDangerousModePermissionPrompt";

/// The overlay's JSON for a worker that is launched with `variables` and these options; the same for the same
/// input.
///
/// A caller that asks for a worker without permission checks has answered the question that the CLI's own
/// screen would put first, and whose proposed answer ends the worker.
pub fn overlay(facts: &LaunchFacts, variables: &Variables, options: &[AllowedOption]) -> String {
    let home = &facts.home;
    let mut environment = Map::new();
    for (key, _) in BLANK {
        environment.insert((*key).to_owned(), json!(""));
    }
    for (key, _) in CARRIED {
        match carried(variables, key) {
            Carried::Public(value) => environment.insert((*key).to_owned(), json!(value)),
            Carried::Unspeakable => None,
        };
    }
    environment.insert(STORE.to_owned(), json!(home.as_str()));
    environment.insert(PROFILES.to_owned(), json!(profiles(home).as_str()));
    if !facts.may_spend {
        for (key, _) in FRUGAL {
            environment.insert((*key).to_owned(), json!("1"));
        }
    }
    let mut settings = Map::new();
    settings.insert("env".to_owned(), Value::Object(environment));
    for (key, _) in BLANK_SETTINGS {
        settings.insert((*key).to_owned(), json!(""));
    }
    // A project that switches hooks off would hide the worker's session and the end of its turns.
    settings.insert("disableAllHooks".to_owned(), json!(false));
    if !facts.may_spend {
        settings.insert("fastMode".to_owned(), json!(false));
    }
    if options.iter().any(skips_permissions) {
        settings.insert(ANSWERED.to_owned(), json!(true));
    }
    Value::Object(settings).to_string()
}

fn skips_permissions(option: &AllowedOption) -> bool {
    option.name == "--dangerously-skip-permissions"
        || option.name == "--permission-mode"
            && option.values.iter().any(|mode| mode == "bypassPermissions")
}

enum Carried<'a> {
    /// The value, or nothing.
    Public(&'a str),
    /// A value that must not or cannot stand in argv.
    Unspeakable,
}

/// The launch's own value, in this case of letters or the other: readers differ in which they prefer, and
/// a blank twin could hide the value from some.
fn carried<'a>(variables: &'a Variables, key: &str) -> Carried<'a> {
    let names = [
        key.to_owned(),
        key.to_ascii_uppercase(),
        key.to_ascii_lowercase(),
    ];
    let Some(name) = names.iter().find(|name| variables.raw(name).is_some()) else {
        return Carried::Public("");
    };
    match variables.text(name) {
        Some(value) if !value.contains('@') => Carried::Public(value),
        Some(_) | None => Carried::Unspeakable,
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWERED, BLANK, BLANK_SETTINGS, CARRIED, PROFILES, STORE, overlay};
    use crate::env::Variables;
    use crate::provider::claude::environment::FRUGAL;
    use crate::provider::{AllowedOption, Conversation, LaunchFacts};
    use serde_json::Value;

    fn facts(may_spend: bool) -> LaunchFacts {
        LaunchFacts {
            home: "/homes/a \"b\"".into(),
            workspace: "/w".into(),
            project: "/w".into(),
            conversation: Conversation::New { id: String::new() },
            binary: "/claude".into(),
            program: "/agent-fleet".into(),
            may_spend,
        }
    }

    fn parsed(pairs: &[(&str, &str)]) -> Value {
        let variables: Variables = pairs.iter().copied().collect();
        serde_json::from_str(&overlay(&facts(true), &variables, &[])).unwrap()
    }

    #[test]
    fn a_worker_that_may_not_spend_has_no_way_to_switch_paid_usage_on() {
        let text = overlay(&facts(false), &Variables::default(), &[]);
        let settings: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(settings["fastMode"], false);
        assert_eq!(parsed(&[]).get("fastMode"), None);
        for (key, _) in FRUGAL {
            assert_eq!(settings["env"][*key], "1", "{key}");
            assert_eq!(parsed(&[])["env"].get(*key), None, "{key}");
        }
    }

    #[test]
    fn every_listed_key_is_stated_and_none_is_null() {
        let settings = parsed(&[]);
        let environment = settings["env"].as_object().unwrap();
        assert_eq!(environment.len(), BLANK.len() + CARRIED.len() + 2);
        for (key, _) in BLANK.iter().chain(CARRIED) {
            assert_eq!(environment[*key], "", "{key} is not blank");
        }
        for (key, _) in BLANK_SETTINGS {
            assert_eq!(settings[*key], "", "{key} is not blank");
        }
        assert_eq!(environment[STORE], "/homes/a \"b\"");
        assert_eq!(
            environment[PROFILES],
            "/homes/a \"b\"/no-anthropic-profiles"
        );
        assert_eq!(
            settings["disableAllHooks"], false,
            "a project could silence the hooks"
        );
    }

    #[test]
    fn keys_are_sorted_and_none_is_in_two_lists() {
        let mut keys: Vec<_> = BLANK.iter().chain(CARRIED).map(|(key, _)| *key).collect();
        assert!(BLANK.is_sorted() && CARRIED.is_sorted());
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all);
        // Blank or planted, these two decide which login is read; the home's own spelling must stand.
        assert!(!keys.contains(&STORE) && !keys.contains(&"CLAUDE_CONFIG_DIR"));
    }

    #[test]
    fn the_launch_keeps_its_proxy_and_certificates() {
        let settings = parsed(&[
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("NODE_EXTRA_CA_CERTS", "/etc/company.pem"),
            ("ANTHROPIC_API_KEY", "planted"),
        ]);
        assert_eq!(settings["env"]["HTTPS_PROXY"], "http://proxy:3128");
        assert_eq!(settings["env"]["https_proxy"], "http://proxy:3128");
        assert_eq!(settings["env"]["NODE_EXTRA_CA_CERTS"], "/etc/company.pem");
        assert_eq!(settings["env"]["ANTHROPIC_API_KEY"], "");
    }

    #[test]
    fn a_proxy_with_a_password_stays_out_of_argv() {
        let settings = parsed(&[("https_proxy", "http://user:word@proxy:3128")]);
        assert!(settings["env"].get("https_proxy").is_none());
        assert!(settings["env"].get("HTTPS_PROXY").is_none());
        assert!(!settings.to_string().contains("word"));
    }

    #[test]
    fn only_a_caller_that_asked_for_it_has_answered_the_permission_question() {
        let option = |name: &str, values: &[&str]| AllowedOption {
            name: name.to_owned(),
            values: values.iter().map(Into::into).collect(),
        };
        for (options, answered) in [
            (vec![], false),
            (vec![option("--permission-mode", &["plan"])], false),
            (
                vec![option("--permission-mode", &["bypassPermissions"])],
                true,
            ),
            (vec![option("--dangerously-skip-permissions", &[])], true),
        ] {
            let text = overlay(&facts(false), &Variables::default(), &options);
            let settings: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(settings.get(ANSWERED).is_some(), answered, "{options:?}");
        }
    }

    #[test]
    fn the_same_launch_gives_the_same_text() {
        let variables: Variables = [("HTTP_PROXY", "http://p:1")].into_iter().collect();
        let text = || overlay(&facts(false), &variables, &[]);
        assert_eq!(text(), text());
    }
}
