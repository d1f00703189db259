use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use proptest::prelude::*;

use super::{command_line, parse, table};
use crate::provider::argument::{Arity, LONGEST, Rule, Verdict};
use crate::provider::claude::options::{COMMANDS, RULES, SUBCOMMANDS};
use crate::provider::{Conversation, Invocation, LaunchFacts, Mode};

/// What the measured facts call safe: this list and the next are kept apart from the table on purpose.
const SAFE: &str = "--print --model --effort --fallback-model --output-format --verbose \
    --include-partial-messages --include-hook-events --replay-user-messages --forward-subagent-text \
    --permission-mode --permission-prompts --dangerously-skip-permissions \
    --allow-dangerously-skip-permissions --allowedTools --allowed-tools --disallowedTools \
    --disallowed-tools --tools --strict-mcp-config --append-system-prompt \
    --append-system-prompt-file --system-prompt --system-prompt-file --system-prompt-snapshot --autocompact \
    --max-turns --max-budget-usd --json-schema --disable-slash-commands --brief --ax-screen-reader --name \
    --debug --no-chrome --prompt-suggestions --agent --exclude-dynamic-system-prompt-sections --version \
    --help -p -n -d -v -h";
const UNSAFE: &str = "--resume -r --continue -c --session-id --fork-session --from-pr --teleport --cloud \
    --remote --environment --desktop --remote-control --rc --remote-control-session-name-prefix --bg \
    --background --worktree -w --tmux --settings --setting-sources --bare --safe-mode \
    --no-session-persistence --add-dir --file --plugin-url --plugin-dir --ide --chrome --betas --mcp-config \
    --agents --debug-file --sdk-url --managed-settings --parent-session-id --resume-session-at \
    --rewind-files --agent-id --agent-name --team-name --messaging-socket-path --session-mirror \
    --attach-serve --cowork --project-config-root --init --init-only --maintenance --client-data-url \
    --permission-prompt-tool --dangerously-load-development-channels --channels --enable-auth-status \
    --workload --restricted --session-tunnel --ignore-persisted-trust --handle-uri --prin --sessionId -x -- --nonsense";

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

fn new() -> LaunchFacts {
    facts(Conversation::New {
        id: "6e1c3f0a-0000-4000-8000-000000000001".into(),
    })
}

/// Every way to write an option, with a value where it may have one.
fn spellings(rule: &Rule, value: &str) -> Vec<Vec<String>> {
    let mut forms = Vec::new();
    let letter = rule.short.map(|letter| format!("-{}", char::from(letter)));
    for name in rule
        .names
        .iter()
        .map(|name| (*name).to_owned())
        .chain(letter)
    {
        let is_short = !name.starts_with("--");
        if matches!(rule.arity, Arity::Flag | Arity::Optional) {
            forms.push(vec![name.clone()]);
        }
        if is_short && rule.arity == Arity::Flag {
            forms.push(vec![format!("-v{}", name.trim_start_matches('-'))]);
        }
        if rule.arity != Arity::Flag {
            forms.push(vec![name.clone(), value.to_owned()]);
            let glue = if is_short { "" } else { "=" };
            forms.push(vec![format!("{name}{glue}{value}")]);
            if is_short {
                forms.push(vec![format!("-v{}{value}", name.trim_start_matches('-'))]);
            }
        }
    }
    forms
}

#[test]
fn every_allowed_option_passes_in_every_spelling() {
    for rule in RULES.iter().filter(|rule| rule.verdict == Verdict::Allowed) {
        for form in spellings(rule, "value") {
            for prompt_first in [false, true] {
                let mut words: Vec<&str> = form.iter().map(String::as_str).collect();
                if prompt_first {
                    words.insert(0, "do it");
                } else {
                    words.extend(["--", "do it"]);
                }
                let invocation = accept(&words);
                assert_eq!(
                    invocation.prompt.as_deref(),
                    Some(OsStr::new("do it")),
                    "{words:?}"
                );
                if rule.names[0] == "--print" {
                    assert_eq!(invocation.mode, Mode::Headless);
                } else {
                    let option = invocation.options.last().unwrap();
                    assert_eq!(option.name, rule.names[0], "{words:?}");
                    let valued = form.concat().contains("value");
                    assert_eq!(option.values, if valued { os(&["value"]) } else { vec![] });
                }
            }
        }
    }
}

