//! What a plan would do, for `plan --dry-run`: who does each step, when it can begin, what holds it back. Pure.

use super::graph;
use crate::fleet::model::{Assignment, Plan, PlannedStep};
use crate::fleet::scope::path::Case;
use crate::id::fleet::StepId;

/// One step, in the order in which steps are launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// As planned.
    pub step: &'a PlannedStep,
    /// Longest chain of needs before it; steps of one wave could run at once.
    pub wave: usize,
    /// Steps that it shares files with and that it could otherwise run beside.
    pub beside: Vec<&'a StepId>,
    /// Who would review it first.
    pub reviewer: Option<&'a Assignment>,
}

/// The rows of a plan; `case` is that of the checkout's file system.
pub fn rows(plan: &Plan, case: Case) -> Vec<Row<'_>> {
    let shared = graph::serialised(plan, case);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for step in graph::order(plan) {
        let wave = rows
            .iter()
            .filter(|row| step.needs.contains(&row.step.id))
            .map(|row| row.wave + 1)
            .max();
        let beside = shared.iter().filter_map(|(one, other, _)| {
            if **one == step.id {
                Some(*other)
            } else {
                (**other == step.id).then_some(*one)
            }
        });
        rows.push(Row {
            step,
            wave: wave.unwrap_or(0),
            beside: beside.collect(),
            reviewer: step.reviewers.first(),
        });
    }
    rows
}
