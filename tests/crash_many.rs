//! Commands that change more than one file for good, ended after each of their durable steps: what was changed so far
//! hurts nobody, and the command or the one that undoes it goes on from there.

use serde_json::{Value, json};

use crate::crash::Before;
use crate::enroll::SECOND_PROOF;
use crate::support::change::{ended, points, read};
use crate::support::online::Online;
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::World;

/// Ends a command of a world after each of its durable steps.
fn each_end(world: &World, line: &[&str], least: usize, mut judge: impl FnMut(&World, &str)) {
    let before = Before::of(&world.sandbox);
    let points = points(|(name, value)| {
        let mut run = world.sandbox.command(line);
        drop(Ran::of(run.env(name, value)).success());
    });
    assert!(points.len() >= least, "{line:?}: {points:?}");
    for (index, point) in points.iter().enumerate() {
        before.restore();
        ended(&mut world.sandbox.command(line), &(index + 1).to_string());
        judge(world, &format!("{line:?} ended at {point} ({})", index + 1));
    }
}

#[test]
fn a_removed_profile_leaves_no_account_behind_for_the_next_of_its_name() {
    let mut world = World::with(2);
    world.sandbox.set(SECOND_PROOF, "0");
    let home = world.sandbox.path("share/accounts/scripted/two");
    let home = home.to_str().expect("UTF-8").to_owned();
    each_end(&world, &["profile", "remove", "two"], 5, |world, at| {
        let again = world.sandbox.run(["profile", "remove", "two"]);
        assert!(
            again.status == 0 || again.stdout.contains("not_found"),
            "{at}: {}",
            again.stdout
        );
        let add = ["profile", "add", "two", "--provider", "scripted", "--home"];
        world.command(&[&add[..], &[&home, "--in-place"]].concat());
        let mut enroll = world.sandbox.command(["profile", "enroll", "two"]);
        let enrolled = Ran::answered(&mut enroll, "three\n");
        assert_eq!(enrolled.status, 0, "{at}: {}", enrolled.stdout);
    });
}

#[test]
fn a_first_registry_survives_any_end_of_its_making() {
    let line = ["init", "--scripted", "1"];
    let whole = Sandbox::new();
    let points = points(|(name, value)| {
        drop(Ran::of(whole.command(line).env(name, value)).success());
    });
    assert!(points.len() >= 4, "{points:?}");
    for index in 1..=points.len() {
        let sandbox = Sandbox::new();
        ended(&mut sandbox.command(line), &index.to_string());
        let again = sandbox.run(line);
        assert!(
            again.status == 0 || again.stdout.contains("already_exists"),
            "{index}: {}",
            again.stdout
        );
        // One install, which the registry names.
        let listed = sandbox.run(["profile", "list"]).success();
        assert_eq!(listed["profiles"][0]["id"], "scripted-1", "{index}");
        sandbox.run(["profile", "provision", "--all"]).success();
    }
}

#[test]
fn a_state_root_that_was_lost_is_adopted_whatever_ends_it() {
    let world = World::with(1);
    std::fs::remove_file(world.sandbox.path("state/install.json")).expect("an install");
    let adopt = ["config", "set", "install_id", "adopt"];
    each_end(&world, &adopt, 4, |world, at| {
        let again = world.sandbox.run(adopt);
        assert_eq!(again.status, 0, "{at}: {}", again.stdout);
        let verified = world.sandbox.run(["profile", "verify", "one"]);
        assert_eq!(verified.status, 0, "{at}: {}", verified.stdout);
        assert_eq!(world.exec("task", "say hello").status, 0, "{at}");
    });
}

#[test]
fn a_project_is_registered_or_not_and_homes_follow_whatever_ends_it() {
    let world = World::with(2);
    let project = world.sandbox.git_project("another");
    let project = project.to_str().expect("UTF-8");
    each_end(&world, &["project", "register", project], 2, |world, at| {
        world.command(&["project", "register", project]);
        world.command(&["profile", "provision", "--all"]);
        let mut line = world.exec_line("task", "say hello");
        let at_work = line.iter().position(|word| word == "--workspace");
        line[at_work.expect("a workspace") + 1] = project.to_owned();
        assert_eq!(world.sandbox.run(line).status, 0, "{at}");
    });
}

/// A home of Claude Code where the person set a status line, and one of Codex where nothing is provisioned.
#[test]
fn what_provisioning_puts_aside_survives_any_end_of_it() {
    let world = Online::new(&["claude-1", "codex-1"]);
    let file = world.home("claude-1").join("settings.json");
    let mut settings: Value =
        serde_json::from_slice(&read(&file).expect("settings")).expect("JSON");
    settings["statusLine"] = json!({"type": "command", "command": "my-own-line"});
    world.sandbox.write(&file, settings.to_string());
    for file in ["hooks.json", "config.toml", "agent-fleet.json"] {
        std::fs::remove_file(world.home("codex-1").join(file)).expect("it was provisioned");
    }
    std::fs::remove_file(world.sandbox.path("share/hooks/codex.json")).expect("hashes");
    let before = Before::of(&world.sandbox);
    let line = ["profile", "provision", "--all"];
    let points = points(|(name, value)| {
        drop(Ran::of(world.sandbox.command(line).env(name, value)).success());
    });
    assert!(points.len() >= 16, "{points:?}");
    let logins = |world: &Online| {
        let file = |(id, file): &(&str, &str)| read(&world.home(id).join(file));
        [("claude-1", ".credentials.json"), ("codex-1", "auth.json")].map(|one| file(&one))
    };
    let kept = logins(&world);
    for index in 1..=points.len() {
        before.restore();
        ended(&mut world.sandbox.command(line), &index.to_string());
        let at = format!("ended at {} ({index})", points[index - 1]);
        let again = world.sandbox.run(line);
        assert_eq!(again.status, 0, "{at}: {}", again.stdout);
        let aside = read(&world.home("claude-1").join("agent-fleet.json")).unwrap_or_default();
        let aside: Value = serde_json::from_slice(&aside).expect("JSON");
        assert_eq!(aside["status_line"], "my-own-line", "{at}");
        assert_eq!(logins(&world), kept, "{at}");
        let ready = world.sandbox.run(world.dry_run());
        assert_eq!(ready.status, 0, "{at}: {}", ready.stdout);
    }
}
