//! Quota on a page: one bar per window, when it becomes full again, how old the reading is.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::quota::{Quota, QuotaList, Window};

impl Human for QuotaList {
    fn page(&self, now: Timestamp) -> Page {
        let columns = ["profile", "window", "left", "full again", "reading"];
        let rows = self
            .quota
            .iter()
            .flat_map(|quota| rows(quota, now))
            .collect();
        Page::new().table(&columns, rows, "no profiles")
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
        "unmeasured" => Role::Faint,
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
    if quota.windows.is_empty() {
        return vec![vec![
            profile,
            nothing(),
            nothing(),
            nothing(),
            reading(quota),
        ]];
    }
    quota
        .windows
        .iter()
        .enumerate()
        .map(|(index, window)| {
            let [name, left, full] = window_cells(window, now);
            let (profile, reading) = if index == 0 {
                (profile.clone(), reading(quota))
            } else {
                (String::new(), String::new())
            };
            vec![profile, name, left, full, reading]
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
