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
        // The page says to wait here.
        if command.command.contains("launch") {
            let step = if command.answered("parser") {
                "parser"
            } else {
                "guide"
            };
            waits(&checkout, step);
        }
    }
}

fn waits(checkout: &Checkout, step: &str) {
    let began = std::time::Instant::now();
    loop {
        let mut line = checkout.line(&["status", "--format", "json"]);
        let status = Ran::of(&mut line).success();
        if Checkout::step(&status, step)["state"] == "reported" {
            return;
        }
        assert!(began.elapsed().as_secs() < 120, "{status}");
    }
}
