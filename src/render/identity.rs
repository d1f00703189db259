//! Proved accounts on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::identity::{Verification, VerificationList};

impl Human for VerificationList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.verified.iter().map(|row| cells(row, now)).collect();
        let columns = ["profile", "account", "state", "proved", "by"];
        Page::new().table(&columns, rows, "no profiles")
    }
}

fn cells(row: &Verification, now: Timestamp) -> Vec<String> {
    let role = if row.verified { Role::Good } else { Role::Bad };
    vec![
        paint(Role::Literal, row.profile.as_str()),
        row.identity_fingerprint
            .as_deref()
            .map_or_else(nothing, words::fingerprint),
        paint(role, &words::plain(&row.reason)),
        row.verified_at
            .map_or_else(nothing, |at| words::ago(now, at)),
        row.identity_source.clone().unwrap_or_else(nothing),
    ]
}
