//! Hooks that cannot do their work cost the worker nothing.

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::world::{Job, World};

/// In the middle of a turn the state root disappears, and a file stands in its place (root cannot be kept out
/// by modes): every later hook of the worker fails inside.
fn finishes(cli: Cli) {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(cli, 1, 2);
    let project = world.project("project");
    let state = world.lab.path("state");
    let aside = world.lab.path("state.aside");
    let (state, aside) = (state.display(), aside.display());
    let prompt = format!(
        r#"LAB:[{{"shell":"mv {state} {aside} && touch {state} && echo done > broken"}},{{"shell":"echo done > after"}},{{"text":"\u0046INISHED"}}]"#
    );
    let since = now();
    let (_, output) = world.turn(cli, &Job::new("task", cli.name(), &project), &prompt);
    assert!(output.contains("FINISHED"), "{output}");
    for file in ["broken", "after"] {
        assert!(project.join(file).exists(), "no {file}");
    }
    let asked = world.only(cli, 1, since).len();
    assert!(
        asked <= 6,
        "{asked} requests for a turn of three: a hook sent the worker round"
    );
    // A read-only command still says what is wrong instead of crashing.
    let listed = world.run(["lease", "list"]);
    assert_eq!(listed.status, 2, "stdout: {}", listed.stdout);
}

#[test]
fn claude_finishes_its_turn_when_the_state_root_breaks() {
    finishes(Cli::Claude);
}

#[test]
fn codex_finishes_its_turn_when_the_state_root_breaks() {
    finishes(Cli::Codex);
}
