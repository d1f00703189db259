//! A copy of the tree to break, with the compiled dependencies of the original.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_fleet::store::lock::{Mode, try_flock};

/// The copy; only one process works in it at a time.
pub(crate) struct Copy {
    root: PathBuf,
    output: PathBuf,
    _lock: File,
}

impl Copy {
    /// Makes the copy the same as the tree, whatever an earlier run left in it.
    ///
    /// Files that are the same already are not written, so that only what changed is built again.
    pub(crate) fn of(tree: &Path) -> Self {
        let place = tree.join("target/breaks");
        let (root, output) = (place.join("tree"), place.join("output"));
        std::fs::create_dir_all(&root).expect("a directory below target");
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(place.join("lock"))
            .expect("a lock file");
        let free = try_flock(&lock, Mode::Exclusive).expect("a lock");
        assert!(free, "another run breaks functions in {}", root.display());
        let wanted = files(tree, tree);
        for file in files(&root, &root).difference(&wanted) {
            std::fs::remove_file(root.join(file)).expect("a file of the copy");
        }
        for file in &wanted {
            let bytes = std::fs::read(tree.join(file)).expect("a file of the tree");
            let copy = root.join(file);
            if std::fs::read(&copy).ok().as_ref() != Some(&bytes) {
                std::fs::create_dir_all(copy.parent().expect("below the copy"))
                    .expect("a directory");
                write(&copy, &bytes);
            }
        }
        if !output.exists() {
            seed(&tree.join("target/debug"), &output.join("debug"));
        }
        Self {
            root,
            output,
            _lock: lock,
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds the copy.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }
}

#[expect(clippy::disallowed_methods, reason = "a source file of the copy")]
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file of the copy");
}

/// Every file of a tree but git's and build output.
fn files(base: &Path, directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if matches!(
            name,
            Some("target" | ".git" | "node_modules" | "__pycache__")
        ) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(base, &path));
        } else {
            found.insert(path.strip_prefix(base).expect("below").to_owned());
        }
    }
    found
}

/// Takes over compiled dependencies, by links where nothing is ever written in place. When this cannot be
/// done, cargo compiles them: that takes minutes and changes nothing else.
fn seed(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory below target");
    for (how, what) in [("-al", "deps"), ("-a", "build"), ("-a", ".fingerprint")] {
        copy_with(how, &from.join(what), to);
    }
    // Ours are built from the copy.
    let own = [
        "agent_fleet",
        "agent-fleet",
        "libagent_fleet",
        "all-",
        "lane-",
        "breaks-",
        "budgets-",
        "fake",
    ];
    for entry in std::fs::read_dir(to.join("deps"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if own.iter().any(|own| name.starts_with(own)) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cp keeps the times that cargo compares"
)]
fn copy_with(how: &str, from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg(how)
        .arg(from)
        .arg(to)
        .stderr(Stdio::null())
        .status();
    drop(copied);
}
