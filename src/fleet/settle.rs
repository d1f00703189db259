//! What the end of a launch means for its worker and its step. Pure.
//!
//! A limit is nobody's fault and costs no attempt; neither does a launch that never started or that the broker put
//! off. What a person has to look at blocks the step; it never goes on by itself.

use std::time::Duration;

use jiff::Timestamp;

use super::launch::Before;
use super::model::{Role, StepState, Worker, WorkerState};
use super::report::Status;
use super::turn::Ended;
use crate::error::Class;
use crate::quota::limit::Limit;

/// How long a launch that found every slot taken is put off, should nothing end sooner.
pub const CAPACITY_PAUSE: Duration = Duration::from_secs(5);
/// How long one is put off that met another command at work.
pub const BUSY_PAUSE: Duration = Duration::from_secs(2);
/// How long one is put off of which nothing ever ran: what kept its host from starting may keep the next one too.
pub const NEVER_STARTED_PAUSE: Duration = Duration::from_secs(1);
/// How long a limit without a stated reset is waited for.
pub const UNSTATED_RESET: Duration = Duration::from_mins(30);

/// What became of a launch.
#[derive(Clone, Debug)]
pub enum Happened<'a> {
    /// Nothing of it ever ran.
    NeverStarted,
    /// The broker refused it.
    Refused {
        /// The refusal's code.
        code: &'a str,
        /// Its class; `None` for a code that this version does not know.
        class: Option<Class>,
        /// When trying again may work.
        retry_at: Option<Timestamp>,
    },
    /// Its turn ended.
    Ended {
        /// How, as the turn's judge says.
        ended: &'a Ended,
        /// What its report says of itself.
        status: Option<&'a Status>,
    },
    /// A person had taken it over and gave it back.
    GivenBack {
        /// Where its step stood before.
        before: &'a Before,
        /// What the person left behind.
        left: Left<'a>,
    },
    /// Somebody attested that it is gone.
    Attested,
}

/// What a person left behind who had taken a worker over.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a> {
    /// Nothing that says how far the work is.
    Nothing,
    /// A report, and what it says of itself.
    Report(Option<&'a Status>),
}

/// What is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Where the worker stands now.
    pub worker: WorkerState,
    /// Why.
    pub reason: Option<String>,
    /// When going on may work.
    pub held_until: Option<Timestamp>,
    /// Where the step stands now; `None` leaves it.
    pub step: Option<StepState>,
    /// Whether the launch counts as an attempt.
    pub counts: bool,
    /// The word for whoever waits; `None` says nothing.
    pub event: Option<&'static str>,
}

fn settled(worker: WorkerState, step: Option<StepState>) -> Settled {
    Settled {
        worker,
        reason: None,
        held_until: None,
        step,
        counts: false,
        event: None,
    }
}

impl Settled {
    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn until(mut self, at: Timestamp) -> Self {
        self.held_until = Some(at);
        self
    }

    fn told(mut self, word: &'static str) -> Self {
        self.event = Some(word);
        self
    }

    fn counted(mut self) -> Self {
        self.counts = true;
        self
    }
}

/// The state of a step whose worker's launch came to nothing and may be tried again.
fn again(role: Role) -> StepState {
    match role {
        Role::Implementation => StepState::Ready,
        Role::Review => StepState::Checking,
    }
}

/// Settles the end of a worker's current launch at `now`.
///
/// `left` is how many attempts the step has left after this one.
pub fn settle(worker: &Worker, happened: &Happened<'_>, left: u32, now: Timestamp) -> Settled {
    let ending = worker.state.is_ending();
    match happened {
        Happened::NeverStarted => put_off(worker, "never_started", after(now, NEVER_STARTED_PAUSE)),
        Happened::Attested => settled(WorkerState::Exited, Some(StepState::Blocked))
            .because("recovered")
            .told("exited"),
        Happened::Refused {
            code,
            class,
            retry_at,
        } => refused(worker, code, *class, *retry_at, now),
        Happened::GivenBack { .. } if ending => stopped(),
        Happened::GivenBack { before, left } => given_back(worker.role, before, *left),
        Happened::Ended { ended, status } => turn(worker, ended, *status, left, now),
    }
}

fn given_back(role: Role, before: &Before, left: Left<'_>) -> Settled {
    let parked = |state| settled(WorkerState::Parked, Some(state));
    match (role, left) {
        (Role::Implementation, Left::Report(Some(Status::Blocked))) => parked(StepState::Blocked)
            .because("reported_blocked")
            .told("report"),
        (Role::Implementation, Left::Report(_)) => parked(StepState::Reported).told("report"),
        (Role::Implementation, Left::Nothing) | (Role::Review, _) => match before.state {
            // Nobody but the person knows what is to be done next.
            StepState::Ready | StepState::Running | StepState::ChangesRequested => {
                parked(StepState::Blocked)
                    .because("given_back")
                    .told("blocked")
            }
            state @ (StepState::Pending
            | StepState::Reported
            | StepState::Checking
            | StepState::Verified
            | StepState::Failed
            | StepState::Blocked
            | StepState::Dropped
            | StepState::Skipped) => Settled {
                reason: before.reason.clone(),
                ..parked(state)
            },
        },
    }
}

