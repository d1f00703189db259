//! What is known of a provider's accounts: who they are, whether two are one, what their readings are worth.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::candidate::{Facts, Identity};
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::identity::anchor;
use crate::identity::conflict::{Conflict, Overlap};
use crate::identity::proof::{self, Standing, Unproven};
use crate::identity::refusal;
use crate::identity::verify::overlaps;
use crate::provider::Want;
use crate::quota::headroom::{self, Question, Status, Worth};
use crate::quota::model::Model;
use crate::quota::poll;
use crate::quota::refresh::{Ask, Asker, Target};
use crate::reason::OVERAGE_USED;
use crate::registry::schema::{Credential, Profile, QuotaReader, Registry};
use crate::snapshot::fold;
use crate::snapshot::profile::{BASE, Note, ProfileState};
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
    /// Why nobody could read what is left, where more can be said than that.
    pub(super) unread: Option<Error>,
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
        let overlaps = overlaps(registry, kind, &snapshot, &standing.anchors);
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

    /// What is known of one profile, for work with any model.
    pub(super) fn of(
        &self,
        context: &Context,
        registry: &Registry,
        profile: &Profile,
        now: Timestamp,
    ) -> Known {
        let state = self.snapshot.states.get(profile.id.as_str()).cloned();
        self.known(context, registry, profile, state, None, now)
    }

    /// What is known of one profile, for work with this model; it is known here no longer. A copy of everything
    /// that is known of a thousand profiles would cost a tenth of a choice.
    pub(super) fn take(
        &mut self,
        context: &Context,
        registry: &Registry,
        profile: &Profile,
        model: Option<&Model>,
        now: Timestamp,
    ) -> Known {
        let state = self.snapshot.states.remove(profile.id.as_str());
        self.known(context, registry, profile, state, model, now)
    }

    fn known(
        &self,
        context: &Context,
        registry: &Registry,
        profile: &Profile,
        state: Option<ProfileState>,
        model: Option<&Model>,
        now: Timestamp,
    ) -> Known {
        let id = profile.id.as_str();
        let mut state = state.unwrap_or_else(|| ProfileState::new(&profile.id));
        let ended = state.login_expires_at.is_some_and(|at| at <= now);
        if (ended || state.auth_broken.is_some())
            && let Some(look) = proof::replaced(context, profile, &state)
        {
            // The person logged in again: whether that login works is asked when it is wanted, as of any new one.
            state.auth_broken = None;
            state.login_expires_at = look.login.login_expires_at;
        }
        let worth = worth(registry, profile, &state, model, now);
        let block = state.durable.billing_block.as_ref();
        let obstacle = match (self.snapshot.damaged.get(id), self.overlaps.get(id)) {
            (Some(damage), _) => Some(damage.clone().into()),
            (None, _) if state.auth_broken.is_some() => Some(refusal::broken(profile)),
            (None, _) if state.login_expires_at.is_some_and(|at| at <= now) => {
                let ended = Standing::Unproven(Unproven::LoginExpired);
                ended.refusal(profile).map(Error::from)
            }
            (None, _) if state.proof.is_none() => unproven(context, registry, profile, &state, now),
            (None, Some(overlap)) => Some(conflict(registry, profile, overlap)),
            (None, None) if block.is_some() => block.map(|note| blocked(profile, note)),
            (None, None) if is_paid(profile) => Some(paid(profile)),
            // A reading that nobody could renew may be so because nobody could be asked with that login.
            (None, None) if worth.status != Status::Fresh => {
                unaskable(context, registry, profile, &state)
            }
            (None, None) => None,
        };
        Known {
            unread: unread(profile, &state, &worth),
            state,
            obstacle,
            worth,
        }
    }
}

