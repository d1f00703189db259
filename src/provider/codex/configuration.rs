//! What workers may set with `-c`, `--enable` and `--disable`, and how we write our own `-c` values.
//!
//! Codex reads `-c KEY=VALUE` as TOML. Some keys delete the login or send it elsewhere, so only the listed
//! keys pass, in the very spelling of the list: a quoted, dotted or spaced form of any key is refused.

use camino::Utf8Path;

/// What every launch states, so that no file decides it: where the login is kept, and where it is sent.
pub const PINNED: &[&str] = &[
    "chatgpt_base_url=\"https://chatgpt.com/backend-api/\"",
    "cli_auth_credentials_store=\"file\"",
    "model_provider=\"openai\"",
];

/// Keys that workers may set.
pub const KEYS: &[&str] = &[
    "approval_policy",
    "disable_paste_burst",
    "file_opener",
    "hide_agent_reasoning",
    "model",
    "model_auto_compact_token_limit",
    "model_context_window",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "personality",
    "plan_mode_reasoning_effort",
    "project_doc_max_bytes",
    "sandbox_mode",
    "sandbox_workspace_write.network_access",
    "service_tier",
    "show_raw_agent_reasoning",
    "tool_output_token_limit",
    "tui.animations",
    "web_search",
];

/// First parts of keys that were seen to do harm, with the harm.
const HARMFUL: &[(&str, &str)] = &[
    ("analytics", "it changes what is sent beside the work"),
    ("chatgpt_base_url", "it sends the login to another host"),
    ("cli_auth_credentials_store", "it drops the login"),
    (
        "features",
        "use --enable or --disable with a listed feature",
    ),
    ("forced_chatgpt_workspace_id", "it deletes the login"),
    ("forced_login_method", "it deletes the login"),
    ("hooks", "agent-fleet decides which hooks run"),
    (
        "mcp_oauth_credentials_store",
        "it moves logins out of the home",
    ),
    ("mcp_servers", "it starts programs outside the sandbox"),
    ("model_provider", "it sends the work to another provider"),
    ("model_providers", "it sends the work to another provider"),
    ("notify", "it replaces the program that reports the session"),
    ("openai_base_url", "it sends the work to another host"),
    ("oss_provider", "it sends the work to another provider"),
    ("plugins", "it loads programs from outside the workspace"),
    ("profile", "it lays another configuration over the home's"),
    ("profiles", "it lays another configuration over the home's"),
    ("projects", "agent-fleet decides which projects are trusted"),
    ("sqlite_home", "it moves the session index out of the home"),
];

/// Features that workers may switch on and off.
pub const FEATURES: &[&str] = &[
    "fast_mode",
    "goals",
    "image_generation",
    "memories",
    "multi_agent",
    "multi_agent_v2",
    "shell_snapshot",
    "skill_search",
    "tool_suggest",
    "unified_exec",
    "view_image",
    "web_search_cached",
    "web_search_request",
];

/// Features that workers may switch off only.
pub const OFF_FEATURES: &[&str] = &[
    "apps",
    "browser_use",
    "computer_use",
    "daemon_auto_start",
    "plugin_sharing",
    "plugins",
    "remote_plugin",
];

/// What a `-c` argument sets, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// A listed key.
    Allowed,
    /// The key as it may be shown, and why it is refused.
    Refused(String, &'static str),
}

/// Judges the argument of `-c`.
pub fn judge(assignment: &[u8]) -> Judged {
    let Some(at) = assignment.iter().position(|byte| *byte == b'=') else {
        return Judged::Refused(String::new(), "it needs the form key=value");
    };
    let key = assignment.get(..at).unwrap_or_default();
    if KEYS.iter().any(|allowed| allowed.as_bytes() == key) {
        return Judged::Allowed;
    }
    let first = first_part(key);
    let harm = HARMFUL.iter().find(|(name, _)| name.as_bytes() == first);
    match harm {
        Some((name, reason)) => Judged::Refused((*name).to_owned(), reason),
        None if is_bare(first) => Judged::Refused(
            String::from_utf8_lossy(first).into_owned(),
            "it is not one of the keys that workers may set, in their plain spelling",
        ),
        None => Judged::Refused(String::new(), "its key is not in plain spelling"),
    }
}

/// The first part of a TOML key without its spaces and quotes: names the harm, never allows anything.
fn first_part(key: &[u8]) -> &[u8] {
    let key = key.trim_ascii();
    match key.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let inside = key.get(1..).unwrap_or_default();
            inside.split(|byte| byte == quote).next()
        }
        Some(_) | None => key.split(|byte| *byte == b'.').next(),
    }
    .unwrap_or_default()
    .trim_ascii()
}

