//! Everything that a selection rests on, looked at once: registry, snapshots, anchors, workspace.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::accounts::{Accounts, Key, Known, ask, key, worth};
use super::apply::Request;
use super::candidate::{
    Asked, Basis, Eligibility, Facts, Identity, eligibility, eligibility_if_enabled, is_asked,
};
use super::examine::{Examined, examine};
use super::explain::Outcome;
use super::queue::Terms;
use super::rank::{Candidate, rank, score};
use super::routeability::taken;
use crate::clock::Deadline;
use crate::contract::selection::{Identity as Shown, Selection};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::identity::expiry::{Forecast, forecast};
use crate::lease::Occupancy;
use crate::provider::Want;
use crate::quota::headroom::{Status, Worth};
use crate::quota::limit::Limit;
use crate::quota::model::Model;
use crate::quota::refresh::{Ask, Target};
use crate::registry::project::{self, Workspace};
use crate::registry::schema::{Credential, Profile, Registry};
use crate::snapshot::profile::ProfileState;

/// Profiles found wanting when they were about to be granted, and why.
pub(super) type Rejected = BTreeMap<ProfileId, Error>;

/// What is known of one profile that was asked for.
#[derive(Debug)]
struct Entry<'a> {
    profile: &'a Profile,
    order: usize,
    known: Known,
    trusted: bool,
}

/// One look at everything.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    /// Where the worker will work.
    pub(super) workspace: Workspace,
    /// The providers that may work there.
    pub(super) trusted: BTreeSet<ProviderKind>,
    registry: &'a Registry,
    entries: Vec<Entry<'a>>,
    /// Profiles of the same providers whose account is not known yet, and base logins to be proved.
    unproved: Vec<Ask<'a>>,
    now: Timestamp,
}

impl<'a> Survey<'a> {
    /// Looks at everything that the request concerns.
    pub(super) fn take(
        context: &Context,
        registry: &'a Registry,
        request: &Request,
        deadline: &Deadline,
    ) -> Result<Self> {
        let now = context.clock.now();
        let asked = &request.asked;
        let scope: Vec<_> = registry
            .profiles
            .iter()
            .enumerate()
            .filter(|(_, profile)| is_asked(profile, asked))
            .collect();
        let kinds: BTreeSet<ProviderKind> =
            scope.iter().map(|(_, profile)| profile.provider).collect();
        exists(registry, asked)?;
        if scope.is_empty() {
            return Err(super::explain::refusal(&[], asked, ""));
        }
        let (workspace, trusted) = workspaces(context, registry, &kinds, request)?;
        let mut known = BTreeMap::new();
        for kind in &kinds {
            known.insert(*kind, Accounts::look(context, registry, *kind, deadline)?);
        }
        let unproved = known.values().filter_map(Accounts::wanted).collect();
        let entries = scope
            .into_iter()
            .map(|(order, profile)| {
                let accounts = known
                    .get_mut(&profile.provider)
                    .expect("each provider in scope was looked at");
                let known = accounts.take(context, registry, profile, asked.model.as_ref(), now);
                Entry {
                    profile,
                    order,
                    known,
                    trusted: trusted.contains(&profile.provider),
                }
            })
            .collect();
        Ok(Self {
            workspace,
            trusted,
            registry,
            entries,
            unproved,
            now,
        })
    }

    fn eligibility(&self, entry: &Entry<'a>, asked: &Asked, rejected: &Rejected) -> Eligibility {
        eligibility(
            &facts(entry, rejected),
            asked,
            &self.registry.settings,
            self.now,
        )
    }

