//! The shape of the house, as a test: who may use whom, what stays pure, what only one module may do.
//!
//! To add a module: name it in [`LAYERS`], in the map of `lib.rs`, and run the tests with `UPDATE_DOCS=1`
//! so that `docs/architecture.md` shows it. A failure names file and line, and says what to do.

mod reasons;
mod source;
mod words;

use std::fmt::Write as _;

use source::{Named, Source, is_test, paths, root, sources};

/// The layers from the ground up. Code uses its own layer and those below. The longest name wins, so that a
/// part of a module can stand on another layer than the rest.
const LAYERS: &[(&str, &str, &[&str])] = &[
    (
        "ground",
        "what everything may rely on",
        &[
            "clock",
            "env",
            "error",
            "id",
            "reason",
            "sys::shell",
            "withheld",
        ],
    ),
    (
        "machine",
        "what the disk and the operating system do for us",
        &["secret", "store", "sys", "transaction"],
    ),
    (
        "facts",
        "what is known, and where it is kept",
        &[
            "audit", "contract", "identity", "provider", "quota", "registry", "snapshot",
        ],
    ),
    (
        "work",
        "what is decided and done",
        &[
            "choose", "enroll", "home", "import", "lease", "report", "worker",
        ],
    ),
    ("fleet", "plans of work, on top of all that", &["fleet"]),
    (
        "face",
        "what people and programs see",
        &["cli", "demo", "render"],
    ),
    (
        "trial",
        "what is tried on all of it, never shipped",
        &["fuzz"],
    ),
];

/// Modules that may use less than their layer would let them.
const NARROW: &[(&str, &[&str], &str)] = &[
    (
        "contract",
        &["contract", "error", "id", "registry::schema"],
        "the contract has types only: convert in the module that knows the facts",
    ),
    (
        "render",
        &["render", "contract", "error", "id", "registry::schema"],
        "pages are made from contract types: add a field there",
    ),
    (
        "error",
        &["error", "sys::shell", "withheld"],
        "an error is built by the module that knows the object",
    ),
];

/// Decisions: time arrives as a value, liveness as facts, so that a test can give both. `*` is any provider.
const PURE: &[&str] = &[
    "choose::candidate",
    "choose::explain",
    "choose::overage",
    "choose::pace",
    "choose::patience",
    "choose::rank",
    "choose::turn",
    "fleet::scope::lines",
    "fleet::scope::path",
    "identity::conflict",
    "lease::transition",
    "provider::*::environment",
    "provider::*::grammar",
    "provider::*::limits",
    "provider::*::rollout",
    "quota::cooldown",
    "quota::headroom",
    "quota::model",
    "quota::window",
    "reason",
    "withheld",
];

/// What a pure module may not name.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "std::thread",
    "std::net",
    "std::time::SystemTime",
    "std::time::Instant",
    "crate::clock",
    "crate::env::Context",
    "crate::env::World",
    "crate::store",
    "crate::sys::spawn",
    "crate::sys::exec",
];

/// What only some modules may name, and why.
const ONLY: &[(&str, &[&str], &str)] = &[
    (
        "clap",
        // Codex parses its arguments with clap: the same library checks our grammar of them.
        &["cli", "provider::codex::grammar_properties"],
        "only the command line knows its parser: pass values",
    ),
    ("clap_complete", &["cli"], "completions are a command"),
    ("clap_mangen", &["cli"], "manual pages are a command"),
    (
        "toml_edit",
        &["registry", "provider::codex"],
        "edits that keep comments happen in the registry and in the Codex home",
    ),
    ("ureq", &["provider::http"], "there is one HTTP client"),
    (
        "std::net",
        &["provider::http"],
        "only the HTTP client opens sockets",
    ),
    (
        "vt100",
        &["fleet::screen::picture"],
        "only a picture knows the emulator: pass a screen",
    ),
    (
        "std::process::Command",
        &["sys"],
        "processes start in sys::spawn and sys::exec",
    ),
    (
        "fs4",
        &["store::lock"],
        "locks are taken through the typed guards of store::lock",
    ),
    (
        "std::fs::File::open",
        &["store::read"],
        "a pipe under one of our names would be waited for: open files with store::read",
    ),
    (
        "anstream::stdout",
        &["cli::output"],
        "answers reach stdout through cli::output",
    ),
];

/// Longest file below `src`, in lines.
const LONGEST_FILE: usize = 500;

/// Module names that say nothing.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "misc", "shared",
];

/// Endings of type names that say nothing.
const EMPTY_ENDINGS: &[&str] = &[
    "Manager", "Helper", "Util", "Utils", "Handler", "Data", "Info",
];

fn starts_with(path: &[String], prefix: &str) -> bool {
    let prefix: Vec<&str> = prefix.split("::").collect();
    path.len() >= prefix.len() && prefix.iter().zip(path).all(|(a, b)| *a == "*" || a == b)
}

/// Our module that a path names, without `crate`; `None` for other crates.
fn ours(named: &Named) -> Option<&[String]> {
    let (first, rest) = named.path.split_first()?;
    (first == "crate").then_some(rest)
}

fn layer(module: &[String]) -> Option<usize> {
    LAYERS
        .iter()
        .enumerate()
        .flat_map(|(index, (_, _, names))| names.iter().map(move |name| (index, *name)))
        .filter(|(_, name)| starts_with(module, name))
        .max_by_key(|(_, name)| name.len())
        .map(|(index, _)| index)
}

fn is_module(name: &str, sources: &[Source]) -> bool {
    sources
        .iter()
        .any(|source| source.module.first().is_some_and(|first| first == name))
}

