//! Nobody is logged out by us: looking never writes in a home, and never spends a refresh token.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{choose, credential, home};
use crate::support::world::{Account, POOL, World, wait};

/// Every file below a folder with what would change if it were written.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let data = path.symlink_metadata().expect("an entry");
            if data.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let facts = (
                data.ino(),
                data.mtime(),
                data.mtime_nsec(),
                data.len(),
                bytes,
            );
            found.insert(path, facts);
        }
    }
    found
}

/// Everything that people and supervisors run in loops.
fn look_at_everything(world: &World, round: usize) {
    let project = world.project.to_str().expect("UTF-8");
    let task = format!("t{round}");
    drop(choose(world, &task).success());
    drop(
        world
            .sandbox
            .run(["lease", "release", "--task", &task])
            .success(),
    );
    for line in [
        &["profile", "status"][..],
        &["profile", "auth-status"],
        &["profile", "identity", "show", "one"],
        &["profile", "list"],
        &["pool", "status", "--pool", POOL],
        &["quota", "show"],
        &["quota", "refresh"],
        &["lease", "list"],
        &[
            "choose",
            "--dry-run",
            "--explain",
            "--pool",
            POOL,
            "--task",
            "x",
            "--workspace",
            project,
        ],
    ] {
        drop(world.command(line));
    }
}

fn with_logins(life: u32) -> World {
    let world = World::new(&[
        Account::new("one").expires_in(life),
        Account::new("two").expires_in(life),
    ]);
    drop(world.command(&["profile", "verify", "--all"]));
    world
}

#[test]
fn commands_in_loops_write_nothing_in_a_home_and_refresh_nothing() {
    for (life, clock) in [
        (30_000, "+0"),
        (100, "+60"),
        (100, "+7200"),
        (30_000, "+864000"),
    ] {
        let mut world = with_logins(life);
        world.sandbox.set("AGENT_FLEET_TEST_NOW", clock);
        let before = [files(&home(&world, "one")), files(&home(&world, "two"))];
        for round in 0..3 {
            look_at_everything(&world, round);
        }
        let after = [files(&home(&world, "one")), files(&home(&world, "two"))];
        assert!(
            before == after,
            "a home was written at {clock} with a token of {life} s"
        );
        assert_eq!(world.requests("refresh"), [""; 0], "{clock}");
    }
}

#[test]
fn a_refused_probe_and_one_that_is_not_needed_write_nothing_in_a_home_either() {
    let world = with_logins(30_000);
    let before = files(&home(&world, "one"));
    drop(world.command(&["profile", "verify", "one", "--probe"]));
    assert!(
        before == files(&home(&world, "one")),
        "a good token was not simply shown"
    );
    assert_eq!(world.requests("refresh"), [""; 0]);
}

#[test]
fn a_token_that_is_about_to_run_out_is_still_shown_to_the_server_and_no_cli_is_started() {
    let world = with_logins(30_000);
    let place = home(&world, "one");
    world.log_in(
        place.to_str().expect("UTF-8"),
        &Account::new("one").expires_in(100),
    );
    let before = files(&place);
    drop(world.command(&["profile", "verify", "one", "--probe"]));
    assert!(before == files(&place), "a CLI was started in the home");
    assert_eq!(world.requests("refresh"), [""; 0]);
}

/// Two workers at a time, over three lives of the access token, while others ask for the quota all the time.
#[test]
fn a_chain_of_refresh_tokens_outlives_workers_and_readers_and_only_workers_spend_them() {
    let mut world = World::new(&[Account::new("one").slots(2)]);
    for life in 1..=3 {
        world
            .sandbox
            .set("AGENT_FLEET_TEST_NOW", format!("+{}", life * 9 * 3600));
        let before = files(&home(&world, "one"));
        for _ in 0..5 {
            drop(world.command(&["quota", "refresh"]));
        }
        assert!(
            before == files(&home(&world, "one")),
            "asking for the quota wrote in a home"
        );
        let tasks = ["a", "b"].map(|task| format!("{task}{life}"));
        for task in &tasks {
            drop(choose(&world, task).success());
        }
        let workers = tasks.each_ref().map(|task| world.launch(task, "say hi"));
        for _ in 0..5 {
            drop(world.command(&["quota", "refresh"]));
        }
        for worker in workers {
            assert_eq!(worker.wait(), 0);
        }
        // The new token is shown to the server, once that may be asked again.
        let later = format!("+{}", life * 9 * 3600 + 600);
        world.sandbox.set("AGENT_FLEET_TEST_NOW", later);
        drop(world.command(&["quota", "refresh"]));
        assert_eq!(world.requests("refresh"), vec!["one ok"; life]);
    }
}

/// Workers that find their home by its variable alone, as the real CLIs do.
#[test]
fn eight_workers_of_one_profile_see_one_credential_and_no_token_is_copied_anywhere() {
    let world = World::new(&[Account::new("one").slots(8)]);
    let tasks: Vec<String> = (1..=8).map(|task| format!("t{task}")).collect();
    let workers: Vec<_> = tasks
        .iter()
        .map(|task| world.start(task, "hold never"))
        .collect();
    let own = credential(&world, "one").canonicalize().expect("a login");
    for worker in &workers {
        let seen = wait("the worker's environment", || {
            let environment = std::fs::read(format!("/proc/{}/environ", worker.pid)).ok()?;
            let home = environment
                .split(|byte| *byte == 0)
                .find_map(|pair| pair.strip_prefix(b"SCRIPTED_HOME="))?;
            let home = PathBuf::from(String::from_utf8_lossy(home).into_owned());
            home.join("login.json").canonicalize().ok()
        });
        assert_eq!(seen, own);
    }
    look_at_everything(&World::with(1), 0);
    drop(world.command(&["lease", "list"]));
    let login: serde_json::Value = serde_json::from_slice(&std::fs::read(&own).unwrap()).unwrap();
    let secrets: Vec<String> = ["token", "refresh_token"]
        .iter()
        .map(|key| login[key].as_str().expect("a token").to_owned())
        .collect();
    for folder in ["state", "share", "config", "home", "tmp"] {
        for (path, (_, _, _, _, bytes)) in files(&world.sandbox.path(folder)) {
            let text = String::from_utf8_lossy(&bytes);
            let copied = secrets.iter().any(|secret| text.contains(secret));
            assert!(!copied || path == own, "a token is in {}", path.display());
        }
    }
    for worker in workers {
        worker.kill();
    }
}