    /// What the network should be asked before anyone is ranked: accounts that are not proved and readings
    /// that have aged, of profiles that nothing else stands in the way of.
    pub(super) fn wanted(&self, asked: &Asked, fetched: &BTreeSet<Key>) -> Vec<Ask<'a>> {
        let mut wanted: Vec<Ask<'a>> = self.unproved.clone();
        for entry in &self.entries {
            let usage = matches!(
                entry.known.worth.status,
                Status::Stale | Status::Unmeasured | Status::Presumed
            );
            let identity = entry.known.state.proof.is_none();
            // No server tells anything of a key.
            let silent = entry.profile.credential == Credential::ApiKey;
            if silent || !(usage || identity) || !self.could_route(entry, asked) {
                continue;
            }
            wanted.push(ask(
                Target::Profile(entry.profile),
                Want { identity, usage },
            ));
        }
        wanted.retain(|ask| !fetched.contains(&key(ask)));
        wanted
    }

    /// Whether the profile would be routed if its account were proved and its windows full.
    fn could_route(&self, entry: &Entry<'a>, asked: &Asked) -> bool {
        let full = Worth::fresh(100.0);
        let mut facts = facts(entry, &Rejected::new());
        facts.worth = &full;
        if facts.identity == Identity::Refused(code::IDENTITY_UNPROVEN) {
            facts.identity = Identity::Proven;
        }
        matches!(
            eligibility(&facts, asked, &self.registry.settings, self.now),
            Eligibility::Eligible { .. }
        )
    }

    /// The profiles that could take the task, best first.
    pub(super) fn rank(
        &self,
        asked: &Asked,
        occupancy: &Occupancy,
        rejected: &Rejected,
    ) -> Vec<Candidate> {
        let candidates = self
            .entries
            .iter()
            .filter_map(|entry| {
                let eligibility = self.eligibility(entry, asked, rejected);
                candidate(entry, &entry.known.worth, eligibility, occupancy, self.now)
            })
            .collect();
        rank(candidates, &self.registry.settings, self.now)
    }

    /// The profile that another request would take, among those that were looked at here.
    pub(super) fn best_of(&self, terms: &Terms, occupancy: &Occupancy) -> Option<ProfileId> {
        let settings = &self.registry.settings;
        let found = self.entries.iter().filter_map(|entry| {
            let profile = entry.profile;
            if !is_asked(profile, &terms.asked) || terms.rejected.contains(&profile.id) {
                return None;
            }
            let trusted = terms.trusted.contains(&profile.provider);
            let mut facts = entry.known.facts(profile, trusted);
            let state = &entry.known.state;
            let model = terms.asked.model.as_ref();
            let theirs = worth(self.registry, profile, state, model, self.now);
            facts.worth = &theirs;
            let eligibility = eligibility(&facts, &terms.asked, settings, self.now);
            candidate(entry, &theirs, eligibility, occupancy, self.now)
        });
        let ranked = rank(found.collect(), settings, self.now);
        ranked.into_iter().next().map(|best| best.profile)
    }

    /// The profiles that rest from a limit per minute, and until when.
    pub(super) fn paced(&self) -> BTreeMap<ProfileId, Timestamp> {
        let rests = self.entries.iter().filter_map(|entry| {
            let last = entry.known.state.rest(self.now)?;
            let paced = last.reason == Limit::Rate.word();
            paced.then(|| (entry.profile.id.clone(), last.until))
        });
        rests.collect()
    }

    /// Every profile that was looked at.
    pub(super) fn profiles(&self) -> impl Iterator<Item = &ProfileId> {
        self.entries.iter().map(|entry| &entry.profile.id)
    }

    /// One outcome per profile that was asked for: those that could take the task as they rank, then the others
    /// by id.
    pub(super) fn outcomes(
        &self,
        asked: &Asked,
        occupancy: &Occupancy,
        rejected: &Rejected,
    ) -> Vec<Outcome> {
        let ranked = self.rank(asked, occupancy, rejected);
        let place = |profile: &ProfileId| {
            let found = ranked.iter().position(|best| best.profile == *profile);
            found.unwrap_or(ranked.len())
        };
        let settings = &self.registry.settings;
        let mut outcomes: Vec<Outcome> = self
            .entries
            .iter()
            .map(|entry| {
                let eligibility = self.eligibility(entry, asked, rejected);
                let candidate = candidate(
                    entry,
                    &entry.known.worth,
                    eligibility.clone(),
                    occupancy,
                    self.now,
                );
                Outcome {
                    profile: entry.profile.id.clone(),
                    eligibility,
                    live: taken(entry.profile, occupancy),
                    slots: entry.profile.max_concurrent,
                    headroom: entry.known.worth.headroom,
                    score: candidate.and_then(|candidate| score(&candidate, settings, self.now)),
                    reading_age: entry.known.worth.age_seconds,
                    said: rejected
                        .get(&entry.profile.id)
                        .or(entry.known.obstacle.as_ref())
                        .or(entry.known.unread.as_ref())
                        .cloned(),
                }
            })
            .collect();
        outcomes.sort_by(|one, other| {
            let by_rank = place(&one.profile).cmp(&place(&other.profile));
            by_rank.then_with(|| one.profile.cmp(&other.profile))
        });
        outcomes
    }

    /// The profiles that lack nothing but a slot.
    pub(super) fn full(
        &self,
        asked: &Asked,
        occupancy: &Occupancy,
        rejected: &Rejected,
    ) -> Vec<ProfileId> {
        let lacks_a_slot = |entry: &&Entry<'a>| {
            matches!(
                self.eligibility(entry, asked, rejected),
                Eligibility::Eligible { .. }
            ) && taken(entry.profile, occupancy) >= entry.profile.max_concurrent
        };
        self.entries
            .iter()
            .filter(lacks_a_slot)
            .map(|entry| entry.profile.id.clone())
            .collect()
    }

    /// Looks at the credential, the home and the project of the profile that would win.
    pub(super) fn examine(&self, context: &Context, profile: &ProfileId) -> Result<Examined> {
        let entry = self.entry(profile)?;
        examine(
            context,
            self.registry,
            entry.profile,
            &entry.known.state,
            &self.workspace.path,
        )
    }

    /// Everything that the snapshot holds of a profile that was asked for.
    pub(super) fn state(&self, profile: &ProfileId) -> Result<&ProfileState> {
        Ok(&self.entry(profile)?.known.state)
    }

    /// The profiles that rest for a moment: for a limit whose kind the hook's word may not have told.
    pub(super) fn resting(&self) -> impl Iterator<Item = (&'a Profile, &ProfileState)> {
        let rests = |entry: &&Entry<'a>| {
            let cooldown = entry.known.state.cooldown.as_ref();
            cooldown.is_some_and(|it| it.reason == Limit::Rate.word() && it.holds(self.now))
        };
        let resting = self.entries.iter().filter(rests);
        resting.map(|entry| (entry.profile, &entry.known.state))
    }

    fn entry(&self, profile: &ProfileId) -> Result<&Entry<'a>> {
        self.entries
            .iter()
            .find(|entry| entry.profile.id == *profile)
            .ok_or_else(|| {
                Error::internal(format!("profile `{profile}` was chosen but not asked for"))
            })
    }

    /// What callers are told of a profile that was chosen.
    pub(super) fn selection(&self, request: &Request, profile: &ProfileId) -> Result<Selection> {
        let entry = self.entry(profile)?;
        let facts = facts(entry, &Rejected::new());
        let basis =
            match eligibility_if_enabled(&facts, &request.asked, &self.registry.settings, self.now)
            {
                Eligibility::Eligible { basis, .. } => basis,
                Eligibility::Refused { .. } if entry.known.worth.status == Status::Fresh => {
                    Basis::Fresh
                }
                Eligibility::Refused { code, .. } => Basis::Presumed(code.name.to_owned()),
            };
        let degraded_reason = basis.degraded();
        Ok(Selection {
            schema: 1,
            task: request.task.clone(),
            pool: request.asked.pool.clone(),
            profile: entry.profile.id.clone(),
            provider: entry.profile.provider,
            workspace: self.workspace.path.clone(),
            decision_reason: request.reason,
            model: request.asked.model.as_ref().map(Model::to_string),
            quota_fresh: entry.known.worth.status == Status::Fresh,
            headroom_percent: entry.known.worth.headroom,
            active_lease_count: 0,
            degraded: degraded_reason.is_some(),
            degraded_reason,
            dry_run: false,
            generation: 0,
            identity: entry.known.state.proof.as_ref().map(|proof| Shown {
                fingerprint: proof.fingerprint.whole.clone(),
                proved_at: proof.at,
                source: proof.source.clone(),
            }),
            lease: None,
            explain: None,
        })
    }
}

