//! The commands of docs/skill/SKILL.md, typed by a machine in the order in which a lead types them.

use std::path::Path;

use crate::docs::{answers, steps};
use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;

const PAGE: &str = include_str!("../../docs/skill/SKILL.md");

#[test]
fn every_command_of_the_skill_does_what_it_says() {
    let mut checkout = Checkout::with(2);
    let programs = Path::new(env!("CARGO_BIN_EXE_agent-fleet"))
        .parent()
        .expect("a directory");
    checkout.world.sandbox.set("AGENT_FLEET_FORMAT", "human");
    checkout.world.sandbox.set(
        "PATH",
        format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()),
    );
    // The page's plan with what its workers are to do.
    let done = |file: &str| format!("write {file} made\nsay Status: needs-verification");
    let plan = [
        step(
            "parser",
            "files = [\"parser.txt\"]\ntier = \"heavy\"",
            &done("parser.txt"),
        ),
        step(
            "guide",
            "worktree = true\nneeds = [\"parser\"]",
            &done("guide.txt"),
        ),
    ];
    checkout.write("plan.toml", &plan.concat());
    for line in ["id = \"parser\"", "id = \"guide\"", "needs = [\"parser\"]"] {
        assert!(PAGE.contains(line), "the page's plan has {line}");
    }
    let commands = steps(PAGE);
    assert!(commands.len() > 10, "the page has commands");
    for command in commands {
        let mut shell = checkout.world.sandbox.shell(&command.command);
        shell.current_dir(&checkout.world.project);
        answers("SKILL.md", &command, &Ran::of(&mut shell));
    }
    let status = Ran::of(&mut checkout.line(&["status", "--format", "json"])).success();
    assert_eq!(status["state"], "done", "{status}");
}
