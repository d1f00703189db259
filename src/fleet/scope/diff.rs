//! What changed in a step's files since its snapshot: the text that a reviewer judges and an acceptance is bound to.
//!
//! Only the step's own files, only those that changed, in the order of their names; the same text and digest for
//! the same bytes wherever it is made. Every change of content, mode or kind changes the digest, whether or not it
//! can be shown as text.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::lines;
use super::place::{State, digest, look};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::fleet::git::shown;

/// Largest file that is shown line by line, in bytes.
pub const SHOWN: u64 = 1 << 20;

/// Changes as text, and what they are known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// For people and reviewers; empty when nothing changed.
    pub text: String,
    /// SHA-256 of the text, in hex.
    pub digest: String,
    /// The files that changed, in order; escaped where a name is no plain text.
    pub files: Vec<String>,
}

impl Diff {
    /// A diff of this text.
    pub fn of(text: String, files: Vec<String>) -> Self {
        Self {
            digest: digest(text.as_bytes()),
            text,
            files,
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// What changed in the files of a snapshot.
pub fn scoped(root: &Utf8Path, snapshot: &Snapshot) -> Result<Diff> {
    let mut text = String::new();
    let mut files = Vec::new();
    for (path, before) in &snapshot.files {
        let after = look(root, path, SHOWN)?;
        if *before == after.state {
            continue;
        }
        let old = match size(before) {
            Some(size) if size <= SHOWN => snapshot.bytes(before)?,
            _ => None,
        };
        let old = Side {
            state: before,
            bytes: old.as_deref(),
        };
        let new = Side {
            state: &after.state,
            bytes: after.bytes.as_deref(),
        };
        text.push_str(&entry(path, old, new));
        files.push(path.to_string());
    }
    Ok(Diff::of(text, files))
}

#[derive(Clone, Copy)]
struct Side<'a> {
    state: &'a State,
    bytes: Option<&'a [u8]>,
}

fn size(state: &State) -> Option<u64> {
    match state {
        State::File { size, .. } | State::Link { size, .. } => Some(*size),
        State::Absent | State::Other { .. } | State::Behind { .. } => None,
    }
}

fn entry(path: &Utf8PathBuf, old: Side<'_>, new: Side<'_>) -> String {
    let mut text = format!("file {path}\nbefore {}\nafter {}\n", words(old), words(new));
    let content = |state: &State| match state {
        State::File { sha256, .. } => Some(sha256.clone()),
        State::Absent | State::Link { .. } | State::Other { .. } | State::Behind { .. } => None,
    };
    let (was, is) = (content(old.state), content(new.state));
    if was == is {
        // The mode alone, or a link: the header says it all.
        text.push('\n');
        return text;
    }
    let body = match (shown_text(old), shown_text(new)) {
        (Shown::Large, _) | (_, Shown::Large) => format!(
            "Content changed; a file above {} KiB is not shown\n",
            SHOWN >> 10
        ),
        (Shown::Binary, _) | (_, Shown::Binary) => "Binary content changed\n".to_owned(),
        (Shown::Text(before), Shown::Text(after)) => {
            let name = |side: &str, is_there: bool| {
                if is_there {
                    format!("{side}/{path}")
                } else {
                    "/dev/null".to_owned()
                }
            };
            let (from, to) = (name("a", was.is_some()), name("b", is.is_some()));
            format!("--- {from}\n+++ {to}\n{}", lines::unified(before, after))
        }
    };
    text.push_str(&body);
    text.push('\n');
    text
}

enum Shown<'a> {
    Text(&'a str),
    Binary,
    Large,
}

fn shown_text(side: Side<'_>) -> Shown<'_> {
    match (side.state, side.bytes) {
        (State::File { .. }, None) => Shown::Large,
        (State::File { .. }, Some(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Shown::Text(text),
            _ => Shown::Binary,
        },
        // The header says what is there instead of a file.
        _ => Shown::Text(""),
    }
}

fn words(side: Side<'_>) -> String {
    let mut text = String::new();
    let written = match side.state {
        State::Absent => write!(text, "absent"),
        State::File {
            sha256, executable, ..
        } => {
            let mode = if *executable { "755" } else { "644" };
            write!(text, "sha256 {sha256} mode {mode}")
        }
        State::Link { .. } => {
            let target = shown(side.bytes.unwrap_or_default());
            write!(text, "symbolic link to `{target}`")
        }
        State::Other { what } => write!(text, "{what}"),
        State::Behind { link } => write!(text, "behind the symbolic link `{link}`"),
    };
    written.expect("a string takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::checkout_tests::Checkout;
    use super::super::snapshot::Snapshot;
    use super::{Diff, SHOWN, scoped};
    use camino::Utf8PathBuf;
    use std::os::unix::fs::symlink;

    struct Step {
        checkout: Checkout,
        snapshot: Snapshot,
    }

    impl Step {
        fn new(owned: &[&str], prepare: impl FnOnce(&Checkout)) -> Self {
            let checkout = Checkout::new();
            prepare(&checkout);
            let owned: Vec<_> = owned.iter().map(Utf8PathBuf::from).collect();
            let into = checkout.beside("snapshot");
            let snapshot = Snapshot::take(&checkout.root, &owned, &into).unwrap();
            Self { checkout, snapshot }
        }

        fn diff(&self) -> Diff {
            scoped(&self.checkout.root, &self.snapshot).unwrap()
        }
    }

    #[test]
    fn what_the_person_had_changed_before_is_no_part_of_it() {
        let step = Step::new(&["first", "untouched"], |checkout| {
            checkout.write("first", "the person's\n");
            checkout.write("untouched", "x");
        });
        assert!(step.diff().is_empty());
        assert_eq!(step.diff().text, "");
        step.checkout.write("first", "the person's\nthe worker's\n");
        step.checkout.write("not owned", "x");
        let diff = step.diff();
        assert_eq!(diff.files, ["first"]);
        let (before, after) = (
            super::digest(b"the person's\n"),
            super::digest(b"the person's\nthe worker's\n"),
        );
        assert_eq!(
            diff.text,
            format!(
                "file first\nbefore sha256 {before} mode 644\nafter sha256 {after} mode 644\n\
                 --- a/first\n+++ b/first\n@@ -1,1 +1,2 @@\n the person's\n+the worker's\n\n"
            )
        );
        assert_eq!(diff.digest, super::digest(diff.text.as_bytes()));
        assert_eq!(step.diff(), diff);
    }

    #[test]
    fn files_come_and_go() {
        let step = Step::new(&["first", "new"], |_| ());
        std::fs::remove_file(step.checkout.path("first")).unwrap();
        step.checkout.write("new", "n");
        let text = step.diff().text;
        assert!(text.contains("after absent\n--- a/first\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n"));
        assert!(text.contains("--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+n\n\\ No newline"));
    }

    #[test]
    fn bytes_that_are_no_text_modes_and_huge_files_are_told_in_words() {
        let step = Step::new(&["latin", "zero", "script", "huge"], |checkout| {
            checkout.write("latin", b"\xe9\n");
            checkout.write("zero", "a\n");
            checkout.write("script", "#!/bin/sh\n");
            checkout.write("huge", "x");
        });
        step.checkout.write("latin", b"\xe8\n");
        step.checkout.write("zero", "a\0\n");
        step.checkout.executable("script");
        let huge = usize::try_from(SHOWN).unwrap() + 1;
        step.checkout.write("huge", vec![b'x'; huge]);
        let diff = step.diff();
        assert_eq!(diff.files, ["huge", "latin", "script", "zero"]);
        assert_eq!(diff.text.matches("Binary content changed\n").count(), 2);
        assert!(diff.text.contains("above 1024 KiB is not shown"));
        assert!(diff.text.contains("mode 644\nafter sha256"));
        assert!(diff.text.contains("mode 755\n\n"), "{}", diff.text);
        assert!(diff.text.len() < 2000);
        // One byte of what is not shown is another digest.
        step.checkout.write("huge", vec![b'y'; huge]);
        assert_ne!(step.diff().digest, diff.digest);
    }

    #[test]
    fn a_link_that_was_swapped_in_is_shown_and_not_read() {
        let step = Step::new(&["first", "in/side"], |checkout| {
            checkout.write("in/side", "1\n");
            checkout.write("else/side", "secret\n");
        });
        std::fs::remove_file(step.checkout.path("first")).unwrap();
        symlink("else/side", step.checkout.path("first")).unwrap();
        std::fs::remove_dir_all(step.checkout.path("in")).unwrap();
        symlink("else", step.checkout.path("in")).unwrap();
        let diff = step.diff();
        assert!(diff.text.contains("after symbolic link to `else/side`\n"));
        assert!(diff.text.contains("after behind the symbolic link `in`\n"));
        assert!(!diff.text.contains("secret"), "{}", diff.text);
        // Where the link leads to counts, not what is there.
        step.checkout.write("else/side", "other\n");
        assert_eq!(step.diff(), diff);
    }
}
