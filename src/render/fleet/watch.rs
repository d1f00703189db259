//! What is told of a run while it is watched, on a page.

use jiff::Timestamp;

use super::super::page::{Page, Role, nothing, paint};
use super::super::{Human, words};
use super::{or_nothing, state};
use crate::contract::fleet::NotRead;
use crate::contract::fleet::watch::{
    History, LaunchRow, Peek, Pending, RunList, RunRow, Waited, WakeEvent,
};

fn event(event: &WakeEvent) -> String {
    let mut line = event.event.to_uppercase();
    if event.kind != "event" {
        line.push(' ');
        line.push_str(&event.kind);
    }
    line.push(' ');
    line.push_str(&paint(Role::Literal, &words::plain(&event.target)));
    for word in [&event.status, &event.reason].into_iter().flatten() {
        line.push_str(&format_args!(" [{}]", words::plain(word)).to_string());
    }
    if let Some(path) = &event.path {
        line.push(' ');
        line.push_str(&words::plain(path.as_str()));
    }
    line.push(' ');
    line.push_str(&paint(Role::Faint, &words::plain(&event.id)));
    line
}

fn pending(one: &Pending, now: Timestamp) -> String {
    let until = one
        .held_until
        .map_or_else(String::new, |at| format!(", {}", words::due(now, at)));
    format!(
        "PENDING {} {} {}{until}",
        one.kind,
        paint(Role::Literal, &one.name),
        state(&one.state, one.reason.as_ref())
    )
}

fn not_read(page: Page, rows: &[NotRead]) -> Page {
    rows.iter().fold(page, |page, one| {
        page.line(format!(
            "not read: {}: {}",
            words::plain(&one.what),
            words::plain(&one.why)
        ))
    })
}

impl Human for Waited {
    fn page(&self, now: Timestamp) -> Page {
        let mut page = Page::new();
        for one in &self.events {
            page = page.line(event(one));
        }
        if self.timed_out {
            page = page.line(format!("TIMEOUT {} is {}", self.run, self.state));
        }
        for one in &self.pending {
            page = page.line(pending(one, now));
        }
        not_read(page, &self.not_read)
    }
}

fn run(row: &RunRow, now: Timestamp) -> Vec<String> {
    vec![
        paint(Role::Literal, row.run.as_str()),
        state(&row.state, row.reason.as_ref()),
        format!("{} of {}", row.verified, row.steps),
        row.active.to_string(),
        words::ago(now, row.created),
        words::plain(row.repository.as_str()),
    ]
}

impl Human for RunList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.runs.iter().map(|row| run(row, now)).collect();
        let columns = ["run", "state", "verified", "at work", "begun", "checkout"];
        not_read(Page::new().table(&columns, rows, "no runs"), &self.not_read)
    }
}

fn launch(row: &LaunchRow, now: Timestamp) -> Vec<String> {
    let exit = match (row.status, row.signal) {
        (Some(status), _) => format!("status {status}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => nothing(),
    };
    // That it was limited says why.
    let why = row.reason.as_ref().filter(|_| row.outcome != "limited");
    vec![
        paint(Role::Literal, row.worker.as_str()),
        row.launch.to_string(),
        or_nothing(row.provider.as_ref()),
        or_nothing(row.profile.as_ref()),
        words::ago(now, row.began),
        row.ended.map_or_else(nothing, |at| words::ago(now, at)),
        exit,
        state(&row.outcome, why),
    ]
}

impl Human for History {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.launches.iter().map(|row| launch(row, now)).collect();
        let columns = [
            "worker", "launch", "provider", "account", "begun", "ended", "exit", "outcome",
        ];
        not_read(
            Page::new().table(&columns, rows, "no launches yet"),
            &self.not_read,
        )
    }
}

impl Human for Peek {
    fn page(&self, _: Timestamp) -> Page {
        let head = format!("{} launch {}: {}", self.worker, self.launch, self.state);
        let page = Page::new().heading(&head);
        self.lines.iter().fold(page, Page::line)
    }
}
