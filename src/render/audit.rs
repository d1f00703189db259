//! What happened, on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::audit::{AuditEvent, AuditList};

fn why(event: &AuditEvent, now: Timestamp) -> String {
    let reason = event.reason.as_deref().map(words::plain);
    let until = event
        .until
        .map(|until| format!("until {}", words::instant(now, until)));
    let both: Vec<_> = reason.into_iter().chain(until).collect();
    if both.is_empty() {
        nothing()
    } else {
        both.join(", ")
    }
}

impl Human for AuditList {
    fn page(&self, now: Timestamp) -> Page {
        let told = |text: &Option<String>| text.as_deref().map_or_else(nothing, words::plain);
        let rows = self
            .events
            .iter()
            .map(|event| {
                vec![
                    words::ago(now, event.at),
                    paint(Role::Literal, &words::plain(&event.event)),
                    told(&event.profile),
                    told(&event.task),
                    why(event, now),
                    format!("{} ({})", words::plain(&event.by), event.pid),
                ]
            })
            .collect();
        let columns = ["when", "what", "profile", "task", "why", "by"];
        let page = Page::new().table(&columns, rows, "nothing was written down");
        if self.damaged == 0 {
            return page;
        }
        let lines = words::count(self.damaged, "line");
        page.line(paint(Role::Warning, &format!("{lines} could not be read")))
    }
}
