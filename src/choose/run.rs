//! The moves of one selection: hold the providers, look, ask, examine, grant.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::accounts::{Key, key};
use super::aftermath;
use super::examine::{Examined, renewal, unrenewed};
use super::explain::{self, Outcome};
use super::pace;
use super::patience::{Hope, hope};
use super::queue::{self, Terms, Ticket, Waiter};
use super::rank::Candidate;
use super::survey::Survey;
use super::turn;
use crate::clock::Deadline;
use crate::contract::lease::{Lease, Verdict};
use crate::contract::selection::{DecisionReason, Selection};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::lease::{self, Choice, Granted, LeaseStore, Occupancy};
use crate::quota::refresh::{Ask, refresh};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::session;
use crate::store::lock::{Guard, Locks, Mode, Name};
use crate::transaction::pending;

use super::apply::Request;

/// How soon a lock is tried again that another process holds to take a login back.
const AGAIN: Duration = Duration::from_millis(10);

fn take(best: &Candidate) -> Choice {
    Choice::Take {
        profile: best.profile.clone(),
        provider: best.provider,
        cap: best.slots,
    }
}

/// What one look came to.
pub(super) enum Step<'a> {
    /// The task has its lease.
    Granted(Box<Granted>),
    /// The network must be asked first.
    Ask(Vec<Ask<'a>>),
    /// The task gets none; whether waiting can help, where that was judged.
    Refused(Error, Option<Hope>),
}

