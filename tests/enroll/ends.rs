//! `profile enroll`, ended after each of its durable steps, and the commands that come next.
//!
//! After each end: a login is in force, whole, and it is the old one, the new one, or one that the provider's CLI
//! wrote meanwhile; the new one once the change was in force for good; and whatever the CLI wrote can still be reached.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::crash::Before;
use crate::support::change::{Change, points, read};
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;

const FALLS: (&str, &str) = ("AGENT_FLEET_TEST_FAULTS", "last-look-fails");
/// A login as the provider's CLI may write it at any time.
const ROTATED: &str =
    r#"{"account":"one","token":"synthetic-rotated","refresh_token":"synthetic-rotated-too"}"#;
const COMMITTED: &str = "promote.committed";

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.ino())
}

/// Ends the enrollment at a point and judges what is left; `committed` is whether the change is in force for good.
fn end_at(change: &Change, at: &str, more: &[(&str, &str)], committed: bool) {
    let file = inode(&change.credential);
    change.end(at, more);
    let left = read(&change.credential);
    // At its very end there is no private home any more.
    let is_other = |login: &Vec<u8>| committed && change.old.as_ref() != Some(login);
    let new = change.new_login().or_else(|| left.clone().filter(is_other));
    assert!(
        left == change.old || left == new,
        "{at}: neither the old login nor the new"
    );
    let wanted = if committed { new } else { change.old.clone() };
    // Without a record nothing is to be settled: what is in force stays.
    if change.records().is_empty() {
        assert_eq!(left, wanted, "{at}: a change that nobody would find");
    }
    change.judge(at, wanted.as_deref());
    if !committed {
        assert_eq!(inode(&change.credential), file, "{at}: a copy");
    }
}

/// Work can be given at once, or once the person logged in again, and nothing is left over.
fn works(change: &Change, at: &str) {
    if change.old.is_none() {
        let enrolled = change.enroll(&[]);
        assert_eq!(enrolled.status, 0, "{at}: {}", enrolled.stdout);
        // A question to the server that was ended is asked again ten seconds later.
        let mut enable = change.world.sandbox.command(["profile", "enable", "one"]);
        let enabled = Ran::of(enable.env("AGENT_FLEET_TEST_NOW", "+15"));
        assert_eq!(enabled.status, 0, "{at}: {}", enabled.stdout);
    }
    change.tidy(at);
    let chosen = change.choose();
    assert_eq!(chosen.status, 0, "{at}: {}", chosen.stdout);
}

#[test]
fn each_end_of_an_enrollment_leaves_a_login_and_the_next_command_settles_it() {
    let change = Change::new();
    let before = Before::of(&change.world.sandbox);
    let points = points(|trace| drop(change.enroll(&[trace]).success()));
    assert_ne!(read(&change.credential), change.old, "nothing was promoted");
    let committed = points.iter().position(|point| point == COMMITTED);
    let committed = committed.expect("a promotion");
    let promotion = points.iter().filter(|point| point.starts_with("promote."));
    assert_eq!(promotion.count(), 6, "{points:?}");
    for (index, point) in points.iter().enumerate() {
        before.restore();
        let number = (index + 1).to_string();
        end_at(&change, &number, &[], index >= committed);
        works(&change, &format!("{point} ({number})"));
    }
}

#[test]
fn each_end_of_an_enrollment_that_is_taken_back_leaves_the_old_login() {
    let change = Change::new();
    let before = Before::of(&change.world.sandbox);
    let file = inode(&change.credential);
    let points = points(|trace| {
        let refused = change.enroll(&[FALLS, trace]).refused("identity_unproven");
        let sentence = refused["error"].as_str().expect("a sentence");
        assert!(sentence.ends_with("the one in force stays"), "{sentence}");
    });
    assert_eq!(
        (inode(&change.credential), read(&change.credential)),
        (file, change.old.clone())
    );
    let rollback = points
        .iter()
        .filter(|point| ["take_back.traded", "promote.taken_back"].contains(&point.as_str()));
    assert_eq!(rollback.count(), 2, "{points:?}");
    let names = points
        .iter()
        .filter(|point| point.starts_with("promote.") || point.starts_with("take_back."));
    for point in names {
        before.restore();
        end_at(&change, point, &[FALLS], false);
        works(&change, point);
    }
}

