//! `demo`: every step comes out as told, quickly, and nothing of the person's is touched.

use crate::support::sandbox::Sandbox;

const STEPS: [&str; 7] = [
    "accounts", "choose", "exec", "owned", "reclaim", "resume", "limit",
];

const FLEET_STEPS: [&str; 6] = ["accounts", "plan", "run", "limit", "review", "results"];

#[test]
fn every_step_is_as_told_and_only_the_throw_away_world_is_touched() {
    told(&["demo"], &STEPS, 10.0);
}

#[test]
fn every_step_of_a_fleet_is_as_told_and_only_the_throw_away_world_is_touched() {
    told(&["demo", "--fleet"], &FLEET_STEPS, 20.0);
}

#[track_caller]
fn told(arguments: &[&str], wanted: &[&str], most: f64) {
    let sandbox = Sandbox::new();
    let report = sandbox.run(arguments.iter().copied()).success();
    let steps = report["steps"].as_array().expect("a list");
    let names: Vec<&str> = steps
        .iter()
        .map(|step| step["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, wanted);
    assert!(steps.iter().all(|step| step["ok"] == true), "{report}");
    let seconds: f64 = steps
        .iter()
        .map(|step| step["seconds"].as_f64().expect("a number"))
        .sum();
    assert!(seconds < most, "the demo took {seconds} s");
    for untouched in ["config", "state", "share"] {
        assert!(!sandbox.path(untouched).exists(), "{untouched} was made");
    }
    for emptied in ["home", "tmp"] {
        let left: Vec<_> = std::fs::read_dir(sandbox.path(emptied))
            .expect("a directory")
            .collect();
        assert!(left.is_empty(), "left behind in {emptied}: {left:?}");
    }
}

#[test]
fn only_the_demo_of_a_fleet_needs_git_and_says_so() {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", "/nowhere");
    sandbox.run(["demo", "--fleet"]).refused("git_missing");
    sandbox.run(["demo"]).success();
}

#[test]
fn people_see_commands_answers_and_what_to_type_next_without_a_stray_colour() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["demo", "--format", "human", "--keep"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains('\u{1b}'), "colour in a pipe");
    for told in [
        "$ agent-fleet exec --task docs",
        "kill -9 ",
        "agent-fleet init --claude 2\n",
    ] {
        assert!(ran.stdout.contains(told), "no `{told}` in\n{}", ran.stdout);
    }
    let root = sandbox.path("tmp").to_str().unwrap().to_owned();
    let paths = ran
        .stdout
        .lines()
        .filter(|line| line.contains(&root))
        .count();
    assert_eq!(
        paths, 1,
        "only the kept world's own path is shown\n{}",
        ran.stdout
    );
}