#[test]
fn every_other_option_is_refused_by_name_in_every_spelling() {
    let everything: Vec<String> = RULES
        .iter()
        .map(|rule| format!("{}:flag", rule.names[0]))
        .collect();
    for rule in RULES {
        for form in spellings(rule, "synthetic-secret") {
            let words: Vec<&str> = form.iter().map(String::as_str).collect();
            let arguments = os(&[&["-p"], words.as_slice(), &["--", "do it"]].concat());
            match rule.verdict {
                Verdict::Allowed => {}
                Verdict::Policy(_) => {
                    assert!(refused(&words).contains(rule.names[0]), "{words:?}");
                    assert!(parse(&arguments, &everything).is_ok(), "{words:?}");
                }
                Verdict::Never(_) => {
                    let message = refused(&words);
                    assert!(message.contains(rule.names[0]), "{words:?}");
                    assert!(!message.contains("synthetic-secret"), "{message}");
                    assert!(parse(&arguments, &everything).is_err(), "{words:?}");
                    refused(&[&["do it"], words.as_slice()].concat());
                    refused(&[&["--tools", "Bash"], words.as_slice()].concat());
                }
            }
        }
    }
}

#[test]
fn the_table_agrees_with_the_measured_lists() {
    for option in SAFE.split_whitespace() {
        assert!(parse(&os(&[option, "1"]), &[]).is_ok(), "{option}");
    }
    for option in UNSAFE.split_whitespace().filter(|option| *option != "--") {
        refused(&[option, "1"]);
        refused(&[&format!("{option}=1")]);
    }
    let names: Vec<_> = RULES.iter().flat_map(|rule| rule.names).collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(
        names.len(),
        unique.len(),
        "an option stands twice in the table"
    );
    assert!(SUBCOMMANDS.is_sorted());
}

#[test]
fn values_are_taken_as_the_cli_takes_them() {
    // A list swallows the prompt; one given with `=` does not.
    let swallowed = accept(&["-p", "--allowedTools", "Bash", "Edit", "prompt"]);
    assert_eq!(swallowed.options[0].values, os(&["Bash", "Edit", "prompt"]));
    assert_eq!(swallowed.prompt, None);
    let attached = accept(&["--allowed-tools=Bash", "prompt"]);
    assert_eq!(attached.options[0].values, os(&["Bash"]));
    assert_eq!(attached.prompt, Some("prompt".into()));
    // An optional value takes the next word, so a subcommand's name there is a value.
    assert_eq!(accept(&["-d", "mcp"]).options[0].values, os(&["mcp"]));
    assert_eq!(accept(&["-dhooks", "go"]).prompt, Some("go".into()));
    // A required value is taken whatever it looks like.
    let greedy = accept(&["--model", "--resume", "go"]);
    assert_eq!(greedy.options[0].values, os(&["--resume"]));
    assert_eq!(
        accept(&["--model", "--", "go"]).options[0].values,
        os(&["--"])
    );
    assert_eq!(
        accept(&["--tools", "", "--verbose"]).options[0].values,
        os(&[""])
    );
    for words in [
        &["--model"][..],
        &["--allowedTools"],
        &["-n"],
        &["--verbose=1"],
        &["one", "two"],
    ] {
        refused(words);
    }
}

#[test]
fn subcommands_are_refused_where_the_cli_would_run_them() {
    for (name, _) in SUBCOMMANDS {
        assert!(refused(&[name]).contains(name));
        assert!(refused(&["--verbose", name]).contains(name));
        assert!(refused(&["-p", name]).contains(name));
        // The terminal dispatches a lone word behind `--` too (measured).
        assert!(refused(&["--", name]).contains(name));
        assert_eq!(accept(&["-p", "--", name]).prompt, Some(name.into()));
        accept(&["--", &format!("{name} please")]);
    }
}

