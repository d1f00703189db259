//! What needs what: names, cycles, order and overlap. Pure.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::fleet::model::{Plan, PlannedStep};
use crate::fleet::scope::path::{Case, first_overlap};
use crate::id::fleet::StepId;

/// A graph that cannot be worked through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Two steps of one name.
    #[error("step `{0}` stands twice in the plan")]
    Twice(StepId),
    /// A need that is no step.
    #[error("step `{step}` needs `{need}`, which is no step of the plan")]
    Unknown {
        /// Whose.
        step: StepId,
        /// What is missing.
        need: StepId,
    },
    /// Steps that wait for each other.
    #[error("these steps wait for each other: {}", path(.0))]
    Cycle(Vec<StepId>),
}

fn path(steps: &[StepId]) -> String {
    let names: Vec<String> = steps.iter().map(|step| format!("`{step}`")).collect();
    names.join(" needs ")
}

/// Checks names, needs and cycles of steps, each with what it needs.
pub fn check(steps: &[(&StepId, &[StepId])]) -> Result<(), Broken> {
    let mut needs: BTreeMap<&StepId, &[StepId]> = BTreeMap::new();
    for (id, needed) in steps {
        if needs.insert(id, needed).is_some() {
            return Err(Broken::Twice((*id).clone()));
        }
    }
    for (id, needed) in steps {
        if let Some(need) = needed.iter().find(|need| !needs.contains_key(need)) {
            return Err(Broken::Unknown {
                step: (*id).clone(),
                need: need.clone(),
            });
        }
    }
    // Steps from which every way leads to an end.
    let mut clear: BTreeSet<&StepId> = BTreeSet::new();
    for (id, _) in steps {
        // The way to where the walk is, each with how many of its needs were followed.
        let mut way: Vec<(&StepId, usize)> = Vec::new();
        let mut on_way: BTreeSet<&StepId> = BTreeSet::new();
        if !clear.contains(id) {
            way.push((id, 0));
            on_way.insert(id);
        }
        while let Some((at, followed)) = way.last_mut() {
            let (at, next) = (*at, needs.get(at).and_then(|needed| needed.get(*followed)));
            *followed += 1;
            match next {
                None => {
                    way.pop();
                    on_way.remove(at);
                    clear.insert(at);
                }
                Some(next) if on_way.contains(next) => {
                    let from = way.iter().position(|(step, _)| *step == next).unwrap_or(0);
                    let mut cycle: Vec<StepId> = way
                        .iter()
                        .skip(from)
                        .map(|(step, _)| (*step).clone())
                        .collect();
                    cycle.push(next.clone());
                    return Err(Broken::Cycle(cycle));
                }
                Some(next) if clear.contains(next) => {}
                Some(next) => {
                    way.push((next, 0));
                    on_way.insert(next);
                }
            }
        }
    }
    Ok(())
}

/// The steps in an order in which each comes after what it needs; of those that could come next the heaviest, of
/// equally heavy ones the first of the plan.
pub fn order(plan: &Plan) -> Vec<&PlannedStep> {
    let mut placed: BTreeSet<&StepId> = BTreeSet::new();
    let mut left: Vec<&PlannedStep> = plan.steps.iter().collect();
    left.sort_by_key(|step| step.tier);
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free = |step: &&PlannedStep| step.needs.iter().all(|need| placed.contains(need));
        // A plan has no cycle, so there is one; a damaged one still ends.
        let at = left.iter().position(free).unwrap_or(0);
        let step = left.remove(at);
        placed.insert(&step.id);
        ordered.push(step);
    }
    ordered
}

/// Everything that must be verified before a step, its needs' needs included.
pub fn before<'a>(plan: &'a Plan, step: &'a PlannedStep) -> BTreeSet<&'a StepId> {
    let mut found: BTreeSet<&StepId> = BTreeSet::new();
    let mut open: Vec<&StepId> = step.needs.iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next)
            && let Some(next) = plan.step(next)
        {
            open.extend(&next.needs);
        }
    }
    found
}

/// The first file of one step that is in the way of another's.
pub fn overlap<'a>(
    one: &'a [Utf8PathBuf],
    other: &'a [Utf8PathBuf],
    case: Case,
) -> Option<&'a Utf8Path> {
    first_overlap(one, other, case).map(|(file, _)| file)
}

/// Steps that could run at once but for their files, and so run one after the other.
pub fn serialised(plan: &Plan, case: Case) -> Vec<(&StepId, &StepId, &Utf8Path)> {
    let mut pairs = Vec::new();
    let before: Vec<BTreeSet<&StepId>> = plan.steps.iter().map(|step| before(plan, step)).collect();
    for (at, one) in plan.steps.iter().enumerate() {
        for (index, other) in plan.steps.iter().enumerate().skip(at + 1) {
            let ordered = before
                .get(at)
                .is_some_and(|steps| steps.contains(&other.id))
                || before
                    .get(index)
                    .is_some_and(|steps| steps.contains(&one.id));
            if !ordered && let Some(file) = overlap(&one.files, &other.files, case) {
                pairs.push((&one.id, &other.id, file));
            }
        }
    }
    pairs
}
