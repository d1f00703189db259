//! `agent-fleet profile verify`.

use crate::cli::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::identity::VerificationList;
use crate::error::{Error, Result, code};
use crate::id::ProfileId;
use crate::identity::verify::verify;
use crate::snapshot;

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    /// Which profile
    #[arg(
        value_name = "PROFILE",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    profile: Option<ProfileId>,
    /// Every profile
    #[arg(long)]
    all: bool,
}

pub(super) fn run(app: &App, arguments: &VerifyArguments) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let mut profiles = match &arguments.profile {
        Some(id) => vec![registry.profile(id)?],
        None => registry.profiles.iter().collect(),
    };
    profiles.sort_by(|one, other| one.id.cmp(&other.id));
    let deadline = context.clock.deadline(ROUTINE);
    let verdicts = verify(context, &registry, &profiles, &deadline)?;
    let refusal = verdicts.iter().find_map(|verdict| verdict.refusal.clone());
    let list = VerificationList {
        verified: verdicts.into_iter().map(|verdict| verdict.row).collect(),
    };
    match refusal {
        None => app.view(&list),
        Some(refusal) => Err(with_rows(refusal, &list)),
    }
}

/// The first refusal, with every row in its details.
fn with_rows(refusal: Error, list: &VerificationList) -> Error {
    match serde_json::to_value(&list.verified) {
        Ok(rows) => refusal.detail("verified", rows),
        Err(error) => Error::new(code::INTERNAL, format!("cannot serialise: {error}")),
    }
}
