//! What the grammars accept, against the CLIs themselves: their parsers, and what they do.
//!
//! Vectors are made from a seed out of what the CLIs say that they know. `AGENT_FLEET_GRAMMAR_TIMES=N` makes N
//! times as many, `AGENT_FLEET_GRAMMAR_SEED=N` makes others.

mod effects;
mod parser;
mod parsers;
mod vectors;
mod watched;

use std::ffi::OsString;

use agent_fleet::provider::{
    ArgumentRefused, Conversation, Invocation, LaunchFacts, claude, codex,
};

use crate::cli::Cli;
use crate::lab::tool;
use crate::world::World;
use vectors::{Known, Seed, Source};

/// How many times as much as in a usual run.
fn times() -> usize {
    number("AGENT_FLEET_GRAMMAR_TIMES").unwrap_or(1)
}

/// The sequence of this run; tests that need several take others beside it.
fn seed(beside: u64) -> Seed {
    let start = number("AGENT_FLEET_GRAMMAR_SEED").unwrap_or(20_261_130);
    Seed::new(
        u64::try_from(start)
            .expect("small")
            .wrapping_mul(0x1_0000)
            .wrapping_add(beside),
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "a person's wish for a longer run"
)]
fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a run came to, for whoever runs it by hand with `--nocapture`.
#[expect(clippy::print_stdout, reason = "a test's own words, shown on demand")]
fn tell(text: &str) {
    println!("{text}");
}

fn os(words: &[String]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// What our grammar makes of a worker's arguments.
fn parse(
    cli: Cli,
    words: &[String],
    worker_options: &[String],
) -> Result<Invocation, ArgumentRefused> {
    match cli {
        Cli::Claude => claude::grammar::parse(&os(words), worker_options),
        Cli::Codex => codex::grammar::parse(&os(words), worker_options),
    }
}

/// The command line of an accepted invocation; `None` where no launch would come of it.
fn made(cli: Cli, invocation: &Invocation, conversation: Conversation) -> Option<Vec<String>> {
    let facts = LaunchFacts {
        binary: "/opt/provider".into(),
        home: "/homes/one".into(),
        workspace: "/srv/tree".into(),
        project: "/srv/tree".into(),
        conversation,
        program: "/share/bin/agent-fleet".into(),
        may_spend: false,
    };
    let line = match cli {
        Cli::Claude => claude::grammar::command_line(invocation, &facts, "{}"),
        Cli::Codex => codex::grammar::command_line(invocation, &facts, &[]).ok()?,
    };
    let text = |word: OsString| word.into_string().expect("the vectors are text");
    Some(line.into_iter().map(text).collect())
}

/// What the CLI prints about itself.
fn help(world: &World, words: &[&str]) -> String {
    let output = tool(world.lab.value(Cli::Codex.binary_variable()))
        .args(words)
        .arg("--help")
        .env_clear()
        .env("CODEX_HOME", world.home(Cli::Codex, 1))
        .output()
        .expect("the CLI starts");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The options in a help text of Codex.
fn options_in(help: &str) -> Vec<Known> {
    help.lines()
        .map(str::trim)
        .filter(|line| line.starts_with('-'))
        .filter_map(Known::parse)
        .collect()
}

/// The subcommands in a help text of Codex, aliases included.
fn commands_in(help: &str) -> Vec<String> {
    let list = help.split("Commands:").nth(1).unwrap_or_default();
    let mut names = Vec::new();
    for line in list.lines().skip(1).take_while(|line| !line.is_empty()) {
        if line.starts_with("  ") && !line.starts_with("   ") {
            names.extend(line.split_whitespace().next().map(str::to_owned));
        }
    }
    names
}

/// What vectors for a CLI are made of; `options` as its own parser or help names them.
fn source(cli: Cli, options: Vec<Known>, words: Vec<String>, own: &[String]) -> Source {
    let head: &[&[&str]] = match cli {
        Cli::Claude => &[
            &["-p"],
            &["-p"],
            &["--print"],
            &[],
            &["-pv"],
            &["--verbose", "-p"],
        ],
        Cli::Codex => &[
            &["exec"],
            &["exec"],
            &["e"],
            &[],
            &["exec", "review"],
            &["-mx", "exec"],
        ],
    };
    let mut values: Vec<String> = [
        "x",
        "",
        "-",
        "--",
        "=",
        "=x",
        "1",
        "a b",
        "high",
        "opus",
        "plan",
        "json",
        "text",
        "read-only",
        "never",
        "on-request",
        "--resume",
        "--continue",
        "--last",
        "-c",
        "-C",
        "/",
        "..",
        "{}",
        "web_search",
        "memories",
        "model=x",
        "model_provider=lab",
        "model_provider=\"lab\"",
        "sandbox_mode=read-only",
        "web_search=live",
        "chatgpt_base_url=\"https://foreign.invalid\"",
        "\"model\"=x",
        "model=x\nmodel_provider=lab",
        "cd=/",
        "sandbox_workspace_write.network_access=true",
        "features.hooks=false",
        "hooks={}",
        "projects={}",
    ]
    .map(str::to_owned)
    .to_vec();
    values.extend(own.iter().cloned());
    let mut prompts: Vec<String> = [
        "go",
        "say hello",
        "-- go",
        "-",
        "- a list, please",
        "--resume the work",
        "-c is an option",
        "--bg do it",
        "-w elsewhere",
        "resume",
        "mcp",
        "mcp list",
        "review",
        "exec",
        "e",
        "login",
        "logout",
        "agents",
        "!ls",
        "@x",
        "# note",
        "/",
        "/review",
        "/logout",
        "/ logout",
        "/cd /",
        "/resume",
        "cc://foreign.invalid",
        "a\nb --bg",
        "$(x)",
        "\u{feff}go",
        "-h",
        "-p",
        "-hello",
        "-fix the auth",
        "{\"type\":\"user\"}",
        "=",
        "daemon",
        "--",
        "-r",
    ]
    .map(str::to_owned)
    .to_vec();
    prompts.extend(own.iter().map(|value| format!("--resume {value}")));
    let liked = |known: &&Known| {
        known.long.iter().any(|name| {
            [vec![name.clone()], vec![name.clone(), "x".to_owned()]]
                .into_iter()
                .any(|mut words| {
                    words.extend((cli == Cli::Codex).then(|| "exec".to_owned()));
                    parse(cli, &words, &[]).is_ok()
                })
        })
    };
    let liked = options.iter().filter(liked).cloned().collect();
    Source {
        heads: head.iter().map(|words| words.to_vec()).collect(),
        options,
        liked,
        words,
        values,
        prompts,
    }
}

/// Vectors until so many were accepted, with how many had to be made for that.
fn accepted(
    cli: Cli,
    source: &Source,
    seed: &mut Seed,
    wanted: usize,
    worker_options: &[String],
) -> (Vec<(Vec<String>, Invocation)>, usize) {
    let mut found = Vec::new();
    let mut tried = 0;
    while found.len() < wanted {
        tried += 1;
        let words = source.vector(seed);
        if let Ok(invocation) = parse(cli, &words, worker_options) {
            found.push((words, invocation));
        }
    }
    (found, tried)
}

/// Everything that a Codex says it knows in any of its forms.
fn codex_options(world: &World) -> Vec<Known> {
    let forms: [&[&str]; 5] = [
        &[],
        &["exec"],
        &["exec", "resume"],
        &["exec", "review"],
        &["resume"],
    ];
    let mut options: Vec<Known> = forms
        .iter()
        .flat_map(|form| options_in(&help(world, form)))
        .collect();
    options.sort();
    options.dedup();
    options
}
