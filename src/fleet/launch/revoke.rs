//! Giving a launch up, so that nobody can start it any more.

use super::{ClaimRecord, Process};
use crate::crash_point;
use crate::error::Result;
use crate::fleet::files::LaunchFiles;
use crate::fleet::model::SCHEMA;
use crate::fleet::record;

/// Revokes a launch; false when its host claimed it first.
///
/// Once this has returned true, no process of the launch will ever start, however late its host wakes up.
pub fn revoke(files: &LaunchFiles, token: &str, why: &str) -> Result<bool> {
    let claim = ClaimRecord {
        schema: SCHEMA,
        token: token.to_owned(),
        by: Process::current()?,
        revoked: Some(why.to_owned()),
    };
    let revoked = record::create(&files.claim(), &claim)?;
    crash_point!("revoke.decided");
    if revoked {
        return Ok(true);
    }
    let found: ClaimRecord = record::require(&files.claim())?;
    Ok(found.revoked.is_some())
}
