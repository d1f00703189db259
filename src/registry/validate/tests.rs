//! Every mistake in a registry is named at once, with its line.

use super::{Invalid, parse};
use crate::env::Roots;
use crate::id::ProviderKind;
use crate::registry::schema::{Anchor, SafetyPolicy};

fn roots() -> Roots {
    Roots {
        home: "/h".into(),
        config: "/h/.config/agent-fleet/accounts.toml".into(),
        state: "/h/.local/state/agent-fleet".into(),
        share: "/h/.local/share/agent-fleet".into(),
    }
}

#[track_caller]
fn problems(text: &str) -> Vec<(usize, String)> {
    match parse(text, &roots()) {
        Err(Invalid::Problems(list)) => list
            .into_iter()
            .map(|found| (found.line, found.message))
            .collect(),
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn refused(text: &str, line: usize, words: &str) {
    let found = problems(text);
    assert!(
        found
            .iter()
            .any(|(at, message)| *at == line && message.contains(words)),
        "no {words:?} on line {line} in {found:?}"
    );
}

#[test]
fn a_full_file_fills_its_defaults_and_keeps_its_order() {
    let text = r#"
version = 1
install_id = "abc-1"
[settings]
strategy = "round-robin"
[providers.claude]
binary = "/opt/claude"
base_home = false
[projects]
trusted = ["~/src/one"]
[projects.codex]
trusted = ["/srv/two"]
[profiles."claude-2"]
provider = "claude"
home = "~/homes/claude-2"
pools = ["claude-crew"]
enabled = true
[profiles.claude-1]
provider = "claude"
home = "~/homes/claude-1"
reserve_percent = 5
[profiles."codex-1"]
provider = "codex"
home = "~/homes/codex-1"
"#;
    let parsed = parse(text, &roots()).unwrap();
    let registry = parsed.registry;
    assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
    let ids: Vec<&str> = registry
        .profiles
        .iter()
        .map(|profile| profile.id.as_str())
        .collect();
    assert_eq!(ids, ["claude-2", "claude-1", "codex-1"]);
    assert_eq!(registry.profiles[0].home, "/h/homes/claude-2");
    assert!(registry.profiles[0].enabled && !registry.profiles[1].enabled);
    assert!((registry.profiles[1].reserve_percent - 5.0).abs() < f64::EPSILON);
    assert_eq!(registry.profiles[2].max_concurrent, 3);
    assert_eq!(registry.settings.lease_ttl_seconds, 30);
    let kinds: Vec<_> = registry
        .providers
        .iter()
        .map(|settings| settings.kind)
        .collect();
    assert_eq!(kinds, [ProviderKind::Claude, ProviderKind::Codex]);
    assert_eq!(registry.providers[0].base_home, Anchor::Off);
    assert_eq!(
        registry.providers[1].base_home,
        Anchor::At("/h/.codex".into())
    );
    assert!(registry.trusts(ProviderKind::Claude, "/h/src/one".into()));
    assert!(registry.trusts(ProviderKind::Codex, "/srv/two".into()));
    assert!(!registry.trusts(ProviderKind::Claude, "/srv/two".into()));
}

#[test]
fn every_problem_is_reported_at_once_with_its_line() {
    let text = r#"version = 1
[settings]
lease_ttl_seconds = 0
strategy = "best"
[profiles."a b"]
provider = "claude"
[profiles.x]
provider = "gemini"
home = "rel"
enabled = "yes"
[profiles.y]
provider = "codex"
max_concurrent = 0
credential = "setup-token"
"#;
    let found = problems(text);
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 5, 8, 9, 10, 11, 13, 14], "{found:?}");
    refused(text, 14, "Codex has no long-lived tokens");
}

#[test]
fn broken_syntax_is_reported_beside_wrong_values_and_absence_is_not_guessed() {
    let text = "version = 1\n[settings]\nstrategy = \"best\"\n[profiles.x]\nprovider = \"codex\"\nhome = /a\n";
    let found = problems(text);
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert!(lines.contains(&3) && lines.contains(&6), "{found:?}");
    assert!(
        !found
            .iter()
            .any(|(_, message)| message.contains("has no `home`")),
        "{found:?}"
    );
    refused("version = 1\nversion = 1\n", 2, "duplicate");
}

