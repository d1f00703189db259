//! What accepted arguments make the real CLIs do; and that the same eyes see what refused ones do.

use std::collections::BTreeSet;
use std::sync::Mutex;

use agent_fleet::provider::Mode;

use crate::cli::{BOTH, Cli};
use crate::grammar::parser::ask;
use crate::grammar::vectors::Source;
use crate::grammar::watched::{FOREIGN, How, Watched};
use crate::grammar::{
    accepted, codex_options, commands_in, help, parse, seed, source, tell, times,
};
use crate::lab::tool;

/// The source of vectors for a CLI, which knows of these conversations.
fn source_of(watched: &Watched, cli: Cli, conversations: &[String]) -> Source {
    let world = &watched.world;
    let mut own = conversations.to_vec();
    own.extend([
        watched.elsewhere.display().to_string(),
        world.lab.path("canary/settings.json").display().to_string(),
        world.lab.path("home").display().to_string(),
        FOREIGN.to_owned(),
    ]);
    match cli {
        Cli::Claude => {
            let (knows, _) = ask(world, Mode::Terminal, &[]);
            source(cli, knows.options, knows.commands, &own)
        }
        Cli::Codex => source(
            cli,
            codex_options(world),
            commands_in(&help(world, &[])),
            &own,
        ),
    }
}

