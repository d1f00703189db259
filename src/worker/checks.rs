//! The last look before a launch: is this still the proved account, in a home that is ready, with nothing
//! that would replace its login?

use camino::Utf8PathBuf;

use super::gate::Seen as Gate;
use crate::choose::examine::{Examined, examine, overridden, renewal, unrenewed};
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::Result;
use crate::identity::credential::{self, Seen};
use crate::provider::{self, LoginKind};
use crate::quota::refresh::refresh;
use crate::registry::project::Workspace;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::profile::ProfileState;
use crate::snapshot::provider as snapshot;

/// A profile that may be launched.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    profile: &'a Profile,
    workspace: Utf8PathBuf,
    /// First digits of the proved account, for people.
    pub(super) fingerprint: String,
}

/// Checks the profile of a lease that is bound; renews its proof with one request when its login changed.
pub(super) fn ready<'a>(
    context: &Context,
    registry: &Registry,
    profile: &'a Profile,
    workspace: &Workspace,
) -> Result<Ready<'a>> {
    let deadline = context.clock.deadline(ROUTINE);
    let mut renewed = false;
    loop {
        let state = known(context, profile)?;
        match examine(context, registry, profile, &state, &workspace.path)? {
            Examined::Good => {
                let fingerprint = state
                    .proof
                    .map(|proof| proof.fingerprint.short().to_owned())
                    .unwrap_or_default();
                return Ok(Ready {
                    profile,
                    workspace: workspace.path.clone(),
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

    /// Looks once more at everything that could replace the login: the project's files may have changed
    /// since it was examined.
    pub(super) fn recheck(&self) -> Result<()> {
        let provider = provider::of(self.profile.provider);
        match provider
            .overrides(&self.profile.home, &self.workspace)
            .into_iter()
            .next()
        {
            None => Ok(()),
            Some(found) => Err(overridden(self.profile, &found)),
        }
    }
}
