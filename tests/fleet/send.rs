//! `fleet send` and `fleet resume`: the next turn, now or after the one that runs, and going on with a run.

use crate::support::background::Background;
use crate::support::checkout::{Checkout, asks, holds, step};
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::wait;

fn text(script: &str) -> String {
    format!("```script\n{script}\nsay Status: needs-verification\n```")
}

fn interrupt(pid: u32) {
    let mut kill = Sandbox::tool("kill");
    let done = kill.args(["-INT", &pid.to_string()]).status();
    assert!(done.expect("kill runs").success());
}

#[test]
fn a_text_is_the_next_turn_of_a_parked_worker_and_its_run_goes_on() {
    let checkout = Checkout::with(1);
    let status = {
        checkout.write("plan.toml", &asks());
        checkout.fleet(&["run", "plan.toml", "--run", "r"])
    };
    assert_eq!(status["state"], "blocked", "{status}");
    let session = Checkout::worker(&status, "one")["session"].clone();
    checkout.run(&["send", "one", " "]).refused("usage");
    checkout.run(&["send", "two", "hi"]).refused("not_found");
    let mut line = checkout.line(&["send", "one", "-"]);
    let sent = Ran::answered(&mut line, &text("write a.txt sent")).success();
    assert_eq!(
        (&sent["outcome"], &sent["launch"]),
        (&"launched".into(), &2.into()),
        "{sent}"
    );
    let status = checkout.fleet(&["resume", "r", "--go"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "sent\n");
    assert_eq!(Checkout::worker(&status, "one")["session"], session);
    checkout.run(&["resume", "r"]).refused("run_over");
    checkout.run(&["send", "one", "hi"]).refused("run_over");
}

#[test]
fn a_text_for_a_busy_worker_is_told_at_the_end_of_its_turn_by_its_host_alone() {
    let checkout = Checkout::with(1);
    let script = "write a.txt begun\nhold go\nsay Status: needs-verification";
    let mut run = Background::start(&checkout, "r", &step("one", "files = [\"a.txt\"]", script));
    run.until_busy("one", "a.txt");
    run.kill();
    let sent = checkout.fleet(&["send", "one", &text("write a.txt sent")]);
    assert_eq!(
        (&sent["outcome"], &sent["queued"]),
        (&"queued".into(), &1.into()),
        "{sent}"
    );
    let again = checkout.fleet(&["send", "one", &text("write a.txt sent")]);
    assert_eq!(again["queued"], 1, "the same text waits once");
    checkout.write("go", "go");
    wait("the text to be told", || {
        (checkout.read("a.txt") == "sent\n").then_some(())
    });
    let one = run.until("one", "parked");
    assert_eq!((&one["launch"], &one["queued"]), (&2.into(), &0.into()));
    assert_eq!(Checkout::step(&run.status(), "one")["state"], "reported");
}

#[test]
fn a_turn_is_interrupted_and_its_conversation_goes_on_with_the_new_text() {
    let checkout = Checkout::with(1);
    let plan = holds();
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    let sent = checkout.fleet(&["send", "--now", "one", "--", &text("write a.txt sent")]);
    // Whoever saw the end first has begun it: this command, the host or the loop.
    assert!(
        sent["outcome"] == "launched" || sent["launch"] == 2,
        "{sent}"
    );
    let status = run.ended().success();
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "sent\n");
    assert_eq!(Checkout::worker(&status, "one")["launch"], 2);
}

#[test]
fn a_turn_that_is_interrupted_before_its_conversation_began_loses_no_text() {
    let checkout = Checkout::with(1);
    let plan = step(
        "one",
        "files = [\"a.txt\"]",
        "hold go\nwrite a.txt begun\nsay hi",
    );
    let mut run = Background::start(&checkout, "r", &plan);
    run.until("one", "running");
    checkout.fleet(&["send", "--now", "one", &text("write a.txt sent")]);
    checkout.write("go", "go");
    let status = run.ended().success();
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "sent\n");
}