#[test]
fn unknown_keys_are_notes_with_the_name_that_was_meant() {
    let text = "version = 1\nfuture = 2\n[profiles.x]\nprovider = \"codex\"\nhome = \"/a\"\nmax_concurent = 4\n[providers.gemini]\nbinary = 1\n";
    let parsed = parse(text, &roots()).unwrap();
    let notes: Vec<(usize, &str)> = parsed
        .notes
        .iter()
        .map(|note| (note.line, note.message.as_str()))
        .collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[1].0 == 6 && notes[1].1.ends_with("did you mean `max_concurrent`?"));
}

#[test]
fn newer_formats_are_told_apart_from_broken_ones() {
    assert_eq!(
        parse("version = 2\n[settings]\nstrategy = 1\n", &roots()).unwrap_err(),
        Invalid::Newer(2)
    );
    refused("version = 0\n", 1, "`version`");
    refused("", 1, "`version = 1` is missing");
    refused("version = 1\nprofiles = 3\n", 2, "must be a table");
}

#[test]
fn homes_overlap_nothing() {
    let one = |home: &str| {
        format!("version = 1\n[profiles.x]\nprovider = \"codex\"\nhome = \"{home}\"\n")
    };
    for (home, words) in [
        ("/h/.codex", "Codex's default home"),
        ("/h/.claude", "Claude's default home"),
        ("/h", "default home"),
        ("/h/.codex/sub", "default home"),
        ("/h/.local/state/agent-fleet/x", "the state root"),
        ("/h/.config", "the registry"),
        ("/h/.local/share/agent-fleet", "the share root's programs"),
    ] {
        refused(&one(home), 4, words);
    }
    let two = "version = 1\n[profiles.x]\nprovider = \"codex\"\nhome = \"/a/b\"\n[profiles.y]\nprovider = \"claude\"\nhome = \"/a/b/c\"\n";
    refused(two, 7, "overlaps the home `/a/b` of profile `x`");
    let base = "version = 1\n[providers.claude]\nbase_home = \"/b\"\ndesktop_identity_file = \"/a/d.json\"\n[profiles.x]\nprovider = \"claude\"\nhome = \"/a\"\n";
    refused(base, 7, "the Desktop file");
}

#[test]
fn homes_that_meet_through_a_link_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    std::fs::create_dir(format!("{root}/real")).unwrap();
    std::os::unix::fs::symlink(format!("{root}/real"), format!("{root}/link")).unwrap();
    let text = format!(
        "version = 1\n[profiles.x]\nprovider = \"codex\"\nhome = \"{root}/real\"\n[profiles.y]\nprovider = \"codex\"\nhome = \"{root}/link\"\n"
    );
    refused(&text, 7, "overlaps the home");
}

#[test]
fn pools_keep_reserves_and_scripts_apart_from_workers() {
    let text = |policy: &str, provider: &str, pool: &str| {
        format!(
            "version = 1\n[profiles.w]\nprovider = \"codex\"\nhome = \"/a\"\npools = [\"crew\", \"codex-manual\"]\n[profiles.r]\nprovider = \"{provider}\"\nhome = \"/b\"\nsafety_policy = \"{policy}\"\npools = [\"{pool}\"]\n"
        )
    };
    refused(
        &text("manual_only", "codex", "crew"),
        10,
        "must not join the worker pool `crew`",
    );
    refused(
        &text("desktop_shared", "codex", "x-crew"),
        10,
        "must not join",
    );
    refused(
        &text("worker", "scripted", "crew"),
        10,
        "must not share the pool",
    );
    let fine = parse(&text("manual_only", "codex", "codex-manual"), &roots()).unwrap();
    assert_eq!(
        fine.registry.profiles[1].safety_policy,
        SafetyPolicy::ManualOnly
    );
}

#[test]
fn ids_that_look_like_mail_are_refused_without_repeating_them() {
    let text = "version = 1\n[profiles.\"someone@example.invalid\"]\nprovider = \"codex\"\nhome = \"/a\"\n";
    refused(text, 2, "must not be an e-mail address");
    assert!(
        problems(text)
            .iter()
            .all(|(_, message)| !message.contains("someone"))
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z\\[\\]\\.\"'= \\n#{}0-9é]{0,200}") {
        drop(parse(&text, &roots()));
        drop(parse(&format!("version = 1\n[profiles.x]\n{text}"), &roots()));
    }
}
