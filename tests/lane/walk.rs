//! The way that `docs/enroll.md` shows a new person, typed line by line with the real CLIs.

use std::process::{Command, Stdio};

use crate::cli::{BOTH, Cli};
use crate::enroll::{credential_below, file, kept, paste, person};
use crate::lab::{Plan, now, tool};
use crate::ran::Ran;
use crate::world::World;

/// The lines of the page that are to be typed, in their order.
fn lines() -> Vec<&'static str> {
    let page = include_str!("../../docs/enroll.md");
    let (_, walk) = page.split_once("<!-- walk -->").expect("a walk");
    let (walk, _) = walk.split_once("<!-- /walk -->").expect("its end");
    let blocks = walk.split("```sh\n").skip(1);
    blocks
        .flat_map(|block| block.split("```").next().unwrap_or_default().lines())
        .collect()
}

/// A person on a machine without a screen: the CLIs and the program on the path, a repository, no login anywhere, and
/// every file where it is by default.
fn newcomer() -> World {
    let mut world = World::bare(&Plan::default());
    let links = world.lab.path("bin");
    std::fs::create_dir(&links).expect("a directory in the lab's folder");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, links.join(name));
    for cli in BOTH {
        link(world.lab.value(cli.binary_variable()), cli.name()).expect("a link to the CLI");
    }
    link(env!("CARGO_BIN_EXE_agent-fleet"), "agent-fleet").expect("a link to the program");
    world.prepend_path(&links);
    for name in ["CONFIG", "STATE_DIR", "SHARE_DIR"] {
        world.set(&format!("AGENT_FLEET_{name}"), "");
    }
    world.set("AGENT_FLEET_FORMAT", "human");
    world.set("AGENT_FLEET_TEST_SECOND_PROOF", "200");
    world.set("BROWSER", "/bin/false");
    drop(world.worktree("home/repo"));
    world
}

fn shell(world: &World, line: &str) -> Command {
    let mut command = tool("sh");
    command
        .args(["-c", line])
        .env_clear()
        .envs(world.variables())
        .current_dir(world.lab.path("home"))
        .stdin(Stdio::null());
    command
}

/// The account that the person means by a profile, by the number at its end.
fn wanted(line: &str) -> u32 {
    let (_, number) = line.rsplit_once('-').expect("a profile");
    number.parse().expect("a number")
}

fn typed(world: &World, line: &str) -> Ran {
    if line.contains("enroll codex-") {
        person(world, wanted(line));
    }
    if line.contains("enroll claude-") {
        paste(&mut shell(world, line), wanted(line))
    } else {
        Ran::of(&mut shell(world, line))
    }
}

#[test]
fn the_page_takes_a_new_person_from_nothing_to_four_logins_and_work() {
    let world = newcomer();
    let lines = lines();
    assert!(lines.len() > 15, "the page is to be typed: {lines:?}");
    for line in &lines {
        let since = now();
        let ran = typed(&world, line);
        assert_eq!(ran.status, 0, "{line}\n{}\n{}", ran.stdout, ran.stderr);
        if line.contains(" exec ") {
            let cli = if line.contains("claude-crew") {
                Cli::Claude
            } else {
                Cli::Codex
            };
            let account = [1, 2].into_iter().find(|account| {
                ran.stderr
                    .contains(&format!(" on {}-{account} ", cli.name()))
            });
            let account = account.unwrap_or_else(|| panic!("no account: {}", ran.stderr));
            assert_eq!(world.only(cli, account, since).len(), 1, "{line}");
        }
    }
    // The same account again: the good login stays, the very file.
    for cli in BOTH {
        let path = credential_below(&world.lab.path("home/.local/share/agent-fleet"), cli, 1);
        let before = kept(&path);
        let line = format!("agent-fleet --format json profile enroll {}-1", cli.name());
        let again = typed(&world, &line).success();
        assert_eq!(
            (again["outcome"].as_str(), kept(&path)),
            (Some("unchanged"), before)
        );
    }
}

#[test]
fn what_init_import_tells_to_type_puts_the_logins_that_are_there_to_work() {
    let world = newcomer();
    let mut before = Vec::new();
    for (cli, folder) in [
        (Cli::Claude, "home/.claude-own"),
        (Cli::Codex, "home/.codex-own"),
    ] {
        let home = world.lab.path(folder);
        world.lab.make_home(cli.name(), 1, &home, None);
        let login = home.join(file(cli));
        before.push((kept(&login), login));
    }
    let line = "agent-fleet --format json init --import";
    let found = Ran::of(&mut shell(&world, line)).success();
    let next = found["next"].as_array().expect("commands");
    assert_eq!(next.len(), 5, "{found}");
    for line in next {
        let line = line.as_str().expect("a command");
        let line = line.replace("/path/to/your/repository", "~/repo");
        let ran = Ran::of(&mut shell(&world, &line));
        assert_eq!(ran.status, 0, "{line}\n{}\n{}", ran.stdout, ran.stderr);
    }
    let line = "agent-fleet profile enable codex-own";
    assert_eq!(Ran::of(&mut shell(&world, line)).status, 0);
    for (was, login) in before {
        assert_eq!(kept(&login), was, "{}", login.display());
    }
}
