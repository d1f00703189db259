//! Changes of a login on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, or_nothing, paint};
use super::{Human, words};
use crate::contract::transaction::{
    BesideFile, InForce, RecoveryOutcome, Transaction, TransactionList, TransactionRecovered,
    TransactionState, TransactionsRecovered,
};

fn state(state: TransactionState) -> String {
    match state {
        TransactionState::Pending => paint(Role::Warning, "cut short"),
        TransactionState::UnderWay => paint(Role::Good, "under way"),
        TransactionState::Damaged => paint(Role::Bad, "record damaged"),
        TransactionState::Newer => paint(Role::Bad, "record of a newer version"),
        TransactionState::SetAside => paint(Role::Warning, "set aside"),
    }
}

fn login(which: InForce) -> &'static str {
    match which {
        InForce::Old => "the login from before",
        InForce::New => "the login that was to come",
        InForce::Other => "a login that the CLI wrote meanwhile",
        InForce::Missing => "none",
        InForce::Unreadable => "cannot be read",
    }
}

fn beside(page: Page, files: &[BesideFile]) -> Page {
    if files.is_empty() {
        return page;
    }
    let rows = files.iter().map(|file| {
        let path = words::plain(file.path.as_str());
        vec![path, login(file.holds).to_owned()]
    });
    page.gap()
        .heading("beside the credential file:")
        .table(&["file", "holds"], rows.collect(), "")
}

impl Human for Transaction {
    fn page(&self, now: Timestamp) -> Page {
        let begun = self.at.map(|at| words::ago(now, at));
        let page = Page::new().fields(&[
            ("transaction", paint(Role::Literal, &self.id)),
            ("state", state(self.state)),
            ("provider", or_nothing(self.provider.as_ref())),
            ("profile", or_nothing(self.profile.as_ref())),
            ("begun", begun.unwrap_or_else(nothing)),
            ("credential", or_nothing(self.credential.as_ref())),
            (
                "in force",
                self.in_force
                    .map_or_else(nothing, |which| login(which).to_owned()),
            ),
            ("record", words::plain(self.path.as_str())),
        ]);
        beside(page, &self.beside).next(&self.next)
    }
}

impl Human for TransactionList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.transactions.iter().map(|one| {
            vec![
                paint(Role::Literal, &one.id),
                or_nothing(one.profile.as_ref()),
                state(one.state),
                one.at.map_or_else(nothing, |at| words::ago(now, at)),
            ]
        });
        let columns = ["transaction", "profile", "state", "begun"];
        let page = Page::new().table(&columns, rows.collect(), "no change of a login is pending");
        match self.transactions.first() {
            Some(first) => page.next(&first.next),
            None => page,
        }
    }
}

impl Human for TransactionRecovered {
    fn page(&self, _: Timestamp) -> Page {
        let whose = self
            .profile
            .as_ref()
            .map_or_else(nothing, |id| paint(Role::Literal, id.as_str()));
        let mut page = Page::new().line(match self.outcome {
            RecoveryOutcome::TakenBack => {
                format!("{whose}: the change of its login was taken back")
            }
            RecoveryOutcome::SetAside => format!(
                "{whose}: the record is now {}; every login stays where it was",
                words::plain(self.path.as_ref().map_or("", |path| path.as_str()))
            ),
        });
        if let Some(kept) = &self.kept {
            let kept = words::plain(kept.as_str());
            page = page.line(format!("what its CLI wrote meanwhile is kept in {kept}"));
        }
        beside(page, &self.beside).next(&self.next)
    }
}

impl Human for TransactionsRecovered {
    fn page(&self, now: Timestamp) -> Page {
        if self.recovered.is_empty() {
            return Page::new().line("no change of a login is pending");
        }
        let pages = self.recovered.iter().map(|one| one.page(now));
        pages.fold(Page::new(), |all, page| all.below(&page))
    }
}
