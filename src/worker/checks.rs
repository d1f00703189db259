//! The last look before a launch: is this still the proved account, in a home that is ready, with nothing
//! that would replace its login?

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::gate::Seen as Gate;
use crate::choose::examine::{Examined, examine, overridden, renewal, unrenewed};
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::Result;
use crate::identity::credential::{self, Seen};
use crate::provider::LoginKind;
use crate::provider::conveyance::{self, Conveyance};
use crate::provider::overrides;
use crate::quota::refresh::refresh;
use crate::registry::schema::{Profile, Registry};
use crate::secret::Secret;
use crate::snapshot::profile::{Binding, ProfileState};
use crate::snapshot::provider as snapshot;
use crate::sys::filesystem::Identity;

/// A profile that may be launched.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    profile: &'a Profile,
    registry: &'a Registry,
    workspace: Utf8PathBuf,
    /// The credential file before it was looked at.
    credential: Option<Identity>,
    /// What the proof holds for.
    proved: Option<Binding>,
    /// First digits of the proved account, for people.
    pub(super) fingerprint: String,
}

/// Checks the profile of a lease that is bound; renews its proof with one request when its login changed.
pub(super) fn ready<'a>(
    context: &Context,
    registry: &'a Registry,
    profile: &'a Profile,
    workspace: &Utf8Path,
) -> Result<Ready<'a>> {
    let deadline = context.clock.deadline(ROUTINE);
    let mut renewed = false;
    loop {
        let credential = stat(context, profile);
        let state = known(context, profile)?;
        match examine(context, registry, profile, &state, workspace)? {
            Examined::Good => {
                let proved = state.proof.as_ref().map(|proof| proof.binding.clone());
                let fingerprint = state
                    .proof
                    .map(|proof| proof.fingerprint.short().to_owned())
                    .unwrap_or_default();
                return Ok(Ready {
                    profile,
                    registry,
                    workspace: workspace.to_owned(),
                    credential,
                    proved,
                    fingerprint,
                });
            }
            Examined::Rejected(error) => return Err(error),
            Examined::Renew if renewed => return Err(unrenewed(profile)),
            Examined::Renew => {
                renewed = true;
                refresh(context, registry, &[renewal(profile)], &deadline)?;
            }
        }
    }
}

/// What the file system says of the credential file; one without is seen as it was by `examine`.
fn stat(context: &Context, profile: &Profile) -> Option<Identity> {
    fs::symlink_metadata(conveyance::file(context, profile))
        .ok()
        .map(|metadata| Identity::from(&metadata))
}

fn known(context: &Context, profile: &Profile) -> Result<ProfileState> {
    let mut snapshot = snapshot::load(context, profile.provider)?;
    if let Some(damage) = snapshot.damaged.remove(profile.id.as_str()) {
        return Err(damage.into());
    }
    Ok(snapshot
        .states
        .remove(profile.id.as_str())
        .unwrap_or_else(|| ProfileState::new(&profile.id)))
}

impl Ready<'_> {
    /// What the start gate needs to see of the login now; `None` when there is no login to refresh.
    pub(super) fn look(&self, context: &Context) -> Option<Gate> {
        login(context, self.profile)
    }

    /// The credential that has to be handed to the worker, with the variable that names its descriptor; `None` when
    /// it is in the home. It is the very one that was proved.
    pub(super) fn to_hand_over(&self, context: &Context) -> Result<Option<(&'static str, Secret)>> {
        let Conveyance::Descriptor(variable) = conveyance::of(self.profile) else {
            return Ok(None);
        };
        match credential::of(context, self.profile, None) {
            Seen::Read(look) if self.proved == Some(Binding::Tokens(look.login.digest.clone())) => {
                let secret = look.login.access_token;
                Ok(secret.map(|secret| (variable, secret)))
            }
            Seen::Read(_)
            | Seen::Missing
            | Seen::Linked
            | Seen::Unreadable
            | Seen::Unparsable
            | Seen::Unchanged => Err(unrenewed(self.profile)),
        }
    }

    /// Looks once more at everything that could replace the login: the project's files and the login itself
    /// may have changed since they were examined.
    pub(super) fn recheck(&self, context: &Context) -> Result<()> {
        if stat(context, self.profile) != self.credential {
            // This look covers the rest as well.
            return ready(context, self.registry, self.profile, &self.workspace).map(drop);
        }
        match overrides::of(self.profile, &[&self.workspace])
            .into_iter()
            .next()
        {
            None => Ok(()),
            Some(found) => Err(overridden(self.profile, found)),
        }
    }
}

/// What the start gate needs to see of a profile's login now; `None` when there is no login to refresh.
pub(super) fn login(context: &Context, profile: &Profile) -> Option<Gate> {
    match credential::of(context, profile, None) {
        Seen::Read(look) if look.login.kind == LoginKind::Subscription => Some(Gate {
            digest: look.login.digest.clone(),
            renewed_from: look.login.renewed_from,
        }),
        Seen::Read(_)
        | Seen::Missing
        | Seen::Linked
        | Seen::Unreadable
        | Seen::Unparsable
        | Seen::Unchanged => None,
    }
}
