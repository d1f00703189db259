use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};

use super::{Refused, Situation};
use crate::error::{Refusal as _, code};
use crate::fleet::hold::{Hold, Scope};
use crate::fleet::model::{Plan, Role, StepProgress, StepState, Worker, WorkerState};
use crate::fleet::scope::path::Case;
use crate::fleet::trial;
use crate::id::ProviderKind;
use crate::id::fleet::{StepId, WorkerId};

const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);

const PLAN: &str = r#"
max_parallel = 2
[[step]]
id = "one"
text = "x"
files = ["src/a.rs", "src/b.rs"]
[[step]]
id = "two"
text = "x"
files = ["src/b.rs"]
[[step]]
id = "three"
text = "x"
needs = ["one"]
files = ["src/c.rs"]
[[step]]
id = "apart"
text = "x"
worktree = true
"#;

/// A run whose workers and steps stand as a test says.
struct Trial {
    plan: Plan,
    options: crate::fleet::model::Options,
    progress: BTreeMap<StepId, StepProgress>,
    workers: BTreeMap<WorkerId, Worker>,
    damaged: Vec<WorkerId>,
    corrupt: usize,
    hold: Option<Hold>,
    most_of: BTreeMap<ProviderKind, u32>,
    waits: bool,
}

impl Trial {
    fn new() -> Self {
        let compiled = trial::plan(PLAN, &["claude:a"], "").unwrap();
        Self {
            plan: compiled.plan,
            options: compiled.options,
            progress: BTreeMap::new(),
            workers: BTreeMap::new(),
            damaged: Vec::new(),
            corrupt: 0,
            hold: None,
            most_of: BTreeMap::new(),
            waits: true,
        }
    }

    fn worker(mut self, name: &str, state: WorkerState) -> Self {
        let assignment = &self.plan.steps.first().unwrap().assignment;
        let worker = trial::worker(name, state, assignment);
        self.workers.insert(worker.name.clone(), worker);
        self
    }

    fn step(mut self, id: &str, state: StepState) -> Self {
        let progress = StepProgress {
            state,
            ..StepProgress::default()
        };
        self.progress.insert(id.parse().unwrap(), progress);
        self
    }

    fn asked(&self, name: &str) -> Result<(), Refused> {
        let (role, step) = match name.strip_suffix("-review") {
            Some(step) => (Role::Review, step),
            None => (Role::Implementation, name),
        };
        let step = self.plan.step(&step.parse().unwrap()).unwrap();
        let situation = Situation {
            plan: &self.plan,
            progress: &self.progress,
            workers: &self.workers,
            damaged: self.damaged.iter().collect(),
            corrupt: self.corrupt,
            hold: self.hold.as_ref(),
            options: &self.options,
            most_of: &self.most_of,
            waits: self.waits,
            case: Case::Sensitive,
            now: NOW,
        };
        situation.admit(step, &name.parse().unwrap(), role, ProviderKind::Claude)
    }

    #[track_caller]
    fn refused(&self, name: &str, told: &str) {
        let refused = self.asked(name).unwrap_err();
        assert_eq!(refused.to_string(), told);
        assert!(refused.hint().unwrap().starts_with("agent-fleet fleet "));
    }
}

#[test]
fn a_worker_that_may_still_run_is_not_started_again() {
    for state in WorkerState::ALL {
        let trial = Trial::new().worker("one", *state);
        let asked = trial.asked("one");
        if state.holds_slot() {
            let told = format!("the worker `one` is {state} and may still run");
            assert_eq!(asked.unwrap_err().to_string(), told);
        } else {
            asked.unwrap();
        }
    }
    let mut damaged = Trial::new();
    damaged.damaged.push("one".parse().unwrap());
    damaged.refused(
        "one",
        "the record of worker `one` cannot be read, so it may still run",
    );
    // It may have a process: the others have one place less.
    damaged.options.max_parallel = 1;
    damaged.refused("apart", "1 workers run, which is the most of this run");
}

