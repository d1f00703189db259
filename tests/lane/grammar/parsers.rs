//! The grammars against the CLIs' own parsers: nothing runs.

use std::collections::BTreeSet;

use agent_fleet::provider::argument::{Arity, Verdict};
use agent_fleet::provider::{Conversation, Mode, claude, codex};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::grammar::parser::{Made, ask};
use crate::grammar::vectors::{Known, Takes};
use crate::grammar::{
    accepted, codex_options, commands_in, help, made, parse, seed, source, tell, times,
};
use crate::lab::{Plan, tool};
use crate::world::World;

const ID: &str = "6e1c3f0a-0000-4000-8000-000000000001";

/// What a worker may set at Claude Code's parser, in its own names; kept apart from the table on purpose.
const HARMLESS: &str = "agent allowDangerouslySkipPermissions allowedTools appendSystemPrompt appendSystemPromptFile \
    autocompact axScreenReader brief chrome dangerouslySkipPermissions debug debugToStderr disableSlashCommands \
    disallowedTools effort excludeDynamicSystemPromptSections fallbackModel forwardSubagentText includeHookEvents \
    includePartialMessages jsonSchema maxBudgetUsd maxTurns model name outputFormat permissionMode \
    permissionPrompts print promptSuggestions replayUserMessages strictMcpConfig systemPrompt systemPromptFile \
    systemPromptSnapshot tools verbose";

/// What nothing may set, whatever the registry allows.
const HARMFUL: &str = "agentsViewIfAllowed attachServe awaitClaim awaitInitialize background bare bg clientDataUrl cloud \
    continue correlationId deepLinkCwdB64 deepLinkRepo desktop environment forkSession forwardHomeSettings fromPr \
    ignorePersistedTrust init initOnly initializeFields maintenance managedSettings managedSettingsInInitialize \
    messagingSocketPath onBranch parentSessionId pool projectConfigRoot rc remote remoteControl restricted \
    resumeDropsTurn resumeSessionAt rewindFiles safeMode sdkUrl sessionBeganAsCopy sessionMirror sessionPersistence \
    teamName teleport tmux worktree";

fn world() -> World {
    let world = World::bare(&Plan::default());
    drop(world.worktree("ws"));
    world
}

fn takes(arity: Arity) -> Takes {
    match arity {
        Arity::Flag => Takes::Nothing,
        Arity::Value => Takes::One,
        Arity::Optional => Takes::Maybe,
        Arity::List => Takes::Many,
    }
}

