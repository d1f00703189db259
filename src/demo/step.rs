//! The steps of the demo: what each shows, and the check that it came out as told.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::world::{Tour, World, home_of};

/// One step.
pub(super) struct Step {
    /// Stable name, in JSON.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Why that matters, in one sentence.
    pub why: &'static str,
    /// Does it; what the check found, or what differed.
    pub run: fn(&mut Tour<'_>) -> Result<&'static str, String>,
}

/// The steps in their order; each builds on those before.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "accounts",
        title: "Two accounts",
        why: "each in a home of its own, proved by asking its server",
        run: accounts,
    },
    Step {
        name: "choose",
        title: "Choose",
        why: "the account with the most left wins; a dry run writes nothing",
        run: choose,
    },
    Step {
        name: "exec",
        title: "Run a worker",
        why: "the program becomes the agent, on the leased account only",
        run: exec,
    },
    Step {
        name: "owned",
        title: "One owner per task",
        why: "a second worker for a live task is refused",
        run: owned,
    },
    Step {
        name: "reclaim",
        title: "Crash and reclaim",
        why: "after kill -9 the kernel knows at once; nothing waits for a timeout",
        run: reclaim,
    },
    Step {
        name: "resume",
        title: "Resume",
        why: "a task continues its conversation, always on the account that has it",
        run: resume,
    },
    Step {
        name: "limit",
        title: "A usage limit",
        why: "the next task goes to the other account",
        run: limit,
    },
];

pub(super) const POOL: &str = "crew";
const PROJECT: &str = "~/project";

pub(super) fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &T,
    told: &T,
) -> Result<(), String> {
    if found == told {
        Ok(())
    } else {
        Err(format!("{what}: expected {told:?}, found {found:?}"))
    }
}

/// The arguments of an exec of a script.
fn exec_line<'a>(task: &'a str, script: &'a str) -> Vec<&'a str> {
    vec![
        "exec",
        "--task",
        task,
        "--pool",
        POOL,
        "--workspace",
        PROJECT,
        "--",
        "-p",
        script,
    ]
}

/// The accounts that the pretend server served turns on, oldest first.
pub(super) fn served(tour: &Tour<'_>) -> Result<Vec<String>, String> {
    let path = tour.world().service().join("requests.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|request| request["request"] == "turn" && request["outcome"] == "ok")
        .filter_map(|request| request["account"].as_str().map(str::to_owned))
        .collect())
}

fn lease_of(world: &World<'_>, task: &str) -> Result<Option<Value>, String> {
    let list = world.json(&["lease", "list"])?;
    Ok(list["leases"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|lease| lease["task"] == task)
        .cloned())
}

fn accounts(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    enroll(tour, &[("ada", "20"), ("bob", "45")])?;
    Ok("two different accounts, each proved")
}

/// Makes accounts of these names of which this much is used, in one pool, and proves that they are different ones.
pub(super) fn enroll(tour: &mut Tour<'_>, people: &[(&str, &str)]) -> Result<(), String> {
    let service = tour.world().service().into_string();
    let world = tour.world();
    world.json(&["init"])?;
    world.json(&["config", "set", "providers.scripted.service", &service])?;
    tour.show(
        &["project", "register", "--provider", "scripted", PROJECT],
        0,
    )?;
    for (profile, used) in people {
        let world = tour.world();
        let added = [
            "profile",
            "add",
            profile,
            "--provider",
            "scripted",
            "--pool",
            POOL,
        ];
        let home = home_of(&world.json(&added)?)?.to_string();
        let login = [
            "scripted-agent",
            "login",
            "--account",
            profile,
            "--service",
            &service,
            "--used",
            used,
        ];
        let ran = world.run(&login, "human", &[("SCRIPTED_HOME", &home)])?;
        expect("the pretend login", &ran.status, &Some(0))?;
        world.json(&["profile", "provision", profile])?;
        world.json(&["profile", "enable", profile])?;
        for shown in [
            added.as_slice(),
            &["profile", "provision", profile],
            &["profile", "enable", profile],
        ] {
            tour.command(shown);
        }
    }
    tour.show(&["quota", "show", "--all"], 0)?;
    let quota = tour.world().json(&["quota", "show", "--all"])?;
    let mut prints = BTreeSet::new();
    for row in quota["quota"].as_array().into_iter().flatten() {
        expect(
            "the proof of an account",
            &row["verified_recent"],
            &true.into(),
        )?;
        prints.insert(row["identity_fingerprint"].to_string());
    }
    expect(
        "the number of different accounts",
        &prints.len(),
        &people.len(),
    )
}

fn choose(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    let line = [
        "choose",
        "--task",
        "docs",
        "--pool",
        POOL,
        "--workspace",
        PROJECT,
        "--dry-run",
        "--explain",
    ];
    tour.show(&line, 0)?;
    let selection = tour.world().json(&line)?;
    expect("the chosen account", &selection["profile"], &"ada".into())?;
    expect("the lease of a dry run", &selection["lease"], &Value::Null)?;
    Ok("ada has more left than bob, and no lease was made")
}

