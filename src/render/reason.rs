//! Reason words on a page.

use jiff::Timestamp;

use super::Human;
use super::page::{Page, Role, nothing, paint};
use crate::contract::reason::ReasonList;

impl Human for ReasonList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self
            .reasons
            .iter()
            .map(|reason| {
                let role = match reason.class {
                    "fine" => Role::Good,
                    "time" => Role::Warning,
                    _ => Role::Bad,
                };
                vec![
                    paint(role, reason.word),
                    reason.group.to_owned(),
                    reason.class.to_owned(),
                    reason.meaning.to_owned(),
                    reason
                        .cure
                        .map_or_else(nothing, |cure| paint(Role::Literal, cure)),
                ]
            })
            .collect();
        let columns = ["word", "stands in", "ends by", "meaning", "what to type"];
        Page::new().table(&columns, rows, "no such word")
    }
}
