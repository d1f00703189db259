//! Where the tests and the functions of a source tree are, found in its text.
//!
//! The text is as rustfmt leaves it: what begins at some column ends with a `}` at that column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Which `cargo test` target holds a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Unit tests.
    Library,
    /// `tests/all.rs`.
    Suite,
    /// `tests/lane`, with the real CLIs.
    Lane,
}

/// Every test of the tree by its full name; those of the lane begin with `lane::`.
pub(crate) fn tests(root: &Path) -> BTreeMap<String, Target> {
    let mut found = BTreeMap::new();
    for path in rust_files(&root.join("src")) {
        collect(&root.join("src"), &path, &[], Target::Library, &mut found);
    }
    for path in rust_files(&root.join("tests")) {
        let below = path.strip_prefix(root.join("tests")).expect("below");
        match below.iter().next().and_then(|first| first.to_str()) {
            Some("lane") => {
                let lane = root.join("tests/lane");
                collect(&lane, &path, &["lane"], Target::Lane, &mut found);
            }
            Some("bench" | "fakes") => {}
            _ => collect(&root.join("tests"), &path, &[], Target::Suite, &mut found),
        }
    }
    found
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("a readable directory")
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

/// The module of a file: `grammar_tests.rs` beside `grammar.rs` holds the module `tests` of `grammar`, unless the
/// module above names it as one of its own.
fn module(base: &Path, path: &Path) -> Vec<String> {
    let below = path.strip_prefix(base).expect("below").with_extension("");
    let mut parts: Vec<String> = below
        .iter()
        .map(|part| part.to_str().expect("UTF-8").to_owned())
        .collect();
    let last = parts.pop().unwrap_or_default();
    if matches!(last.as_str(), "mod" | "lib" | "main") {
        return parts;
    }
    let above = std::fs::read_to_string(path.with_file_name("mod.rs")).unwrap_or_default();
    let is_own = above.lines().any(|line| line == format!("mod {last};"));
    for kind in ["tests", "properties"] {
        if !is_own
            && let Some(of) = last.strip_suffix(&format!("_{kind}"))
            && path.with_file_name(format!("{of}.rs")).is_file()
        {
            parts.extend([of.to_owned(), kind.to_owned()]);
            return parts;
        }
    }
    parts.push(last);
    parts
}

fn collect(
    base: &Path,
    path: &Path,
    prefix: &[&str],
    target: Target,
    found: &mut BTreeMap<String, Target>,
) {
    let text = std::fs::read_to_string(path).expect("a source file");
    let mut outer: Vec<String> = prefix.iter().map(|&part| part.to_owned()).collect();
    outer.extend(module(base, path));
    let mut inner: Vec<(usize, String)> = Vec::new();
    let mut marked = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(name) = opened(line) {
            inner.push((indent, name));
        }
        if line == "}" && inner.last().is_some_and(|(column, _)| *column == indent) {
            inner.pop();
        }
        if marked && let Some(name) = declared(line) {
            let mut full = outer.clone();
            full.extend(inner.iter().map(|(_, name)| name.clone()));
            full.push(name.to_owned());
            found.insert(full.join("::"), target);
        }
        marked = line == "#[test]" || (marked && line.starts_with("#["));
    }
}

/// The name in `mod name {`.
fn opened(line: &str) -> Option<String> {
    let before = line.strip_suffix(" {")?;
    let (visibility, name) = before.split_once("mod ")?;
    (visibility.is_empty() || visibility.starts_with("pub")).then(|| name.to_owned())
}

/// The name in `fn name(`.
fn declared(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let plain = before
        .split_whitespace()
        .all(|word| matches!(word, "const" | "unsafe") || word.starts_with("pub"));
    plain
        .then(|| rest.split(['(', '<']).next())
        .flatten()
        .filter(|name| !name.is_empty())
}

/// The file of a function, and where its text is in it; `None` when there is no such function.
///
/// A method is named with its type: `lease::holder::Here::sight`.
pub(crate) fn function(root: &Path, path: &str) -> Option<(PathBuf, Range<usize>)> {
    let parts: Vec<&str> = path.split("::").collect();
    let (file, inside) = (1..parts.len()).rev().find_map(|length| {
        let (module, inside) = parts.split_at(length);
        let below = root.join("src").join(module.join("/"));
        [below.with_extension("rs"), below.join("mod.rs")]
            .into_iter()
            .find(|file| file.is_file())
            .map(|file| (file, inside.to_vec()))
    })?;
    let text = std::fs::read_to_string(&file).ok()?;
    let range = match inside[..] {
        [name] => block(&text, 0..text.len(), 0, |line| declared(line) == Some(name)),
        [kind, name] => implementations(&text, kind)
            .into_iter()
            .find_map(|range| block(&text, range, 4, |line| declared(line) == Some(name))),
        _ => None,
    }?;
    Some((file, range))
}

/// Where `impl Kind {`, `impl<'a> Kind<'a> {` and `impl Something for Kind {` are.
fn implementations(text: &str, kind: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    let begins = |line: &str| implemented(line) == Some(kind);
    while let Some(range) = block(text, from..text.len(), 0, begins) {
        from = range.end;
        found.push(range);
    }
    found
}

/// The type whose implementation begins with this line.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?.strip_suffix(" {")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.trim_start(),
    };
    let of = rest.rsplit(" for ").next()?;
    of.split('<').next()
}

/// The first block within `range` whose first line begins at `column` and is the one that is looked for.
fn block(
    text: &str,
    range: Range<usize>,
    column: usize,
    begins: impl Fn(&str) -> bool,
) -> Option<Range<usize>> {
    let mut at = range.start;
    let mut start = None;
    for line in text[range].split_inclusive('\n') {
        let bare = line.trim();
        let indent = line.len() - line.trim_start().len();
        if start.is_none() && indent == column && begins(bare) {
            start = Some(at);
        }
        at += line.len();
        if let Some(start) = start
            && indent == column
            && (bare == "}" || bare.ends_with(" {}"))
        {
            return Some(start..at);
        }
    }
    None
}