/// Runs so many accepted vectors on every cell, cells side by side, and fails with each that did harm.
fn harmless(headless: usize, screens: usize) {
    let watched = Watched::new();
    let cells: Vec<_> = BOTH
        .into_iter()
        .flat_map(|cli| [(cli, 1), (cli, 2)])
        .map(|(cli, account)| watched.cell(cli, account))
        .collect();
    let found = Mutex::new(Vec::new());
    let tried = Mutex::new(0);
    std::thread::scope(|scope| {
        for (at, cell) in cells.iter().enumerate() {
            let (found, tried, watched) = (&found, &tried, &watched);
            scope.spawn(move || {
                let source = source_of(watched, cell.cli, std::slice::from_ref(&cell.earlier));
                let mut seed = seed(16 + u64::try_from(at).expect("small"));
                let wanted = if cell.cli == Cli::Codex {
                    2 * headless
                } else {
                    headless
                };
                let mut runs = Vec::new();
                for (mode, wanted) in [(Mode::Headless, wanted), (Mode::Terminal, screens)] {
                    let mut left = wanted;
                    while left > 0 {
                        let (some, made) = accepted(cell.cli, &source, &mut seed, 1, &[]);
                        *tried.lock().expect("no cell failed") += made;
                        for (words, invocation) in some {
                            if invocation.mode == mode {
                                runs.push((mode, words));
                                left -= 1;
                            }
                        }
                    }
                }
                for (number, (mode, words)) in runs.iter().enumerate() {
                    let how = match mode {
                        Mode::Terminal => How::Screen,
                        // A review is a conversation of its own, and is not continued.
                        Mode::Headless
                            if number % 4 == 3 && !words.iter().any(|word| word == "review") =>
                        {
                            How::Resume
                        }
                        Mode::Headless => How::Exec,
                    };
                    let did = cell.run(number, how, words);
                    if !did.is_empty() {
                        found
                            .lock()
                            .expect("no cell failed")
                            .push(format!("{} {how:?} {words:?}: {did:#?}", cell.cli.name()));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no cell failed");
    found.extend(watched.elsewhere_called());
    assert!(
        found.is_empty(),
        "{} findings:\n{}",
        found.len(),
        found.join("\n")
    );
    tell(&format!(
        "harmless: {} headless and {} on a screen, of {} vectors",
        6 * headless,
        4 * screens,
        tried.into_inner().expect("no cell failed")
    ));
}

#[test]
fn accepted_arguments_make_no_worker_leave_its_conversation_workspace_login_or_process() {
    harmless(6 * times(), times());
}

/// The commands of Claude Code's own screen, as its program names them.
fn commands(watched: &Watched) -> Vec<String> {
    let name = "name:\"[a-z][a-z-]*\"";
    let kind = "type:\"(local|local-jsx)\"";
    let pattern = format!("{kind},[^{{}}]{{0,300}}{name}|{name},[^{{}}]{{0,300}}{kind}");
    let output = tool("grep")
        .args(["-aoE", &pattern])
        .arg(watched.world.lab.value(Cli::Claude.binary_variable()))
        .env("LC_ALL", "C")
        .output()
        .expect("grep starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: BTreeSet<&str> = text
        .split("name:\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(names.len() > 90, "{names:?}");
    names.into_iter().map(|name| format!("/{name}")).collect()
}

/// Minutes long: `tests/lane/run.sh --ignored slash_command`.
#[test]
#[ignore = "takes minutes; run by hand when the CLI's version changes"]
fn no_slash_command_that_is_accepted_does_harm_on_a_screen() {
    let watched = Watched::new();
    let mut prompts = Vec::new();
    // A file in the workspace is what that one is for.
    for command in commands(&watched)
        .into_iter()
        .filter(|command| command != "/export")
    {
        prompts.extend([command.clone(), format!("{command} x")]);
    }
    prompts.retain(|prompt| parse(Cli::Claude, std::slice::from_ref(prompt), &[]).is_ok());
    let cells = [watched.cell(Cli::Claude, 1), watched.cell(Cli::Claude, 2)];
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (at, cell) in cells.iter().enumerate() {
            let (found, prompts) = (&found, &prompts);
            scope.spawn(move || {
                for (number, prompt) in prompts.iter().enumerate().skip(at).step_by(2) {
                    let did = cell.run(number, How::Screen, std::slice::from_ref(prompt));
                    if !did.is_empty() {
                        let line = format!("{prompt}: {did:#?}");
                        found.lock().expect("no cell failed").push(line);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no cell failed");
    found.extend(watched.elsewhere_called());
    assert!(
        found.is_empty(),
        "{} of {}:\n{}",
        found.len(),
        prompts.len(),
        found.join("\n")
    );
    tell(&format!(
        "harmless on a screen: {} prompts of {prompts:?}",
        prompts.len()
    ));
}

/// The control: what is refused, run past the grammar, is seen; and what is harmless is not.
#[test]
fn refused_arguments_are_seen_to_do_what_they_are_refused_for() {
    let watched = Watched::new();
    let elsewhere = watched.elsewhere.display().to_string();
    let settings = watched.world.lab.path("canary/settings.json");
    let settings = settings.display().to_string();
    let foreign = watched.world.lab.value("LAB_FOREIGN_URL");
    let host = format!("chatgpt_base_url=\"{foreign}\"");
    let mut number = 0;
    for cli in BOTH {
        let cell = watched.cell(cli, 1);
        let earlier = cell.earlier.as_str();
        let lines: &[&[&str]] = match cli {
            Cli::Claude => &[
                &["-p", "--resume", earlier, "go"],
                &["-p", "--continue", "go"],
                &["-p", "--worktree", "other", "go"],
            ],
            Cli::Codex => &[
                &["exec", "-C", &elsewhere, "go"],
                &["exec", "resume", "--last", "go"],
            ],
        };
        let called: &[&str] = match cli {
            Cli::Claude => &["-p", "--settings", &settings, "go"],
            Cli::Codex => &["exec", "-c", &host, "go"],
        };
        let mut bare = |line: &[&str]| {
            number += 1;
            let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            (
                parse(cli, &words, &[]).is_err(),
                cell.run(number, How::Bare, &words),
            )
        };
        let harmless = match cli {
            Cli::Claude => &["-p", "go"],
            Cli::Codex => &["exec", "go"],
        };
        assert_eq!(bare(harmless), (false, Vec::new()));
        for line in lines {
            let (refused, seen) = bare(line);
            assert!(refused && !seen.is_empty(), "{line:?} was not seen");
        }
        assert_eq!(watched.elsewhere_called(), [""; 0]);
        let (refused, _) = bare(called);
        let seen = watched.elsewhere_called();
        assert!(refused && !seen.is_empty(), "{called:?} was not seen");
        watched.forget();
    }
}
