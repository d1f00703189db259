//! Choosing for real: gather facts without locks held across the network, then one atomic step.
//!
//! The loop has three moves. Facts that must be renewed are fetched with no lock held. The profile that
//! would win is examined (its credential, its home, the project's control files) outside the `leases` lock.
//! Then the lease is granted under that lock, and only to a profile that has been examined; if another one
//! ranks first by then, it is examined and the step is repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::accounts::Key;
use super::candidate::Asked;
use super::explain;
use super::patience::Hope;
use super::queue::{self, Ticket};
use super::run::{Run, Step};
use crate::audit;
use crate::clock::{Deadline, ROUTINE};
use crate::contract::selection::{DecisionReason, Selection};
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::Task;
use crate::lease::holder::Holder;
use crate::lease::{self, Granted, Hold, LeaseStore, with_holders};
use crate::registry::file;
use crate::registry::project::Workspace;
use crate::registry::schema::{Profile, Registry};
use crate::sys::filesystem::Identity;

/// Who asks, for what, and where.
#[derive(Clone, Debug)]
pub struct Request {
    /// For which task.
    pub task: Task,
    /// Where it will work, as the caller wrote it.
    pub workspace: PathBuf,
    /// What was asked for.
    pub asked: Asked,
    /// What a grant by rank is called.
    pub reason: DecisionReason,
}

/// A granted lease with everything that the choice rested on.
#[derive(Debug)]
pub struct Selected {
    /// The lease, and the witness where it is bound.
    pub granted: Granted,
    /// What callers are told.
    pub selection: Selection,
    /// The registry it was chosen by.
    pub registry: Registry,
    /// The leased profile.
    pub profile: Profile,
    /// Where the worker will work.
    pub workspace: Workspace,
}

/// What becomes of the lease.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// It waits for its exec, as long as the registry says.
    Reserve,
    /// The calling process takes it.
    Bind(Holder),
}

/// Chooses a profile and grants the task a lease on it, or says at once why not.
pub fn select(
    context: &Context,
    store: &dyn LeaseStore,
    request: &Request,
    purpose: Purpose,
    labels: &BTreeMap<String, String>,
) -> Result<Selected> {
    let terms = Terms {
        purpose,
        labels,
        ticket: None,
        spared: BTreeSet::new(),
    };
    attempt(context, store, request, &terms).map_err(|refused| refused.error)
}

/// On what terms a selection is tried.
pub(super) struct Terms<'a> {
    pub(super) purpose: Purpose,
    pub(super) labels: &'a BTreeMap<String, String>,
    /// The place in the queue of a request that waits.
    pub(super) ticket: Option<&'a Ticket>,
    /// Who is not asked about now.
    pub(super) spared: BTreeSet<Key>,
}

/// A selection that gave nothing.
pub(super) struct Refused {
    pub(super) error: Error,
    /// What a request that waits goes by; `None` when it was refused before everything was looked at.
    pub(super) outlook: Option<Outlook>,
}

/// What is ahead of a request that could be granted later.
pub(super) struct Outlook {
    /// Whether it could.
    pub(super) hope: Hope,
    /// By which terms it waits.
    pub(super) terms: queue::Terms,
    /// How many wait and come first.
    pub(super) ahead: usize,
    /// Who was asked about.
    pub(super) fetched: BTreeSet<Key>,
}

impl From<Error> for Box<Refused> {
    fn from(error: Error) -> Self {
        Self::new(Refused {
            error,
            outlook: None,
        })
    }
}

/// Tries once.
pub(super) fn attempt(
    context: &Context,
    store: &dyn LeaseStore,
    request: &Request,
    terms: &Terms<'_>,
) -> Result<Selected, Box<Refused>> {
    let deadline = context.clock.deadline(ROUTINE);
    loop {
        let seen = file::identity(&context.roots)?;
        let registry = crate::snapshot::registry::load(context)?;
        let by = By {
            registry: &registry,
            seen: &seen,
            deadline,
        };
        if let Some(told) = select_by(context, store, request, terms, &by)? {
            note(context, &told.granted);
            let Told {
                granted,
                selection,
                profile,
                workspace,
            } = told;
            return Ok(Selected {
                granted,
                selection,
                registry,
                profile,
                workspace,
            });
        }
    }
}

/// Writes down a lease that was granted or bound now.
fn note(context: &Context, granted: &Granted) {
    let word = match (&granted.witness, granted.sticky) {
        (Some(_), _) => audit::lease::BOUND,
        (None, false) => audit::lease::RESERVED,
        (None, true) => return,
    };
    audit::of_lease(context, word, &granted.lease);
}

