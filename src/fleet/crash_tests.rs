//! Making, removing and merging a worktree and taking a snapshot, ended after each of their durable steps: the next
//! attempt ends as if nothing had happened, and the person's files are whole.

#![cfg(feature = "test-fakes")]

use std::fs;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use super::checkout_tests::{Checkout, write};
use super::merge::{How, Outcome, merge};
use super::scope::snapshot::Snapshot;
use super::worktree::{Removal, Worktree, leftovers, remove};

/// Says to a child of these tests what it is to do, and where.
const TASK: &str = "AGENT_FLEET_TEST_TASK";

fn place(checkout: &Checkout) -> Utf8PathBuf {
    checkout.beside("share/run/step")
}

fn make(checkout: &Checkout) -> Worktree {
    let repository = checkout.repository();
    Worktree::create(
        &checkout.git,
        &repository,
        &place(checkout),
        &repository.head,
    )
    .unwrap()
}

fn bring(checkout: &Checkout) -> Outcome {
    let mut worktree = Worktree::open(&place(checkout)).unwrap().unwrap();
    let repository = checkout.repository();
    merge(&checkout.git, &repository, &mut worktree, None, How::Patch).unwrap()
}

fn keep(checkout: &Checkout) -> Snapshot {
    let files = ["first", "later"].map(Utf8PathBuf::from);
    Snapshot::take(&checkout.root, &files, &checkout.beside("snapshot")).unwrap()
}

#[test]
fn the_child_of_the_tests_below() {
    #[expect(clippy::disallowed_methods, reason = "what the parent asks for")]
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let (task, root) = task.split_once(' ').unwrap();
    let checkout = Checkout::at(root.into());
    match task {
        "make" => drop(make(&checkout)),
        "remove" => drop(remove(&checkout.git, &place(&checkout), Removal::Merged).unwrap()),
        "merge" => drop(bring(&checkout)),
        _ => drop(keep(&checkout)),
    }
}

/// Runs a task in a child, which ends at the crash point of this number; false when it passes fewer.
#[expect(clippy::disallowed_methods, reason = "a child to be ended")]
fn ended_at(task: &str, root: &Utf8Path, point: usize) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "fleet::crash_tests::the_child_of_the_tests_below",
            "--exact",
        ])
        .env(TASK, format!("{task} {root}"))
        .env("AGENT_FLEET_TEST_CRASH_AT", point.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    // An end of another kind is a failure of the child.
    assert_ne!(child.status.code(), Some(101), "{told}");
    !child.status.success()
}

/// Ends the task at each point in a world of its own, and looks at what is left.
fn each_end(task: &str, fewest: usize, prepare: fn(&Checkout), check: fn(&Checkout)) {
    for point in 1.. {
        let checkout = Checkout::new();
        prepare(&checkout);
        let before = checkout.untouched();
        let ended = ended_at(task, &checkout.root, point);
        check(&checkout);
        assert!(before == checkout.untouched(), "{task} at {point}");
        if !ended {
            assert!(point > fewest, "{task} passes only {point} crash points");
            return;
        }
    }
}

fn worktrees(checkout: &Checkout) -> usize {
    let listing = checkout.run(&["worktree", "list", "--porcelain"]);
    listing.matches("worktree ").count()
}

#[test]
fn a_worktree_whose_making_was_cut_short_is_made() {
    each_end(
        "make",
        4,
        |_| (),
        |checkout| {
            let worktree = make(checkout);
            assert_eq!(fs::read(worktree.root.join("first")).unwrap(), b"1\n");
            assert!(worktree.diff(&checkout.git).unwrap().is_empty());
            assert_eq!(worktrees(checkout), 2);
            checkout.run_in(&worktree.root, &["status"]);
        },
    );
}

#[test]
fn a_worktree_whose_removal_was_cut_short_goes() {
    let prepare = |checkout: &Checkout| drop(make(checkout));
    each_end("remove", 3, prepare, |checkout| {
        remove(&checkout.git, &place(checkout), Removal::Merged).unwrap();
        assert!(!place(checkout).exists());
        assert!(leftovers(&checkout.beside("share")).is_empty());
        assert_eq!(worktrees(checkout), 1);
    });
}

#[test]
fn a_merge_that_was_cut_short_is_whole_after_the_next() {
    let prepare = |checkout: &Checkout| {
        for file in ["goes", "trades"] {
            checkout.write(file, "1\n");
        }
        checkout.commit("More");
        let worktree = make(checkout);
        fs::remove_file(worktree.root.join("goes")).unwrap();
        write(&worktree.root, "trades", "2\n");
        write(&worktree.root, "comes/in", "2\n");
        checkout.write("mine", "person\n");
    };
    each_end("merge", 4, prepare, |checkout| {
        bring(checkout);
        assert_eq!(bring(checkout), Outcome::Already);
        assert!(!checkout.path("goes").exists());
        for (file, text) in [("trades", "2\n"), ("comes/in", "2\n"), ("mine", "person\n")] {
            assert_eq!(fs::read_to_string(checkout.path(file)).unwrap(), text);
        }
        remove(&checkout.git, &place(checkout), Removal::Merged).unwrap();
    });
}

#[test]
fn a_snapshot_that_was_cut_short_is_taken() {
    each_end(
        "snapshot",
        4,
        |_| (),
        |checkout| {
            let taken = keep(checkout);
            let first = &taken.files[Utf8Path::new("first")];
            assert_eq!(taken.bytes(first).unwrap().unwrap(), b"1\n");
        },
    );
}
