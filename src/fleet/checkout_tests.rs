//! A real repository for tests, with a configuration of its own and nobody's beside it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use super::git::Git;
use super::repository::Repository;
use crate::clock::Clock;

/// A repository with one commit, `first` with `1\n` in it; removed when dropped.
#[derive(Debug)]
pub(super) struct Checkout {
    _directory: tempfile::TempDir,
    pub(super) root: Utf8PathBuf,
    pub(super) git: Git,
}

impl Checkout {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let above = directory.path().canonicalize().unwrap();
        let above = Utf8PathBuf::from_path_buf(above).unwrap();
        let variables = variables(&above);
        let checkout = Self {
            _directory: directory,
            root: above.join("checkout"),
            git: Git::find(&variables.into_iter().collect(), Clock::real()).unwrap(),
        };
        fs::create_dir(&checkout.root).unwrap();
        fs::create_dir(above.join("home")).unwrap();
        checkout.run(&["init", "-q", "-b", "main"]);
        checkout.run(&["config", "user.name", "Somebody"]);
        checkout.run(&["config", "user.email", "somebody@example.invalid"]);
        checkout.write("first", "1\n");
        checkout.commit("Begin");
        checkout
    }

    /// One that another process made.
    #[cfg(feature = "test-fakes")]
    pub(super) fn at(root: Utf8PathBuf) -> Self {
        let variables = variables(root.parent().unwrap());
        Self {
            _directory: tempfile::tempdir().unwrap(),
            git: Git::find(&variables.into_iter().collect(), Clock::real()).unwrap(),
            root,
        }
    }

    pub(super) fn repository(&self) -> Repository {
        Repository::find(&self.git, &self.root).unwrap()
    }

    /// The environment of the tests' git.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        variables(self.root.parent().unwrap())
    }

    /// A path next to the checkout.
    pub(super) fn beside(&self, name: &str) -> Utf8PathBuf {
        self.root.parent().unwrap().join(name)
    }

    pub(super) fn path(&self, relative: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        self.root.join(relative)
    }

    pub(super) fn write(&self, relative: &str, text: impl AsRef<[u8]>) {
        write(&self.root, relative, text);
    }

    pub(super) fn executable(&self, relative: &str) {
        fs::set_permissions(self.path(relative), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn commit(&self, subject: &str) {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", subject]);
    }

    /// Runs git as the person would; what it answered.
    #[track_caller]
    pub(super) fn run(&self, words: &[&str]) -> String {
        self.run_in(&self.root, words)
    }

    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "the person's own git, apart from the runner under test"
    )]
    pub(super) fn run_in(&self, directory: &Utf8Path, words: &[&str]) -> String {
        let ended = Command::new("git")
            .args(["-c", "protocol.file.allow=always"])
            .args(words)
            .current_dir(directory)
            .env_clear()
            .envs(self.variables())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "git {words:?}: {told}");
        String::from_utf8_lossy(&ended.stdout).trim_end().to_owned()
    }

    /// The person's index and HEAD, byte for byte.
    pub(super) fn untouched(&self) -> (Vec<u8>, String, String) {
        (
            fs::read(self.path(".git/index")).unwrap(),
            self.run(&["rev-parse", "HEAD"]),
            fs::read_to_string(self.path(".git/HEAD")).unwrap(),
        )
    }
}

pub(super) fn write(root: &Utf8Path, relative: &str, text: impl AsRef<[u8]>) {
    let path = root.join(relative);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a file of the person")]
    fs::write(path, text).unwrap();
}

fn variables(above: &Utf8Path) -> Vec<(OsString, OsString)> {
    [
        ("HOME", above.join("home").as_str()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"),
        ("LANG", "C.UTF-8"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}