#[test]
fn a_stopped_worker_goes_on_when_it_is_told_to() {
    let checkout = Checkout::with(1);
    let plan = holds();
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    checkout.fleet(&["stop", "one"]);
    assert_eq!(run.ended().success()["state"], "blocked");
    let sent = checkout.fleet(&["send", "one", &text("write a.txt sent")]);
    assert_eq!(sent["outcome"], "launched", "{sent}");
    assert_eq!(checkout.fleet(&["resume", "r", "--go"])["state"], "done");
}

#[test]
fn a_text_takes_a_failed_run_back() {
    let checkout = Checkout::with(1);
    let script = "write a.txt half\nsay begun\ncrash";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", script));
    let status = checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    assert_eq!(status["state"], "failed", "{status}");
    checkout.fleet(&["send", "one", &text("write a.txt sent")]);
    let status = checkout.fleet(&["resume", "r", "--go"]);
    assert_eq!(status["state"], "done", "{status}");
    assert_eq!(checkout.read("a.txt"), "sent\n");
}

#[test]
fn a_send_that_was_cut_short_anywhere_is_told_once_by_the_next() {
    let checkout = Checkout::with(1);
    for point in 1.. {
        let name = format!("r{point}");
        checkout.write("plan.toml", &asks());
        checkout.fleet(&["run", "plan.toml", "--run", &name]);
        let text = text("spawn echo told >> told.txt");
        let words = ["send", "one", &text, "--run", &name];
        let mut line = checkout.line(&words);
        line.env("AGENT_FLEET_TEST_CRASH_AT", point.to_string());
        let ran = Ran::of(&mut line);
        let cut = ran.status == crate::crash::ABORTED;
        assert!(cut || ran.status == 0, "{point}: {}", ran.stderr);
        if cut && checkout.fleet(&["resume", &name])["active"] == 0 {
            drop(checkout.run(&words));
        }
        // A launch that was written down and never begun is given up after a while, and its text kept.
        if !cut {
            let status = checkout.fleet(&["resume", &name, "--go"]);
            assert_eq!(status["state"], "done", "{point}: {status}");
            assert_eq!(checkout.read("told.txt"), "told\n");
            assert!(point > 8, "only {point} durable steps");
            return;
        }
        checkout
            .run(&["stop", "--all", "--run", &name, "--force"])
            .success();
        drop(std::fs::remove_file(
            checkout.world.project.join("told.txt"),
        ));
    }
}

#[test]
fn one_ctrl_c_lets_the_turns_end_and_another_stops_them() {
    let checkout = Checkout::with(1);
    let first = "write a.txt begun\nhold go\nsay Status: needs-verification";
    let plan = step("one", "files = [\"a.txt\"]", first)
        + &step(
            "two",
            "files = [\"b.txt\"]\nneeds = [\"one\"]",
            "write b.txt x\nsay hi",
        );
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    interrupt(run.pid());
    checkout.write("go", "go");
    let ran = run.ended();
    assert!(
        ran.stderr.contains("nothing new is launched"),
        "{}",
        ran.stderr
    );
    assert_eq!(Checkout::worker(&ran.success(), "one")["state"], "parked");
    assert_eq!(checkout.read("b.txt"), "as it was\n");

    let plan = step(
        "one",
        "files = [\"c.txt\"]",
        "write c.txt begun\nhold never",
    );
    let mut run = Background::start(&checkout, "s", &plan);
    run.until_busy("one", "c.txt");
    // Two that come at once are one to the kernel.
    wait("the worker is stopped", || {
        interrupt(run.pid());
        let status = checkout.fleet(&["status", "--run", "s"]);
        (Checkout::worker(&status, "one")["state"] != "running").then_some(())
    });
    let status = run.ended().success();
    assert_eq!(
        Checkout::step(&status, "one")["reason"],
        "stopped",
        "{status}"
    );
}
