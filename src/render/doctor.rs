//! What `doctor` found, on a page: what is not as it should be, grouped, with what to type.

use jiff::Timestamp;

use super::page::{Page, Role, paint};
use super::{Human, words};
use crate::contract::doctor::{Check, Counts, Doctor, Fixed, Level, ProfileChecks};

impl Human for Doctor {
    fn page(&self, _: Timestamp) -> Page {
        let mut page = Page::new().line(verdict(self.healthy, &self.counts));
        for fixed in &self.fixed {
            page = page.line(done(fixed));
        }
        page = group(page.gap(), "machine", &self.machine);
        for profile in &self.profiles {
            page = group(page, &title(profile), &profile.checks);
        }
        match &self.next {
            Some(next) => page.gap().next(&words::plain(next)),
            None => page,
        }
    }
}

/// Whether all is well, and how much is not.
pub(super) fn verdict(healthy: bool, counts: &Counts) -> String {
    let verdict = if healthy {
        paint(Role::Good, "healthy")
    } else {
        paint(Role::Bad, "not healthy")
    };
    format!(
        "{verdict}: {} ok, {} to look at, {} failed",
        counts.ok, counts.warn, counts.fail
    )
}

fn done(fixed: &Fixed) -> String {
    let word = if fixed.done {
        paint(Role::Good, "fixed")
    } else {
        paint(Role::Warning, "left")
    };
    format!("{word}  {}", words::plain(&fixed.what))
}

fn title(profile: &ProfileChecks) -> String {
    if profile.enabled {
        profile.profile.to_string()
    } else {
        format!("{} (not routed)", profile.profile)
    }
}

/// A heading with what is not as it should be below it, and how much is.
pub(super) fn group(page: Page, title: &str, checks: &[Check]) -> Page {
    let good = checks.iter().filter(|check| check.level == Level::Ok);
    let good = good.count();
    let page = page.line(format!(
        "{} {}",
        paint(Role::Heading, title),
        paint(Role::Faint, &format!("{good} of {} ok", checks.len()))
    ));
    checks
        .iter()
        .filter(|check| check.level != Level::Ok)
        .fold(page, finding)
}

fn finding(page: Page, check: &Check) -> Page {
    let level = match check.level {
        Level::Ok => paint(Role::Good, "ok  "),
        Level::Warn => paint(Role::Warning, "warn"),
        Level::Fail => paint(Role::Bad, "fail"),
    };
    let age = check
        .age_seconds
        .map_or_else(String::new, |age| format!(" ({} old)", words::span(age)));
    let about = check
        .provider
        .map_or_else(String::new, |provider| format!(" of {provider}"));
    let page = page.line(format!(
        "  {level} {}{about}: {}{age}",
        check.id,
        words::plain(&check.evidence)
    ));
    match &check.fix {
        Some(fix) => page.line(format!(
            "       {} {}",
            paint(Role::Faint, "next:"),
            paint(Role::Literal, &words::plain(fix))
        )),
        None => page,
    }
}