#[test]
fn each_end_of_a_first_enrollment_leaves_no_login_or_a_whole_one() {
    let change = Change::first();
    let before = Before::of(&change.world.sandbox);
    for more in [&[][..], &[FALLS]] {
        before.restore();
        let points = points(|trace| drop(change.enroll(&[more, &[trace]].concat())));
        let position = |name: &str| points.iter().position(|point| point == name);
        let begun = position("promote.staged").expect("a promotion");
        let committed = position(COMMITTED).unwrap_or(points.len());
        assert_eq!(committed == points.len(), !more.is_empty(), "{points:?}");
        // What comes before is as with any other login.
        for (index, point) in points.iter().enumerate().skip(begun) {
            before.restore();
            let number = (index + 1).to_string();
            end_at(&change, &number, more, index >= committed);
            works(&change, &format!("{point} ({number})"));
        }
    }
}

/// How a provider's CLI writes its login.
#[derive(Clone, Copy, Debug)]
enum Writes {
    /// Whole, by a rename.
    Whole,
    /// Into the file that it opened before the change began.
    InPlace,
}

#[test]
fn what_the_provider_wrote_at_any_end_is_in_force_or_kept() {
    let change = Change::new();
    let before = Before::of(&change.world.sandbox);
    let home = change.credential.parent().expect("a home").to_owned();
    for point in [
        "promote.staged",
        "promote.staged_for_good",
        "promote.written_down",
        "promote.traded",
        "promote.in_force",
        COMMITTED,
    ] {
        for writes in [Writes::Whole, Writes::InPlace] {
            before.restore();
            let mut open = File::options()
                .write(true)
                .open(&change.credential)
                .expect("a login");
            change.end(point, &[]);
            match writes {
                Writes::Whole => {
                    let aside = change.world.sandbox.write(home.join("aside"), ROTATED);
                    agent_fleet::store::replace::rename(aside, &change.credential).expect("a home");
                }
                Writes::InPlace => {
                    open.set_len(0).expect("a file");
                    open.write_all(ROTATED.as_bytes()).expect("a file");
                }
            }
            for line in [
                &["profile", "status", "one"][..],
                &["transaction", "recover", "--all"],
                &["doctor", "--fix"],
            ] {
                change.world.command(line);
            }
            let at = format!("{writes:?} at {point}");
            assert_eq!(change.records(), Vec::<String>::new(), "{at}");
            // Only after the new login is in force for good the file from before is not the login any more.
            if matches!(writes, Writes::InPlace) && point == COMMITTED {
                let kept = change.beside();
                assert_eq!(kept.len(), 1, "{at}: {kept:?}");
                let kept = home.join(&kept[0]);
                assert_eq!(read(&kept).as_deref(), Some(ROTATED.as_bytes()), "{at}");
            } else {
                let in_force = read(&change.credential);
                assert_eq!(in_force.as_deref(), Some(ROTATED.as_bytes()), "{at}");
                assert_eq!(change.beside(), Vec::<String>::new(), "{at}");
            }
        }
    }
}

#[test]
fn a_first_login_is_synced_with_every_directory_that_was_made_for_it() {
    let world = super::world(&["one"]);
    let share = world.sandbox.path("share");
    assert!(!share.exists());
    let said = world.sandbox.path("tmp/synced");
    let enroll = world.sandbox.command(["profile", "enroll", "one"]);
    let mut strace = Sandbox::tool("strace");
    strace.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"]);
    strace
        .arg(&said)
        .arg(enroll.get_program())
        .args(enroll.get_args());
    let variables = enroll.get_envs();
    strace
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let traced = Sandbox::tool("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    if !traced.is_ok_and(|traced| traced.status.success()) {
        println!("SKIPPED: nothing can be traced here (strace)");
        return;
    }
    drop(Ran::answered(&mut strace, "alpha\n").success());
    let synced = std::fs::read_to_string(said).expect("a trace");
    for made in [
        "",
        "/accounts",
        "/accounts/scripted",
        "/accounts/scripted/one",
    ] {
        let path = format!("<{}{made}>", share.display());
        assert!(synced.contains(&path), "no {path} in {synced}");
    }
}
