use jiff::{Timestamp, ToSpan as _};

use super::{CAPACITY_PAUSE, Happened, Settled, UNSTATED_RESET, after, settle};
use crate::error::Class;
use crate::fleet::model::{StepState, Worker, WorkerState};
use crate::fleet::report::Status;
use crate::fleet::trial;
use crate::fleet::turn::{Ended, FailedBy};
use crate::quota::limit::{Limit, Reset};

const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);

fn worker(name: &str, state: WorkerState) -> Worker {
    let plan = trial::plan(
        "[[step]]\nid = \"one\"\ntext = \"x\"\nworktree = true\n",
        &["claude:a"],
        "",
    );
    let plan = plan.unwrap().plan;
    trial::worker(name, state, &plan.steps.first().unwrap().assignment)
}

fn ended(ended: &Ended, status: Option<&Status>) -> Settled {
    let happened = Happened::Ended { ended, status };
    settle(&worker("one", WorkerState::Running), &happened, 1, NOW)
}

fn refused(code: &str, class: Option<Class>, retry_at: Option<Timestamp>) -> Settled {
    let happened = Happened::Refused {
        code,
        class,
        retry_at,
    };
    settle(&worker("one", WorkerState::Running), &happened, 1, NOW)
}

fn told(settled: &Settled) -> (WorkerState, Option<StepState>, bool, Option<&'static str>) {
    (settled.worker, settled.step, settled.counts, settled.event)
}

#[test]
fn a_turn_that_ended_well_is_handed_back_and_never_verified_by_itself() {
    let ok = ended(&Ended::Succeeded, Some(&Status::NeedsVerification));
    let reported = Some(StepState::Reported);
    assert_eq!(
        told(&ok),
        (WorkerState::Parked, reported, false, Some("report"))
    );
    // A worker that calls its own work verified has only reported.
    assert_eq!(
        ended(&Ended::Succeeded, Some(&Status::Verified)).step,
        reported
    );
    let asks = ended(&Ended::Succeeded, Some(&Status::Blocked));
    assert_eq!(asks.step, Some(StepState::Blocked));
    let denied = Ended::Denied {
        tools: vec!["Bash".to_owned()],
    };
    assert_eq!(
        told(&ended(&denied, None)),
        (
            WorkerState::Exited,
            Some(StepState::Blocked),
            false,
            Some("denied")
        )
    );
}

#[test]
fn a_limit_is_nobodys_fault_and_waits_for_its_reset() {
    let at = NOW.checked_add(90.minutes()).unwrap();
    let stated = Ended::Limited {
        kind: Limit::Quota,
        until: Some(Reset { at, guessed: false }),
    };
    let limited = ended(&stated, None);
    assert_eq!(
        told(&limited),
        (WorkerState::Limited, None, false, Some("limited"))
    );
    assert_eq!(limited.held_until, Some(at));
    let unstated = Ended::Limited {
        kind: Limit::Quota,
        until: None,
    };
    assert_eq!(
        ended(&unstated, None).held_until,
        Some(after(NOW, UNSTATED_RESET))
    );
    // A failed payment is for a person.
    let billing = Ended::Limited {
        kind: Limit::Billing,
        until: None,
    };
    let billing = ended(&billing, None);
    assert_eq!(
        (billing.step, billing.event),
        (Some(StepState::Blocked), Some("blocked"))
    );
}

#[test]
fn what_the_broker_refuses_is_waited_for_or_asked_about_and_rarely_counts() {
    let full = refused("capacity", Some(Class::Capacity), None);
    assert_eq!(full.held_until, Some(after(NOW, CAPACITY_PAUSE)));
    let at = NOW.checked_add(1.hour()).unwrap();
    for code in ["cooldown", "quota_reserve", "all_exhausted"] {
        let waits = refused(code, Some(Class::Capacity), Some(at));
        assert_eq!(
            (waits.step, waits.held_until, waits.counts),
            (Some(StepState::Ready), Some(at), false),
            "{code}"
        );
    }
    // An earlier process of the task lives: that is not a failure of it.
    let owned = refused("task_owned", Some(Class::Busy), None);
    assert_eq!(
        told(&owned),
        (WorkerState::Unknown, None, false, Some("unreachable"))
    );
    for (class, counts) in [
        (Some(Class::Identity), false),
        (Some(Class::System), false),
        (None, false),
        (Some(Class::Refused), true),
    ] {
        let asks = refused("some_code", class, None);
        assert_eq!(
            told(&asks),
            (
                WorkerState::Exited,
                Some(StepState::Blocked),
                counts,
                Some("blocked")
            ),
            "{class:?}"
        );
    }
    let busy = refused("locked", Some(Class::Busy), None);
    assert_eq!((busy.step, busy.counts), (Some(StepState::Ready), false));
}

