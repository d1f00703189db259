use std::collections::BTreeSet;
use std::ffi::OsString;

use super::{command_line, parse};
use crate::provider::argument::{Arity, Rule, Verdict};
use crate::provider::codex::options::{EXEC_ONLY, REVIEW_ONLY, RULES, SUBCOMMANDS, TERMINAL_ONLY};
use crate::provider::{Conversation, Invocation, LaunchFacts, Mode};

/// What the measured facts call safe and not: kept apart from the table on purpose.
const SAFE_EXEC: &str = "--json --model -m --sandbox -s --approve-for-me \
    --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --image -i --color --strict-config \
    --help -h --version -V";
const SAFE_TERMINAL: &str = "--model -m --sandbox -s --ask-for-approval -a --approve-for-me --image -i \
    --dangerously-bypass-approvals-and-sandbox --search --no-alt-screen --no-daemon --help -h";
const UNSAFE: &str = "--profile -p --oss --local-provider --remote --remote-auth-token-env --cd -C \
    --worktree --add-dir --trust --ephemeral --ignore-user-config --ignore-rules \
    --dangerously-bypass-hook-trust --last --all --include-non-interactive --thread-source \
    --cyber-access-program --output-last-message -o --output-schema --mod --full-auto -x";
const UNSAFE_KEYS: &str = "cli_auth_credentials_store forced_login_method forced_chatgpt_workspace_id \
    openai_base_url chatgpt_base_url model_provider model_providers.x.base_url sqlite_home notify \
    hooks.SessionStart hooks.state mcp_servers.x.command projects.x.trust_level profile features.plugins";

fn os(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn accept(words: &[&str]) -> Invocation {
    parse(&os(words), &[]).unwrap_or_else(|refused| panic!("{words:?}: {refused}"))
}

fn refused(words: &[&str]) -> String {
    match parse(&os(words), &[]) {
        Ok(invocation) => panic!("{words:?} passed as {invocation:?}"),
        Err(refused) => {
            assert!(
                refused.reason.len() > 8,
                "{words:?} is refused without a reason"
            );
            refused.to_string()
        }
    }
}

fn facts(conversation: Conversation) -> LaunchFacts {
    LaunchFacts {
        binary: "/opt/provider".into(),
        home: "/homes/one".into(),
        workspace: "/srv/tree".into(),
        project: "/srv/tree".into(),
        conversation,
        program: "/share/bin/agent-fleet".into(),
        may_spend: false,
    }
}

pub(super) fn new() -> LaunchFacts {
    facts(Conversation::New {
        id: "unused".into(),
    })
}

pub(super) fn resume() -> LaunchFacts {
    facts(Conversation::Resume {
        id: "0197-id".into(),
    })
}

fn line(words: &[&str], facts: &LaunchFacts) -> Vec<OsString> {
    command_line(&accept(words), facts, &[]).unwrap()
}

#[test]
fn a_list_with_an_empty_value_is_refused() {
    for words in [&["exec", "-i", "a.png", ""], &["exec", "-i", "", "a.png"]] {
        assert!(refused(words).contains("it needs a value"), "{words:?}");
    }
}

/// Every way to write an option, with a value where it has one.
pub(super) fn spellings(rule: &Rule, value: &str) -> Vec<Vec<String>> {
    let mut forms = Vec::new();
    let letter = rule.short.map(|letter| format!("-{}", char::from(letter)));
    for name in rule
        .names
        .iter()
        .map(|name| (*name).to_owned())
        .chain(letter)
    {
        if rule.arity == Arity::Flag {
            forms.push(vec![name]);
            continue;
        }
        forms.push(vec![name.clone(), value.to_owned()]);
        forms.push(vec![format!("{name}={value}")]);
        if !name.starts_with("--") {
            forms.push(vec![format!("{name}{value}")]);
            forms.push(vec![format!("-V{}{value}", name.trim_start_matches('-'))]);
        }
    }
    forms
}

/// A value that the option itself does not refuse.
pub(super) fn harmless(rule: &Rule) -> &'static str {
    match rule.names[0] {
        "--config" => "model=x",
        "--enable" | "--disable" => "goals",
        _ => "value",
    }
}

