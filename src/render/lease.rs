//! Leases on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, status, words};
use crate::contract::lease::{
    DamagedLease, Lease, LeaseList, LeaseReleased, State, Verdict, Waiting,
};

impl Human for Lease {
    fn page(&self, now: Timestamp) -> Page {
        let mut fields = vec![
            ("task", task(self)),
            ("profile", paint(Role::Literal, self.profile.as_str())),
            ("state", state(self, now)),
            ("holder", holder(self)),
            ("granted", words::ago(now, self.created_at)),
            ("generation", words::generation(self.generation)),
            ("pool", optional(self.pool.as_deref())),
            (
                "workspace",
                optional(self.workspace.as_ref().map(|path| path.as_str())),
            ),
        ];
        if !self.labels.is_empty() {
            fields.push(("labels", labels(self)));
        }
        Page::new().fields(&fields)
    }
}

impl Human for LeaseList {
    fn page(&self, now: Timestamp) -> Page {
        let page = waiting(table(&self.leases, now), &self.waiting, now);
        let page = damaged(page, &self.damaged);
        if self.unleased.is_empty() {
            return page;
        }
        page.gap().below(&status::unleased(&self.unleased, now))
    }
}

impl Human for LeaseReleased {
    fn page(&self, _: Timestamp) -> Page {
        let profile = match &self.profile {
            Some(profile) => paint(Role::Literal, profile.as_str()),
            None => "an unknown profile".to_owned(),
        };
        Page::new().line(match &self.task {
            Some(task) => format!("released {profile} from {}", words::plain(task)),
            None => format!("released {profile}"),
        })
    }
}

/// Who waits, below the leases; nothing where nobody does.
pub(super) fn waiting(page: Page, waiting: &[Waiting], now: Timestamp) -> Page {
    if waiting.is_empty() {
        return page;
    }
    let rows = waiting
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let only = one.profile.as_ref().map(ToString::to_string);
            let only = only.or_else(|| one.provider.map(|kind| kind.to_string()));
            vec![
                (index + 1).to_string(),
                words::plain(one.task.as_str()),
                one.pool.to_string(),
                optional(only.as_deref()),
                if one.attending {
                    format!("pid {}", one.pid)
                } else {
                    paint(Role::Warning, &format!("pid {}, not looking", one.pid))
                },
                words::ago(now, one.since),
            ]
        })
        .collect();
    let columns = ["turn", "waiting task", "pool", "only", "process", "since"];
    page.gap().table(&columns, rows, "")
}

pub(super) fn damaged(mut page: Page, records: &[DamagedLease]) -> Page {
    for record in records {
        let whose = match (&record.task, &record.profile) {
            (Some(task), _) => format!(" of task {}", words::plain(task)),
            (None, Some(profile)) => format!(" of profile {profile}"),
            (None, None) => String::new(),
        };
        let said = format!(
            "record {}{whose} is damaged and keeps its slot",
            record.record
        );
        page = page.line(paint(Role::Bad, &said)).next(&record.settle);
    }
    page
}

pub(super) fn table(leases: &[Lease], now: Timestamp) -> Page {
    let rows = leases
        .iter()
        .map(|lease| {
            vec![
                task(lease),
                paint(Role::Literal, lease.profile.as_str()),
                state(lease, now),
                holder(lease),
                words::ago(now, lease.bound_at.unwrap_or(lease.created_at)),
                optional(lease.workspace.as_ref().map(|path| path.as_str())),
            ]
        })
        .collect();
    let columns = ["task", "profile", "state", "holder", "since", "workspace"];
    let page = Page::new().table(&columns, rows, "no leases");
    if leases.is_empty() {
        return page;
    }
    let of = |wanted: fn(&Lease) -> bool| leases.iter().filter(|lease| wanted(lease)).count();
    let dead = of(|lease| lease.verdict == Verdict::Dead);
    let running = of(|lease| lease.verdict != Verdict::Dead && lease.state == State::Running);
    let gone = match dead {
        0 => String::new(),
        _ => format!(", {dead} dead"),
    };
    page.gap().line(format!(
        "{}: {running} running, {} reserved{gone}",
        words::count(leases.len(), "lease"),
        leases.len() - running - dead
    ))
}

fn task(lease: &Lease) -> String {
    match &lease.task {
        Some(task) => words::plain(task),
        None if lease.details_lost => paint(Role::Warning, "details lost"),
        None => nothing(),
    }
}

fn state(lease: &Lease, now: Timestamp) -> String {
    match (lease.verdict, lease.state) {
        (Verdict::Alive, State::Running) => paint(Role::Good, "running"),
        (Verdict::Alive | Verdict::Reserved, _) => match lease.expires_at {
            Some(at) if at > now => {
                let left = u64::try_from(at.as_second() - now.as_second()).unwrap_or(0);
                format!("reserved for {}", words::span(left))
            }
            Some(_) => paint(Role::Warning, "reservation expired"),
            None => "reserved".to_owned(),
        },
        (Verdict::Orphaned, _) => paint(Role::Warning, "orphaned"),
        (Verdict::Dead, _) => paint(Role::Bad, "dead, reclaimed by the next choose"),
        (Verdict::Unknown, _) => paint(Role::Warning, "unknown, keeps its slot"),
    }
}

fn holder(lease: &Lease) -> String {
    lease.pid.map_or_else(nothing, |pid| format!("pid {pid}"))
}

fn labels(lease: &Lease) -> String {
    let pairs: Vec<_> = lease
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={}", words::plain(value)))
        .collect();
    pairs.join(" ")
}

fn optional(text: Option<&str>) -> String {
    text.map_or_else(nothing, words::plain)
}