#[test]
fn attempts_are_bounded_and_what_never_ran_is_none() {
    let failed = Ended::Failed {
        by: FailedBy::Killed,
        detail: None,
    };
    let happened = Happened::Ended {
        ended: &failed,
        status: None,
    };
    for (name, left, step) in [
        ("one", 1, StepState::Ready),
        ("one", 0, StepState::Failed),
        ("one-review", 1, StepState::Checking),
        ("one-review", 0, StepState::Blocked),
    ] {
        let settled = settle(&worker(name, WorkerState::Running), &happened, left, NOW);
        assert_eq!(
            told(&settled),
            (WorkerState::Exited, Some(step), true, Some("exited")),
            "{name} with {left} left"
        );
    }
    let never = settle(
        &worker("one", WorkerState::Launching),
        &Happened::NeverStarted,
        1,
        NOW,
    );
    assert_eq!(
        told(&never),
        (WorkerState::Exited, Some(StepState::Ready), false, None)
    );
}

#[test]
fn what_was_stopped_or_attested_is_started_again_by_a_person_only() {
    let blocked = Some(StepState::Blocked);
    let attested = settle(
        &worker("one", WorkerState::Unknown),
        &Happened::Attested,
        1,
        NOW,
    );
    assert_eq!(
        told(&attested),
        (WorkerState::Exited, blocked, false, Some("exited"))
    );
    let killed = Ended::Failed {
        by: FailedBy::Killed,
        detail: None,
    };
    for ended in [&Ended::Interrupted, &killed] {
        let happened = Happened::Ended {
            ended,
            status: None,
        };
        for state in [WorkerState::Stopping, WorkerState::StopFailed] {
            let settled = settle(&worker("one", state), &happened, 1, NOW);
            assert_eq!(
                told(&settled),
                (WorkerState::Exited, blocked, false, Some("exited"))
            );
            assert_eq!(settled.reason.as_deref(), Some("stopped"));
        }
    }
    let put_off = Happened::Refused {
        code: "capacity",
        class: Some(Class::Capacity),
        retry_at: None,
    };
    let settled = settle(&worker("one", WorkerState::Stopping), &put_off, 1, NOW);
    assert_eq!((settled.step, settled.held_until), (blocked, None));
}

#[test]
fn a_turn_of_a_conversation_that_never_ran_stays_one() {
    let mut next = worker("one", WorkerState::Launching);
    next.session = Some("s".to_owned());
    let cooldown = Happened::Refused {
        code: "cooldown",
        class: Some(Class::Capacity),
        retry_at: None,
    };
    for happened in [&Happened::NeverStarted, &cooldown] {
        next.taken.clear();
        let going = settle(&next, happened, 1, NOW);
        assert_eq!(going.worker, WorkerState::Limited, "{happened:?}");
        next.taken = vec!["put it right".to_owned()];
        let told = settle(&next, happened, 1, NOW);
        assert_eq!(
            (told.worker, told.step, told.counts),
            (WorkerState::Parked, Some(StepState::Ready), false),
            "{happened:?}"
        );
    }
    // While an alternative is tried, what comes back first is waited for.
    let mut other = worker("one", WorkerState::Running);
    let sooner = after(NOW, CAPACITY_PAUSE);
    other.held_until = Some(sooner);
    let settled = settle(&other, &cooldown, 1, NOW);
    assert_eq!(settled.held_until, Some(sooner));
}
