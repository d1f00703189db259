//! The named locks: who shares, who waits, who is refused, and that their order is kept.

use super::{Locks, Mode, Name};
use crate::clock::Clock;
use crate::error::code;
use crate::id::ProviderKind;
use camino::Utf8Path;
use std::time::Duration;

fn locks(directory: &tempfile::TempDir) -> Locks {
    Locks::new(
        Utf8Path::from_path(directory.path()).unwrap(),
        Clock::real(),
    )
}

#[test]
fn shared_holders_share_and_an_exclusive_one_waits() {
    let directory = tempfile::tempdir().unwrap();
    let locks = locks(&directory);
    let shared = locks
        .try_take(Name::Provider(ProviderKind::Codex), Mode::Shared)
        .unwrap()
        .unwrap();
    let error = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(
                locks
                    .try_take(Name::Provider(ProviderKind::Codex), Mode::Shared)
                    .unwrap()
                    .is_some()
            );
            let deadline = Clock::real().deadline(Duration::from_millis(20));
            locks
                .take(
                    &Name::Provider(ProviderKind::Codex),
                    Mode::Exclusive,
                    &deadline,
                )
                .unwrap_err()
        });
        other.join().unwrap()
    });
    assert_eq!(error.code, code::LOCK_TIMEOUT);
    drop(shared);
    assert!(
        locks
            .try_take(Name::Provider(ProviderKind::Codex), Mode::Exclusive)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_second_maintenance_is_refused_at_once_and_names_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let locks = locks(&directory);
    let held = locks
        .maintenance(ProviderKind::Claude, "profile add")
        .unwrap();
    let error = locks
        .maintenance(ProviderKind::Claude, "profile add")
        .unwrap_err();
    assert_eq!(
        error.message,
        "provider maintenance is already in progress for claude"
    );
    assert!(
        error.details["holder"]
            .as_str()
            .unwrap()
            .contains("profile add")
    );
    drop(held);
    assert!(
        locks
            .maintenance(ProviderKind::Claude, "profile add")
            .is_ok()
    );
}

#[test]
#[should_panic(expected = "taken while holding")]
fn taking_locks_out_of_order_is_a_bug() {
    let directory = tempfile::tempdir().unwrap();
    let locks = locks(&directory);
    let _leases = locks.try_take(Name::Leases, Mode::Exclusive).unwrap();
    drop(locks.try_take(Name::Provider(ProviderKind::Claude), Mode::Shared));
}