impl Known {
    /// The facts that decide about the profile.
    pub(super) fn facts<'b>(&'b self, profile: &'b Profile, trusted: bool) -> Facts<'b> {
        Facts {
            profile,
            state: &self.state,
            identity: match &self.obstacle {
                Some(obstacle) => Identity::Refused(obstacle.code),
                None => Identity::Proven,
            },
            worth: &self.worth,
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
    now: Timestamp,
) -> Option<Error> {
    let settings = match registry.provider(profile.provider) {
        Ok(settings) => settings,
        Err(missing) => return Some(missing.into()),
    };
    let standing = proof::check(context, profile, settings, state);
    // Who only has to be asked is asked when nothing else stands in the way: that is then what is told.
    if standing == Standing::Renew && is_resting(state, now) {
        return None;
    }
    standing.refusal(profile).map(Error::from)
}

/// Whether the profile takes no work whoever it is.
fn is_resting(state: &ProfileState, now: Timestamp) -> bool {
    let durable = &state.durable;
    durable.drain.is_some() || durable.billing_block.is_some() || state.rest(now).is_some()
}

/// Why a proved login cannot be shown to the server any more, where that is so.
fn unaskable(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
) -> Option<Error> {
    let settings = registry.provider(profile.provider).ok()?;
    match proof::check(context, profile, settings, state) {
        standing @ Standing::Unproven(_) => standing.refusal(profile).map(Error::from),
        Standing::Proven(_) | Standing::Renew | Standing::Quarantined(_) => None,
    }
}

/// Whether every bit of work on the profile is paid for, which nobody allowed.
fn is_paid(profile: &Profile) -> bool {
    profile.credential == Credential::ApiKey && !profile.allow_overage
}

fn paid(profile: &Profile) -> Error {
    let id = &profile.id;
    let message = format!(
        "profile `{id}` has an API key, which is paid per token, and `allow_overage` does not allow that"
    );
    Error::new(code::MONEY_GUARD, message)
        .hint(format!("agent-fleet profile policy {id} --allow-overage"))
}

/// A token that may not read what is left: only what its workers show tells that.
fn unread(profile: &Profile, state: &ProfileState, worth: &Worth) -> Option<Error> {
    let word = state.poll.reason.as_deref();
    let silent = word.is_some_and(|word| [poll::UNMEASURABLE, poll::NOT_ALLOWED].contains(&word));
    if profile.credential != Credential::SetupToken || worth.status != Status::Unmeasured || !silent
    {
        return None;
    }
    let message = format!(
        "profile `{}` has a token that may not read how much is left, and no worker has shown it yet; one is started \
         only where `unmeasured = \"allow\"` says so",
        profile.id
    );
    Some(
        Error::new(code::QUOTA_UNAVAILABLE, message)
            .hint("agent-fleet config set settings.unmeasured allow"),
    )
}

/// Time mends neither a failed payment nor one that nobody wanted: the block stays until a person lifts it.
fn blocked(profile: &Profile, note: &Note) -> Error {
    let id = &profile.id;
    let why = if note.reason == OVERAGE_USED {
        "a worker's usage beyond the subscription was being paid for, which `allow_overage` does not allow; switch it \
         off at the provider"
    } else {
        "its provider turned a worker away over billing"
    };
    let message = format!("profile `{id}` is blocked: {why}");
    Error::new(code::MONEY_GUARD, message).hint(format!("agent-fleet profile cooldown-clear {id}"))
}

fn conflict(registry: &Registry, profile: &Profile, overlap: &Overlap) -> Error {
    Conflict::of(registry, profile, overlap.clone()).into()
}

/// What a profile's reading is worth for work with this model.
pub(super) fn worth(
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
    model: Option<&Model>,
    now: Timestamp,
) -> Worth {
    let readable = registry
        .provider(profile.provider)
        .is_ok_and(|settings| settings.quota_reader != QuotaReader::None);
    let question = Question {
        model,
        fresh_seconds: registry.settings.quota_fresh_seconds,
        last_used: state.last_used,
        readable,
        now,
    };
    headroom::worth(state, &question)
}
