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
use crate::provider::{self, LoginKind};
use crate::quota::refresh::refresh;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::profile::ProfileState;
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
        let credential = stat(profile);
        let state = known(context, profile)?;
        match examine(context, registry, profile, &state, workspace)? {
            Examined::Good => {
                let fingerprint = state
                    .proof
                    .map(|proof| proof.fingerprint.short().to_owned())
                    .unwrap_or_default();
                return Ok(Ready {
                    profile,
                    registry,
                    workspace: workspace.to_owned(),
                    credential,
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
fn stat(profile: &Profile) -> Option<Identity> {
    let path = profile
        .home
        .join(provider::of(profile.provider).credential_file());
    fs::symlink_metadata(path)
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
        match credential::look(
            self.profile.provider,
            &self.profile.home,
            None,
            context.clock,
        ) {
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

    /// Looks once more at everything that could replace the login: the project's files and the login itself
    /// may have changed since they were examined.
    pub(super) fn recheck(&self, context: &Context) -> Result<()> {
        if stat(self.profile) != self.credential {
            // This look covers the rest as well.
            return ready(context, self.registry, self.profile, &self.workspace).map(drop);
        }
        let provider = provider::of(self.profile.provider);
        match provider
            .overrides(&self.profile.home, &[&self.workspace])
            .into_iter()
            .next()
        {
            None => Ok(()),
            Some(found) => Err(overridden(self.profile, found)),
        }
    }
}
