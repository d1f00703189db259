//! Claude Code's own parser, asked what it makes of command lines; nothing of them is run.

use std::collections::BTreeMap;

use agent_fleet::provider::Mode;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::Cli;
use crate::grammar::vectors::{Known, Takes};
use crate::lab::tool;
use crate::world::World;

/// What the parser makes of one line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Made {
    /// It would work.
    Run {
        /// Words that belong to no option.
        operands: Vec<String>,
        /// What was set.
        options: BTreeMap<String, Value>,
    },
    /// It would run a subcommand.
    Command {
        /// Its name.
        command: String,
    },
    /// It would end at once.
    End {
        /// With this status.
        exit: i32,
        /// Having said this.
        said: String,
    },
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "flags")]
    names: String,
    required: bool,
    optional: bool,
    variadic: bool,
}

#[derive(Deserialize)]
struct Answered {
    options: Vec<Named>,
    commands: Vec<String>,
}

/// What the parser knows.
#[derive(Debug)]
pub(crate) struct Knows {
    /// Every option.
    pub options: Vec<Known>,
    /// Every subcommand, other names of it included; none where there is no screen.
    pub commands: Vec<String>,
}

/// What the parser of a worker with or without a screen makes of these lines, and what it knows.
pub(crate) fn ask(world: &World, mode: Mode, lines: &[Vec<String>]) -> (Knows, Vec<Made>) {
    let (given, answers) = (
        world.lab.path("parser.lines"),
        world.lab.path("parser.answers"),
    );
    let text: Vec<String> = lines
        .iter()
        .map(|line| serde_json::to_string(line).expect("text"))
        .collect();
    World::write(&given, &text.join("\n"));
    drop(std::fs::remove_file(&answers));
    let hook = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/claude_parser.js");
    let binary = world.lab.value(Cli::Claude.binary_variable());
    let mut command = match mode {
        Mode::Headless => {
            let mut command = tool(binary);
            command.arg("-p");
            command
        }
        // Its subcommands exist only where it has a screen.
        Mode::Terminal => {
            let mut command = tool("python3");
            command.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])", binary]);
            command
        }
    };
    let output = command
        .arg("hello")
        .env_clear()
        .envs(world.variables())
        .env("CLAUDE_CONFIG_DIR", world.home(Cli::Claude, 1))
        .env("BUN_OPTIONS", format!("--preload={hook}"))
        .env("LAB_LINES", &given)
        .env("LAB_ANSWERS", &answers)
        .current_dir(world.lab.path("ws"))
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the CLI starts");
    let answered = std::fs::read_to_string(&answers)
        .unwrap_or_else(|error| panic!("{error}: the parser was not reached: {output:?}"));
    let mut answered = answered.lines();
    let knows: Answered =
        serde_json::from_str(answered.next().expect("what it knows")).expect("JSON");
    let known = knows.options.iter().filter_map(|option| {
        let takes = match (option.required, option.optional) {
            (true, _) if option.variadic => Takes::Many,
            (true, _) => Takes::One,
            (false, true) => Takes::Maybe,
            (false, false) => Takes::Nothing,
        };
        Some(Known {
            takes,
            ..Known::parse(&option.names)?
        })
    });
    let made: Vec<Made> = answered
        .map(|line| serde_json::from_str(line).expect("an answer"))
        .collect();
    assert_eq!(made.len(), lines.len(), "not every line was answered");
    let knows = Knows {
        options: known.collect(),
        commands: knows.commands,
    };
    (knows, made)
}
