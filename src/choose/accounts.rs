//! What is known of a provider's accounts: who they are, whether two are one, what their readings are worth.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::candidate::{Facts, Identity, Quota};
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::identity::anchor;
use crate::identity::credential::{self, Seen};
use crate::identity::proof::{self, Standing};
use crate::identity::{
    self,
    conflict::{Conflict, Overlap},
};
use crate::provider::Want;
use crate::quota::headroom::{self, Question, Status, Worth};
use crate::quota::poll;
use crate::quota::refresh::{Ask, Asker, Target};
use crate::registry::schema::{Profile, QuotaReader, Registry};
use crate::snapshot::fold;
use crate::snapshot::profile::{BASE, ProfileState};
use crate::snapshot::provider::Snapshot;

/// One provider's accounts, looked at once.
#[derive(Debug)]
pub(super) struct Accounts {
    kind: ProviderKind,
    snapshot: Snapshot,
    overlaps: BTreeMap<String, Overlap>,
    renew_base: bool,
}

/// What is known of one profile.
#[derive(Debug)]
pub(super) struct Known {
    /// Everything the snapshot holds.
    pub(super) state: ProfileState,
    /// What is in the way of its account: code, sentence, next command.
    pub(super) obstacle: Option<Error>,
    /// What its reading is worth.
    pub(super) worth: Worth,
    /// When its account may be asked again, if not now.
    next_poll: Option<Timestamp>,
}

impl Accounts {
    /// Folds new evidence and looks at snapshot and anchors.
    pub(super) fn look(
        context: &Context,
        registry: &Registry,
        kind: ProviderKind,
        deadline: &Deadline,
    ) -> Result<Self> {
        let snapshot = fold::load(context, kind, deadline)?;
        Self::of_snapshot(context, registry, kind, snapshot)
    }

    /// Looks at the anchors beside a snapshot that was loaded already.
    pub(super) fn of_snapshot(
        context: &Context,
        registry: &Registry,
        kind: ProviderKind,
        snapshot: Snapshot,
    ) -> Result<Self> {
        let standing = anchor::look(context, registry.provider(kind)?, &snapshot)?;
        let accounts: Vec<_> = registry
            .of(kind)
            .filter_map(|profile| {
                let id = profile.id.as_str();
                Some((id, snapshot.states.get(id)?.fingerprint()?))
            })
            .collect();
        let overlaps = identity::conflict::find(&accounts, &standing.anchors);
        Ok(Self {
            kind,
            snapshot,
            overlaps,
            renew_base: standing.renew_base,
        })
    }

    /// The question about the base login, when it has to be asked.
    pub(super) fn wanted<'a>(&self) -> Option<Ask<'a>> {
        self.renew_base.then_some(ask(
            Target::Base(self.kind),
            Want {
                identity: true,
                usage: false,
            },
        ))
    }

    /// The snapshot that was looked at.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// With whom a profile shares its account.
    pub(super) fn conflict(&self, registry: &Registry, profile: &Profile) -> Option<Error> {
        let overlap = self.overlaps.get(profile.id.as_str())?;
        Some(conflict(registry, profile, overlap))
    }

    /// What is known of one profile.
    pub(super) fn of(
        &self,
        context: &Context,
        registry: &Registry,
        profile: &Profile,
        now: Timestamp,
    ) -> Known {
        let id = profile.id.as_str();
        let mut state = self
            .snapshot
            .states
            .get(id)
            .cloned()
            .unwrap_or_else(|| ProfileState::new(&profile.id));
        if state.auth_broken.is_some() && is_replaced(context, registry, profile, &state) {
            // What was refused is gone. The login that took its place has only to be proved.
            state.auth_broken = None;
        }
        let obstacle = match (self.snapshot.damaged.get(id), self.overlaps.get(id)) {
            (Some(damage), _) => Some(damage.clone().into()),
            (None, _) if state.auth_broken.is_some() => Some(broken(profile, &state)),
            (None, _) if state.proof.is_none() => unproven(context, registry, profile, &state),
            (None, Some(overlap)) => Some(conflict(registry, profile, overlap)),
            (None, None) => state
                .durable
                .billing_block
                .as_ref()
                .map(|_| unpaid(profile)),
        };
        let worth = headroom::worth(&state, &question(registry, profile, &state, now));
        Known {
            next_poll: poll::next_at(&state.poll, now),
            state,
            obstacle,
            worth,
        }
    }
}

