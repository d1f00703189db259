//! Which paths a step may own, and when two of them are in each other's way. Pure.
//!
//! A step owns exact files, written relative to the checkout in one spelling. What may not be owned: anything that
//! git or the fleet keeps its own state in, and files that hold secrets by convention (`.env…`). That a path leads
//! through no symbolic link is for [`super::place`] to look at.

use camino::{Utf8Path, Utf8PathBuf};
use unicode_normalization::UnicodeNormalization as _;

use crate::error::{Error, Result, code};

/// Whether names that differ in case alone are one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `A` and `a` are two files.
    Sensitive,
    /// `A` and `a` are one file.
    Insensitive,
}

/// The path that a plan's text names, or why no step may own it.
pub fn check(text: &str) -> Result<Utf8PathBuf> {
    match fault(text) {
        None => Ok(Utf8PathBuf::from(text)),
        Some(why) => Err(refused(text, why)),
    }
}

/// The refusal of a path.
pub(super) fn refused(text: &str, why: &str) -> Error {
    let shown: String = super::super::git::shown(text.as_bytes())
        .chars()
        .take(200)
        .collect();
    Error::new(
        code::SCOPE_INVALID,
        format!("a step cannot own `{shown}`: {why}"),
    )
    .hint("git ls-files")
}

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.chars().any(char::is_control) {
        return Some("it holds a control character");
    }
    if text.starts_with('/') {
        return Some("it is absolute, and files are named relative to the checkout");
    }
    if text.contains(['*', '?']) {
        return Some("it is a pattern: name each file");
    }
    text.split('/').find_map(part_fault)
}

fn part_fault(part: &str) -> Option<&'static str> {
    // On some file systems these are the names below whatever their case.
    let lower = part.to_lowercase();
    match lower.as_str() {
        "" => Some("it has an empty part: name a file, with single slashes"),
        "." => Some("it has more than one spelling: leave `.` out"),
        ".." => Some("it leads upwards"),
        ".git" => Some("`.git` is git's own"),
        ".fleet" => Some("`.fleet` is the fleet's own"),
        name if name.starts_with(".env") => Some("files named `.env…` hold secrets"),
        _ => None,
    }
}

/// Whether two owned paths are in each other's way: one file, or one below the other.
pub fn overlap(one: &Utf8Path, other: &Utf8Path, case: Case) -> bool {
    let (one, other) = (key(one, case), key(other, case));
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(&one, &other) || within(&other, &one)
}

/// The first two paths of two steps that are in each other's way.
pub fn first_overlap<'a>(
    one: &'a [Utf8PathBuf],
    other: &'a [Utf8PathBuf],
    case: Case,
) -> Option<(&'a Utf8Path, &'a Utf8Path)> {
    one.iter().find_map(|path| {
        let met = other.iter().find(|other| overlap(path, other, case))?;
        Some((path.as_path(), met.as_path()))
    })
}

/// Names that a file system takes for one have one key.
fn key(path: &Utf8Path, case: Case) -> String {
    match case {
        Case::Sensitive => path.as_str().to_owned(),
        // Those file systems compare composed and decomposed letters alike, too.
        Case::Insensitive => path.as_str().nfc().collect::<String>().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, check, first_overlap, overlap};
    use crate::error::code;

    #[test]
    fn exact_files_of_the_checkout_may_be_owned() {
        for good in [
            "a",
            "src/a.rs",
            "app/[id]/page.tsx",
            "a b/é",
            ".github/x",
            ".gitignore",
            "x.env",
            "...",
            "a/..b",
            "-x",
        ] {
            assert_eq!(check(good).unwrap(), good);
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (bad, why) in [
            ("", "empty"),
            ("/etc/passwd", "absolute"),
            ("../x", "upwards"),
            ("a/../b", "upwards"),
            ("a/..", "upwards"),
            ("./a", "leave `.` out"),
            ("a/./b", "leave `.` out"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("src/*.rs", "pattern"),
            ("a?", "pattern"),
            ("a\nb", "control"),
            ("a\0", "control"),
            (".git/config", "git's own"),
            ("sub/.git", "git's own"),
            (".GIT/config", "git's own"),
            (".fleet/fleet.toml", "the fleet's own"),
            (".env", "secrets"),
            ("a/.env.local", "secrets"),
            (".ENV", "secrets"),
        ] {
            let refusal = check(bad).unwrap_err();
            assert_eq!(refusal.code, code::SCOPE_INVALID);
            assert!(refusal.message.contains(why), "{bad:?}: {refusal}");
        }
    }

    #[test]
    fn a_file_is_in_the_way_of_itself_and_of_what_would_be_below_it() {
        let met = |one: &str, other: &str, case| overlap(one.into(), other.into(), case);
        assert!(met("a/b", "a/b", Case::Sensitive));
        assert!(met("a", "a/b", Case::Sensitive));
        assert!(met("a/b", "a", Case::Sensitive));
        assert!(!met("a/b", "a/bc", Case::Sensitive));
        assert!(!met("a/B", "a/b", Case::Sensitive));
        assert!(met("a/B", "A/b/c", Case::Insensitive));
        assert!(met("e\u{301}", "É", Case::Insensitive));
        let (one, other) = (["x".into(), "a/b".into()], ["y".into(), "a".into()]);
        assert_eq!(
            first_overlap(&one, &other, Case::Sensitive),
            Some(("a/b".into(), "a".into()))
        );
        assert_eq!(first_overlap(&one, &other[..1], Case::Sensitive), None);
    }
}
