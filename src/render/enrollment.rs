//! Enrollments on a page.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::enrollment::{Enrolled, Enrollment, EnrollmentList, EnrollmentOutcome};

impl Human for Enrolled {
    fn page(&self, _: Timestamp) -> Page {
        let profile = paint(Role::Literal, self.profile.as_str());
        let account = words::fingerprint(&self.identity_fingerprint);
        let what = match self.outcome {
            EnrollmentOutcome::Promoted => "has its new login",
            EnrollmentOutcome::Unchanged => "keeps its login, which is good",
            EnrollmentOutcome::Adopted => "has the login that was in its home",
        };
        let mut page = Page::new().line(format!("{profile} {what}; account {account}"));
        if let Some(kept) = &self.kept {
            page = page.line(format!(
                "a login that was written meanwhile is kept in {}",
                words::plain(kept.as_str())
            ));
        }
        page = page.line(if self.routeable {
            paint(Role::Good, "it takes work from now on")
        } else {
            format!(
                "it takes no work yet: {}",
                paint(Role::Warning, &words::plain(&self.reason))
            )
        });
        match &self.hint {
            Some(hint) => page.next(hint),
            None => page,
        }
    }
}

impl Human for EnrollmentList {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self.enrollments.iter().map(cells).collect();
        let columns = ["profile", "provider", "login", "account", "work"];
        let page = Page::new().table(&columns, rows, "no profile misses a login");
        let mut enrolled = self
            .enrollments
            .iter()
            .filter_map(|row| row.enrolled.as_ref());
        match enrolled.find_map(|one| one.hint.as_ref()) {
            // A refusal has a command of its own.
            Some(hint) if self.enrollments.iter().all(|row| row.code.is_none()) => page.next(hint),
            Some(_) | None => page,
        }
    }
}

fn cells(row: &Enrollment) -> Vec<String> {
    let refused = || row.code.clone().unwrap_or_default();
    let (login, account, work) = match &row.enrolled {
        Some(enrolled) => (
            paint(Role::Good, enrolled.outcome.word()),
            words::fingerprint(&enrolled.identity_fingerprint),
            words::plain(&enrolled.reason),
        ),
        None => (paint(Role::Bad, &refused()), nothing(), nothing()),
    };
    vec![
        paint(Role::Literal, row.profile.as_str()),
        row.provider.name().to_owned(),
        login,
        account,
        work,
    ]
}
