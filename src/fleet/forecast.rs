//! What a plan would do now: who does each step, on which account, and how long it would wait for one.
//!
//! The broker is asked as `choose --dry-run` asks it, once for each provider, pool and model; nothing is leased.
//! What it says is of this moment: steps that run before use up what later ones find.

use std::collections::BTreeMap;

use camino::Utf8Path;
use jiff::Timestamp;

use super::model::{Assignment, Plan};
use super::plan::dry;
use super::scope::path::Case;
use crate::choose::apply::{self, Request};
use crate::choose::candidate::{Asked, Reserve};
use crate::contract::fleet::lead::{AccountForecast, PlanForecast, ReviewerForecast, StepForecast};
use crate::contract::selection::DecisionReason;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::Task;
use crate::id::fleet::RepositoryKey;
use crate::lease::LeaseStore;

/// The forecast of a plan for a checkout.
pub fn forecast(
    context: &Context,
    store: &dyn LeaseStore,
    (root, case): (&Utf8Path, Case),
    plan: &Plan,
) -> Result<PlanForecast> {
    let task: Task = format!("{}.forecast", RepositoryKey::of(root))
        .parse()
        .map_err(|error| Error::internal(format!("a task of ours is none: {error}")))?;
    let mut asked: BTreeMap<String, AccountForecast> = BTreeMap::new();
    let mut steps = Vec::new();
    for row in dry::rows(plan, case) {
        let assignment = &row.step.assignment;
        let model = assignment.model.as_deref().unwrap_or_default();
        let key = format!("{} {} {model}", assignment.provider, assignment.pool);
        let account = if let Some(account) = asked.get(&key) {
            account.clone()
        } else {
            let account = account(context, store, root, &task, assignment);
            asked.insert(key, account.clone());
            account
        };
        steps.push(StepForecast {
            id: row.step.id.clone(),
            wave: u32::try_from(row.wave).unwrap_or(u32::MAX),
            tier: row.step.tier.word().to_owned(),
            provider: assignment.provider,
            pool: assignment.pool.clone(),
            model: assignment.model.clone(),
            effort: assignment.effort.clone(),
            family: assignment.family.clone(),
            needs: row.step.needs.clone(),
            files: row.step.files.clone(),
            worktree: row.step.worktree,
            beside: row.beside.into_iter().cloned().collect(),
            reviewer: row.reviewer.map(|reviewer| ReviewerForecast {
                provider: reviewer.provider,
                model: reviewer.model.clone(),
                family: reviewer.family.clone(),
            }),
            account,
        });
    }
    Ok(PlanForecast {
        schema: 1,
        dry_run: true,
        steps,
    })
}

fn account(
    context: &Context,
    store: &dyn LeaseStore,
    root: &Utf8Path,
    task: &Task,
    assignment: &Assignment,
) -> AccountForecast {
    let request = Request {
        task: task.clone(),
        workspace: root.as_std_path().to_owned(),
        asked: Asked {
            pool: assignment.pool.clone(),
            provider: Some(assignment.provider),
            profile: None,
            model: assignment
                .model
                .as_deref()
                .and_then(|model| model.parse().ok()),
            reserve: Reserve::Keep,
        },
        reason: DecisionReason::Quota,
    };
    match apply::preview(context, store, &request) {
        Ok(selection) => AccountForecast {
            profile: Some(selection.profile),
            headroom_percent: selection.headroom_percent,
            wait_seconds: Some(0),
            code: None,
            why: None,
            retry_at: None,
        },
        Err(error) => AccountForecast {
            profile: None,
            headroom_percent: None,
            wait_seconds: error
                .retry_at
                .and_then(|at| seconds(context.clock.now(), at)),
            code: Some(error.code.name.to_owned()),
            why: Some(error.message),
            retry_at: error.retry_at,
        },
    }
}

fn seconds(now: Timestamp, at: Timestamp) -> Option<u64> {
    u64::try_from(at.duration_since(now).as_secs().max(0)).ok()
}
