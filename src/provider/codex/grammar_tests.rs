use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use proptest::prelude::*;

use super::{REVIEW, command_line, parse};
use crate::provider::argument::{Arity, Rule, Verdict};
use crate::provider::codex::options::{EXEC_ONLY, REVIEW_ONLY, RULES, SUBCOMMANDS, TERMINAL_ONLY};
use crate::provider::{AllowedOption, Conversation, Invocation, LaunchFacts, Mode};

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
        home: "/homes/one".into(),
        workspace: "/work/tree".into(),
        project: "/work/tree".into(),
        conversation,
        program: "/share/bin/agent-fleet".into(),
    }
}

fn new() -> LaunchFacts {
    facts(Conversation::New {
        id: "unused".into(),
    })
}

fn resume() -> LaunchFacts {
    facts(Conversation::Resume {
        id: "0197-id".into(),
    })
}

fn line(words: &[&str], facts: &LaunchFacts) -> Vec<OsString> {
    command_line(&accept(words), facts, &[]).unwrap()
}

/// Every way to write an option, with a value where it has one.
fn spellings(rule: &Rule, value: &str) -> Vec<Vec<String>> {
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
fn harmless(rule: &Rule) -> &'static str {
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
                        assert_eq!(option.values, os(&[harmless(rule)]), "{arguments:?}")
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
        "features.daemon_auto_start=false",
        "-c",
        "features.plugins=false",
        "-c",
        "features.hooks=true",
        "-c",
        "projects={\"/work/tree\"={trust_level=\"trusted\"}}",
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
    assert_eq!(review[9..], os(&["--json", "review", "--base=main"]));
    let invocation = accept(&["exec", "review"]);
    assert!(command_line(&invocation, &resume(), &[]).is_err());
}

