//! `fleet take`: a worker's conversation at a person's terminal, and back.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};

use crate::support::background::Background;
use crate::support::checkout::{Checkout, asks, holds};
use crate::support::sandbox::Sandbox;
use crate::support::world::wait;

/// `fleet take` at a terminal of its own.
struct Taken {
    child: Child,
    keys: ChildStdin,
}

impl Taken {
    fn start(checkout: &Checkout, words: &[&str]) -> Self {
        Self::start_with(checkout, words, &[])
    }

    fn start_with(checkout: &Checkout, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let take = checkout.line(&[&["take"], words].concat());
        let mut line = vec![take.get_program().to_str().expect("UTF-8").to_owned()];
        line.extend(
            take.get_args()
                .map(|word| word.to_str().expect("UTF-8").to_owned()),
        );
        let mut script = Sandbox::tool("script");
        script
            .args(["-qec", &line.join(" "), "/dev/null"])
            .env_clear()
            .envs(
                take.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .envs(variables.iter().copied())
            .current_dir(&checkout.world.project)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = script.spawn().expect("script starts");
        let keys = child.stdin.take().expect("a pipe");
        Self { child, keys }
    }

    fn types(&mut self, text: &str) {
        self.keys
            .write_all(text.as_bytes())
            .expect("somebody reads");
        self.keys.flush().expect("somebody reads");
    }

    /// Leaves the screen, by Ctrl-D.
    #[track_caller]
    fn leave(mut self) -> i32 {
        self.types("\u{4}");
        self.ended()
    }

    #[track_caller]
    fn ended(mut self) -> i32 {
        let status = wait("the end of the screen", || {
            self.child.try_wait().expect("a child")
        });
        status.code().expect("a status")
    }
}

#[test]
fn a_worker_is_taken_over_on_its_own_lease_and_given_back_with_its_report() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &asks());
    run.ended().success();
    checkout.run(&["take", "one"]).refused("usage");
    let mut taken = Taken::start(&checkout, &["one"]);
    taken.types("write a.txt begun\n");
    let one = run.until_busy("one", "a.txt");
    assert_eq!(one["launch"], 2, "{one}");
    let lease = checkout.world.lease(one["task"].as_str().expect("a task"));
    assert_eq!(lease.expect("a lease")["profile"], one["profile"]);
    let sent = checkout.fleet(&[
        "send",
        "one",
        "```script\nwrite b.txt told\nsay Status: blocked\n```",
    ]);
    assert_eq!(sent["outcome"], "queued");
    taken.types(
        "write .fleet/runs/r/reports/one.md Status: needs-verification\nwrite a.txt taken\n",
    );
    wait("the work", || {
        (checkout.read("a.txt") == "taken\n").then_some(())
    });
    assert_eq!(taken.leave(), 0);
    // What was sent meanwhile is told afterwards, in the same conversation.
    wait("the text to be told", || {
        (checkout.read("b.txt") == "told\n").then_some(())
    });
    let after = run.until("one", "parked");
    assert_eq!(
        (&after["launch"], &after["session"]),
        (&3.into(), &one["session"])
    );
}

#[test]
fn a_worker_that_is_given_back_stands_where_it_stood_and_one_with_a_report_has_reported() {
    let checkout = Checkout::with(1);
    let mut run = Background::start(&checkout, "r", &asks());
    let before = Checkout::step(&run.ended().success(), "one");
    let mut taken = Taken::start(&checkout, &["one"]);
    taken.types("write a.txt begun\n");
    run.until_busy("one", "a.txt");
    assert_eq!(taken.leave(), 0);
    assert_eq!(Checkout::step(&run.status(), "one"), before);
    let mut taken = Taken::start(&checkout, &["one"]);
    taken.types(
        "write .fleet/runs/r/reports/one.md Status: needs-verification\nwrite a.txt taken\n",
    );
    wait("the work", || {
        (checkout.read("a.txt") == "taken\n").then_some(())
    });
    assert_eq!(taken.leave(), 0);
    assert_eq!(Checkout::step(&run.status(), "one")["state"], "reported");
    assert_eq!(checkout.fleet(&["resume", "r", "--go"])["state"], "done");
}

#[test]
fn a_worker_that_was_taken_over_can_be_stopped_and_its_turn_be_ended_for_it() {
    let checkout = Checkout::with(1);
    let plan = holds();
    let mut run = Background::start(&checkout, "r", &plan);
    run.until_busy("one", "a.txt");
    run.kill();
    let mut taken = Taken::start(&checkout, &["one", "--now"]);
    taken.types("write a.txt taken\n");
    wait("the work", || {
        (checkout.read("a.txt") == "taken\n").then_some(())
    });
    let stopped = checkout.fleet(&["stop", "one"]);
    assert_eq!(stopped["confirmed"], true, "{stopped}");
    taken.ended();
    let status = run.status();
    assert_eq!(
        Checkout::step(&status, "one")["reason"],
        "stopped",
        "{status}"
    );
}

#[test]
fn a_worker_whose_taking_over_was_cut_short_anywhere_goes_on_when_it_is_told_to() {
    let checkout = Checkout::with(1);
    for point in ["attended.claimed", "attended.started", "attended.recorded"] {
        let name = point.replace('.', "-");
        let mut run = Background::start(&checkout, &name, &asks());
        run.ended().success();
        let switches = [
            ("AGENT_FLEET_TEST_CRASH_ONLY", "take"),
            ("AGENT_FLEET_TEST_CRASH_AT", point),
        ];
        let mut taken = Taken::start_with(&checkout, &["one", "--run", &name], &switches);
        if point == "attended.recorded" {
            taken.types("\u{4}");
        }
        assert_ne!(taken.ended(), 0, "{point}");
        let one = run.until("one", "parked");
        assert_eq!(one["launch"], 2, "{point}: {one}");
        let step = Checkout::step(&run.status(), "one");
        assert_eq!(
            (&step["state"], &step["attempts"]),
            (&"blocked".into(), &0.into()),
            "{point}: {step}"
        );
        let text = format!("```script\nwrite a.txt {name}\nsay Status: needs-verification\n```");
        let sent = checkout.fleet(&["send", "one", "--run", &name, "--", &text]);
        assert_eq!(sent["outcome"], "launched", "{point}: {sent}");
        let status = checkout.fleet(&["resume", &name, "--go"]);
        assert_eq!(status["state"], "done", "{point}: {status}");
        assert_eq!(checkout.read("a.txt"), format!("{name}\n"));
    }
}
