//! Quota on a page: one bar per window, when it becomes full again, how old the reading is and when the next
//! may be taken.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::quota::{Quota, QuotaList, Window};

impl Human for QuotaList {
    fn page(&self, now: Timestamp) -> Page {
        let columns = [
            "profile",
            "window",
            "left",
            "full again",
            "reading",
            "next look",
        ];
        let rows = self
            .quota
            .iter()
            .flat_map(|quota| rows(quota, now))
            .collect();
        let mut page = Page::new().table(&columns, rows, "no profiles");
        for quota in &self.quota {
            if let Some(overage) = overage(quota) {
                let profile = paint(Role::Literal, quota.profile.as_str());
                page = page.line(format!("{profile}: {overage}"));
            }
        }
        if self.quota.iter().any(|quota| quota.status == "presumed") {
            page = page.line(paint(Role::Faint, AGES));
        }
        page
    }
}

/// Said below a table in which some reading could not be renewed.
const AGES: &str = "An age is not a fault: the providers allow a look every few minutes, and what was read last \
                    holds until the next.";

/// What paid overage is and has cost, where it is on or has cost something.
fn overage(quota: &Quota) -> Option<String> {
    let spend = quota.overage_spend;
    let used = spend.and_then(|spend| spend.used);
    let limit = spend.and_then(|spend| spend.limit);
    let balance = spend.and_then(|spend| spend.balance);
    let cost = match (used, limit, balance) {
        (Some(used), Some(limit), _) => format!(", {used:.2} of {limit:.2} paid this month"),
        (Some(used), None, _) => format!(", {used:.2} paid this month"),
        (None, Some(limit), _) => format!(", at most {limit:.2} a month"),
        (None, None, Some(balance)) => format!(", {balance} credits left"),
        (None, None, None) => String::new(),
    };
    let paid = [used, balance].into_iter().flatten().any(|it| it > 0.0);
    match quota.overage_enabled {
        Some(true) => Some(paint(Role::Warning, &format!("paid overage is on{cost}"))),
        Some(false) | None if paid => Some(format!("paid overage is off{cost}")),
        Some(false) | None => None,
    }
}

/// The windows of one profile, without its name.
pub(super) fn windows(quota: &Quota, now: Timestamp) -> Page {
    let rows = quota
        .windows
        .iter()
        .map(|window| window_cells(window, now).to_vec())
        .collect();
    let columns = ["window", "left", "full again"];
    Page::new().table(&columns, rows, "no windows read yet")
}

/// How good the reading is, how old and whose.
pub(super) fn reading(quota: &Quota) -> String {
    explained(quota, quota.source.as_deref())
}

/// The same for a narrow column: how good and how old.
pub(super) fn short_reading(quota: &Quota) -> String {
    explained(quota, None)
}

fn explained(quota: &Quota, source: Option<&str>) -> String {
    let role = match quota.status.as_str() {
        "fresh" => Role::Good,
        "presumed" | "unmeasured" => Role::Faint,
        _ => Role::Warning,
    };
    let mut text = paint(role, &quota.status);
    if let Some(age) = quota.age_seconds {
        text = match age {
            0..5 => format!("{text}, just read"),
            _ => format!("{text}, {} old", words::span(age)),
        };
    }
    if let Some(source) = source {
        text = format!("{text}, {source}");
    }
    match &quota.reason {
        Some(reason) if *reason != quota.status => format!("{text} ({reason})"),
        _ => text,
    }
}

fn rows(quota: &Quota, now: Timestamp) -> Vec<Vec<String>> {
    let profile = paint(Role::Literal, quota.profile.as_str());
    let next = quota
        .next_poll_at
        .map_or_else(nothing, |at| words::due(now, at));
    if quota.windows.is_empty() {
        return vec![vec![
            profile,
            nothing(),
            nothing(),
            nothing(),
            reading(quota),
            next,
        ]];
    }
    quota
        .windows
        .iter()
        .enumerate()
        .map(|(index, window)| {
            let [name, left, full] = window_cells(window, now);
            if index == 0 {
                let (profile, next) = (profile.clone(), next.clone());
                vec![profile, name, left, full, reading(quota), next]
            } else {
                let empty = String::new();
                vec![empty.clone(), name, left, full, empty.clone(), empty]
            }
        })
        .collect()
}

fn window_cells(window: &Window, now: Timestamp) -> [String; 3] {
    let name = match &window.scope {
        Some(scope) => format!("{} ({})", window.kind, words::plain(scope)),
        None => window.kind.clone(),
    };
    let full = if window.presumed {
        paint(Role::Warning, "presumed: it has reset since it was read")
    } else {
        window
            .resets_at
            .map_or_else(nothing, |at| words::due(now, at))
    };
    [name, words::gauge(window.remaining_percent), full]
}