#[test]
fn prompts_arrive_unchanged() {
    let long = "x".repeat(100 * 1024);
    for prompt in [
        "- a list",
        "-- not the end",
        "--resume the work",
        "a \"b\" 'c' $(x) `y` \\ \n\n z",
        "",
        "-",
        long.as_str(),
    ] {
        let invocation = accept(&["-p", "--", prompt]);
        let line = command_line(&invocation, &new(), "{}");
        assert_eq!(line[line.len() - 2..], os(&["--", prompt]));
    }
    let raw = OsString::from_vec(b"caf\xe9".to_vec());
    let invocation = parse(std::slice::from_ref(&raw), &[]).unwrap();
    assert_eq!(invocation.prompt, Some(raw));
    for prompt in ["--bg", "--settings={\"a\": 1}", "-c", "--session-tunnel"] {
        refused(&["-p", "--", prompt]);
    }
    let too_long = "x".repeat(LONGEST + 1);
    assert!(refused(&["--", &too_long]).len() < 300);
    refused(&["--append-system-prompt", &too_long]);
}

#[test]
fn no_prompt_begins_with_a_slash_command_that_leaves_login_conversation_or_workspace() {
    for (name, _) in COMMANDS {
        for prompt in [
            format!("/{name}"),
            format!("/{name} now"),
            format!(" \n\t/{}", name.to_uppercase()),
            format!("\u{feff}/{name}\u{feff}x"),
        ] {
            for mode in [&[][..], &["-p"]] {
                let message = refused(&[mode, &["--", &prompt]].concat());
                assert!(message.contains(&format!("/{name}")), "{message}");
            }
            refused(&[&prompt]);
        }
        accept(&["--", &format!("/{name}-of-ours")]);
        accept(&["--", &format!("say /{name}")]);
    }
    for prompt in [
        "/review 12",
        "/",
        "/ logout",
        "//logout",
        "/srv/tree is full",
    ] {
        accept(&["--", prompt]);
    }
    assert!(COMMANDS.is_sorted());
}

#[test]
fn an_option_of_one_dash_and_several_letters_is_no_bundle() {
    let alone = accept(&["-d2e", "-p", "go"]);
    assert_eq!(alone.options[0].name, "--debug-to-stderr");
    assert_eq!(alone.prompt, Some("go".into()));
    assert_eq!(accept(&["-pd2e", "go"]).options, alone.options);
    assert_eq!(accept(&["-d2", "go"]).options[0].values, os(&["2"]));
}

#[test]
fn ours_come_first_and_the_conversation_is_explicit() {
    let invocation = accept(&["go", "-p", "--model", "opus", "--tools", "Bash", "Edit"]);
    let line = command_line(&invocation, &new(), "{\"env\":{}}");
    assert_eq!(
        line,
        os(&[
            "--print",
            "--session-id=6e1c3f0a-0000-4000-8000-000000000001",
            "--setting-sources",
            "user,project",
            "--settings",
            "{\"env\":{}}",
            "--model=opus",
            "--tools=Bash",
            "--tools=Edit",
            "--",
            "go",
        ])
    );
    let resume = facts(Conversation::Resume { id: "abc".into() });
    assert_eq!(command_line(&accept(&[]), &resume, "{}")[0], "--resume=abc");
}