fn is_bare(key: &[u8]) -> bool {
    !key.is_empty()
        && key.len() <= 60
        && key
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// A TOML basic string.
pub fn quoted(text: &str) -> String {
    let mut string = String::with_capacity(text.len() + 2);
    string.push('"');
    for character in text.chars() {
        match character {
            '"' => string.push_str("\\\""),
            '\\' => string.push_str("\\\\"),
            control if control.is_control() => {
                for digit in format!("\\U{:08X}", u32::from(control)).chars() {
                    string.push(digit);
                }
            }
            plain => string.push(plain),
        }
    }
    string.push('"');
    string
}

/// `hooks.state={…}`: trust for hooks by hash, as one inline table; the dotted form is silently ignored.
pub fn hook_trust(trust: &[(String, String)]) -> String {
    let entries: Vec<String> = trust
        .iter()
        .map(|(key, hash)| format!("{}={{trusted_hash={}}}", quoted(key), quoted(hash)))
        .collect();
    format!("hooks.state={{{}}}", entries.join(","))
}

/// `projects={…}`: trust for this project, merged by Codex into what the home's configuration says.
pub fn project_trust(roots: &[&Utf8Path]) -> String {
    let entries: Vec<String> = roots
        .iter()
        .map(|root| format!("{}={{trust_level=\"trusted\"}}", quoted(root.as_str())))
        .collect();
    format!("projects={{{}}}", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::{
        FEATURES, HARMFUL, Judged, KEYS, OFF_FEATURES, hook_trust, judge, project_trust, quoted,
    };
    use camino::Utf8Path;
    use proptest::prelude::*;

    #[test]
    fn listed_keys_pass_in_plain_spelling_only() {
        for key in KEYS {
            assert_eq!(judge(format!("{key}=high").as_bytes()), Judged::Allowed);
            for spelling in [
                format!(" {key}=1"),
                format!("{key} =1"),
                format!("\"{key}\"=1"),
                format!("'{key}'=1"),
                format!("{key}.x=1"),
                key.to_uppercase() + "=1",
                (*key).to_owned(),
            ] {
                assert_ne!(judge(spelling.as_bytes()), Judged::Allowed, "{spelling}");
            }
        }
    }

    #[test]
    fn harmful_keys_are_named_in_every_spelling() {
        for (key, _) in HARMFUL {
            for spelling in [
                format!("{key}=1"),
                format!(" {key} = 1"),
                format!("\"{key}\"=1"),
                format!("'{key}'.x=1"),
                format!("{key}.x=1"),
                format!("{key} . \"x\"=1"),
            ] {
                let judged = judge(spelling.as_bytes());
                assert!(
                    matches!(&judged, Judged::Refused(name, _) if name == key),
                    "{spelling}: {judged:?}"
                );
            }
        }
    }

    #[test]
    fn a_value_is_never_part_of_a_refusal() {
        for assignment in [
            "x=synthetic",
            "synthetic",
            "=synthetic",
            "\"\\u0061\"=synthetic",
        ] {
            assert!(!format!("{:?}", judge(assignment.as_bytes())).contains("synthetic"));
        }
    }

    #[test]
    fn the_lists_are_sorted_and_disjoint() {
        assert!(KEYS.is_sorted() && HARMFUL.is_sorted());
        assert!(FEATURES.is_sorted() && OFF_FEATURES.is_sorted());
        assert!(!OFF_FEATURES.iter().any(|off| FEATURES.contains(off)));
        assert!(!HARMFUL.iter().any(|(key, _)| KEYS.contains(key)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn quoted_text_is_read_back_by_toml(text in any::<String>()) {
            let document: toml::Table = toml::from_str(&format!("x = {}", quoted(&text))).unwrap();
            prop_assert_eq!(document["x"].as_str(), Some(text.as_str()));
        }

        #[test]
        fn trust_tables_are_read_back_by_toml(path in "/[^\u{0}]{0,40}", hash in "sha256:[0-9a-f]{64}") {
            let text = hook_trust(&[(path.clone(), hash.clone()), ("other".into(), hash.clone())]);
            let document: toml::Table = toml::from_str(&text).unwrap();
            let state = document["hooks"]["state"].as_table().unwrap();
            prop_assert_eq!(state[&path]["trusted_hash"].as_str(), Some(hash.as_str()));
            let text = project_trust(&[Utf8Path::new(&path)]);
            let document: toml::Table = toml::from_str(&text).unwrap();
            prop_assert_eq!(document["projects"][&path]["trust_level"].as_str(), Some("trusted"));
        }
    }
}