/// Fails with every finding at once.
#[track_caller]
fn assert_none(findings: &[String], what_to_do: &str) {
    let mut text = String::new();
    for finding in findings {
        writeln!(text, "  {finding}").expect("a string takes all");
    }
    assert!(findings.is_empty(), "\n{text}{what_to_do}\n");
}

fn at(source: &Source, named: &Named) -> String {
    format!("{}:{}: {}", source.file, named.line, named.path.join("::"))
}

#[test]
fn every_module_has_a_layer() {
    let sources = sources();
    let missing: Vec<String> = sources
        .iter()
        .filter(|source| !source.module.is_empty() && layer(&source.module).is_none())
        .map(|source| source.file.clone())
        .collect();
    assert_none(
        &missing,
        "name the module in LAYERS of tests/architecture/mod.rs",
    );
    let gone: Vec<String> = LAYERS
        .iter()
        .flat_map(|(_, _, names)| names.iter())
        .filter(|name| !is_module(name.split("::").next().expect("a name"), &sources))
        .map(|name| (*name).to_owned())
        .collect();
    assert_none(
        &gone,
        "LAYERS names modules that do not exist: take them out",
    );
}

#[test]
fn code_uses_its_own_layer_and_those_below() {
    let sources = sources();
    let mut findings = Vec::new();
    for source in &sources {
        let Some(own) = layer(&source.module) else {
            continue;
        };
        for named in paths(source) {
            let Some(target) = ours(&named).and_then(layer) else {
                continue;
            };
            if target > own {
                findings.push(format!(
                    "{} (`{}` is above `{}`)",
                    at(source, &named),
                    LAYERS[target].0,
                    LAYERS[own].0
                ));
            }
        }
    }
    assert_none(
        &findings,
        "pass the fact down as a value, or move the code up to the layer that knows it",
    );
}

#[test]
fn narrow_modules_use_only_what_they_may() {
    let sources = sources();
    for (module, allowed, why) in NARROW {
        let mut findings = Vec::new();
        for source in sources
            .iter()
            .filter(|source| starts_with(&source.module, module))
        {
            for named in paths(source) {
                let Some(target) = ours(&named) else {
                    continue;
                };
                let known = target
                    .first()
                    .is_some_and(|first| is_module(first, &sources));
                if known && !allowed.iter().any(|name| starts_with(target, name)) {
                    findings.push(at(source, &named));
                }
            }
        }
        assert_none(&findings, why);
    }
}

#[test]
fn decisions_are_pure() {
    let mut findings = Vec::new();
    for source in sources() {
        if !PURE.iter().any(|name| starts_with(&source.module, name)) {
            continue;
        }
        for named in paths(&source) {
            if IMPURE.iter().any(|name| starts_with(&named.path, name)) {
                findings.push(at(&source, &named));
            }
        }
    }
    assert_none(
        &findings,
        "this module decides and does nothing: take time, files and liveness as arguments",
    );
}

#[test]
fn some_things_are_done_in_one_place_only() {
    let sources = sources();
    for (thing, allowed, why) in ONLY {
        let mut findings = Vec::new();
        for source in &sources {
            let may = allowed.iter().any(|name| starts_with(&source.module, name));
            let found = paths(source)
                .into_iter()
                .filter(|named| !may && starts_with(&named.path, thing));
            findings.extend(found.map(|named| at(source, &named)));
        }
        assert_none(&findings, why);
    }
}

#[test]
fn files_are_short_documented_and_not_empty() {
    let mut findings = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LONGEST_FILE {
            findings.push(format!(
                "{}: {lines} lines, at most {LONGEST_FILE}: cut it by concept",
                source.file
            ));
        }
        let test_only = is_test(&source.module);
        if !test_only && !source.text.starts_with("//!") {
            findings.push(format!(
                "{}: begin with `//!`: what it is for, what it guarantees, what not",
                source.file
            ));
        }
        if !test_only && source.code.trim().is_empty() {
            findings.push(format!("{}: has no code: remove it", source.file));
        }
    }
    assert_none(&findings, "see docs/style.md, shape");
}

#[test]
fn names_say_something() {
    let mut findings = Vec::new();
    for source in sources() {
        for name in &source.module {
            if EMPTY_NAMES.contains(&name.as_str()) {
                findings.push(format!("{}: name it after what it is about", source.file));
            }
        }
        for (index, line) in source.code.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                let name = pair[1].trim_end_matches(|letter: char| !letter.is_alphanumeric());
                let declares = matches!(pair[0], "struct" | "enum" | "trait" | "type");
                if declares && EMPTY_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                    findings.push(format!("{}:{}: {name}", source.file, index + 1));
                }
            }
        }
    }
    assert_none(
        &findings,
        "name it with a word of the glossary in docs/style.md",
    );
}

#[test]
fn the_map_names_every_module() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let missing: Vec<String> = sources()
        .iter()
        .filter_map(|source| source.module.first().cloned())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|name| !map.contains(&format!("//! | [`{name}`] |")))
        .collect();
    assert_none(
        &missing,
        "add its line to the table of modules in src/lib.rs",
    );
}

#[test]
fn the_page_shows_the_layers() {
    let mut table = String::from("| layer | modules | what for |\n|---|---|---|\n");
    for (name, purpose, modules) in LAYERS.iter().rev() {
        let modules: Vec<String> = modules.iter().map(|name| format!("`{name}`")).collect();
        writeln!(table, "| {name} | {} | {purpose} |", modules.join(", ")).expect("a string");
    }
    crate::support::page::check_block("docs/architecture.md", "layers", &table);
}