/// The state of one selection.
pub(super) struct Run<'a> {
    context: &'a Context,
    request: &'a Request,
    deadline: Deadline,
    registry: &'a Registry,
    /// The place in the queue of a request that waits.
    ticket: Option<&'a Ticket>,
    /// Who comes before this request.
    waiters: Vec<Waiter>,
    /// Until when the task is not moved to another account.
    paused: Option<Timestamp>,
    /// Profiles and anchors that were asked about already: once per selection.
    pub(super) fetched: BTreeSet<Key>,
    /// Profiles whose proof was renewed because their login had changed.
    renewed: BTreeSet<ProfileId>,
    /// Profiles whose credential, home and project were looked at and found good.
    pub(super) examined: BTreeSet<ProfileId>,
    /// Profiles found wanting on that look.
    pub(super) rejected: BTreeMap<ProfileId, Error>,
    /// Leases, by generation, whose transcripts were looked at.
    looked: BTreeSet<u64>,
    /// Providers that nothing is taken of: a change of a login was cut short and could not be taken back.
    fenced: BTreeSet<ProviderKind>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        context: &'a Context,
        request: &'a Request,
        registry: &'a Registry,
        deadline: Deadline,
        ticket: Option<&'a Ticket>,
        fetched: BTreeSet<Key>,
    ) -> Self {
        Self {
            context,
            request,
            deadline,
            registry,
            ticket,
            waiters: Vec::new(),
            paused: None,
            fetched,
            renewed: BTreeSet::new(),
            examined: BTreeSet::new(),
            rejected: BTreeMap::new(),
            looked: BTreeSet::new(),
            fenced: BTreeSet::new(),
        }
    }

    fn scope(&self) -> impl Iterator<Item = &'a Profile> {
        let asked = &self.request.asked;
        let profiles = self.registry.profiles.iter();
        profiles.filter(|profile| super::candidate::is_asked(profile, asked))
    }

    fn providers(&self) -> BTreeSet<ProviderKind> {
        self.scope().map(|profile| profile.provider).collect()
    }

    /// Takes each provider's lock shared, through its turnstile, so that maintenance gets its turn. While it is
    /// held, no change of a login of theirs is begun; one that was cut short is taken back first, or no profile
    /// of that provider is taken.
    pub(super) fn hold(&mut self) -> Result<Vec<Guard>> {
        loop {
            let guards = self.take_shared()?;
            let mut pending = pending::fenced(self.context)?;
            pending.retain(|kind| self.providers().contains(kind) && !self.fenced.contains(kind));
            let Some(kind) = pending.pop_first() else {
                return Ok(guards);
            };
            drop(guards);
            match pending::fence(self.context, kind) {
                Ok(_) => {}
                // Somebody else is at it.
                Err(error) if error.code == code::MAINTENANCE_BUSY => {
                    if !self.deadline.pause(AGAIN) {
                        return Err(error);
                    }
                }
                Err(error) => self.fence(kind, &error),
            }
        }
    }

    fn fence(&mut self, kind: ProviderKind, error: &Error) {
        self.fenced.insert(kind);
        let fenced = self.scope().filter(|profile| profile.provider == kind);
        let rejected: Vec<_> = fenced
            .map(|profile| (profile.id.clone(), error.clone()))
            .collect();
        self.rejected.extend(rejected);
    }

    fn take_shared(&self) -> Result<Vec<Guard>> {
        let locks = Locks::of(self.context);
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

    /// Looks at everything, and at who comes first.
    pub(super) fn survey(&mut self) -> Result<Survey<'a>> {
        let pools = self.scope().flat_map(|profile| profile.pools.clone());
        // One whose grant came to nothing waits again.
        if let Some(ticket) = self.ticket {
            ticket.attend()?;
        }
        self.waiters = queue::before(self.context, &pools.collect(), self.ticket)?;
        let survey = Survey::take(self.context, self.registry, self.request, &self.deadline)?;
        self.paused = self.pause(&survey);
        Ok(survey)
    }

    fn pause(&self, survey: &Survey<'_>) -> Option<Timestamp> {
        let resting = survey.paced();
        if resting.len() < 2 {
            return None;
        }
        // A mapping that cannot be read says nothing of where the task was; whoever needs it will say so.
        let state = &self.context.roots.state;
        let record = session::load(state, &self.request.task).ok().flatten()?;
        pace::pause(Some(&record.session.profile), &resting)
    }

    /// What the survey wants from the network and has not been asked for yet.
    pub(super) fn wanted(&self, survey: &Survey<'a>) -> Vec<Ask<'a>> {
        if self.deadline.passed() {
            Vec::new()
        } else {
            survey.wanted(&self.request.asked, &self.fetched)
        }
    }

    /// Fetches with no lock held.
    pub(super) fn fetch(&mut self, asks: &[Ask<'_>]) -> Result<()> {
        if asks.is_empty() {
            return Ok(());
        }
        self.fetched.extend(asks.iter().map(key));
        // Whether an answer came is seen at the next survey; what was known stands.
        refresh(self.context, self.registry, asks, &self.deadline)?;
        Ok(())
    }

    /// Grants the task its lease, as often as another profile than the examined one ranks first.
    ///
    /// A lease that the task has already needs no facts, so what is wanted is asked only when the store
    /// comes to choosing.
    pub(super) fn grant(
        &mut self,
        store: &dyn LeaseStore,
        survey: &Survey<'a>,
        terms: &lease::Request,
        wanted: Vec<Ask<'a>>,
    ) -> Result<Step<'a>> {
        if self.look_at_resting(survey)? {
            return Ok(Step::Ask(Vec::new()));
        }
        let asked = &self.request.asked;
        // The likely winner is looked at first: a grant that is interrupted for it costs more. Who is likely, the
        // records say well enough.
        let likely = self.best(survey, &store.glance().unwrap_or_default());
        if let (true, Some(best)) = (wanted.is_empty(), likely)
            && let Some(asks) = self.examine(survey, &best.profile)?
        {
            return Ok(Step::Ask(asks));
        }
        loop {
            let mut unexamined = None;
            let mut interrupted = false;
            let mut hopes = None;
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
                let Some(best) = self.best(survey, occupancy) else {
                    let outcomes = survey.outcomes(asked, occupancy, &self.rejected);
                    hopes = Some(hope(&outcomes));
                    return Ok(self.nothing(survey, occupancy));
                };
                if !self.examined.contains(&best.profile) {
                    unexamined = Some(best.profile.clone());
                    return stop();
                }
                if let Some(ticket) = self.ticket {
                    ticket.served()?;
                }
                Ok(take(&best))
            });
            if interrupted {
                return Ok(Step::Ask(wanted));
            }
            match unexamined {
                None => {
                    let news = self.bury(store);
                    return Ok(match outcome {
                        Ok(granted) if !granted.sticky && news.contains(&granted.lease.profile) => {
                            store.abandon(granted)?;
                            Step::Ask(Vec::new())
                        }
                        Ok(granted) => Step::Granted(Box::new(granted)),
                        Err(error) => {
                            // A profile that filled up between the look and the grant empties again.
                            let filled = (error.code == code::CAPACITY).then_some(Hope::Time);
                            Step::Refused(self.refusal(survey, error), hopes.or(filled))
                        }
                    });
                }
                Some(profile) => {
                    if let Some(asks) = self.examine(survey, &profile)? {
                        return Ok(Step::Ask(asks));
                    }
                }
            }
        }
    }

    /// Looks at the profile that would win: what its workers left in their transcripts, its credential against
    /// its proof, its home, the project. Returns the question that must be asked first when its login has
    /// changed; no question at all when everything has to be looked at again.
    pub(super) fn examine(
        &mut self,
        survey: &Survey<'_>,
        profile: &ProfileId,
    ) -> Result<Option<Vec<Ask<'a>>>> {
        let state = survey.state(profile)?;
        let entry = self.registry.profile(profile)?;
        if aftermath::look(self.context, entry, state, &mut self.looked, &self.deadline)? {
            return Ok(Some(Vec::new()));
        }
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
                    return Ok(Some(vec![renewal(profile)]));
                }
                self.rejected.insert(profile.id.clone(), unrenewed(profile));
            }
        }
        Ok(None)
    }

    /// Looks at the transcripts of profiles that rest for a moment; true when everything has to be looked at
    /// again. Claude's hook has one word for two limits and may run before the transcript tells them apart.
    pub(super) fn look_at_resting(&mut self, survey: &Survey<'_>) -> Result<bool> {
        let mut news = false;
        for (profile, state) in survey.resting() {
            news |= aftermath::look(
                self.context,
                profile,
                state,
                &mut self.looked,
                &self.deadline,
            )?;
        }
        Ok(news)
    }

    /// Reads what the workers left whose leases were found ended under the lock. What cannot be read now is
    /// left for the next selection: a grant does not fail over it.
    fn bury(&self, store: &dyn LeaseStore) -> BTreeSet<ProfileId> {
        let ended = aftermath::ended(self.context, store);
        aftermath::bury(self.context, self.registry, &ended, &self.deadline).unwrap_or_default()
    }

    /// The best profile that those who come first leave for this request.
    pub(super) fn best(&self, survey: &Survey<'_>, occupancy: &Occupancy) -> Option<Candidate> {
        if self.paused.is_some() {
            return None;
        }
        let left = self.left(survey, occupancy);
        let ranked = survey.rank(&self.request.asked, &left, &self.rejected);
        ranked.into_iter().next()
    }

    /// How profiles are used once all who come first have taken what they would take.
    fn left<'o>(&self, survey: &Survey<'_>, occupancy: &'o Occupancy) -> Cow<'o, Occupancy> {
        // One that was served meanwhile is a holder now.
        let clock = &self.context.clock;
        let still = self.waiters.iter();
        let first: Vec<&Waiter> = still
            .filter(|waiter| waiter.is_before(self.ticket, clock))
            .collect();
        let asked = &self.request.asked;
        if first.is_empty() || survey.rank(asked, occupancy, &self.rejected).is_empty() {
            return Cow::Borrowed(occupancy);
        }
        Cow::Owned(turn::after(
            &first,
            occupancy.clone(),
            |waiter, occupancy| survey.best_of(&waiter.terms, occupancy),
        ))
    }

    /// How many wait and come first, whatever for.
    pub(super) fn ahead(&self) -> usize {
        self.waiters.len()
    }

    /// By which terms this request waits.
    pub(super) fn terms(&self, survey: &Survey<'_>) -> Terms {
        let rejected = match self.paused {
            Some(_) => survey.profiles().cloned().collect(),
            None => self.rejected.keys().cloned().collect(),
        };
        Terms {
            asked: self.request.asked.clone(),
            trusted: survey.trusted.clone(),
            rejected,
        }
    }

    fn nothing(&self, survey: &Survey<'_>, occupancy: &Occupancy) -> Choice {
        let full = survey.full(&self.request.asked, occupancy, &self.rejected);
        Choice::Nothing {
            error: self.refused(survey, occupancy),
            full,
        }
    }

    pub(super) fn refused(&self, survey: &Survey<'_>, occupancy: &Occupancy) -> Error {
        let asked = &self.request.asked;
        let outcomes = survey.outcomes(asked, occupancy, &self.rejected);
        let free = outcomes.iter().any(Outcome::is_free);
        match self.paused {
            Some(until) if free => explain::paced(&outcomes, asked, survey.paced().keys(), until),
            None if free => explain::outwaited(&outcomes, asked, self.ahead()),
            _ => explain::refusal(&outcomes, asked, survey.workspace.path.as_str()),
        }
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

    pub(super) fn holders(
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

    pub(super) fn selection(
        &self,
        survey: &Survey<'_>,
        granted: &Granted,
    ) -> Result<(Selection, Profile)> {
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
