//! What choosing would say of one profile, whether or not it is enabled and whatever the workspace.

use jiff::Timestamp;

use super::accounts::{Accounts, Known};
use super::candidate::{Asked, Eligibility, Facts, Reserve, eligibility_if_enabled};
use super::examine::{Examined, examine};
use super::explain::told;
use crate::clock::Deadline;
use crate::contract::profile::Routeability;
use crate::env::Context;
use crate::error::{Class, Code, Error, Result, code};
use crate::home;
use crate::id::ProviderKind;
use crate::lease::Occupancy;
use crate::quota::headroom::{Status, Worth};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::fold;
use crate::snapshot::profile::ProfileState;
use crate::snapshot::provider::Snapshot;
use crate::transaction::pending;

/// The mode of a profile that could not take a task.
const UNAVAILABLE: &str = "unavailable";

/// What is known of a profile, and what would become of it.
#[derive(Debug)]
pub struct Report {
    /// Everything the snapshot holds.
    pub state: ProfileState,
    /// What choosing would say.
    pub routeability: Routeability,
    /// Why the home cannot take workers, when it cannot.
    pub provision_problem: Option<String>,
    /// With whom it shares its account, when it does.
    pub conflict: Option<Error>,
    /// The refusal, when it would be refused.
    refusal: Option<(Code, Option<Error>)>,
}

/// One provider's accounts, looked at once for the reports on all of its profiles.
#[derive(Debug)]
pub struct Look {
    accounts: Accounts,
    /// Why no profile of the provider is taken: a change of a login that nobody can take back.
    fence: Option<Error>,
}

impl Look {
    /// Folds new evidence and looks: local files only, no network.
    pub fn take(
        context: &Context,
        registry: &Registry,
        kind: ProviderKind,
        deadline: &Deadline,
    ) -> Result<Self> {
        let snapshot = fold::load(context, kind, deadline)?;
        Self::of_snapshot(context, registry, kind, snapshot)
    }

    /// Looks at what a snapshot knows that was loaded already.
    pub fn of_snapshot(
        context: &Context,
        registry: &Registry,
        kind: ProviderKind,
        snapshot: Snapshot,
    ) -> Result<Self> {
        // One that can be taken back is, by the next command that would take a profile.
        let pending = pending::of(context, kind)?;
        let stuck = pending.iter().find(|one| one.entry.is_err());
        Ok(Self {
            accounts: Accounts::of_snapshot(context, registry, kind, snapshot)?,
            fence: stuck.map(|one| one.refusal(None)),
        })
    }

    /// The snapshot that was looked at.
    pub fn snapshot(&self) -> &Snapshot {
        self.accounts.snapshot()
    }
}

/// Looks at one profile: local files only, no network.
pub fn report(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    deadline: &Deadline,
) -> Result<Report> {
    let look = Look::take(context, registry, profile.provider, deadline)?;
    report_on(context, registry, profile, &look)
}

/// The same for a profile of a provider that was looked at already.
pub fn report_on(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    look: &Look,
) -> Result<Report> {
    let now = context.clock.now();
    let accounts = &look.accounts;
    let known = accounts.of(context, registry, profile, now);
    let asked = Asked {
        pool: profile
            .pools
            .first()
            .cloned()
            .map_or_else(|| profile.provider.name().parse(), Ok)?,
        provider: None,
        profile: None,
        model: None,
        reserve: Reserve::Keep,
    };
    let mut facts: Facts<'_> = known.facts(profile, true);
    // What choosing would measure anew by the way is taken for as good as measured.
    let renewed = renewable(&known, now);
    if let Some(worth) = &renewed {
        facts.worth = worth;
    }
    let mut said = known.obstacle.clone().or_else(|| known.unread.clone());
    let provision_problem = home::readiness(context, registry, profile)
        .err()
        .filter(|error| error.code == code::NOT_PROVISIONED)
        .map(|error| error.message);
    // The home itself stands for a workspace: what a project would add depends on the project.
    if let Examined::Rejected(error) =
        examine(context, registry, profile, &known.state, &profile.home)?
    {
        facts.rejected = Some(error.code);
        said = Some(error);
    }
    if let Some(fence) = &look.fence {
        facts.rejected = Some(fence.code);
        said = Some(fence.clone());
    }
    let (routeability, refusal) =
        match eligibility_if_enabled(&facts, &asked, &registry.settings, now) {
            Eligibility::Eligible { basis, .. } => {
                let reason = match renewed {
                    Some(_) => Status::Stale.name(),
                    None => basis.word(),
                }
                .to_owned();
                (
                    Routeability {
                        eligible: true,
                        mode: "quota".to_owned(),
                        reason,
                        retry_at: None,
                        hint: (!profile.enabled)
                            .then(|| told(&profile.id, code::PROFILE_DISABLED, None, "").1),
                    },
                    None,
                )
            }
            Eligibility::Refused { code, retry_at } => {
                let reason = code.name.to_owned();
                // A drain has no end of its own.
                let patient = code.class == Class::Capacity && code != code::DRAINING;
                let hint = (!patient).then(|| told(&profile.id, code, said.as_ref(), "").1);
                (
                    Routeability {
                        eligible: false,
                        mode: UNAVAILABLE.to_owned(),
                        reason,
                        retry_at,
                        hint,
                    },
                    Some((code, said)),
                )
            }
        };
    Ok(Report {
        state: known.state,
        routeability,
        provision_problem,
        conflict: accounts.conflict(registry, profile),
        refusal,
    })
}

/// An aged reading that choosing would measure anew by the way, as if it were fresh.
fn renewable(known: &Known, now: Timestamp) -> Option<Worth> {
    let due = known.worth.measured_at.is_some_and(|at| at <= now);
    (known.worth.status == Status::Stale && due).then(|| Worth {
        status: Status::Fresh,
        ..known.worth.clone()
    })
}

/// Slots taken of a profile, a probe counting as all of them.
pub fn taken(profile: &Profile, occupancy: &Occupancy) -> u32 {
    let live = occupancy.live(&profile.id);
    if occupancy.probed.contains(&profile.id) {
        live.max(profile.max_concurrent)
    } else {
        live
    }
}

/// The same with the slots looked at: a profile whose slots are all taken is not eligible, and is back when the
/// first reservation expires; a live worker ends when it ends.
pub fn with_slots(
    routeability: Routeability,
    profile: &Profile,
    taken: u32,
    expires_at: Option<Timestamp>,
) -> Routeability {
    if !routeability.eligible || taken < profile.max_concurrent {
        return routeability;
    }
    Routeability {
        eligible: false,
        mode: UNAVAILABLE.to_owned(),
        reason: code::CAPACITY.name.to_owned(),
        retry_at: expires_at,
        hint: routeability.hint,
    }
}

impl Report {
    /// The refusal as an error.
    pub fn refusal(&self, profile: &Profile) -> Option<Error> {
        let (code, said) = self.refusal.as_ref()?;
        let (sentence, cure) = told(&profile.id, *code, said.as_ref(), "");
        let error = Error::new(*code, sentence).hint(cure);
        Some(error.retry_at(self.routeability.retry_at))
    }

    /// The refusal as an error, unless only waiting is needed.
    pub fn obstacle(&self, profile: &Profile) -> Option<Error> {
        self.refusal(profile)
            .filter(|error| error.code.class != Class::Capacity)
    }
}
