//! Sessions on a page.

use jiff::Timestamp;

use super::page::{Page, Role, paint};
use super::{Human, words};
use crate::contract::session::{Session, SessionList, SessionRemoved};

impl Human for Session {
    fn page(&self, now: Timestamp) -> Page {
        Page::new().fields(&[
            ("task", words::plain(self.task.as_str())),
            ("profile", paint(Role::Literal, self.profile.as_str())),
            ("provider", self.provider.to_string()),
            ("session", self.session_id.clone()),
            ("pool", self.pool.to_string()),
            ("workspace", self.workspace.to_string()),
            (
                "moved",
                format!(
                    "{}, {}",
                    words::ago(now, self.updated_at),
                    words::count(self.session_event_seq, "event")
                ),
            ),
        ])
    }
}

impl Human for SessionRemoved {
    fn page(&self, _: Timestamp) -> Page {
        Page::new().line(format!(
            "the conversation of {} is forgotten; it is still in its home",
            words::plain(self.task.as_str())
        ))
    }
}

impl Human for SessionList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self
            .sessions
            .iter()
            .map(|session| {
                vec![
                    words::plain(session.task.as_str()),
                    paint(Role::Literal, session.profile.as_str()),
                    session.session_id.clone(),
                    words::ago(now, session.updated_at),
                    session.workspace.to_string(),
                ]
            })
            .collect();
        let columns = ["task", "profile", "session", "moved", "workspace"];
        Page::new().table(&columns, rows, "no recorded sessions")
    }
}
