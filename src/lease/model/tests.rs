use std::collections::BTreeSet;

use super::explore::{Found, Scope, explore};
use super::names::PROFILES;
use super::state::{Ask, Budget, Want};
use super::step::Rules;
use super::world::Broken;

const NONE: Budget = Budget {
    crashes: 0,
    remains: 0,
    forces: 0,
    reboots: 0,
    losses: 0,
    damages: 0,
};
/// Until nothing new is found.
const ALL: usize = usize::MAX;
const ANY: u8 = 0b11;
const FIRST: u8 = 0b01;

fn ask(want: Want, task: usize, wishes: u8) -> Ask {
    Ask {
        want,
        task,
        wishes,
        place: 0,
    }
}

/// Two tasks that are reserved, run and released, on one profile or on any.
fn few() -> Vec<Ask> {
    vec![
        ask(Want::Choose, 0, ANY),
        ask(Want::Exec, 0, FIRST),
        ask(Want::Exec, 1, ANY),
        ask(Want::Release, 1, ANY),
    ]
}

/// The same with every combination of them, and with another workspace.
fn many() -> Vec<Ask> {
    let mut all = few();
    for task in [0, 1] {
        all.push(ask(Want::Exec, task, ANY));
        all.push(ask(Want::Choose, task, FIRST));
        all.push(ask(Want::Release, task, ANY));
        for want in [Want::Choose, Want::Exec] {
            all.push(Ask {
                place: 1,
                ..ask(want, task, ANY)
            });
        }
    }
    all
}

fn forced() -> Vec<Ask> {
    vec![
        ask(Want::Choose, 0, ANY),
        ask(Want::Exec, 0, ANY),
        ask(Want::Exec, 1, FIRST),
        ask(Want::Release, 0, ANY),
        ask(Want::Force, 0, ANY),
    ]
}

fn probes() -> Vec<Ask> {
    vec![
        ask(Want::Exec, 0, FIRST),
        ask(Want::Exec, 1, ANY),
        ask(Want::Choose, 1, FIRST),
        ask(Want::Probe, 3, FIRST),
        ask(Want::Release, 3, FIRST),
    ]
}

/// One who waits for the first profile, two who wait for any, one who does not wait.
fn waits() -> Vec<Ask> {
    vec![
        ask(Want::Wait, 0, FIRST),
        ask(Want::Wait, 1, ANY),
        ask(Want::Wait, 2, ANY),
        ask(Want::Choose, 2, FIRST),
        ask(Want::Release, 2, ANY),
    ]
}

fn everything() -> Vec<Ask> {
    let mut all = forced();
    all.extend([ask(Want::Wait, 1, ANY), ask(Want::Probe, 3, FIRST)]);
    all
}

fn scope(name: &'static str, asks: Vec<Ask>, budget: Budget, steps: [usize; 2]) -> Scope {
    Scope {
        name,
        rules: Rules {
            caps: [1; PROFILES],
            broken: None,
            early: false,
        },
        processes: 3,
        foreign: false,
        asks,
        budget,
        steps,
    }
}

/// Three processes, two profiles, two or three tasks; each part of the world with what is rare in it.
fn scopes() -> Vec<Scope> {
    let two_and_one = |scope: Scope| Scope {
        rules: Rules {
            caps: [2, 1],
            ..scope.rules
        },
        ..scope
    };
    let early = |scope: Scope| Scope {
        rules: Rules {
            early: true,
            ..scope.rules
        },
        ..scope
    };
    let abroad = |scope: Scope| Scope {
        foreign: true,
        ..scope
    };
    let crashes = Budget { crashes: 1, ..NONE };
    let remains = Budget { remains: 1, ..NONE };
    let forces = Budget {
        forces: 1,
        remains: 1,
        ..NONE
    };
    let reboots = Budget {
        reboots: 1,
        losses: 1,
        ..NONE
    };
    let damages = Budget { damages: 1, ..NONE };
    let all = Budget {
        crashes: 1,
        remains: 1,
        forces: 1,
        reboots: 1,
        losses: 1,
        damages: 1,
    };
    vec![
        scope("plain", many(), NONE, [ALL, ALL]),
        two_and_one(scope("caps of 2 and 1", many(), NONE, [ALL, ALL])),
        early(scope("a look before the lock", few(), NONE, [6, 10])),
        scope("children and slow deaths", few(), remains, [5, 9]),
        scope("killed half way", few(), crashes, [7, ALL]),
        scope("forced release", forced(), forces, [5, 8]),
        scope("reboot and lost table", few(), reboots, [6, 10]),
        scope("damaged record", few(), damages, [6, 10]),
        abroad(scope("another namespace", few(), remains, [5, 7])),
        scope("probe", probes(), remains, [5, 8]),
        scope("queue", waits(), NONE, [8, 12]),
        abroad(scope("everything", everything(), all, [3, 4])),
    ]
}

fn with(scope: &Scope, broken: Broken) -> Scope {
    let mut scope = scope.clone();
    scope.rules.broken = Some(broken);
    scope
}

/// Explores every scope; the kinds of answers that were given.
fn explore_all(deep: usize) -> BTreeSet<&'static str> {
    let mut answers = BTreeSet::new();
    for scope in scopes() {
        let found: Found = explore(&scope, scope.steps[deep]);
        println!("| {} | {} |", scope.name, found.told());
        let broken = &found.violation;
        assert!(broken.is_none(), "{}: {}", scope.name, found.told());
        answers.extend(found.answers);
    }
    answers
}

#[test]
#[ignore = "takes minutes: cargo test --lib -- lease::model --ignored --nocapture"]
fn no_longer_order_breaks_a_lease_either() {
    explore_all(1);
}

#[test]
fn no_order_of_steps_deaths_and_harm_breaks_a_lease() {
    let mut answers = explore_all(0);
    for code in [
        "capacity",
        "ended",
        "granted",
        "lease_active",
        "not_found",
        "record_damaged",
        "sticky",
        "task_conflict",
        "task_owned",
        "unsure",
    ] {
        assert!(answers.remove(code), "nobody was ever answered with {code}");
    }
    assert!(
        answers.is_empty(),
        "answers that nothing explains: {answers:?}"
    );
}

#[test]
fn the_model_finds_each_mistake() {
    for (broken, name) in [
        (Broken::NoLock, "plain"),
        (Broken::NoWitness, "children and slow deaths"),
        (Broken::NoStartTime, "plain"),
        (Broken::NoBootId, "reboot and lost table"),
        (Broken::ClockAhead, "another namespace"),
        (Broken::EpochInTable, "reboot and lost table"),
        (Broken::NothingRestored, "reboot and lost table"),
        (Broken::ForceUnlinks, "forced release"),
        (Broken::NoSecondLook, "another namespace"),
        (Broken::OneProbe, "children and slow deaths"),
        (Broken::NoQueue, "queue"),
        (Broken::NotServed, "queue"),
        (Broken::StoppedKept, "queue"),
    ] {
        let scopes = scopes();
        let scope = scopes.iter().find(|scope| scope.name == name);
        let scope = with(scope.expect("a scope of this name"), broken);
        let found = explore(&scope, scope.steps[0]);
        println!("{broken:?} in {name}: {}", found.told());
        let trace = found.violation.map(|(_, how)| how.len());
        assert!(trace.is_some(), "{broken:?} goes unseen");
        assert!(trace < Some(9), "{broken:?} takes {trace:?} steps");
    }
}
