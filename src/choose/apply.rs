//! Choosing for real: gather facts without locks held across the network, then one atomic step.
//!
//! The loop has three moves. Facts that must be renewed are fetched with no lock held. The profile that
//! would win is examined (its credential, its home, the project's control files) outside the `leases` lock.
//! Then the lease is granted under that lock, and only to a profile that has been examined; if another one
//! ranks first by then, it is examined and the step is repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::accounts::{Key, key};
use super::candidate::Asked;
use super::examine::{Examined, renewal, unrenewed};
use super::explain;
use super::rank::Candidate;
use super::survey::Survey;
use crate::clock::{Deadline, ROUTINE};
use crate::contract::lease::{Lease, Verdict};
use crate::contract::selection::{DecisionReason, Selection};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind, Task};
use crate::lease::holder::Holder;
use crate::lease::{self, Choice, Granted, Hold, LeaseStore, Occupancy, with_holders};
use crate::quota::refresh::{Ask, refresh};
use crate::registry::file;
use crate::registry::project::Workspace;
use crate::registry::schema::{Profile, Registry};
use crate::store::lock::{Guard, Locks, Mode, Name};
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

/// Chooses a profile and grants the task a lease on it.
pub fn select(
    context: &Context,
    store: &dyn LeaseStore,
    request: &Request,
    purpose: Purpose,
    labels: &BTreeMap<String, String>,
) -> Result<Selected> {
    let deadline = context.clock.deadline(ROUTINE);
    loop {
        let seen = file::identity(&context.roots)?;
        let registry = crate::snapshot::registry::load(context)?;
        let terms = Terms {
            purpose,
            labels,
            seen: &seen,
            deadline,
        };
        if let Some(told) = select_by(context, store, request, &registry, &terms)? {
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

/// On what terms one registry is chosen by.
struct Terms<'a> {
    purpose: Purpose,
    labels: &'a BTreeMap<String, String>,
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
    registry: &Registry,
    terms: &Terms<'_>,
) -> Result<Option<Told>> {
    let hold = match terms.purpose {
        Purpose::Reserve => Hold::Later(Duration::from_secs(registry.settings.lease_ttl_seconds)),
        Purpose::Bind(holder) => Hold::Now(holder),
    };
    let mut run = Run::new(context, request, registry, terms.deadline);
    loop {
        let guards = run.hold()?;
        if file::identity(&context.roots)? != *terms.seen {
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
            Step::Granted(granted) => {
                let (selection, profile) = match run.selection(&survey, &granted) {
                    Ok(told) => told,
                    Err(error) => return Err(give_back(store, *granted, error)),
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
    let mut run = Run::new(context, request, &registry, deadline);
    loop {
        let guards = run.hold()?;
        let survey = run.survey()?;
        drop(guards);
        let wanted = run.wanted(&survey);
        if !wanted.is_empty() {
            run.fetch(&wanted)?;
            continue;
        }
        let occupancy = store.occupancy()?;
        let ranked = survey.rank(&request.asked, &occupancy, &run.rejected);
        let Some(best) = ranked.first() else {
            let holders = run.holders(store, &survey, &occupancy)?;
            let refused = run.refused(&survey, &occupancy);
            return Err(with_holders(refused, &holders, context.clock.now()));
        };
        if !run.examined.contains(&best.profile) {
            if let Some(ask) = run.examine(&survey, &best.profile)? {
                run.fetch(&[ask])?;
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

fn take(best: &Candidate) -> Choice {
    Choice::Take {
        profile: best.profile.clone(),
        provider: best.provider,
        cap: best.slots,
    }
}

/// What one look came to.
enum Step<'a> {
    /// The task has its lease.
    Granted(Box<Granted>),
    /// The network must be asked first.
    Ask(Vec<Ask<'a>>),
}

/// The state of one selection.
struct Run<'a> {
    context: &'a Context,
    request: &'a Request,
    deadline: Deadline,
    registry: &'a Registry,
    /// Profiles and anchors that were asked about already: once per selection.
    fetched: BTreeSet<Key>,
    /// Profiles whose proof was renewed because their login had changed.
    renewed: BTreeSet<ProfileId>,
    /// Profiles whose credential, home and project were looked at and found good.
    examined: BTreeSet<ProfileId>,
    /// Profiles found wanting on that look.
    rejected: BTreeMap<ProfileId, Error>,
}

impl<'a> Run<'a> {
    fn new(
        context: &'a Context,
        request: &'a Request,
        registry: &'a Registry,
        deadline: Deadline,
    ) -> Self {
        Self {
            context,
            request,
            deadline,
            registry,
            fetched: BTreeSet::new(),
            renewed: BTreeSet::new(),
            examined: BTreeSet::new(),
            rejected: BTreeMap::new(),
        }
    }

    fn providers(&self) -> BTreeSet<ProviderKind> {
        let asked = &self.request.asked;
        let scope = self
            .registry
            .profiles
            .iter()
            .filter(|profile| super::candidate::is_asked(profile, asked));
        scope.map(|profile| profile.provider).collect()
    }

    /// Takes each provider's lock shared, through its turnstile, so that maintenance gets its turn.
    fn hold(&self) -> Result<Vec<Guard>> {
        let locks = Locks::new(&self.context.roots.state, self.context.clock);
        let providers = self.providers();
        let mut turnstiles = Vec::new();
        for provider in &providers {
            turnstiles.push(self.shared(&locks, &Name::Turnstile(*provider), *provider)?);
        }
        providers
            .iter()
            .map(|provider| self.shared(&locks, &Name::Provider(*provider), *provider))
            .collect()
    }

    fn shared(&self, locks: &Locks, name: &Name, provider: ProviderKind) -> Result<Guard> {
        locks.take(name, Mode::Shared, &self.deadline).map_err(|error| {
            if error.code == code::LOCK_TIMEOUT {
                let message = format!("provider maintenance is in progress for {provider}; no new lease was started");
                Error::new(code::MAINTENANCE_BUSY, message).hint("agent-fleet lease list")
            } else {
                error
            }
        })
    }

    fn survey(&self) -> Result<Survey<'a>> {
        Survey::take(self.context, self.registry, self.request, &self.deadline)
    }

    /// What the survey wants from the network and has not been asked for yet.
    fn wanted(&self, survey: &Survey<'a>) -> Vec<Ask<'a>> {
        if self.deadline.passed() {
            Vec::new()
        } else {
            survey.wanted(&self.request.asked, &self.fetched)
        }
    }

    /// Fetches with no lock held.
    fn fetch(&mut self, asks: &[Ask<'_>]) -> Result<()> {
        self.fetched.extend(asks.iter().map(key));
        // Whether an answer came is seen at the next survey; what was known stands.
        refresh(self.context, self.registry, asks, &self.deadline)?;
        Ok(())
    }

    /// Grants the task its lease, as often as another profile than the examined one ranks first.
    ///
    /// A lease that the task has already needs no facts, so what is wanted is asked only when the store
    /// comes to choosing.
    fn grant(
        &mut self,
        store: &dyn LeaseStore,
        survey: &Survey<'a>,
        terms: &lease::Request,
        wanted: Vec<Ask<'a>>,
    ) -> Result<Step<'a>> {
        let asked = &self.request.asked;
        // The likely winner is looked at first: a grant that is interrupted for it costs more.
        let likely = survey.rank(asked, &Occupancy::default(), &self.rejected);
        if let (true, Some(best)) = (wanted.is_empty(), likely.first())
            && let Some(ask) = self.examine(survey, &best.profile)?
        {
            return Ok(Step::Ask(vec![ask]));
        }
        loop {
            let mut unexamined = None;
            let mut interrupted = false;
            let outcome = store.reserve(terms, &mut |occupancy| {
                let stop = || {
                    Err(Error::internal(
                        "the choice was interrupted for a look outside the lock",
                    ))
                };
                if !wanted.is_empty() {
                    interrupted = true;
                    return stop();
                }
                let ranked = survey.rank(asked, occupancy, &self.rejected);
                let Some(best) = ranked.first() else {
                    return Ok(self.nothing(survey, occupancy));
                };
                if !self.examined.contains(&best.profile) {
                    unexamined = Some(best.profile.clone());
                    return stop();
                }
                Ok(take(best))
            });
            if interrupted {
                return Ok(Step::Ask(wanted));
            }
            match unexamined {
                None => {
                    let granted = outcome.map_err(|error| self.refusal(survey, error))?;
                    return Ok(Step::Granted(Box::new(granted)));
                }
                Some(profile) => {
                    if let Some(ask) = self.examine(survey, &profile)? {
                        return Ok(Step::Ask(vec![ask]));
                    }
                }
            }
        }
    }

    /// Looks at the profile that would win: its credential against its proof, its home, the project.
    /// Returns the question that must be asked first when its login has changed.
    fn examine(&mut self, survey: &Survey<'_>, profile: &ProfileId) -> Result<Option<Ask<'a>>> {
        match survey.examine(self.context, profile)? {
            Examined::Good => {
                self.examined.insert(profile.clone());
            }
            Examined::Rejected(error) => {
                self.rejected.insert(profile.clone(), error);
            }
            Examined::Renew => {
                let profile = self.registry.profile(profile)?;
                if self.renewed.insert(profile.id.clone()) {
                    return Ok(Some(renewal(profile)));
                }
                self.rejected.insert(profile.id.clone(), unrenewed(profile));
            }
        }
        Ok(None)
    }

    fn nothing(&self, survey: &Survey<'_>, occupancy: &Occupancy) -> Choice {
        let full = survey.full(&self.request.asked, occupancy, &self.rejected);
        Choice::Nothing {
            error: self.refused(survey, occupancy),
            full,
        }
    }

    fn refused(&self, survey: &Survey<'_>, occupancy: &Occupancy) -> Error {
        let outcomes = survey.outcomes(&self.request.asked, occupancy, &self.rejected);
        explain::refusal(
            &outcomes,
            &self.request.asked,
            survey.workspace.path.as_str(),
        )
    }

    fn refusal(&self, survey: &Survey<'_>, error: Error) -> Error {
        let known = error.details.contains_key("explain") || error.code != code::CAPACITY;
        if known {
            return error;
        }
        let rows = survey.outcomes(&self.request.asked, &Occupancy::default(), &self.rejected);
        error.detail(
            "explain",
            rows.iter()
                .map(|outcome| json!(outcome.row()))
                .collect::<Vec<_>>(),
        )
    }

    fn holders(
        &self,
        store: &dyn LeaseStore,
        survey: &Survey<'_>,
        occupancy: &Occupancy,
    ) -> Result<Vec<Lease>> {
        let full = survey.full(&self.request.asked, occupancy, &self.rejected);
        let mut leases = store.list()?.leases;
        leases.retain(|lease| full.contains(&lease.profile) && lease.verdict != Verdict::Dead);
        Ok(leases)
    }

    fn selection(&self, survey: &Survey<'_>, granted: &Granted) -> Result<(Selection, Profile)> {
        let profile = self.registry.profile(&granted.lease.profile)?.clone();
        let mut selection = survey.selection(self.request, &profile.id)?;
        if granted.sticky {
            selection.decision_reason = DecisionReason::Sticky;
        }
        selection.active_lease_count = granted.active_before;
        selection.generation = granted.lease.generation;
        selection.lease = Some(granted.lease.clone());
        Ok((selection, profile))
    }
}