impl Known {
    /// The facts that decide about the profile.
    pub(super) fn facts<'b>(&'b self, profile: &'b Profile, trusted: bool) -> Facts<'b> {
        let headroom = self.worth.headroom.unwrap_or(0.0);
        let retry_at = self.next_poll;
        let quota = match self.worth.status {
            Status::Fresh => Quota::Fresh { headroom },
            Status::Presumed => Quota::Presumed {
                headroom,
                reason: self.worth.reason.clone().unwrap_or_default(),
            },
            Status::Stale => Quota::Stale { retry_at },
            Status::Unmeasured => Quota::Unmeasured { retry_at },
        };
        Facts {
            profile,
            state: &self.state,
            identity: match &self.obstacle {
                Some(obstacle) => Identity::Refused(obstacle.code),
                None => Identity::Proven,
            },
            quota,
            resets_at: self.worth.resets_at,
            reading_age: self.worth.age_seconds,
            trusted,
            rejected: None,
        }
    }
}

/// Whom a question is about: asked once per selection.
pub(super) type Key = (ProviderKind, String);

/// Whom a question is about.
pub(super) fn key(ask: &Ask<'_>) -> Key {
    match ask.target {
        Target::Profile(profile) => (profile.provider, profile.id.to_string()),
        Target::Base(kind) => (kind, BASE.to_owned()),
    }
}

/// A question that a command asks by the way.
pub(super) fn ask(target: Target<'_>, want: Want) -> Ask<'_> {
    Ask {
        target,
        want,
        asker: Asker::Program,
    }
}

/// Why a profile without a proof has none, by what its credential file looks like.
fn unproven(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
) -> Option<Error> {
    let settings = match registry.provider(profile.provider) {
        Ok(settings) => settings,
        Err(missing) => return Some(missing.into()),
    };
    proof::check(context, profile, settings, state)
        .refusal(profile)
        .map(Error::from)
}

/// Whether the home holds another login than the one that was proved last, which the server can be asked
/// about.
fn is_replaced(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
) -> bool {
    let changed = state.proof.is_some()
        && registry.provider(profile.provider).is_ok_and(|settings| {
            proof::check(context, profile, settings, state) == Standing::Renew
        });
    changed && !is_refused(context, profile, state)
}

/// Whether the login that is there now was refused as well when it was asked about: a worker's CLI renews a
/// login that the server takes no longer, and is refused with the new one.
fn is_refused(context: &Context, profile: &Profile, state: &ProfileState) -> bool {
    if state.poll.reason.as_deref() != Some("unauthorized") {
        return false;
    }
    match credential::look(profile.provider, &profile.home, None, context.clock) {
        Seen::Read(look) => state.poll.digest.as_ref() == Some(&look.login.digest),
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            false
        }
    }
}

/// A login that the server refused. One that was never proved may have been replaced since: asking tells.
fn broken(profile: &Profile, state: &ProfileState) -> Error {
    let error = proof::broken(profile);
    if state.proof.is_some() {
        return error;
    }
    error.hint(format!("agent-fleet profile verify {}", profile.id))
}

/// Time does not mend a failed payment: the block stays until a person lifts it.
fn unpaid(profile: &Profile) -> Error {
    let id = &profile.id;
    let message =
        format!("profile `{id}` is blocked: its provider turned a worker away over billing");
    Error::new(code::MONEY_GUARD, message).hint(format!("agent-fleet profile cooldown-clear {id}"))
}

fn conflict(registry: &Registry, profile: &Profile, overlap: &Overlap) -> Error {
    Conflict::of(registry, profile, overlap.clone()).into()
}

fn question<'q>(
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
    now: Timestamp,
) -> Question<'q> {
    let readable = registry
        .provider(profile.provider)
        .is_ok_and(|settings| settings.quota_reader != QuotaReader::None);
    Question {
        model: None,
        fresh_seconds: registry.settings.quota_fresh_seconds,
        last_used: state.last_used,
        readable,
        now,
    }
}
