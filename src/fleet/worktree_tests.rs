//! Worktrees in real repositories.

use std::fs;
use std::os::unix::fs::symlink;

use camino::Utf8PathBuf;

use super::checkout_tests::{Checkout, write};
use super::tree::raw;
use super::worktree::{Removal, Stage, Worktree, leftovers, remove, sweep};
use crate::clock::Clock;
use crate::error::code;

fn place(checkout: &Checkout) -> Utf8PathBuf {
    checkout.beside("share/run/step")
}

fn made(checkout: &Checkout) -> Worktree {
    let repository = checkout.repository();
    Worktree::create(
        &checkout.git,
        &repository,
        &place(checkout),
        &repository.head,
    )
    .unwrap()
}

/// How many worktrees git knows.
fn known(checkout: &Checkout) -> usize {
    let listing = checkout.run(&["worktree", "list", "--porcelain"]);
    listing.matches("worktree ").count()
}

#[test]
fn a_worktree_is_a_checkout_of_the_base_that_leaves_the_persons_alone() {
    let checkout = Checkout::new();
    checkout.write("first", "dirty\n");
    checkout.run(&["add", "first"]);
    let before = checkout.untouched();
    let hook = ".git/hooks/post-checkout";
    checkout.write(hook, "#!/bin/sh\ntouch ran\n");
    checkout.executable(hook);
    let worktree = made(&checkout);
    assert_eq!(fs::read(worktree.root.join("first")).unwrap(), b"1\n");
    assert!(!worktree.root.join("ran").exists());
    assert_eq!(
        checkout.run_in(&worktree.root, &["branch", "--show-current"]),
        ""
    );
    assert!(before == checkout.untouched());
    assert_eq!(made(&checkout), worktree);
    assert_eq!(
        Worktree::open(&place(&checkout)).unwrap(),
        Some(worktree.clone())
    );
    assert_eq!(known(&checkout), 2);
    // The broker takes it for a worktree of the person's project.
    let kind = crate::registry::project::worktree::inspect(&worktree.root);
    let common = checkout.root.join(".git");
    assert_eq!(
        kind,
        crate::registry::project::worktree::Kind::Linked(common)
    );
}

#[test]
fn the_diff_holds_everything_that_differs_from_the_base() {
    let checkout = Checkout::new();
    checkout.write(".gitignore", "ignored\n");
    checkout.commit("Ignore");
    let worktree = made(&checkout);
    let diff = || worktree.diff(&checkout.git).unwrap();
    assert!(diff().is_empty());
    write(&worktree.root, "committed", "1\n");
    checkout.run_in(&worktree.root, &["add", "-A"]);
    checkout.run_in(&worktree.root, &["commit", "-q", "-m", "By the worker"]);
    write(&worktree.root, "un tracked\n", "x\n");
    write(&worktree.root, "first", "2\n");
    checkout.run_in(&worktree.root, &["add", "first"]);
    checkout.run_in(
        &worktree.root,
        &["update-index", "--assume-unchanged", "first"],
    );
    write(&worktree.root, "first", "3\n");
    write(&worktree.root, "ignored", "x");
    write(&worktree.root, ".fleet/runs/x", "x");
    write(&worktree.root, "binary", b"\0");
    symlink("first", worktree.root.join("link")).unwrap();
    let told = diff();
    assert_eq!(
        told.files,
        ["binary", "committed", "first", "link", "un tracked\\n"]
    );
    assert!(told.text.contains("-1\n+3\n"), "{}", told.text);
    assert_eq!(diff(), told);
    write(&worktree.root, "binary", b"\0\0");
    let other = diff();
    assert_ne!(other.digest, told.digest);
    // Nothing of it went into the repository.
    let unreachable = checkout.run(&["count-objects"]);
    write(&worktree.root, "more", "something new\n");
    diff();
    assert_eq!(checkout.run(&["count-objects"]), unreachable);
}

#[test]
fn changes_too_long_to_show_are_listed_and_known_all_the_same() {
    let checkout = Checkout::new();
    let worktree = made(&checkout);
    let line = "x".repeat(99) + "\n";
    let huge = |last: &str| line.repeat(100_000) + last;
    write(&worktree.root, "huge", huge("1"));
    let told = worktree.diff(&checkout.git).unwrap();
    assert!(
        told.text.contains("longer than 8 MiB"),
        "{:.100}",
        told.text
    );
    assert!(told.text.len() < 1000);
    write(&worktree.root, "huge", huge("2"));
    assert_ne!(worktree.diff(&checkout.git).unwrap().digest, told.digest);
}