#[test]
fn hook_trust_and_the_worktree_travel_in_argv() {
    let mut facts = new();
    facts.workspace = "/work/other \"tree\"".into();
    let trust = [(
        "/homes/one/hooks.json:stop:0:0".to_owned(),
        "sha256:00".to_owned(),
    )];
    let line = command_line(&accept(&["exec"]), &facts, &trust).unwrap();
    assert_eq!(
        line[8..],
        os(&[
            "projects={\"/work/tree\"={trust_level=\"trusted\"},\
             \"/work/other \\\"tree\\\"\"={trust_level=\"trusted\"}}",
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

/// Codex's own parser for the options that we know, refused ones included, made of the same library.
fn codex() -> Command {
    let with_options = |command: Command| {
        let command = command.disable_help_flag(true).disable_version_flag(true);
        let prompt = Arg::new("PROMPT").value_parser(ValueParser::os_string());
        RULES
            .iter()
            .fold(command, |command, rule| {
                let name = rule.names[0];
                let mut option = Arg::new(name)
                    .long(name.trim_start_matches('-'))
                    .visible_aliases(
                        rule.names[1..]
                            .iter()
                            .map(|name| name.trim_start_matches('-')),
                    )
                    .action(ArgAction::Append)
                    .value_parser(ValueParser::os_string());
                if let Some(letter) = rule.short {
                    option = option.short(char::from(letter));
                }
                command.arg(match rule.arity {
                    Arity::Flag => option
                        .action(ArgAction::Count)
                        .value_parser(clap::value_parser!(u8)),
                    Arity::List => option.num_args(1..),
                    Arity::Value | Arity::Optional => option,
                })
            })
            .arg(prompt)
    };
    let id = || {
        Arg::new("ID")
            .required(true)
            .value_parser(ValueParser::os_string())
    };
    let resume = |command: Command| with_options(command.arg(id()));
    let exec = with_options(Command::new("exec").alias("e"))
        .disable_help_subcommand(true)
        .subcommand(resume(Command::new("resume")))
        .subcommand(with_options(Command::new("review")))
        .subcommand(Command::new("fork"))
        .subcommand(Command::new("help"));
    let root = with_options(Command::new("codex")).disable_help_subcommand(true);
    let words = SUBCOMMANDS.iter().filter(|(name, _)| *name != "resume");
    words
        .fold(root, |root, (name, _)| root.subcommand(Command::new(*name)))
        .subcommand(resume(Command::new("resume")))
        .subcommand(Command::new("review"))
        .subcommand(exec)
}

/// What a parser understood: subcommands, options with their values, prompt.
#[derive(Debug, Default, PartialEq)]
struct Understood {
    path: Vec<String>,
    options: BTreeMap<String, Vec<OsString>>,
    prompt: Option<OsString>,
    id: Option<OsString>,
}

impl Understood {
    fn add(&mut self, matches: &ArgMatches) {
        for rule in RULES {
            let name = rule.names[0];
            if rule.arity != Arity::Flag {
                let values = matches.get_many::<OsString>(name).into_iter().flatten();
                self.options
                    .entry(name.to_owned())
                    .or_default()
                    .extend(values.cloned());
            } else if matches.get_count(name) > 0 {
                self.options
                    .entry(name.to_owned())
                    .or_default()
                    .push("set".into());
            }
        }
        self.options.retain(|_, values| !values.is_empty());
        let text = |name: &str| {
            matches
                .try_get_one::<OsString>(name)
                .ok()
                .flatten()
                .cloned()
        };
        self.prompt = self.prompt.take().or(text("PROMPT"));
        self.id = text("ID");
        if let Some((name, below)) = matches.subcommand() {
            self.path.push(name.to_owned());
            self.add(below);
        }
        for values in self.options.values_mut() {
            values.dedup_by(|one, other| one == "set" && other == "set");
        }
    }

    fn of(invocation: &Invocation) -> Self {
        let mut understood = Self {
            prompt: invocation.prompt.clone(),
            ..Self::default()
        };
        understood
            .path
            .extend((invocation.mode == Mode::Headless).then(|| "exec".to_owned()));
        for AllowedOption { name, values } in &invocation.options {
            if name == REVIEW {
                understood.path.push(REVIEW.to_owned());
            } else {
                let all = understood.options.entry(name.clone()).or_default();
                let set = values.is_empty().then(|| "set".into());
                all.extend(values.iter().cloned().chain(set));
                all.dedup_by(|one, other| one == "set" && other == "set");
            }
        }
        understood
    }
}

fn read(line: &[OsString]) -> Result<Understood, String> {
    let argv = [OsStr::new("codex")]
        .into_iter()
        .chain(line.iter().map(OsString::as_os_str));
    let matches = codex()
        .try_get_matches_from(argv)
        .map_err(|error| error.to_string())?;
    let mut understood = Understood::default();
    understood.add(&matches);
    Ok(understood)
}

fn token() -> impl Strategy<Value = String> {
    let names: Vec<String> = RULES
        .iter()
        .flat_map(|rule| spellings(rule, harmless(rule)).into_iter().flatten())
        .chain(SUBCOMMANDS.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    prop_oneof![
        3 => prop::sample::select(names),
        6 => prop::sample::select(vec![
            "word", "two words", "--", "-", "exec", "e", "review", "resume", "--json", "-mx", "-i", "a.png",
            "--uncommitted", "--sandbox=read-only", "-cmodel=x", "-c", "model=y", "--search",
        ]).prop_map(str::to_owned),
        1 => "-{0,2}[a-z]{0,6}=?[ -~\n]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn what_passes_means_the_same_to_the_cli_before_and_after(
        words in prop::collection::vec(token(), 0..7),
        resumes in any::<bool>(),
    ) {
        let arguments: Vec<OsString> = words.iter().map(Into::into).collect();
        let Ok(invocation) = parse(&arguments, &[]) else { return Ok(()) };
        let ours = Understood::of(&invocation);
        // What the caller wrote means to the CLI what it means to us.
        let mut given = read(&arguments).unwrap();
        given.options.remove("--no-daemon");
        prop_assert_eq!(&given, &ours);
        // So does what we make of it, with our own options on top and nothing refused.
        let facts = if resumes { resume() } else { new() };
        let Ok(line) = command_line(&invocation, &facts, &[]) else {
            prop_assert!(resumes && ours.path.contains(&REVIEW.to_owned()));
            return Ok(());
        };
        let mut made = read(&line).unwrap();
        prop_assert_eq!(made.id.take(), resumes.then(|| "0197-id".into()));
        made.path.retain(|word| !resumes || word != "resume");
        let no_daemon = made.options.remove("--no-daemon").is_some();
        prop_assert_eq!(no_daemon, invocation.mode == Mode::Terminal);
        let config = made.options.get_mut("--config").unwrap();
        config.drain(..4);
        made.options.retain(|_, values| !values.is_empty());
        prop_assert_eq!(&made, &ours);
        for option in &invocation.options {
            let rule = RULES.iter().find(|rule| rule.names[0] == option.name);
            prop_assert!(rule.is_none_or(|rule| rule.verdict == Verdict::Allowed));
        }
    }
}