/// By what is chosen.
struct By<'a> {
    registry: &'a Registry,
    /// The registry file before it was read.
    seen: &'a Identity,
    deadline: Deadline,
}

/// What [`select`] found, without the registry that it found it by.
struct Told {
    granted: Granted,
    selection: Selection,
    profile: Profile,
    workspace: Workspace,
}

/// Chooses by one registry; `None` when it was changed before its providers' locks were held, as by the
/// maintenance that this selection had to wait for.
fn select_by(
    context: &Context,
    store: &dyn LeaseStore,
    request: &Request,
    terms: &Terms<'_>,
    by: &By<'_>,
) -> Result<Option<Told>, Box<Refused>> {
    let hold = match terms.purpose {
        Purpose::Reserve => {
            Hold::Later(Duration::from_secs(by.registry.settings.lease_ttl_seconds))
        }
        Purpose::Bind(holder) => Hold::Now(holder),
    };
    let spared = terms.spared.clone();
    let mut run = Run::new(
        context,
        request,
        by.registry,
        by.deadline,
        terms.ticket,
        spared,
    );
    loop {
        let guards = run.hold()?;
        if file::identity(&context.roots)? != *by.seen {
            return Ok(None);
        }
        let survey = run.survey()?;
        let wanted = run.wanted(&survey);
        let lease = lease::Request {
            task: request.task.clone(),
            workspace: survey.workspace.path.clone(),
            pool: Some(request.asked.pool.clone()),
            provider: request.asked.provider,
            profile: request.asked.profile.clone(),
            labels: terms.labels.clone(),
            hold,
        };
        let asks = match run.grant(store, &survey, &lease, wanted)? {
            Step::Ask(asks) => asks,
            Step::Refused(error, hope) => {
                let outlook = hope.map(|hope| Outlook {
                    hope,
                    terms: run.terms(&survey),
                    ahead: run.ahead(),
                    fetched: run.fetched,
                });
                return Err(Box::new(Refused { error, outlook }));
            }
            Step::Granted(granted) => {
                let (selection, profile) = match run.selection(&survey, &granted) {
                    Ok(told) => told,
                    Err(error) => return Err(give_back(store, *granted, error).into()),
                };
                let workspace = survey.workspace.clone();
                return Ok(Some(Told {
                    granted: *granted,
                    selection,
                    profile,
                    workspace,
                }));
            }
        };
        drop(guards);
        run.fetch(&asks)?;
    }
}

/// What [`select`] would do now; writes nothing to the lease table.
pub fn preview(context: &Context, store: &dyn LeaseStore, request: &Request) -> Result<Selection> {
    let registry = crate::snapshot::registry::load(context)?;
    let deadline = context.clock.deadline(ROUTINE);
    let mut run = Run::new(context, request, &registry, deadline, None, BTreeSet::new());
    loop {
        let guards = run.hold()?;
        let survey = run.survey()?;
        drop(guards);
        let wanted = run.wanted(&survey);
        if !wanted.is_empty() {
            run.fetch(&wanted)?;
            continue;
        }
        if run.look_at_resting(&survey)? {
            continue;
        }
        let occupancy = store.occupancy()?;
        let Some(best) = run.best(&survey, &occupancy) else {
            let holders = run.holders(store, &survey, &occupancy)?;
            let refused = run.refused(&survey, &occupancy);
            return Err(with_holders(refused, &holders, context.clock.now()));
        };
        if !run.examined.contains(&best.profile) {
            if let Some(asks) = run.examine(&survey, &best.profile)? {
                run.fetch(&asks)?;
            }
            continue;
        }
        let mut selection = survey.selection(request, &best.profile)?;
        selection.active_lease_count = best.live;
        selection.dry_run = true;
        let outcomes = survey.outcomes(&request.asked, &occupancy, &run.rejected);
        selection.explain = Some(outcomes.iter().map(explain::Outcome::row).collect());
        return Ok(selection);
    }
}

/// Releases what was granted before a refusal is reported; a lease that was there before stays.
fn give_back(store: &dyn LeaseStore, granted: Granted, error: Error) -> Error {
    if granted.sticky && granted.witness.is_none() {
        return error;
    }
    match store.abandon(granted) {
        Ok(()) => error,
        Err(second) => error.detail("release_error", second.message),
    }
}
