//! Building the copy and running some of its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::copy::Copy;
use crate::list::Break;
use crate::tree::{self, Target};

/// How long tests of a broken function may run before they count as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// How long anything else may take; the first build compiles dependencies.
pub(crate) const LONG: Duration = Duration::from_mins(20);

/// Runs tests of a copy.
pub(crate) struct Trial<'a> {
    copy: &'a Copy,
    targets: BTreeMap<String, Target>,
}

/// How a command ended.
struct Ended {
    success: bool,
    in_time: bool,
    output: String,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(copy: &'a Copy) -> Self {
        let targets = tree::tests(copy.root());
        Self { copy, targets }
    }

    /// Builds the copy and runs these tests; those that failed or did not end, or why nothing was run.
    pub(crate) fn run(
        &self,
        tests: &BTreeSet<&str>,
        patience: Duration,
    ) -> Result<BTreeSet<String>, String> {
        let mut targets: Vec<&str> = Vec::new();
        for (target, words) in [
            (Target::Library, &["--lib"][..]),
            (Target::Suite, &["--test", "all"][..]),
        ] {
            if tests
                .iter()
                .any(|name| self.targets.get(*name) == Some(&target))
            {
                targets.extend(words);
            }
        }
        let built = self.cargo(&targets, &["--no-run"], LONG);
        if !built.success {
            let why = built.output.lines().find(|line| line.starts_with("error"));
            return Err(format!(
                "it does not build: {}",
                why.unwrap_or("no reason told")
            ));
        }
        let mut words = vec!["--no-fail-fast", "--", "--exact"];
        words.extend(tests);
        let ran = self.cargo(&targets, &words, patience);
        // Cargo says so of a test program that ended by a signal, a stack overflow for one.
        let crashed = ran.output.contains("(signal: ");
        let mut failed = BTreeSet::new();
        for name in tests {
            let said = |word: &str| ran.output.contains(&format!("test {name} ... {word}"));
            if said("ok") {
                continue;
            }
            if said("FAILED") || !ran.in_time || crashed {
                failed.insert((*name).to_owned());
            } else {
                return Err(format!("`{name}` was not run"));
            }
        }
        Ok(failed)
    }

    fn cargo(&self, targets: &[&str], words: &[&str], patience: Duration) -> Ended {
        let mut line = vec!["test", "--quiet", "--features", "test-fakes"];
        if !words.contains(&"--no-run") {
            line.retain(|word| *word != "--quiet");
        }
        line.extend(targets);
        line.extend(words);
        run(self.copy.root(), self.copy.output(), &line, patience)
    }
}

/// Runs cargo in a process group of its own, which is killed when it takes too long.
#[expect(
    clippy::disallowed_methods,
    reason = "this program is made of other programs"
)]
fn run(root: &Path, output: &Path, line: &[&str], patience: Duration) -> Ended {
    let mut said = tempfile::tempfile().expect("a temporary file");
    let both = |file: &File| Stdio::from(file.try_clone().expect("a descriptor"));
    let mut cargo = Command::new("cargo");
    // What cargo tells of this package would make build scripts of dependencies run again.
    for (name, _) in std::env::vars_os() {
        let told = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        if told
            .iter()
            .any(|told| name.as_encoded_bytes().starts_with(told.as_bytes()))
        {
            cargo.env_remove(name);
        }
    }
    let mut child = cargo
        .args(line)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", output)
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(both(&said))
        .stderr(both(&said))
        .process_group(0)
        .spawn()
        .expect("cargo starts");
    let began = Instant::now();
    let mut status = None;
    while status.is_none() && began.elapsed() < patience {
        status = child.try_wait().expect("a child");
        std::thread::sleep(Duration::from_millis(20));
    }
    if status.is_none() {
        let group = i32::try_from(child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // It may have ended just now.
            let _ended = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        drop(child.wait());
    }
    let mut text = Vec::new();
    said.rewind().expect("a file");
    said.read_to_end(&mut text).expect("a file");
    Ended {
        success: status.is_some_and(|status| status.success()),
        in_time: status.is_some(),
        output: String::from_utf8_lossy(&text).into_owned(),
    }
}

/// Every test that some break must make fail.
pub(crate) fn demanded<'a>(breaks: impl IntoIterator<Item = &'a Break>) -> BTreeSet<&'a str> {
    breaks
        .into_iter()
        .flat_map(|one| one.tests.iter().map(String::as_str))
        .collect()
}
