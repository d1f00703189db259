//! Accounts that were found, on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::import::{ImportOutcome, Imported, ImportedAccount, Surveyed};

/// Why nothing was copied.
const WHY: [&str; 3] = [
    "Nothing was copied. Every profile needs a login of its own: a login renews itself with a token that works",
    "once, so a copied login and its original log each other out. The commands below log each profile in; before",
    "you confirm in the browser, look which account it is signed in to.",
];

impl Human for Imported {
    fn page(&self, _: Timestamp) -> Page {
        let place = words::plain(self.file.as_str());
        let page = Page::new().line(format!(
            "read {place}, a list of {}",
            words::plain(&self.format)
        ));
        told(
            page,
            &self.accounts,
            "the list names no account",
            &self.next,
        )
    }
}

impl Human for Surveyed {
    fn page(&self, _: Timestamp) -> Page {
        let what = if self.written { "wrote" } else { "added to" };
        let page = Page::new().line(format!("{what} {}", words::plain(self.registry.as_str())));
        let none = "no login was found, neither of the CLIs nor of a tool that is known";
        told(page, &self.accounts, none, &self.next)
    }
}

fn told(page: Page, accounts: &[ImportedAccount], none: &str, next: &[String]) -> Page {
    let rows = accounts.iter().map(cells).collect();
    let mut page = page
        .gap()
        .table(&["found", "profile", "what becomes of it"], rows, none);
    if accounts
        .iter()
        .any(|one| one.outcome == ImportOutcome::Added)
    {
        page = page.gap();
        for line in WHY {
            page = page.line(line);
        }
    }
    for command in next {
        page = page.next(command);
    }
    page
}

fn cells(row: &ImportedAccount) -> Vec<String> {
    let profile = row
        .profile
        .as_ref()
        .map_or_else(nothing, |id| paint(Role::Literal, id.as_str()));
    let reason = || words::plain(row.reason.as_deref().unwrap_or_default());
    let what = match row.outcome {
        ImportOutcome::Added => paint(Role::Good, "added, disabled"),
        ImportOutcome::Present => "has this profile already".to_owned(),
        ImportOutcome::Kept => reason(),
        ImportOutcome::LeftOut => format!("{} {}", paint(Role::Warning, "left out:"), reason()),
    };
    vec![words::plain(&row.account), profile, what]
}