fn exec(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    tour.show(&exec_line("docs", "write notes.txt hello; say done"), 0)?;
    let notes = tour.world().project().join("notes.txt");
    let written = std::fs::read_to_string(&notes).map_err(|error| format!("{notes}: {error}"))?;
    expect("what the worker wrote", &written.as_str(), &"hello\n")?;
    expect("who paid", &served(tour)?, &vec!["ada".to_owned()])?;
    let verdict = lease_of(tour.world(), "docs")?.map(|lease| lease["verdict"].clone());
    if verdict.as_ref().is_some_and(|verdict| verdict != "dead") {
        return Err(format!("the lease outlived its worker: {verdict:?}"));
    }
    Ok("ada paid for the turn, and the lease ended with the worker")
}

/// Starts a worker on `task`, does something while it runs, and ends it with `signal`.
fn beside<'a>(
    tour: &mut Tour<'a>,
    task: &str,
    signal: Signal,
    meanwhile: &mut dyn FnMut(&mut Tour<'a>, u32) -> Result<(), String>,
) -> Result<(), String> {
    let arguments = exec_line(task, "sleep 15");
    tour.start(&arguments);
    let world = tour.world();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| world.run(&arguments, "human", &[]));
        let pid = world.wait("the worker's lease", &mut || {
            let lease = lease_of(world, task)?.filter(|lease| lease["state"] == "running");
            Ok(lease.and_then(|lease| u32::try_from(lease["pid"].as_u64()?).ok()))
        });
        let outcome = pid.and_then(|pid| {
            let outcome = meanwhile(tour, pid);
            end(pid, signal).and(outcome)
        });
        // A worker that could not be found ends by itself when its script is done.
        let ended = worker
            .join()
            .unwrap_or_else(|_| Err("the worker's thread ended".to_owned()));
        outcome.and(ended.map(drop))
    })
}

fn end(pid: u32, signal: Signal) -> Result<(), String> {
    let process = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| format!("{pid} is no process"))?;
    kill_process(process, signal).map_err(|error| format!("cannot signal {pid}: {error}"))
}

fn owned(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    beside(tour, "build", Signal::TERM, &mut |tour, pid| {
        tour.show(&["lease", "list"], 0)?;
        let second = exec_line("build", "say me too");
        tour.show(&second, 2)?;
        let refused = tour.world().run(&second, "json", &[])?;
        let error: Value = serde_json::from_str(&refused.stdout).unwrap_or_default();
        expect("the refusal", &error["code"], &"task_owned".into())?;
        let sentence = error["error"].as_str().unwrap_or_default();
        if sentence.contains(&pid.to_string()) {
            Ok(())
        } else {
            Err(format!(
                "the refusal does not name process {pid}: {sentence}"
            ))
        }
    })?;
    Ok("refused, and the owner is named")
}

fn reclaim(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    let mut before = 0;
    beside(tour, "tests", Signal::KILL, &mut |tour, pid| {
        before = generation(tour, "tests")?;
        tour.typed(&format!("kill -9 {pid}"));
        Ok(())
    })?;
    // A hook that the worker had just started may hold its witness for a moment longer.
    let world = tour.world();
    world.wait("the end of the killed worker's hooks", &mut || {
        let lease = lease_of(world, "tests")?;
        Ok(lease
            .is_none_or(|lease| lease["verdict"] == "dead")
            .then_some(()))
    })?;
    let line = [
        "lease",
        "choose",
        "--task",
        "tests",
        "--pool",
        POOL,
        "--workspace",
        PROJECT,
    ];
    tour.show(&line, 0)?;
    let after = generation(tour, "tests")?;
    if after <= before {
        return Err(format!(
            "generation {after} after {before}: not a new grant"
        ));
    }
    tour.show(&["lease", "release", "--task", "tests"], 0)?;
    Ok("granted anew at once, under a higher generation")
}

fn generation(tour: &Tour<'_>, task: &str) -> Result<u64, String> {
    lease_of(tour.world(), task)?
        .and_then(|lease| lease["generation"].as_u64())
        .ok_or_else(|| format!("the task `{task}` has no lease"))
}

fn resume(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    let status = ["session", "status", "--task", "docs"];
    tour.show(&status, 0)?;
    let before = tour.world().json(&status)?;
    tour.show(
        &[
            "resume",
            "--task",
            "docs",
            "--workspace",
            PROJECT,
            "--",
            "-p",
            "say still here",
        ],
        0,
    )?;
    let after = tour.world().json(&status)?;
    expect(
        "the conversation",
        &after["session_id"],
        &before["session_id"],
    )?;
    expect("its profile", &after["profile"], &"ada".into())?;
    expect("who paid", &served(tour)?.last(), &Some(&"ada".to_owned()))?;
    Ok("the same conversation, on the account that has it")
}

fn limit(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    // The agent ends with 1, as the real ones do at a limit.
    tour.show(&exec_line("lint", "limit quota 3600"), 1)?;
    expect("who paid", &served(tour)?.last(), &Some(&"ada".to_owned()))?;
    tour.show(&exec_line("types", "say done"), 0)?;
    expect("who paid", &served(tour)?.last(), &Some(&"bob".to_owned()))?;
    tour.show(
        &[
            "choose",
            "--task",
            "next",
            "--pool",
            POOL,
            "--workspace",
            PROJECT,
            "--dry-run",
            "--explain",
        ],
        0,
    )?;
    Ok("bob took over, and ada rests")
}
