//! A selection on a page, and the table that says why each profile was or was not chosen.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::selection::{DecisionReason, Explanation, Selection};

impl Human for Selection {
    fn page(&self, now: Timestamp) -> Page {
        let verb = if self.dry_run {
            "would lease"
        } else {
            "leased"
        };
        let mut fields = vec![
            ("why", why(self)),
            ("headroom", headroom(self)),
            (
                "leases",
                match self.active_lease_count {
                    0 => "no other lease on it".to_owned(),
                    others => words::count(others, "other lease") + " on it",
                },
            ),
        ];
        if let Some(identity) = &self.identity {
            let short = words::fingerprint(&identity.fingerprint);
            fields.push((
                "account",
                format!(
                    "{short}, proved {} by {}",
                    words::ago(now, identity.proved_at),
                    identity.source
                ),
            ));
        }
        fields.push(("workspace", words::plain(self.workspace.as_str())));
        if !self.dry_run {
            fields.push(("generation", words::generation(self.generation)));
        }
        if let Some(at) = self.lease.as_ref().and_then(|lease| lease.expires_at) {
            fields.push(("reserved", format!("until {}", words::instant(now, at))));
        }
        let mut page = Page::new()
            .line(format!(
                "{verb} {} ({}, {}) for {}",
                paint(Role::Literal, self.profile.as_str()),
                self.provider,
                self.pool,
                words::plain(self.task.as_str())
            ))
            .fields(&fields);
        if let Some(explanations) = &self.explain {
            page = page.gap().below(&table(explanations, now));
        }
        page
    }
}

fn why(selection: &Selection) -> String {
    match selection.decision_reason {
        DecisionReason::Quota => "it ranked first",
        DecisionReason::Sticky => "the task had this lease already",
        DecisionReason::StickyResume => "it is the task's recorded profile",
        DecisionReason::Explicit => "the caller named it",
    }
    .to_owned()
}

fn headroom(selection: &Selection) -> String {
    let share = selection
        .headroom_percent
        .map_or_else(nothing, words::gauge);
    let quality = match (selection.quota_fresh, &selection.degraded_reason) {
        (true, _) => paint(Role::Good, "fresh"),
        (false, Some(reason)) => {
            format!(
                "{}: {}",
                paint(Role::Warning, "degraded"),
                words::plain(reason)
            )
        }
        (false, None) => paint(Role::Warning, "not fresh"),
    };
    format!("{share}  {quality}")
}

/// The explanations in the details of a refusal, where there are any.
pub(super) fn explanations(details: &Map<String, Value>) -> Option<Vec<Explanation>> {
    let rows = details.get("explain")?.clone();
    let rows: Vec<Explanation> = serde_json::from_value(rows).ok()?;
    (!rows.is_empty()).then_some(rows)
}

/// One row per profile: `+` could take the task, `-` could not, and why.
pub(super) fn table(explanations: &[Explanation], now: Timestamp) -> Page {
    let rows = explanations
        .iter()
        .map(|row| {
            let (sign, role) = if row.eligible {
                ("+", Role::Good)
            } else {
                ("-", Role::Bad)
            };
            vec![
                format!(
                    "{} {}",
                    paint(role, sign),
                    paint(Role::Literal, row.profile.as_str())
                ),
                paint(role, &words::plain(&row.reason)),
                row.headroom_percent.map_or_else(nothing, words::percent),
                row.score
                    .map_or_else(nothing, |score| format!("{score:.1}")),
                row.active_leases.to_string(),
                row.reading_age_seconds.map_or_else(nothing, words::span),
                row.retry_at.map_or_else(nothing, |at| words::due(now, at)),
            ]
        })
        .collect();
    let columns = [
        "  profile",
        "reason",
        "headroom",
        "score",
        "leases",
        "reading",
        "again",
    ];
    let page = Page::new().table(&columns, rows, "no profile is in the pool");
    let refused = explanations.iter().filter(|row| !row.eligible);
    let words: BTreeSet<_> = refused.map(|row| words::plain(&row.reason)).collect();
    if words.is_empty() {
        return page;
    }
    let words: Vec<_> = words.into_iter().collect();
    page.line(format!(
        "{}  {}",
        paint(Role::Faint, "words:"),
        paint(
            Role::Literal,
            &format!("agent-fleet reasons {}", words.join(" "))
        )
    ))
}
