//! The look at the one profile that is about to be granted or launched.

use camino::Utf8Path;

use super::accounts::ask;
use crate::env::Context;
use crate::error::{Code, Result, code};
use crate::identity::proof::{self, Standing};
use crate::provider::{self, HomePlan, Want};
use crate::quota::refresh::{Ask, Target};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::profile::ProfileState;

/// What a look at the profile that would win showed.
#[derive(Debug)]
pub enum Examined {
    /// Credential, home and project are as they should be.
    Good,
    /// Something is in the way.
    Rejected(Code, String),
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
    let provider = provider::of(profile.provider);
    match proof::check(context, profile, settings, state) {
        Standing::Proven(_) => {}
        Standing::Renew => return Ok(Examined::Renew),
        standing @ (Standing::Unproven(_) | Standing::Quarantined(_)) => {
            let code = standing.code().unwrap_or(code::IDENTITY_UNPROVEN);
            return Ok(Examined::Rejected(code, standing.word().to_owned()));
        }
    }
    let program = crate::home::program::path(context);
    let plan = HomePlan {
        context,
        registry,
        settings,
        profile,
        program: &program,
        occupied: None,
    };
    if let Err(problem) = provider.readiness(&plan) {
        return Ok(Examined::Rejected(code::NOT_PROVISIONED, problem.reason));
    }
    match provider
        .overrides(&profile.home, workspace)
        .into_iter()
        .next()
    {
        Some(found) => Ok(Examined::Rejected(code::AUTH_OVERRIDE, found.source)),
        None => Ok(Examined::Good),
    }
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
