//! Merges in real repositories.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use camino::Utf8PathBuf;

use super::super::checkout_tests::{Checkout, write};
use super::super::scope::place::look;
use super::super::tree::Objects;
use super::super::worktree::{Removal, Worktree, remove};
use super::placing::{Move, place};
use super::{How, Outcome, merge};
use crate::error::{Error, Result, code};

struct Step {
    checkout: Checkout,
    worktree: Worktree,
}

impl Step {
    /// A checkout prepared and committed, and a worktree of it.
    fn new(prepare: impl FnOnce(&Checkout)) -> Self {
        let checkout = Checkout::new();
        prepare(&checkout);
        checkout.commit("Prepared");
        let repository = checkout.repository();
        let place = checkout.beside("share/run/step");
        let worktree =
            Worktree::create(&checkout.git, &repository, &place, &repository.head).unwrap();
        Self { checkout, worktree }
    }

    fn work(&self, relative: &str, text: impl AsRef<[u8]>) {
        write(&self.worktree.root, relative, text);
    }

    fn there(&self, relative: &str) -> Utf8PathBuf {
        self.worktree.root.join(relative)
    }

    fn here(&self, relative: &str) -> Option<Vec<u8>> {
        fs::read(self.checkout.path(relative)).ok()
    }

    fn merge_how(&mut self, how: How<'_>) -> Result<Outcome> {
        let repository = self.checkout.repository();
        let git = &self.checkout.git;
        let before = self.checkout.untouched();
        let outcome = merge(git, &repository, &mut self.worktree, None, how);
        assert!(before == self.checkout.untouched(), "index or HEAD changed");
        outcome
    }

    fn merge(&mut self) -> Result<Outcome> {
        self.merge_how(How::Patch)
    }

    #[track_caller]
    fn merged(&mut self, files: &[&str]) {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(self.merge().unwrap(), Outcome::Merged(files));
        assert_eq!(self.merge().unwrap(), Outcome::Already);
        self.leaves_nothing();
    }

    /// The refusal, which left every file alone.
    #[track_caller]
    fn refused(&mut self) -> Error {
        let before = self.checkout.run(&["status", "--porcelain", "-uall"]);
        let refusal = self.merge().unwrap_err();
        assert_eq!(refusal.code, code::MERGE_CONFLICT, "{refusal}");
        assert_eq!(
            self.checkout.run(&["status", "--porcelain", "-uall"]),
            before
        );
        self.leaves_nothing();
        refusal
    }

    #[track_caller]
    fn leaves_nothing(&self) {
        let exchange = self.checkout.path(".fleet/runs");
        let left = exchange.read_dir_utf8().into_iter().flatten().flatten();
        let left: Vec<String> = left.map(|entry| entry.file_name().to_owned()).collect();
        assert!(left.is_empty() || left == [".gitignore"], "{left:?}");
    }
}

