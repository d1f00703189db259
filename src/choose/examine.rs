//! The look at the one profile that is about to be granted or launched.

use camino::Utf8Path;

use super::accounts::ask;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::home;
use crate::identity::proof::{self, Standing};
use crate::provider::Want;
use crate::provider::overrides::{self, Override};
use crate::quota::refresh::{Ask, Target};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::profile::ProfileState;

/// What a look at the profile that would win showed.
#[derive(Debug)]
pub enum Examined {
    /// Credential, home and project are as they should be.
    Good,
    /// Something is in the way.
    Rejected(Error),
    /// Its login changed: the proof must be renewed first.
    Renew,
}

/// Looks at the credential against its proof, at the home, and at everything that would replace the login.
pub fn examine(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    state: &ProfileState,
    workspace: &Utf8Path,
) -> Result<Examined> {
    let settings = registry.provider(profile.provider)?;
    match proof::check(context, profile, settings, state) {
        Standing::Proven(_) => {}
        Standing::Renew => return Ok(Examined::Renew),
        standing @ (Standing::Unproven(_) | Standing::Quarantined(_)) => {
            let unproven =
                || Error::internal(format!("profile `{}` is proven and not", profile.id));
            return Ok(Examined::Rejected(
                standing.refusal(profile).map_or_else(unproven, Error::from),
            ));
        }
    }
    // Before readiness: a home that is not ready and has one would be made ready in vain.
    let found = overrides::of(profile, &[workspace]);
    if let Some(found) = found.into_iter().next() {
        return Ok(Examined::Rejected(overridden(profile, found)));
    }
    Ok(match home::readiness(context, registry, profile) {
        Ok(()) => Examined::Good,
        Err(problem) => Examined::Rejected(problem),
    })
}

/// The refusal of a profile whose login something would replace.
pub fn overridden(profile: &Profile, found: Override) -> Error {
    let message = format!(
        "`{}` would replace the login of profile `{}`: it {}",
        found.source, profile.id, found.effect
    );
    let status = || format!("agent-fleet profile status {}", profile.id);
    let hint = found.cure().unwrap_or_else(status);
    let error = Error::new(code::AUTH_OVERRIDE, message).hint(hint);
    error.detail("source", found.source)
}

/// The question whether a login that changed is still the same account.
pub fn renewal(profile: &Profile) -> Ask<'_> {
    ask(
        Target::Profile(profile),
        Want {
            identity: true,
            usage: false,
        },
    )
}

/// The refusal of a profile whose changed login nobody could prove.
pub fn unrenewed(profile: &Profile) -> Error {
    let message = format!(
        "the login of profile `{}` changed and could not be proved again",
        profile.id
    );
    Error::new(code::IDENTITY_UNPROVEN, message)
        .hint(format!("agent-fleet profile verify {}", profile.id))
}