fn candidate(
    entry: &Entry<'_>,
    worth: &Worth,
    eligibility: Eligibility,
    occupancy: &Occupancy,
    now: Timestamp,
) -> Option<Candidate> {
    let Eligibility::Eligible { headroom, basis } = eligibility else {
        return None;
    };
    let profile = entry.profile;
    let ends = entry.known.state.login_expires_at;
    Some(Candidate {
        profile: profile.id.clone(),
        provider: profile.provider,
        slots: profile.max_concurrent,
        headroom,
        basis,
        weight: profile.weight,
        windows: worth.windows.clone(),
        live: taken(profile, occupancy),
        ends_soon: matches!(forecast(ends, now), Forecast::Near(_)),
        last_pick: occupancy.last_pick(&profile.id),
        order: entry.order,
    })
}

fn facts<'b>(entry: &'b Entry<'_>, rejected: &Rejected) -> Facts<'b> {
    let mut facts = entry.known.facts(entry.profile, entry.trusted);
    facts.rejected = rejected.get(&entry.profile.id).map(|error| error.code);
    facts
}

/// The asked-for pool or profile must exist before anything else is said about it.
fn exists(registry: &Registry, asked: &Asked) -> Result<()> {
    if let Some(profile) = &asked.profile {
        registry.profile(profile)?;
    }
    if let Some(kind) = asked.provider {
        registry.provider(kind)?;
    }
    Ok(())
}

/// Checks the workspace for each provider; refused when it will do for none.
fn workspaces(
    context: &Context,
    registry: &Registry,
    kinds: &BTreeSet<ProviderKind>,
    request: &Request,
) -> Result<(Workspace, BTreeSet<ProviderKind>)> {
    let mut found = None;
    let mut refusal = None;
    let mut trusted = BTreeSet::new();
    for kind in kinds {
        match project::workspace(context, registry, *kind, &request.workspace) {
            Ok(workspace) => {
                trusted.insert(*kind);
                found.get_or_insert(workspace);
            }
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    match (found, refusal) {
        (Some(workspace), _) => Ok((workspace, trusted)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::internal("a selection without a provider")),
    }
}