/// Words before an option that make its form fit.
fn form_of(rule: &Rule) -> &'static [&'static str] {
    let name = rule.names[0];
    if REVIEW_ONLY.contains(&name) {
        &["exec", "review"]
    } else if TERMINAL_ONLY.iter().any(|(only, _)| *only == name) {
        &[]
    } else {
        &["exec"]
    }
}

#[test]
fn every_allowed_option_passes_in_every_spelling_and_place() {
    for rule in RULES.iter().filter(|rule| rule.verdict == Verdict::Allowed) {
        for form in spellings(rule, harmless(rule)) {
            let words: Vec<&str> = form.iter().map(String::as_str).collect();
            let (words, before) = (words.as_slice(), form_of(rule));
            for arguments in [
                [before, words, &["--", "do it"]].concat(),
                [before, &["do it"], words].concat(),
                [words, &["--strict-config"], before, &["do it"]].concat(),
            ] {
                let invocation = accept(&arguments);
                assert_eq!(invocation.prompt, Some("do it".into()), "{arguments:?}");
                let found = invocation
                    .options
                    .iter()
                    .find(|option| option.name == rule.names[0]);
                match found {
                    None => assert_eq!(rule.names[0], "--no-daemon"),
                    Some(option) if rule.arity == Arity::Flag => assert_eq!(option.values, os(&[])),
                    Some(option) => {
                        assert_eq!(option.values, os(&[harmless(rule)]), "{arguments:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_other_option_is_refused_by_name_in_every_spelling_and_place() {
    let everything: Vec<String> = RULES
        .iter()
        .map(|rule| format!("{}:flag", rule.names[0]))
        .collect();
    for rule in RULES {
        for form in spellings(rule, "synthetic-secret") {
            let words: Vec<&str> = form.iter().map(String::as_str).collect();
            let arguments = os(&[&["exec"], words.as_slice(), &["--", "do it"]].concat());
            let extended = parse(&arguments, &everything);
            match rule.verdict {
                Verdict::Allowed => continue,
                Verdict::Policy(_) => assert!(extended.is_ok(), "{words:?}"),
                Verdict::Never(_) => assert!(extended.is_err(), "{words:?}"),
            }
            for arguments in [
                words.clone(),
                [&["exec", "do it"], words.as_slice()].concat(),
                [words.as_slice(), &["exec"]].concat(),
                [&["-i", "a.png"], words.as_slice()].concat(),
            ] {
                let message = refused(&arguments);
                assert!(message.contains(rule.names[0]), "{arguments:?}: {message}");
                assert!(!message.contains("synthetic-secret"), "{message}");
            }
        }
    }
}

#[test]
fn the_table_agrees_with_the_measured_lists() {
    for option in SAFE_EXEC.split_whitespace() {
        assert!(parse(&os(&["exec", option, "x"]), &[]).is_ok(), "{option}");
    }
    for option in SAFE_TERMINAL.split_whitespace() {
        assert!(parse(&os(&[option, "x"]), &[]).is_ok(), "{option}");
    }
    for option in UNSAFE.split_whitespace() {
        refused(&["exec", option, "x"]);
        refused(&[option, "x", "exec"]);
    }
    for key in UNSAFE_KEYS.split_whitespace() {
        let assignment = format!("{key}=\"synthetic-secret\"");
        for words in [
            vec!["-c".to_owned(), assignment.clone()],
            vec![format!("-c{assignment}")],
            vec![format!("-c={assignment}")],
            vec!["--config".to_owned(), assignment.clone()],
            vec![format!("--config={assignment}")],
            vec![format!("-Vc{assignment}")],
        ] {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let message = refused(&[&["exec"], words.as_slice()].concat());
            assert!(message.contains("--config"), "{message}");
            assert!(!message.contains("synthetic-secret"), "{message}");
        }
    }
    let names: Vec<_> = RULES.iter().flat_map(|rule| rule.names).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    assert!(SUBCOMMANDS.is_sorted());
}

#[test]
fn only_listed_features_can_be_switched() {
    accept(&["exec", "--disable", "plugins"]);
    accept(&["exec", "--enable=goals"]);
    for words in [
        ["--enable", "plugins"],
        ["--disable", "hooks"],
        ["--enable", "use_agent_identity"],
    ] {
        refused(&words);
    }
}

#[test]
fn subcommands_are_refused_unless_they_follow_the_dashes() {
    for (name, _) in SUBCOMMANDS {
        for words in [
            &[*name][..],
            &["exec", name],
            &["-mx", name],
            &["exec", "--json", name],
        ] {
            assert!(refused(words).contains(name), "{words:?}");
        }
        assert_eq!(accept(&["exec", "--", name]).prompt, Some(name.into()));
    }
    assert!(refused(&["review"]).contains("exec review"));
    assert_eq!(accept(&["e", "exec"]).prompt, Some("exec".into()));
    refused(&["say", "exec"]);
    // A greedy list takes the word instead.
    let swallowed = accept(&["-i", "a.png", "exec"]);
    assert_eq!((swallowed.mode, swallowed.prompt), (Mode::Terminal, None));
    assert_eq!(accept(&["-ia.png", "exec", "go"]).mode, Mode::Headless);
}

#[test]
fn options_of_another_form_are_refused_with_what_to_use() {
    for (name, instead) in TERMINAL_ONLY {
        assert!(refused(&["exec", &format!("{name}=x"), "go"]).contains(name));
        assert!(!instead.is_empty());
    }
    refused(&["-a", "never", "exec", "go"]);
    for name in EXEC_ONLY {
        refused(&[name, "x"]);
    }
    refused(&["exec", "--uncommitted"]);
    for words in [
        &["-m"][..],
        &["-m", "--json"],
        &["--json=1"],
        &["--model="],
        &["-c", "model"],
    ] {
        refused(&[&["exec"], words].concat());
    }
}

#[test]
fn the_command_line_has_the_order_that_codex_wants() {
    let ours = [
        "-c",
        "chatgpt_base_url=\"https://chatgpt.com/backend-api/\"",
        "-c",
        "cli_auth_credentials_store=\"file\"",
        "-c",
        "model_provider=\"openai\"",
        "-c",
        "features.daemon_auto_start=false",
        "-c",
        "features.plugins=false",
        "-c",
        "features.hooks=true",
        "-c",
        "projects={\"/srv/tree\"={trust_level=\"trusted\"}}",
    ];
    let headless = line(&["-s", "read-only", "exec"], &new());
    assert_eq!(
        headless,
        os(&[&["exec"], &ours[..], &["--sandbox=read-only"]].concat())
    );
    let words = ["exec", "--json", "-m", "x", "-i", "a", "b", "--", "-go"];
    let options = ["--json", "--model=x", "--image=a", "--image=b"];
    let resumed = [
        &["exec"],
        &ours[..],
        &options,
        &["resume", "0197-id", "--", "-go"],
    ]
    .concat();
    assert_eq!(line(&words, &resume()), os(&resumed));
    let terminal = [&["--no-daemon"], &ours[..], &["resume", "0197-id"]].concat();
    assert_eq!(line(&["--no-daemon"], &resume()), os(&terminal));
    let review = line(&["exec", "review", "--base", "main", "--json"], &new());
    assert_eq!(
        review[1 + ours.len()..],
        os(&["--json", "review", "--base=main"])
    );
    let invocation = accept(&["exec", "review"]);
    assert!(command_line(&invocation, &resume(), &[]).is_err());
}

#[test]
fn hook_trust_and_the_worktree_travel_in_argv() {
    let mut facts = new();
    facts.workspace = "/srv/other \"tree\"".into();
    let trust = [(
        "/homes/one/hooks.json:stop:0:0".to_owned(),
        "sha256:00".to_owned(),
    )];
    let line = command_line(&accept(&["exec"]), &facts, &trust).unwrap();
    assert_eq!(
        line[14..],
        os(&[
            "projects={\"/srv/tree\"={trust_level=\"trusted\"},\
             \"/srv/other \\\"tree\\\"\"={trust_level=\"trusted\"}}",
            "-c",
            "hooks.state={\"/homes/one/hooks.json:stop:0:0\"={trusted_hash=\"sha256:00\"}}",
        ])
    );
}

#[test]
fn prompts_arrive_unchanged() {
    let long = "x".repeat(100 * 1024);
    for prompt in [
        "-c model=x",
        "--",
        "-",
        "resume",
        "a \"b\" $(x) `y` \\ \n z",
        "",
        long.as_str(),
    ] {
        for words in [&["exec", "--", prompt][..], &["--", prompt]] {
            let line = line(words, &resume());
            assert_eq!(line[line.len() - 2..], os(&["--", prompt]));
        }
    }
}
