//! Reads the source tree: files, modules, and the paths that code names, without comments and strings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One file below `src`.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the repository, such as `src/store/lock.rs`.
    pub file: String,
    /// Its module, such as `["store", "lock"]`; empty for `lib.rs` and `main.rs`.
    pub module: Vec<String>,
    /// The text as it is.
    pub text: String,
    /// The code: comments and strings blanked, unit tests cut off, lines kept.
    pub code: String,
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `src`, sorted.
pub(crate) fn sources() -> Vec<Source> {
    files(&root().join("src"), &|path| {
        path.extension().is_some_and(|ending| ending == "rs")
    })
    .iter()
    .map(|path| read(path))
    .collect()
}

/// Every file below a directory that `wanted` takes, sorted; hidden directories and build output are not
/// entered.
pub(crate) fn files(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).expect("a readable directory");
    for entry in entries {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let skipped = matches!(
            name,
            Some("target" | ".git" | "node_modules" | "__pycache__")
        );
        if skipped {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).expect("a readable source file");
    let file = path.strip_prefix(root()).expect("below the repository");
    let mut module: Vec<String> = file
        .with_extension("")
        .iter()
        .skip(1)
        .map(|part| part.to_str().expect("UTF-8").to_owned())
        .collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    let code = if is_test(&module) {
        String::new()
    } else {
        without_tests(&blank(&text)).to_owned()
    };
    Source {
        file: file.to_str().expect("UTF-8").to_owned(),
        module,
        text,
        code,
    }
}

/// Whether a file holds unit tests only: `tests.rs`, `grammar_tests.rs`, `grammar_properties.rs`.
pub(crate) fn is_test(module: &[String]) -> bool {
    module.last().is_some_and(|name| {
        name == "tests" || name.ends_with("_tests") || name.ends_with("_properties")
    })
}

/// Unit tests stand at the end of a file, so everything from there on is theirs.
fn without_tests(code: &str) -> &str {
    ["mod ", "pub(super) mod ", "pub(crate) mod ", "#[path"]
        .iter()
        .map(|item| format!("#[cfg(test)]\n{item}"))
        .filter_map(|mark| code.find(&mark))
        .min()
        .map_or(code, |start| &code[..start])
}

/// Replaces comments and the insides of strings by spaces; newlines stay.
fn blank(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let length = token_to_blank(rest);
        if length == 0 {
            code.push(rest[0]);
            at += 1;
        } else {
            code.extend(rest[..length].iter().map(|letter| match letter {
                '\n' => '\n',
                _ => ' ',
            }));
            at += length;
        }
    }
    code
}

/// Length of the comment, string or character literal that starts here; 0 when none does.
fn token_to_blank(rest: &[char]) -> usize {
    let find = |from: usize, end: &str| {
        let end: Vec<char> = end.chars().collect();
        rest[from..]
            .windows(end.len())
            .position(|window| window == end)
            .map_or(rest.len(), |at| from + at + end.len())
    };
    match rest {
        ['/', '/', ..] => rest
            .iter()
            .position(|letter| *letter == '\n')
            .unwrap_or(rest.len()),
        ['/', '*', ..] => find(2, "*/"),
        ['r', '"', ..] => find(2, "\""),
        ['r', '#', '"', ..] => find(3, "\"#"),
        ['"', ..] => {
            let mut at = 1;
            while at < rest.len() && rest[at] != '"' {
                at += if rest[at] == '\\' { 2 } else { 1 };
            }
            (at + 1).min(rest.len())
        }
        ['\'', '\\', ..] => find(3, "'"),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// One path that code names, written out from the crate's root or from an external crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    /// Line in the file, from 1.
    pub line: usize,
    /// Segments; ours begin with `crate`.
    pub path: Vec<String>,
}

/// Every path with at least two segments in the code, `use` groups spread out, `self` and `super` resolved.
pub(crate) fn paths(source: &Source) -> BTreeSet<Named> {
    let tokens = tokens(&source.code);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts = is_word(&tokens[at].1) && !continues(&tokens, at);
        at = if starts {
            spread(&tokens, at, &[], &mut found)
        } else {
            at + 1
        };
    }
    found
        .into_iter()
        .filter(|named| named.path.len() > 1)
        .map(|named| Named {
            path: absolute(&named.path, &source.module),
            ..named
        })
        .collect()
}

type Token = (usize, String);

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            if letter.is_alphanumeric() || letter == '_' {
                word.push(letter);
                continue;
            }
            if !word.is_empty() {
                tokens.push((index + 1, std::mem::take(&mut word)));
            }
            if !letter.is_whitespace() {
                tokens.push((index + 1, letter.to_string()));
            }
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|letter| letter.is_alphabetic() || letter == '_')
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.1 == text)
}

/// Whether the word here is a later segment of a path that was taken already.
fn continues(tokens: &[Token], at: usize) -> bool {
    at >= 2 && is(tokens, at - 1, ":") && is(tokens, at - 2, ":")
}

/// Takes the path that starts here below `prefix`; returns where it ends.
fn spread(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    found: &mut BTreeSet<Named>,
) -> usize {
    let line = tokens[at].0;
    let mut path = prefix.to_vec();
    while tokens.get(at).is_some_and(|token| is_word(&token.1)) {
        if tokens[at].1 != "self" || path.is_empty() {
            path.push(tokens[at].1.clone());
        }
        at += 1;
        if !(is(tokens, at, ":") && is(tokens, at + 1, ":")) {
            break;
        }
        at += 2;
        if is(tokens, at, "{") {
            at += 1;
            while at < tokens.len() && !is(tokens, at, "}") {
                at = if is_word(&tokens[at].1) {
                    spread(tokens, at, &path, found)
                } else {
                    at + 1
                };
            }
            return at + 1;
        }
    }
    found.insert(Named { line, path });
    at
}

/// The path from the crate's root, where it begins with `self` or `super`.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    if ups == 0 && path[0] != "self" {
        return path.to_vec();
    }
    let here = &module[..module.len().saturating_sub(ups)];
    let rest = path.iter().skip(ups.max(1));
    std::iter::once("crate".to_owned())
        .chain(here.iter().cloned())
        .chain(rest.cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, blank, paths};

    #[test]
    fn paths_are_found_in_uses_and_in_code_but_not_in_comments_and_strings() {
        let text = "use crate::a::{self, b::{C, D}};\n// crate::no\nlet x = \"crate::no\";\nsuper::e::f(); std::fs::read(y);\n";
        let source = Source {
            file: String::new(),
            module: vec!["x".into(), "y".into()],
            text: String::new(),
            code: blank(text),
        };
        let found: Vec<String> = paths(&source)
            .into_iter()
            .map(|named| format!("{} {}", named.line, named.path.join("::")))
            .collect();
        assert_eq!(
            found,
            [
                "1 crate::a",
                "1 crate::a::b::C",
                "1 crate::a::b::D",
                "4 crate::x::e::f",
                "4 std::fs::read"
            ]
        );
    }
}