#[test]
fn every_kind_of_change_arrives_byte_for_byte() {
    let mut step = Step::new(|checkout| {
        checkout.write("gone/deep/file", "x");
        checkout.write("binary", b"\0\x01");
        checkout.write("script", "#!/bin/sh\n");
        checkout.write("kind", "a file");
        checkout.write("becomes", "a directory");
        checkout.write("was/in", "a directory");
        checkout.write(".gitignore", "ignored\nforced\n");
    });
    let odd = std::ffi::OsStr::from_bytes(b"odd \n\xff");
    fs::copy(
        step.there("first"),
        step.worktree.root.as_std_path().join(odd),
    )
    .unwrap();
    fs::remove_dir_all(step.there("gone")).unwrap();
    step.work("binary", b"\0\x02\r\n");
    fs::set_permissions(step.there("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(step.there("kind")).unwrap();
    symlink("/etc/passwd", step.there("kind")).unwrap();
    fs_trial::rename(&step.there("first"), &step.there("renamed"));
    fs::remove_file(step.there("becomes")).unwrap();
    step.work("becomes/below", "1");
    fs::remove_dir_all(step.there("was")).unwrap();
    step.work("was", "2");
    step.work("a b/new", "no newline");
    step.work("ignored", "not a result");
    step.work("forced", "a result");
    step.work(".fleet/runs/r/reports/x.md", "exchange");
    step.checkout
        .run_in(&step.worktree.root, &["add", "-f", "forced"]);
    step.checkout.run_in(
        &step.worktree.root,
        &["commit", "-q", "-m", "By the worker"],
    );
    step.merged(&[
        "a b/new",
        "becomes",
        "becomes/below",
        "binary",
        "first",
        "forced",
        "gone/deep/file",
        "kind",
        "odd \\n\\xff",
        "renamed",
        "script",
        "was",
        "was/in",
    ]);
    assert_eq!(step.here("binary").unwrap(), b"\0\x02\r\n");
    assert_eq!(step.here("a b/new").unwrap(), b"no newline");
    assert_eq!(step.here("becomes/below").unwrap(), b"1");
    assert_eq!(step.here("was").unwrap(), b"2");
    assert!(step.here("first").is_none() && step.here("ignored").is_none());
    assert!(!step.checkout.path("gone").exists() && !step.checkout.path(".fleet/runs/r").exists());
    let mode = fs::metadata(step.checkout.path("script"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o100, 0o100);
    let link = fs::read_link(step.checkout.path("kind")).unwrap();
    assert_eq!(link, std::path::Path::new("/etc/passwd"));
    assert!(step.checkout.root.as_std_path().join(odd).exists());
}

mod fs_trial {
    /// A worker's rename.
    #[expect(clippy::disallowed_methods, reason = "a worker's rename")]
    pub(super) fn rename(from: &camino::Utf8Path, to: &camino::Utf8Path) {
        std::fs::rename(from, to).unwrap();
    }
}

#[test]
fn a_file_that_the_person_changed_stops_it_with_its_name() {
    let mut step = Step::new(|checkout| checkout.write("other", "1\n"));
    step.work("first", "worker\n");
    step.work("other", "worker\n");
    step.work("new", "worker\n");
    step.checkout.write("first", "person\n");
    let refusal = step.refused();
    assert!(refusal.message.contains("`first` has changes"), "{refusal}");
    assert_eq!(step.here("other").unwrap(), b"1\n");
    assert!(step.here("new").is_none());
    // What git does not know yet is as safe.
    step.checkout.write("first", "1\n");
    step.checkout.write("new", "person\n");
    assert!(step.refused().message.contains("`new`"));
    // Deleted by the person, too.
    fs::remove_file(step.checkout.path("new")).unwrap();
    fs::remove_file(step.checkout.path("other")).unwrap();
    assert!(step.refused().message.contains("`other`"));
    step.checkout.run(&["checkout", "-q", "other"]);
    // Files that are in nobody's way keep their changes.
    step.checkout.write("mine", "person\n");
    step.merged(&["first", "new", "other"]);
    assert_eq!(step.here("mine").unwrap(), b"person\n");
}

#[test]
fn directories_and_links_of_the_person_are_not_walked_over() {
    let mut step = Step::new(|_| ());
    step.work("way/file", "worker\n");
    let elsewhere = step.checkout.beside("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, step.checkout.path("way")).unwrap();
    assert!(step.refused().message.contains("`way/file`"));
    assert_eq!(elsewhere.read_dir_utf8().unwrap().count(), 0);
    fs::remove_file(step.checkout.path("way")).unwrap();
    step.checkout.write("way/file/below", "person\n");
    step.refused();
    assert_eq!(step.here("way/file/below").unwrap(), b"person\n");
}

#[test]
fn later_commits_are_merged_with_and_their_conflicts_named() {
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    let mut step = Step::new(|checkout| checkout.write("lines", lines("1", "9")));
    step.work("lines", lines("1", "worker"));
    step.checkout.write("lines", lines("person", "9"));
    step.checkout.write("first", "person\n");
    step.checkout.commit("Later");
    step.merged(&["lines"]);
    assert_eq!(
        step.here("lines").unwrap(),
        lines("person", "worker").as_bytes()
    );
    assert_eq!(step.here("first").unwrap(), b"person\n");

    let mut step = Step::new(|checkout| checkout.write("lines", lines("1", "9")));
    step.work("lines", lines("worker", "9"));
    step.work("new", "worker\n");
    step.checkout.write("lines", lines("person", "9"));
    step.checkout.commit("Later");
    let refusal = step.refused();
    assert!(
        refusal
            .message
            .contains("`lines` was changed by later commits"),
        "{refusal}"
    );
    assert!(step.here("new").is_none());
}

#[test]
fn more_work_after_a_merge_is_merged_on_top_of_it() {
    let mut step = Step::new(|checkout| checkout.write("other", "1\n"));
    step.work("first", "one\n");
    step.work("other", "one\n");
    step.merged(&["first", "other"]);
    // Sent back: one file changes again, the other is as it was at first.
    step.work("first", "two\n");
    step.work("other", "1\n");
    step.merged(&["first", "other"]);
    assert_eq!(step.here("first").unwrap(), b"two\n");
    assert_eq!(step.here("other").unwrap(), b"1\n");
    step.work("first", "three\n");
    step.checkout.write("first", "two\nperson\n");
    assert!(step.refused().message.contains("`first`"));
}

#[test]
fn what_the_person_made_of_a_merge_is_no_conflict() {
    let mut step = Step::new(|_| ());
    step.work("first", "worker\n");
    step.merged(&["first"]);
    step.checkout.write("first", "worker\nperson\n");
    assert_eq!(step.merge().unwrap(), Outcome::Already);
    step.checkout.write("first", "person\n");
    step.checkout.commit("Later");
    assert_eq!(step.merge().unwrap(), Outcome::Already);
    assert_eq!(step.here("first").unwrap(), b"person\n");
    // Undone, and asked for again.
    step.checkout.run(&["reset", "-q", "--hard", "HEAD~"]);
    assert_eq!(
        step.merge().unwrap(),
        Outcome::Merged(vec!["first".to_owned()])
    );
}

#[test]
fn nothing_and_what_was_not_accepted_change_nothing() {
    let mut step = Step::new(|_| ());
    assert_eq!(step.merge().unwrap(), Outcome::Nothing);
    step.work("first", "one\n");
    let accepted = step.worktree.diff(&step.checkout.git).unwrap().digest;
    step.work("first", "two\n");
    let repository = step.checkout.repository();
    let git = &step.checkout.git;
    let how = How::Patch;
    let late = merge(git, &repository, &mut step.worktree, Some(&accepted), how).unwrap_err();
    assert!(
        late.message.contains("after its diff was accepted"),
        "{late}"
    );
    step.work("first", "one\n");
    let outcome = merge(git, &repository, &mut step.worktree, Some(&accepted), how).unwrap();
    assert_eq!(outcome, Outcome::Merged(vec!["first".to_owned()]));
}

#[test]
fn a_repository_inside_the_worktree_is_told_and_not_merged() {
    let mut step = Step::new(|_| ());
    let inner = step.there("inner");
    fs::create_dir(&inner).unwrap();
    step.checkout.run_in(&inner, &["init", "-q"]);
    write(&inner, "file", "1");
    step.checkout.run_in(&inner, &["add", "-A"]);
    let person = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"];
    let commit = ["commit", "-q", "-m", "Inner"];
    step.checkout
        .run_in(&inner, &[&person[..], &commit[..]].concat());
    assert_eq!(
        step.worktree.diff(&step.checkout.git).unwrap().files,
        ["inner"]
    );
    assert!(step.refused().message.contains("repository of its own"));
}

#[test]
fn a_worktree_of_another_repository_is_not_merged() {
    let mut step = Step::new(|_| ());
    step.work("first", "worker\n");
    let other = Checkout::new();
    let git = &step.checkout.git;
    let how = How::Patch;
    let refusal = merge(git, &other.repository(), &mut step.worktree, None, how).unwrap_err();
    assert_eq!(refusal.code, code::REPOSITORY_INVALID);
    assert_eq!(fs::read(other.path("first")).unwrap(), b"1\n");
}

#[test]
fn line_ends_are_those_of_the_checkout() {
    let mut step = Step::new(|checkout| {
        checkout.write(".gitattributes", "*.txt text eol=crlf\n");
        checkout.write("a.txt", "1\r\n2\r\n");
    });
    assert!(step.worktree.diff(&step.checkout.git).unwrap().is_empty());
    step.work("a.txt", "1\r\nworker\r\n");
    step.merged(&["a.txt"]);
    assert_eq!(step.here("a.txt").unwrap(), b"1\r\nworker\r\n");
}

#[test]
fn a_merge_that_was_cut_short_is_finished_by_the_next() {
    let mut step = Step::new(|checkout| {
        checkout.write("b", "1\n");
        checkout.write("c", "1\n");
    });
    for file in ["first", "c", "new"] {
        step.work(file, "worker\n");
    }
    fs::remove_file(step.there("b")).unwrap();
    // As after any number of the renames: some are what they are to be.
    step.checkout.write("first", "worker\n");
    fs::remove_file(step.checkout.path("b")).unwrap();
    assert_eq!(
        step.merge().unwrap(),
        Outcome::Merged(vec!["c".to_owned(), "new".to_owned()])
    );
    assert_eq!(step.merge().unwrap(), Outcome::Already);
}

#[test]
fn an_edit_in_the_moment_of_the_merge_stays_and_everything_else_goes_back() {
    let step = Step::new(|checkout| {
        for file in ["deep/goes", "trades", "z-last"] {
            checkout.write(file, "1\n");
        }
    });
    let root = &step.checkout.root;
    let staging = step.checkout.beside("staging");
    for file in ["a/comes", "trades", "z-last"] {
        write(&staging, &format!("new/{file}"), "new\n");
    }
    let mut moves: Vec<Move> = ["deep/goes", "trades", "a/comes", "z-last"]
        .iter()
        .map(|path| Move {
            path: path.into(),
            before: look(root, path, 0).unwrap().state,
            comes: *path != "deep/goes",
        })
        .collect();
    step.checkout.write("z-last", "person\n");
    let refusal = place(root, &staging, moves.clone()).unwrap_err();
    assert!(
        refusal
            .message
            .contains("`z-last` was changed at this moment"),
        "{refusal}"
    );
    assert!(!refusal.details.contains_key("kept"));
    assert_eq!(step.here("z-last").unwrap(), b"person\n");
    assert_eq!(step.here("deep/goes").unwrap(), b"1\n");
    assert_eq!(step.here("trades").unwrap(), b"1\n");
    assert!(!step.checkout.path("a").exists());
    // Something that appears is no less safe than something that changes.
    moves.pop();
    step.checkout.write("a/comes", "person\n");
    assert!(place(root, &staging, moves.clone()).is_err());
    assert_eq!(step.here("a/comes").unwrap(), b"person\n");
    assert_eq!(step.here("deep/goes").unwrap(), b"1\n");
    fs::remove_dir_all(step.checkout.path("a")).unwrap();
    place(root, &staging, moves).unwrap();
    assert_eq!(step.here("a/comes").unwrap(), b"new\n");
    assert!(!step.checkout.path("deep").exists());
}

#[test]
fn a_branch_holds_one_commit_by_the_person() {
    let mut step = Step::new(|_| ());
    step.work("first", "worker\n");
    step.checkout.write("first", "person\n");
    let how = How::Branch {
        name: "result",
        message: "Do the step\n",
    };
    assert_eq!(
        step.merge_how(how).unwrap(),
        Outcome::Merged(vec!["first".to_owned()])
    );
    assert_eq!(step.merge_how(how).unwrap(), Outcome::Already);
    assert_eq!(step.here("first").unwrap(), b"person\n");
    let told = step
        .checkout
        .run(&["log", "--format=%an %s", "main..result"]);
    assert_eq!(told, "Somebody Do the step");
    assert_eq!(step.checkout.run(&["show", "result:first"]), "worker");
    step.work("first", "other\n");
    assert_eq!(step.merge_how(how).unwrap_err().code, code::ALREADY_EXISTS);
    for bad in ["HEAD", "-x", "a..b", "", "a b"] {
        let how = How::Branch {
            name: bad,
            message: "x",
        };
        assert_eq!(step.merge_how(how).unwrap_err().code, code::USAGE, "{bad}");
    }
    step.checkout.run(&["checkout", "-q", "first"]);
    step.checkout.run(&["merge", "-q", "--ff-only", "result"]);
    assert_eq!(step.here("first").unwrap(), b"worker\n");
}

#[test]
fn what_was_merged_may_go_and_nothing_else() {
    let mut step = Step::new(|_| ());
    let git = step.checkout.git.clone();
    let root = step.worktree.root.clone();
    step.work("first", "worker\n");
    let refusal = remove(&git, &root, Removal::Merged).unwrap_err();
    assert_eq!(refusal.code, code::WORKTREE_UNMERGED);
    assert!(refusal.message.contains("`first`"), "{refusal}");
    step.merge().unwrap();
    step.work("later", "worker\n");
    assert!(remove(&git, &root, Removal::Merged).is_err());
    fs::remove_file(step.there("later")).unwrap();
    // Objects of the merge are nobody's business any more, so the content can be told without them.
    step.worktree.content(&git, Objects::Discarded).unwrap();
    assert!(remove(&git, &root, Removal::Merged).unwrap());
    assert!(!root.exists());
    assert_eq!(step.here("first").unwrap(), b"worker\n");
}