#[test]
fn nothing_starts_before_what_it_needs_is_verified() {
    for state in StepState::ALL {
        let trial = Trial::new().step("one", *state);
        let asked = trial.asked("three");
        if *state == StepState::Verified {
            asked.unwrap();
        } else {
            let told = format!("the step `three` needs `one`, which is {state}");
            assert_eq!(asked.unwrap_err().to_string(), told);
        }
    }
    for over in [StepState::Verified, StepState::Dropped, StepState::Skipped] {
        let trial = Trial::new().step("one", over);
        trial.refused("one", &format!("the step `one` is {over}"));
        assert_eq!(trial.asked("one").unwrap_err().code(), code::STEP_NOT_READY);
    }
}

#[test]
fn a_step_owns_its_files_from_its_first_launch_until_it_is_verified_or_dropped() {
    Trial::new().asked("two").unwrap();
    let told = "`src/b.rs` belongs to the step `one` until that is verified or dropped";
    // Whatever became of the worker: what it left in the files is not judged yet.
    for state in [
        WorkerState::Parked,
        WorkerState::Limited,
        WorkerState::Exited,
        WorkerState::Running,
    ] {
        let trial = Trial::new().worker("one", state);
        trial.refused("two", told);
        trial.asked("apart").unwrap();
        for over in [StepState::Verified, StepState::Dropped] {
            let trial = Trial::new().worker("one", state).step("one", over);
            trial.asked("two").unwrap();
        }
    }
    // Nor may anybody change what a reviewer is reading, or judge what is being changed.
    Trial::new()
        .worker("one-review", WorkerState::Running)
        .refused(
            "one",
            "the worker `one-review` is running and may still run",
        );
    Trial::new().worker("one", WorkerState::Running).refused(
        "one-review",
        "the worker `one` is running and may still run",
    );
    Trial::new()
        .worker("one", WorkerState::Parked)
        .asked("one-review")
        .unwrap();
}

#[test]
fn every_worker_that_may_have_a_process_takes_a_place() {
    for state in WorkerState::ALL {
        let two = Trial::new().worker("two", *state).worker("three", *state);
        let asked = two.asked("apart");
        if state.holds_slot() {
            assert_eq!(asked, Err(Refused::Full(2)), "{state}");
        } else {
            asked.unwrap();
        }
    }
    let mut one = Trial::new().worker("two", WorkerState::Unknown);
    one.asked("apart").unwrap();
    one.most_of.insert(ProviderKind::Claude, 1);
    one.refused(
        "apart",
        "1 workers of claude run, which is the most of that provider",
    );
    one.most_of = [(ProviderKind::Codex, 1)].into();
    one.asked("apart").unwrap();
    // A lower bound starts nobody, and ends nobody.
    one.options.max_parallel = 1;
    assert_eq!(one.asked("apart").unwrap_err().code(), code::CAPACITY);
}

#[test]
fn a_hold_a_limit_and_a_ledger_that_cannot_be_read_start_nothing() {
    let mut held = Trial::new();
    held.hold = Some(Hold {
        scope: Scope::Host,
        reason: Some("moving house".to_owned()),
        by: 1,
        since: NOW,
        expires: None,
    });
    held.refused("one", "launches are held: moving house");
    let mut torn = Trial::new();
    torn.corrupt = 1;
    torn.refused(
        "one",
        "1 lines of the run's ledger cannot be read, so nothing new is started",
    );
    let mut waits = Trial::new().worker("one", WorkerState::Limited);
    let until = NOW.checked_add(5.minutes()).unwrap();
    let worker = waits.workers.get_mut(&"one".parse().unwrap()).unwrap();
    worker.held_until = Some(until);
    let refused = waits.asked("one").unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_at()),
        (code::COOLDOWN, Some(until))
    );
    // Another account is not what is waited for.
    waits.waits = false;
    waits.asked("one").unwrap();
}