/// Nothing of the launch ran, and it may be tried again later: what was to be a turn of a conversation stays one.
fn put_off(worker: &Worker, why: &str, until: Timestamp) -> Settled {
    if worker.state.is_ending() {
        return stopped();
    }
    let texts = !worker.taken.is_empty() || !worker.queue.is_empty();
    let state = match (worker.session.is_some(), texts) {
        (false, _) => WorkerState::Exited,
        (true, true) => WorkerState::Parked,
        (true, false) => WorkerState::Limited,
    };
    settled(state, Some(again(worker.role)))
        .because(why)
        .until(until)
}

/// Somebody stopped it: only somebody may start it again.
fn stopped() -> Settled {
    settled(WorkerState::Exited, Some(StepState::Blocked))
        .because("stopped")
        .told("exited")
}

fn refused(
    worker: &Worker,
    code: &str,
    class: Option<Class>,
    retry_at: Option<Timestamp>,
    now: Timestamp,
) -> Settled {
    let ask = || {
        settled(WorkerState::Exited, Some(StepState::Blocked))
            .because(code)
            .told("blocked")
    };
    match (code, class) {
        // An earlier process of this task lives: nothing is concluded, and nothing started.
        ("task_owned", _) => settled(WorkerState::Unknown, None)
            .because(code)
            .told("unreachable"),
        _ if worker.state.is_ending() => stopped(),
        // Its conversation is not there or not known, as when it was interrupted before it began: the work goes on in a
        // new one.
        ("session_mismatch" | "not_found", _) if worker.session.is_some() => {
            settled(WorkerState::Exited, Some(again(worker.role))).because(code)
        }
        ("capacity", _) => put_off(worker, code, after(now, CAPACITY_PAUSE)),
        (_, Some(Class::Capacity)) => {
            let at = retry_at.unwrap_or_else(|| after(now, UNSTATED_RESET));
            // What was refused before this alternative was tried may be over sooner.
            let sooner = worker.held_until.filter(|until| *until > now);
            put_off(worker, code, sooner.map_or(at, |until| until.min(at)))
        }
        (_, Some(Class::Busy)) => put_off(worker, code, after(now, BUSY_PAUSE)),
        (_, Some(Class::Identity | Class::System | Class::Internal) | None) => ask(),
        (_, Some(Class::Refused)) => ask().counted(),
    }
}

fn turn(
    worker: &Worker,
    ended: &Ended,
    status: Option<&Status>,
    left: u32,
    now: Timestamp,
) -> Settled {
    let ending = worker.state.is_ending();
    match ended {
        // It had done its work already, and what was queued is not to begin.
        Ended::Succeeded if ending && !worker.queue.is_empty() => stopped(),
        Ended::Succeeded => match (worker.role, status) {
            (Role::Implementation, Some(Status::Blocked)) => {
                settled(WorkerState::Parked, Some(StepState::Blocked))
                    .because("reported_blocked")
                    .told("report")
            }
            // The lead has more to say before it is looked at.
            (Role::Implementation, _) if !worker.queue.is_empty() && worker.session.is_some() => {
                settled(WorkerState::Parked, Some(StepState::Running)).told("report")
            }
            (Role::Implementation, _) => {
                settled(WorkerState::Parked, Some(StepState::Reported)).told("report")
            }
            (Role::Review, _) => settled(WorkerState::Parked, None).told("report"),
        },
        Ended::Limited {
            kind: Limit::Billing,
            ..
        } => settled(WorkerState::Exited, Some(StepState::Blocked))
            .because("billing")
            .told("blocked"),
        Ended::Limited { until, .. } => {
            let at = until.map_or_else(|| after(now, UNSTATED_RESET), |reset| reset.at);
            if ending {
                return stopped().until(at);
            }
            settled(WorkerState::Limited, None)
                .because("limit")
                .until(at)
                .told("limited")
        }
        Ended::Denied { .. } => settled(WorkerState::Exited, Some(StepState::Blocked))
            .because("denied")
            .told("denied"),
        // The next text is waiting, and was what interrupted it.
        Ended::Interrupted if !worker.queue.is_empty() && !ending => match worker.session {
            Some(_) => settled(WorkerState::Parked, None).because("interrupted"),
            // Its conversation had not begun: the text goes with a new one.
            None => settled(WorkerState::Exited, Some(again(worker.role))).because("interrupted"),
        },
        Ended::Interrupted => stopped(),
        Ended::Failed { by, .. } if ending => {
            settled(WorkerState::Exited, Some(StepState::Blocked))
                .because(if by.word() == "killed" {
                    "stopped"
                } else {
                    by.word()
                })
                .told("exited")
        }
        Ended::Failed { by, .. } => match by.word() {
            // A person has to log in, and another account may be asked for only by a person.
            word @ "login_lost" => settled(WorkerState::Exited, Some(StepState::Blocked))
                .because(word)
                .told("blocked"),
            word => {
                let step = match (worker.role, left) {
                    (Role::Implementation, 0) => Some(StepState::Failed),
                    (Role::Review, 0) => Some(StepState::Blocked),
                    (role, _) => Some(again(role)),
                };
                settled(WorkerState::Exited, step)
                    .because(word)
                    .counted()
                    .told("exited")
            }
        },
    }
}

/// That much later.
pub fn after(now: Timestamp, span: Duration) -> Timestamp {
    now.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
