//! Committed pages that are made from the code: a test makes them again and compares.
//!
//! `UPDATE_DOCS=1 cargo test --features test-fakes` writes them instead.

use std::path::PathBuf;

/// Compares a whole page.
#[expect(clippy::disallowed_methods, reason = "a test that writes its own page")]
#[track_caller]
pub(crate) fn check(file: &str, wanted: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    if present == wanted {
        return;
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("docs");
        std::fs::write(&path, wanted).expect("a writable page");
        return;
    }
    let line = present
        .lines()
        .zip(wanted.lines())
        .position(|(present, wanted)| present != wanted)
        .unwrap_or_else(|| present.lines().count().min(wanted.lines().count()));
    panic!(
        "{file} is not what the code makes, from line {} on:\n  page: {}\n  code: {}\nrun: UPDATE_DOCS=1 cargo test --features test-fakes",
        line + 1,
        present.lines().nth(line).unwrap_or("(ends)"),
        wanted.lines().nth(line).unwrap_or("(ends)")
    );
}

/// Compares the part of a page between `<!-- NAME -->` and `<!-- /NAME -->`.
#[track_caller]
pub(crate) fn check_block(file: &str, name: &str, wanted: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{file} is missing"));
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = page.find(&open).map(|at| at + open.len());
    let end = page.find(&close);
    let (Some(start), Some(end)) = (start, end) else {
        panic!("{file} has no block between {open} and {close}");
    };
    check(file, &[&page[..start], wanted, &page[end..]].concat());
}