#[test]
fn a_place_that_is_taken_is_left_alone() {
    let checkout = Checkout::new();
    let repository = checkout.repository();
    let root = place(&checkout);
    write(&root, "file", "somebody's");
    let git = &checkout.git;
    let refusal = Worktree::create(git, &repository, &root, &repository.head).unwrap_err();
    assert_eq!(refusal.code, code::ALREADY_EXISTS);
    assert!(!remove(git, &root, Removal::Forced).unwrap());
    assert_eq!(fs::read(root.join("file")).unwrap(), b"somebody's");
    fs::remove_dir_all(&root).unwrap();
    made(&checkout);
    checkout.commit("Later");
    let later = checkout.repository();
    let refusal = Worktree::create(git, &later, &root, &later.head).unwrap_err();
    assert!(refusal.message.contains("another base"), "{refusal}");
}

#[test]
fn one_that_git_had_half_made_is_made_anew() {
    for missing in ["first", ".git", ""] {
        let checkout = Checkout::new();
        let worktree = made(&checkout);
        // As git leaves it when it is ended: locked, and with some of the files.
        checkout.run(&["worktree", "lock", worktree.root.as_str()]);
        let path = worktree.root.join(missing);
        if missing.is_empty() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        let beside = worktree.root.with_file_name("step.json");
        let mut record = worktree.record.clone();
        record.stage = Stage::Making;
        super::record::save(&beside, &record).unwrap();
        assert_eq!(Worktree::open(&worktree.root).unwrap(), None);
        let again = made(&checkout);
        assert_eq!(again, worktree);
        assert_eq!(fs::read(again.root.join("first")).unwrap(), b"1\n");
        assert!(again.diff(&checkout.git).unwrap().is_empty());
        assert_eq!(known(&checkout), 2);
    }
}

#[test]
fn removal_forgets_it_and_no_other() {
    let checkout = Checkout::new();
    let mine = checkout.beside("mine");
    checkout.run(&["worktree", "add", "-q", "--detach", mine.as_str()]);
    // Somebody's, on a disk that is not there now.
    fs::remove_dir_all(&mine).unwrap();
    let worktree = made(&checkout);
    assert_eq!(known(&checkout), 3);
    write(&worktree.root, "work", "x");
    let git = &checkout.git;
    assert!(remove(git, &worktree.root, Removal::Merged).is_err());
    assert!(remove(git, &worktree.root, Removal::Forced).unwrap());
    assert!(!remove(git, &worktree.root, Removal::Forced).unwrap());
    assert_eq!(known(&checkout), 2);
    assert!(leftovers(&checkout.beside("share")).is_empty());
    made(&checkout);
}

#[test]
fn what_is_left_is_listed_whatever_became_of_it() {
    let checkout = Checkout::new();
    let worktree = made(&checkout);
    let below = checkout.beside("share");
    write(&below, "run/torn.json", "{");
    write(&below, "run/.tmp-x/index", "");
    let found = leftovers(&below);
    let names: Vec<&str> = found
        .iter()
        .filter_map(|one| one.root.file_name())
        .collect();
    assert_eq!(names, ["step", "torn"]);
    assert_eq!(found[0].record.as_ref().unwrap().stage, Stage::Made);
    assert!(found[0].there && !found[1].there);
    assert_eq!(
        found[1].record.as_ref().unwrap_err().code,
        code::RECORD_DAMAGED
    );
    sweep(&below.join("run"), &Clock::real());
    assert!(below.join("run/.tmp-x").exists());
    sweep(&below.join("run"), &Clock::moved("+7200"));
    assert!(!below.join("run/.tmp-x").exists());
    fs::remove_dir_all(&worktree.root).unwrap();
    assert_eq!(
        Worktree::open(&worktree.root).unwrap_err().code,
        code::NOT_FOUND
    );
    assert!(remove(&checkout.git, &worktree.root, Removal::Merged).unwrap());
    assert_eq!(known(&checkout), 1);
}

#[test]
fn gits_raw_listing_is_read_with_any_name() {
    let listing = b":000000 100644 000 abc A\0a\n\xff\0:100644 000000 abc 000 D\0b\0";
    let found = raw(listing);
    assert_eq!(found[0].path, b"a\n\xff");
    assert!(found[0].old.is_none() && found[1].new.is_none());
    assert_eq!(found[0].new.as_ref().unwrap().object, "abc");
}
