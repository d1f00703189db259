//! What happens after a limit: the old account is left alone, also once it could be used again.

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::fleet::{Fleet, named, reports, rule, step};
use crate::lab::{Request, now};
use crate::wait::until;
use crate::worker::{TURN, Worker};
use crate::world::World;

/// How long the limits last, in seconds: a busy machine is to begin the next launch meanwhile.
const RESETS_IN: u32 = 20;
/// How long after its end a limited worker that waited for it would have asked again, in seconds.
const AFTER: f64 = 3.0;

/// The first account's limit of this provider, once it was met.
#[track_caller]
fn met(fleet: &Fleet, cli: Cli, since: f64) -> f64 {
    let what = format!("the limit of {}", cli.name());
    until(&what, TURN, || {
        let log = fleet.world.lab.log(since);
        let refused = log
            .iter()
            .find(|request| cli.asks_model(request) && request.status == Some(429));
        match refused {
            Some(refused) => Ok(refused.t),
            None => Err(fleet.command(&["status"]).stdout),
        }
    })
}

#[test]
fn a_run_that_went_on_elsewhere_asks_nothing_of_a_limited_account_after_its_reset_and_outlives_its_watchers()
 {
    let workers = [("one", Cli::Claude, "a.txt"), ("two", Cli::Codex, "b.txt")];
    let fleet = Fleet::new(|project| {
        let go = project.parent().expect("a parent").join("go");
        let rules = workers.iter().flat_map(|(worker, _, file)| {
            let begun = format!("echo begun > {file}");
            let done = format!(
                "echo changed > {file} && {}",
                reports(worker, "needs-verification")
            );
            [
                rule(
                    worker,
                    &json!({"account": 1}),
                    &json!([
                        {"shell": begun},
                        {"usage_limit": {"resets_in": RESETS_IN}},
                    ]),
                ),
                rule(
                    worker,
                    &json!({"account": 2}),
                    &json!([
                        {"shell": format!("echo half > {file}")},
                        {"shell": done, "after": go},
                        {"text": "finished"},
                    ]),
                ),
            ]
        });
        Value::Array(rules.collect())
    });
    let since = now();
    let plan = workers
        .map(|(worker, cli, file)| step(worker, cli, file))
        .concat();
    let run = fleet.begin(&plan);
    let mut limits = Vec::new();
    for (worker, cli, file) in workers {
        limits.push(met(&fleet, cli, since));
        fleet.until_written(file, "half");
        for words in [["attach", worker].as_slice(), &["logs", worker, "--follow"]] {
            watched_by_one_that_is_killed(&fleet, words);
        }
    }
    let last = limits.iter().copied().fold(0.0, f64::max);
    until("the resets", TURN, || {
        let left = last + f64::from(RESETS_IN) + AFTER - now();
        if left < 0.0 {
            Ok(())
        } else {
            Err(format!("{left} s left"))
        }
    });
    World::write(&fleet.world.lab.path("go"), "");
    let ran = run.finish();
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let status = fleet.status();
    assert_eq!(status["state"], "done", "{status}");
    let log = fleet.world.lab.log(since);
    for ((worker, cli, file), limit) in workers.into_iter().zip(limits) {
        let one = named(&status, "workers", "name", worker);
        assert_eq!(one["launch"], 2, "{status}");
        assert_eq!(fleet.read(file), "changed\n");
        // What a CLI still tells of itself while it ends is no work.
        let reset = limit + f64::from(RESETS_IN);
        let again: Vec<String> = log
            .iter()
            .filter(|request| request.log == cli.name() && request.account == Some(1))
            .filter(|request| request.t > reset || (cli.asks_model(request) && request.t > limit))
            .map(Request::line)
            .collect();
        assert_eq!(again, [""; 0], "the account at its limit was asked again");
    }
}

/// Somebody looks on until the worker's words have come, and is killed.
#[track_caller]
fn watched_by_one_that_is_killed(fleet: &Fleet, words: &[&str]) {
    let mut watcher = Worker::start(&fleet.world, "watcher", &mut fleet.line(words));
    until("the worker's words", TURN, || {
        let seen = watcher.stdout();
        if seen.contains("echo half") {
            Ok(())
        } else {
            Err(seen)
        }
    });
    watcher.kill();
}
