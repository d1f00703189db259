//! A lead and a person who do not wait for the end of a turn.

use serde_json::json;

use crate::cli::Cli;
use crate::fleet::{Fleet, named, reports, step, was_told};
use crate::lab::now;
use crate::terminal::Terminal;
use crate::wait::until;
use crate::worker::TURN;

/// A turn is interrupted for a text, and the next one for a person at a terminal, who finishes the work: all of it is
/// one conversation on one account.
fn interrupted(cli: Cli) {
    let fleet = Fleet::of(&[cli], 1, |_| {
        let late = json!({"text": "late", "delay": 120});
        json!([
            {"match": "prompts/one\\.1\\.md", "steps": [{"shell": "echo begun > a.txt"}, late]},
            {"match": "prompts/one\\.2\\.md", "steps": [
                {"shell": "cat .fleet/runs/r/prompts/one.2.md"},
                {"shell": "echo told > a.txt"},
                late,
            ]},
            {"match": "TAKEN-OVER", "steps": [
                {"shell": format!("echo taken > a.txt && {}", reports("one", "needs-verification"))},
                {"text": "\u{46}INISHED it"},
            ]},
        ])
    });
    let since = now();
    let mut run = fleet.begin(&step("one", cli, "a.txt"));
    fleet.until_written("a.txt", "begun");
    let sent = fleet
        .command(&["send", "one", "--now", "Go by the other way."])
        .success();
    // Whoever saw the end first has begun the next turn: this command, the host or the loop.
    assert!(
        sent["outcome"] == "launched" || sent["launch"] == 2,
        "{sent}"
    );
    fleet.until_written("a.txt", "told");
    run.kill();

    let screen = Terminal::start(&fleet.world, "take", &fleet.line(&["take", "one", "--now"]));
    screen.wait_for("fleet worker one");
    screen.type_line("TAKEN-OVER");
    fleet.until_written("a.txt", "taken");
    screen.wait_for("FINISHED it");
    screen.type_line("/exit");
    until("the end of the screen", TURN, || {
        screen.ended().then_some(()).ok_or_else(|| screen.screen())
    });
    let ran = fleet.command(&["run"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let status = fleet.status();
    assert_eq!(status["state"], "done", "{status}");
    let one = named(&status, "workers", "name", "one");
    assert_eq!(one["launch"], 3, "{status}");
    let log = fleet.world.lab.log(since);
    assert!(
        was_told(&log, cli, "Go by the other way."),
        "the text was not read"
    );
    drop(fleet.world.only(cli, 1, since));
}

#[test]
fn a_claudes_turn_is_interrupted_for_a_text_and_then_for_a_person_who_ends_the_work() {
    interrupted(Cli::Claude);
}

#[test]
fn a_codexs_turn_is_interrupted_for_a_text_and_then_for_a_person_who_ends_the_work() {
    interrupted(Cli::Codex);
}
