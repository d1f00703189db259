//! The state of the fleet on a page: five lines first, then the details.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, lease, words};
use crate::contract::lease::{State, Verdict};
use crate::contract::status::{RowState, Status, StatusRow, Warning};
use crate::contract::unleased::{Unleased, UnleasedLife, UnleasedRole};

/// Names on one of the first lines; the table below has them all.
const SHOWN: usize = 4;

impl Human for Status {
    fn page(&self, now: Timestamp) -> Page {
        let mut page = Page::new().fields(&[
            ("free", free(self)),
            ("blocked", blocked(self, now)),
            ("leases", leases(self)),
            ("warnings", warnings(self)),
            ("next", paint(Role::Literal, &words::plain(&self.next))),
        ]);
        if !self.profiles.is_empty() {
            page = page.gap().below(&profiles(&self.profiles, now));
        }
        if !self.leases.is_empty() || !self.waiting.is_empty() || !self.damaged.is_empty() {
            page = page.gap().below(&lease::table(&self.leases, now));
            page = lease::waiting(page, &self.waiting, now);
            page = lease::damaged(page, &self.damaged);
        }
        if !self.unleased.is_empty() {
            page = page.gap().below(&unleased(&self.unleased, now));
        }
        if !self.warnings.is_empty() {
            page = self.warnings.iter().fold(page.gap(), warning);
        }
        page
    }
}

/// Some texts in a line, the rest counted.
fn some(texts: &[String], separator: &str) -> String {
    let shown = texts.get(..SHOWN).unwrap_or(texts).join(separator);
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}{separator}and {more} more"),
    }
}

fn of(status: &Status, state: RowState) -> impl Iterator<Item = &StatusRow> {
    status.profiles.iter().filter(move |row| row.state == state)
}

fn free(status: &Status) -> String {
    let names: Vec<String> = of(status, RowState::Free)
        .map(|row| {
            let name = paint(Role::Good, row.profile.as_str());
            match row.headroom_percent {
                Some(left) => format!("{name} {}", words::percent(left)),
                None => name,
            }
        })
        .collect();
    if names.is_empty() {
        return paint(Role::Bad, "nobody");
    }
    some(&names, ", ")
}

fn blocked(status: &Status, now: Timestamp) -> String {
    let mut told: Vec<String> = of(status, RowState::Blocked)
        .map(|row| {
            let name = paint(Role::Bad, row.profile.as_str());
            format!("{name} {}", reason(row, now))
        })
        .collect();
    told.extend(of(status, RowState::Full).map(|row| {
        format!(
            "{} full ({})",
            paint(Role::Warning, row.profile.as_str()),
            words::count(row.active_leases, "lease")
        )
    }));
    match status.summary.disabled {
        0 => {}
        disabled => told.push(format!("{disabled} disabled")),
    }
    if told.is_empty() {
        return paint(Role::Faint, "nobody");
    }
    some(&told, "; ")
}

/// The reason word, and until or since when.
fn reason(row: &StatusRow, now: Timestamp) -> String {
    let word = words::plain(&row.reason);
    match (row.until, row.since) {
        (Some(until), _) => format!("{word} {}", words::due(now, until).replacen("in", "for", 1)),
        (None, Some(since)) => format!("{word} since {}", words::ago(now, since)),
        (None, None) => word,
    }
}

fn leases(status: &Status) -> String {
    let of = |wanted: &dyn Fn(State, Verdict) -> bool| {
        let is = |lease: &&crate::contract::lease::Lease| wanted(lease.state, lease.verdict);
        status.leases.iter().filter(is).count()
    };
    let live = |verdict: Verdict| verdict != Verdict::Dead;
    let running = of(&|state, verdict| state == State::Running && live(verdict));
    let reserved = of(&|state, verdict| state == State::Reserved && live(verdict));
    let mut text = format!("{running} running, {reserved} reserved");
    for (verdict, word) in [
        (Verdict::Orphaned, "orphaned"),
        (Verdict::Unknown, "unknown"),
    ] {
        match of(&|_, found| found == verdict) {
            0 => {}
            some => {
                let told = format!("{some} {word}");
                text = format!("{text}, {}", paint(Role::Warning, &told));
            }
        }
    }
    match status.waiting.len() {
        0 => {}
        some => text = format!("{text}, {some} waiting"),
    }
    match status.unleased.len() {
        0 => text,
        some => {
            let told = format!("{some} without a lease");
            format!("{text}, {}", paint(Role::Warning, &told))
        }
    }
}

fn warnings(status: &Status) -> String {
    let Some(first) = status.warnings.first() else {
        return paint(Role::Good, "none");
    };
    let more = match status.warnings.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    format!(
        "{}{more}",
        paint(Role::Warning, &words::plain(&first.message))
    )
}

fn warning(page: Page, warning: &Warning) -> Page {
    let label = paint(Role::Warning, "warning:");
    let code = paint(Role::Faint, &format!("[{}]", warning.code));
    let page = page.line(format!("{label} {} {code}", words::plain(&warning.message)));
    match &warning.hint {
        Some(hint) => page.next(&words::plain(hint)),
        None => page,
    }
}

fn profiles(rows: &[StatusRow], now: Timestamp) -> Page {
    let cells = rows
        .iter()
        .map(|row| {
            vec![
                paint(Role::Literal, row.profile.as_str()),
                state(row.state),
                match row.state {
                    RowState::Free => words::plain(&row.reason),
                    RowState::Full | RowState::Blocked | RowState::Disabled => reason(row, now),
                },
                format!("{} of {}", row.active_leases, row.max_concurrent),
                row.headroom_percent.map_or_else(nothing, words::gauge),
                row.reading_age_seconds
                    .map_or_else(nothing, |age| format!("{} old", words::span(age))),
                row.hint.as_deref().map_or_else(nothing, words::plain),
            ]
        })
        .collect();
    let columns = [
        "profile", "state", "reason", "leases", "left", "reading", "next",
    ];
    Page::new().table(&columns, cells, "no profiles")
}

fn state(state: RowState) -> String {
    match state {
        RowState::Free => paint(Role::Good, "free"),
        RowState::Full => paint(Role::Warning, "full"),
        RowState::Blocked => paint(Role::Bad, "blocked"),
        RowState::Disabled => paint(Role::Faint, "disabled"),
    }
}

/// Processes in the homes that no lease accounts for.
pub(super) fn unleased(found: &[Unleased], now: Timestamp) -> Page {
    let cells = found
        .iter()
        .map(|one| {
            vec![
                match one.role {
                    UnleasedRole::Session => "session without a lease",
                    UnleasedRole::Daemon if one.older_login => "daemon with an older login",
                    UnleasedRole::Daemon => "daemon",
                    UnleasedRole::Updater => "updater of a daemon",
                }
                .to_owned(),
                paint(Role::Literal, one.profile.as_str()),
                match one.life {
                    UnleasedLife::Alive => format!("pid {}", one.pid),
                    UnleasedLife::Unknown => format!("pid {} elsewhere", one.pid),
                },
                one.since.map_or_else(nothing, |at| words::ago(now, at)),
                one.session_id.as_deref().map_or_else(nothing, words::plain),
            ]
        })
        .collect();
    let columns = ["unleased", "profile", "process", "since", "conversation"];
    Page::new().table(&columns, cells, "nobody without a lease")
}