/// A transcription of commander's own loop over all options that we know, refused ones included.
fn commander(line: &[OsString]) -> (BTreeSet<String>, Vec<OsString>) {
    let find = |argument: &OsStr| {
        RULES.iter().find(|rule| {
            rule.names.iter().any(|name| argument == *name)
                || rule
                    .short
                    .is_some_and(|letter| argument.as_bytes() == [b'-', letter])
        })
    };
    let maybe_option = |argument: &OsString| argument.len() > 1 && argument.as_bytes()[0] == b'-';
    let mut pending: VecDeque<OsString> = line.iter().cloned().collect();
    let (mut seen, mut operands, mut variadic) = (BTreeSet::new(), Vec::new(), false);
    while let Some(argument) = pending.pop_front() {
        if argument == "--" {
            operands.extend(pending);
            break;
        }
        if variadic && !maybe_option(&argument) {
            continue;
        }
        variadic = false;
        if let Some(rule) = find(&argument) {
            seen.insert(rule.names[0].to_owned());
            match rule.arity {
                Arity::Value | Arity::List => drop(pending.pop_front()),
                Arity::Optional if pending.front().is_some_and(|next| !maybe_option(next)) => {
                    pending.pop_front();
                }
                Arity::Optional | Arity::Flag => {}
            }
            variadic = rule.arity == Arity::List;
            continue;
        }
        let bytes = argument.as_bytes();
        if bytes.len() > 2 && bytes[0] == b'-' && bytes[1] != b'-' {
            let letter = OsStr::from_bytes(&bytes[..2]);
            if let Some(rule) = find(letter) {
                seen.insert(rule.names[0].to_owned());
                if rule.arity == Arity::Flag {
                    pending.push_front(OsString::from_vec([b"-", &bytes[2..]].concat()));
                }
                continue;
            }
        }
        if bytes.starts_with(b"--")
            && let Some(at) = bytes.iter().position(|byte| *byte == b'=')
            && let Some(rule) = find(OsStr::from_bytes(&bytes[..at]))
            && rule.arity != Arity::Flag
        {
            seen.insert(rule.names[0].to_owned());
            continue;
        }
        operands.push(argument);
    }
    (seen, operands)
}

fn token() -> impl Strategy<Value = String> {
    let allowed = RULES.iter().filter(|rule| rule.verdict == Verdict::Allowed);
    let names: Vec<String> = RULES
        .iter()
        .chain(allowed.clone())
        .chain(allowed)
        .flat_map(|rule| spellings(rule, "v").into_iter().flatten())
        .chain(SUBCOMMANDS.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    prop_oneof![
        4 => prop::sample::select(names),
        3 => prop::sample::select(vec!["word", "two words", "--", "-", "", "--model", "--tools", "-d", "-p"])
            .prop_map(str::to_owned),
        1 => "-{0,2}[a-z]{0,6}=?[ -~\n]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]
    #[test]
    fn what_passes_holds_nothing_refused_and_means_the_same_to_the_cli(
        words in prop::collection::vec(token(), 1..7),
        resume in any::<bool>(),
    ) {
        let arguments: Vec<OsString> = words.iter().map(Into::into).collect();
        let Ok(invocation) = parse(&arguments, &[]) else { return Ok(()) };
        let conversation = if resume {
            facts(Conversation::Resume { id: "--bg".into() })
        } else {
            new()
        };
        let line = command_line(&invocation, &conversation, "{}");
        let (seen, operands) = commander(&line);
        let ours = ["--print", "--session-id", "--resume", "--setting-sources", "--settings"];
        for name in &seen {
            let allowed = table(&[]).long(name.as_bytes()).is_ok();
            prop_assert!(allowed || ours.contains(&name.as_str()), "{name} in {line:?}");
        }
        prop_assert_eq!(&operands, &invocation.prompt.iter().cloned().collect::<Vec<_>>());
        prop_assert_eq!(seen.contains("--print"), invocation.mode == Mode::Headless);
        // What the caller wrote means to the CLI what it means to us.
        let (given, words) = commander(&arguments);
        let mut parsed: BTreeSet<_> = invocation.options.iter().map(|option| option.name.clone()).collect();
        parsed.extend((invocation.mode == Mode::Headless).then(|| "--print".to_owned()));
        prop_assert_eq!(given, parsed);
        prop_assert_eq!(words, operands);
        // Our spelling is read back as the same invocation.
        let head = usize::from(invocation.mode == Mode::Headless);
        let mut again = line[head + 5..].to_vec();
        again.splice(0..0, (head == 1).then(|| "-p".into()));
        let mut reparsed = parse(&again, &[]).unwrap();
        let mut expected = invocation;
        for options in [&mut expected.options, &mut reparsed.options] {
            let split: Vec<_> = options
                .drain(..)
                .flat_map(|option| {
                    let count = option.values.len().max(1);
                    (0..count).map(move |at| (option.name.clone(), option.values.get(at).cloned()))
                })
                .collect();
            options.extend(split.into_iter().map(|(name, value)| crate::provider::AllowedOption {
                name,
                values: value.into_iter().collect(),
            }));
        }
        prop_assert_eq!(reparsed, expected);
    }
}
