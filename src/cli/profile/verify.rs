//! `agent-fleet profile verify`.

use super::{App, OneOrAll, Outcome};
use crate::clock::ROUTINE;
use crate::contract::identity::VerificationList;
use crate::error::{Error, Result};
use crate::identity::verify::verify;
use crate::snapshot;

pub(super) fn run(app: &App, which: &OneOrAll) -> Result<Outcome> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profiles = which.of(&registry)?;
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
        Err(error) => Error::internal(format!("cannot serialise: {error}")),
    }
}