/// Every option that a CLI names has a row, with its letter and its number of values.
#[track_caller]
fn complete(rules: &[agent_fleet::provider::argument::Rule], options: &[Known]) {
    assert!(
        options.len() > 25,
        "the CLI names {} options",
        options.len()
    );
    let wrong: Vec<_> = options
        .iter()
        .filter(|known| {
            !known.long.iter().all(|name| {
                rules.iter().any(|rule| {
                    rule.names.contains(&name.as_str())
                        && takes(rule.arity) == known.takes
                        && known
                            .letter
                            .is_none_or(|letter| rule.short == u8::try_from(letter).ok())
                })
            })
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "not in our table, or otherwise: {wrong:#?}"
    );
}

#[test]
fn claude_code_has_no_option_and_no_subcommand_that_the_table_lacks() {
    let (knows, _) = ask(&world(), Mode::Terminal, &[]);
    complete(claude::options::RULES, &knows.options);
    let words: BTreeSet<&str> = claude::options::SUBCOMMANDS
        .iter()
        .map(|(name, _)| *name)
        .collect();
    let unknown: Vec<_> = knows
        .commands
        .iter()
        .filter(|name| !words.contains(name.as_str()))
        .collect();
    assert!(
        knows.commands.len() > 20 && unknown.is_empty(),
        "{unknown:?} of {:?}",
        knows.commands
    );
}

#[test]
fn codex_has_no_option_and_no_subcommand_that_the_table_lacks() {
    let world = world();
    // Where a form takes one image only, one is a list of one.
    let many = |known: Known| match known.letter {
        Some('i') => Known {
            takes: Takes::Many,
            ..known
        },
        _ => known,
    };
    let options: Vec<Known> = codex_options(&world).into_iter().map(many).collect();
    complete(codex::options::RULES, &options);
    let ours = ["exec", "review"];
    let words: BTreeSet<&str> = codex::options::SUBCOMMANDS
        .iter()
        .map(|(name, _)| *name)
        .chain(ours)
        .collect();
    let names: Vec<String> = [&[][..], &["exec"]]
        .iter()
        .flat_map(|form| commands_in(&help(&world, form)))
        .collect();
    let unknown: Vec<_> = names
        .iter()
        .filter(|name| !words.contains(name.as_str()))
        .collect();
    assert!(
        names.len() > 20 && unknown.is_empty(),
        "{unknown:?} of {names:?}"
    );
}

/// What we add to a command line.
fn ours(made: &mut Made, id: &Conversation) -> Result<(), String> {
    let Made::Run { options, .. } = made else {
        return Ok(());
    };
    let (ours, id) = match id {
        Conversation::New { id } => ("sessionId", id),
        Conversation::Resume { id } => ("resume", id),
    };
    for (name, value) in [
        (ours, id.as_str()),
        ("settings", "{}"),
        ("settingSources", "user,project"),
    ] {
        if options.remove(name) != Some(json!(value)) {
            return Err(format!("{name} is not ours alone"));
        }
    }
    Ok(())
}

#[test]
fn what_passes_means_to_claude_code_what_it_means_to_us() {
    let world = world();
    let (knows, _) = ask(&world, Mode::Terminal, &[]);
    // Whatever a registry may add: every option there is.
    let everything: Vec<String> = knows
        .options
        .iter()
        .flat_map(|known| known.long.clone())
        .collect();
    let source = source(
        Cli::Claude,
        knows.options,
        knows.commands,
        &[ID.to_owned(), "/srv/other".to_owned()],
    );
    let (mut count, mut tried) = (0, 0);
    for (beside, options) in [(1, &[][..]), (2, &everything)] {
        let allowed: BTreeSet<&str> = HARMLESS.split_whitespace().collect();
        let never: BTreeSet<&str> = HARMFUL.split_whitespace().collect();
        let mut seed = seed(beside);
        let (vectors, made_for_it) =
            accepted(Cli::Claude, &source, &mut seed, 4_000 * times(), options);
        tried += made_for_it;
        for mode in [Mode::Headless, Mode::Terminal] {
            let of_mode: Vec<_> = vectors
                .iter()
                .filter(|(_, invocation)| invocation.mode == mode)
                .collect();
            let mut lines = Vec::new();
            let mut conversations = Vec::new();
            for (at, (words, invocation)) in of_mode.iter().enumerate() {
                let id = ID.to_owned();
                let conversation = if at % 3 == 0 {
                    Conversation::Resume { id }
                } else {
                    Conversation::New { id }
                };
                lines.push(words.clone());
                lines.push(made(Cli::Claude, invocation, conversation.clone()).expect("a line"));
                conversations.push(conversation);
            }
            let (_, answers) = ask(&world, mode, &lines);
            let mut wrong = Vec::new();
            for ((pair, line), conversation) in
                answers.chunks(2).zip(lines.chunks(2)).zip(&conversations)
            {
                let [given, made] = pair else {
                    unreachable!("pairs")
                };
                let mut made = made.clone();
                let mut reasons: Vec<String> =
                    ours(&mut made, conversation).err().into_iter().collect();
                if made != *given {
                    reasons.push("what it is given and what we make of it differ".to_owned());
                }
                if let Made::Run {
                    options: set,
                    operands,
                } = &made
                {
                    reasons.extend((operands.len() > 1).then(|| format!("{operands:?}")));
                    let wrong = |name: &&str| {
                        if options.is_empty() {
                            !allowed.contains(name)
                        } else {
                            never.contains(name)
                        }
                    };
                    reasons.extend(
                        set.keys()
                            .map(String::as_str)
                            .filter(wrong)
                            .map(|name| format!("{name} was set")),
                    );
                    let chrome =
                        set.get("chrome") == Some(&Value::Bool(true)) && options.is_empty();
                    reasons.extend(chrome.then(|| "chrome was set".to_owned()));
                }
                reasons.extend(
                    matches!(made, Made::Command { .. }).then(|| "a subcommand".to_owned()),
                );
                if !reasons.is_empty() {
                    wrong.push(format!(
                        "{reasons:?}\n  {:?} -> {given:?}\n  {:?} -> {made:?}",
                        line[0], line[1]
                    ));
                }
            }
            assert!(
                wrong.is_empty(),
                "{} of {}:\n{}",
                wrong.len(),
                conversations.len(),
                wrong[..wrong.len().min(12)].join("\n")
            );
            count += conversations.len();
        }
    }
    tell(&format!(
        "Claude Code's parser read {count} accepted vectors of {tried} as we do"
    ));
}

/// Whether Codex's parser takes a line; it looks for its home right behind it, and there is none.
fn taken(world: &World, line: &[String]) -> bool {
    let output = tool(world.lab.value(Cli::Codex.binary_variable()))
        .args(line)
        .env_clear()
        .env("CODEX_HOME", "/nonexistent")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the CLI starts");
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => true,
        Some(1) if said.contains("codex home") || said.contains("stdin is not a terminal") => true,
        Some(2) => false,
        other => panic!("{line:?} ended with {other:?}: {said}"),
    }
}

#[test]
fn what_passes_and_is_a_line_to_codex_is_one_as_we_make_it() {
    let world = world();
    let words = commands_in(&help(&world, &[]));
    let source = source(
        Cli::Codex,
        codex_options(&world),
        words,
        &[ID.to_owned(), "/srv/other".to_owned()],
    );
    let (vectors, tried) = accepted(Cli::Codex, &source, &mut seed(3), 250 * times(), &[]);
    let (mut same, mut wrong) = (0, Vec::new());
    for (at, (words, invocation)) in vectors.iter().enumerate() {
        let id = ID.to_owned();
        let conversation = if at % 3 == 0 {
            Conversation::Resume { id }
        } else {
            Conversation::New { id }
        };
        let Some(line) = made(Cli::Codex, invocation, conversation) else {
            continue;
        };
        // The reverse is no promise: options are taken in places where Codex itself does not, and put right. One
        // that stands on both sides of `exec` comes twice into our one line, which Codex ends by saying so.
        let twice = words.first().is_some_and(|first| first.starts_with('-'));
        if !twice && taken(&world, words) {
            same += 1;
            if !taken(&world, &line) {
                wrong.push(format!("{words:?} -> {line:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        vectors.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert!(same > vectors.len() / 2, "{same} of {}", vectors.len());
    tell(&format!(
        "Codex's parser took {same} of {} accepted vectors, of {tried}, and each of them as we make it",
        vectors.len()
    ));
}

/// The harmful names above are names of the parser, and the table refuses each.
#[test]
fn the_lists_of_this_test_are_about_options_that_exist() {
    let (knows, _) = ask(&world(), Mode::Headless, &[]);
    let name = |known: &Known, at: usize| {
        let mut name = String::new();
        let long = known.long[at].trim_start_matches('-');
        for (part, word) in long
            .strip_prefix("no-")
            .unwrap_or(long)
            .split('-')
            .enumerate()
        {
            let (first, rest) = word.split_at(1);
            name += &if part == 0 {
                first.to_owned()
            } else {
                first.to_uppercase()
            };
            name += rest;
        }
        name
    };
    let names: BTreeSet<String> = knows
        .options
        .iter()
        .flat_map(|known| (0..known.long.len()).map(|at| name(known, at)))
        .collect();
    for listed in HARMLESS
        .split_whitespace()
        .chain(HARMFUL.split_whitespace())
    {
        assert!(names.contains(listed), "{listed}");
    }
    for known in &knows.options {
        let refused = known.long.iter().enumerate().any(|(at, _)| {
            HARMFUL
                .split_whitespace()
                .any(|harmful| harmful == name(known, at))
        });
        let rule = claude::options::RULES
            .iter()
            .find(|rule| rule.names.contains(&known.long[0].as_str()));
        let never = matches!(rule.expect("it has a row").verdict, Verdict::Never(_));
        assert!(!refused || never, "{known:?}");
        assert!(!refused || parse(Cli::Claude, &[known.long[0].clone()], &[]).is_err());
    }
}
