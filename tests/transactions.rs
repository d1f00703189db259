//! A change of a login that was cut short when the new one was in force, and the commands that come next: the login
//! is the old one again, no record of the change is left, and work can be given.

use std::path::Path;

use serde_json::{Value, json};

use crate::crash::Before;
use crate::support::change::{Change, ended, points, read};
use crate::support::sandbox::Ran;
use crate::support::world::POOL;

#[test]
fn a_recovery_may_end_anywhere_and_the_next_command_finishes_it() {
    let change = Change::new();
    change.cut();
    let before = Before::of(&change.world.sandbox);
    let status = ["profile", "status", "one"];
    let all = points(|(name, value)| {
        let mut run = change.world.sandbox.command(status);
        Ran::of(run.env(name, value)).success();
    });
    let recovery = all
        .iter()
        .filter(|point| point.starts_with("recover.") || point.starts_with("take_back."));
    assert!(recovery.count() >= 4, "too few points: {all:?}");
    for (index, point) in all.iter().enumerate() {
        before.restore();
        let mut run = change.world.sandbox.command(status);
        ended(&mut run, &(index + 1).to_string());
        let at = format!("recovery ended at {point}");
        change.judge(&at, change.old.as_deref());
        change.tidy(&at);
        let chosen = change.choose();
        assert_eq!(chosen.status, 0, "{at}: {}", chosen.stdout);
    }
}

#[test]
fn every_command_that_takes_a_profile_settles_what_was_cut_short_first() {
    let change = Change::new();
    change.cut();
    let before = Before::of(&change.world.sandbox);
    let project = change.world.project.to_str().expect("UTF-8").to_owned();
    let on = ["--workspace", &project, "--task", "t"];
    let choose = ["choose", "--pool", POOL, "--dry-run"];
    let lines: &[&[&str]] = &[
        &[&choose[..], &on].concat(),
        &[&["lease", "choose", "--pool", POOL][..], &on].concat(),
        &[&["lease", "acquire", "--profile", "one"][..], &on].concat(),
        &[
            &["exec", "--pool", POOL][..],
            &on,
            &["--", "-p", "say hello"],
        ]
        .concat(),
        &["profile", "status"],
        &["quota", "refresh"],
        &["quota", "show", "one"],
        &["profile", "provision", "one"],
        &["profile", "enable", "one"],
        &["profile", "verify", "one"],
        &["profile", "remove", "one"],
        &["transaction", "recover", "--all"],
    ];
    for line in lines {
        before.restore();
        let ran = change.world.sandbox.run(*line);
        assert_eq!(ran.status, 0, "{line:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(read(&change.credential), change.old, "{line:?}");
        assert_eq!(change.records(), Vec::<String>::new(), "{line:?}");
    }
}

#[test]
fn many_that_find_it_at_once_settle_it_once_and_none_is_refused() {
    let change = Change::new();
    change.cut();
    let project = change.world.project.to_str().expect("UTF-8");
    let choose = |task: String| {
        let line = ["choose", "--pool", POOL, "--dry-run", "--task", &task];
        let line = line.into_iter().chain(["--workspace", project]);
        let mut run = change.world.sandbox.command(line);
        run.stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let all: Vec<_> = (0..12).map(|n| choose(format!("t{n}"))).collect();
    for one in all {
        let output = one.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    }
    assert_eq!(read(&change.credential), change.old);
    assert_eq!(change.records(), Vec::<String>::new());
}

#[test]
fn a_person_sees_what_was_cut_short_and_takes_it_back() {
    let change = Change::new();
    let id = change.cut();
    let shown = change.world.command(&["transaction", "show", &id]);
    let beside = change.credential.with_file_name(&change.beside()[0]);
    assert_eq!(
        (&shown["state"], &shown["in_force"], &shown["profile"]),
        (&json!("pending"), &json!("new"), &json!("one"))
    );
    assert_eq!(
        shown["beside"],
        json!([{"path": beside.to_str(), "holds": "old"}])
    );
    let named = |answer: &Value, what: &str| {
        let all = answer[what].as_array().expect("a list");
        let code =
            |one: &&Value| one["code"] == "transaction_pending" || one["id"] == "transactions";
        all.iter().find(code).cloned().unwrap_or_default()
    };
    let recover = format!("agent-fleet transaction recover {id}");
    let status = change.world.command(&["status"]);
    assert_eq!(named(&status, "warnings")["hint"], recover, "{status}");
    let doctor = change.world.command(&["doctor"]);
    let check = named(&doctor, "machine");
    assert_eq!(
        (&check["level"], &check["fix"]),
        (&json!("warn"), &json!(recover))
    );
    let done = change.world.command(&["transaction", "recover", &id]);
    assert_eq!(done["recovered"][0]["outcome"], "taken_back");
    assert_eq!(read(&change.credential), change.old);
    change
        .world
        .sandbox
        .run(["transaction", "show", &id])
        .refused("not_found");
}

#[test]
fn a_damaged_record_keeps_its_provider_from_work_until_a_person_sets_it_aside() {
    let change = Change::new();
    let id = change.cut();
    let record = change.record(&id);
    let mut torn = read(&record).expect("a record");
    torn.truncate(60);
    let relative = format!("state/transactions/{id}.json");
    change.world.sandbox.write(relative, &torn);
    let (in_force, beside) = (read(&change.credential), change.beside());

    let refused = change.choose().refused("transaction_pending");
    let show = format!("agent-fleet transaction show {id}");
    assert_eq!(refused["hint"], show, "{refused}");
    let shown = change.world.command(&["transaction", "show", &id]);
    let aside = format!("agent-fleet transaction recover {id} --set-aside");
    assert_eq!(
        (&shown["state"], &shown["next"]),
        (&json!("damaged"), &json!(aside))
    );
    assert_eq!(shown["beside"][0]["holds"], "old");
    // What is known is told all the same.
    let status = change.world.command(&["profile", "status", "one"]);
    let routeability = &status["routeability"];
    assert_eq!(routeability["reason"], "transaction_pending", "{status}");
    // Nobody asks whose the login is that may yet be taken back.
    let asked = change.world.requests("usage");
    let ran = change.world.sandbox.run(["quota", "refresh"]);
    assert!(ran.stderr.contains(&show), "{}", ran.stderr);
    let rows = ran.success();
    assert_eq!(rows["quota"][0]["reason"], "transaction_pending", "{rows}");
    assert_eq!(change.world.requests("usage"), asked);
    let doctor = change.world.command(&["doctor", "--fix"]);
    assert_eq!(doctor["healthy"], false);
    for line in [
        &["profile", "enable", "one"][..],
        &["profile", "remove", "one"],
    ] {
        change
            .world
            .sandbox
            .run(line)
            .refused("transaction_pending");
    }
    let stuck = change.world.sandbox.run(["transaction", "recover", &id]);
    let stuck = stuck.refused("transaction_pending");
    assert_eq!(stuck["hint"], aside, "{stuck}");
    let told = stuck["error"].as_str().expect("a sentence");
    assert!(told.contains(&beside[0]), "{told}");
    assert_eq!(
        (read(&record), change.beside()),
        (Some(torn.clone()), beside.clone())
    );

    let done = change
        .world
        .command(&["transaction", "recover", &id, "--set-aside"]);
    assert_eq!(done["recovered"][0]["outcome"], "set_aside");
    let kept = change
        .world
        .sandbox
        .path(format!("state/transactions/{id}.set-aside"));
    assert_eq!(read(&kept), Some(torn));
    change.world.command(&["doctor", "--fix"]);
    assert_eq!(
        (read(&change.credential), change.beside()),
        (in_force, beside),
        "a login was touched"
    );
    change.choose().success();
}

#[test]
fn what_the_provider_wrote_meanwhile_is_kept_and_named_and_never_removed() {
    let change = Change::new();
    let id = change.cut();
    // As a CLI does that held the old file open: it is the one that came out.
    let home = Path::new("share/accounts/scripted/one");
    let before = Before::of(&change.world.sandbox);
    let out = home.join(&change.beside()[0]);
    change.world.sandbox.write(&out, "rotated");
    change.world.command(&["profile", "status", "one"]);
    assert_eq!(
        read(&change.credential).as_deref(),
        Some(&b"rotated"[..]),
        "it is not in force again"
    );
    assert_eq!(change.beside(), Vec::<String>::new());

    // And as a second one does at the same time that was started since: both are kept.
    before.restore();
    change.world.sandbox.write(&out, "rotated");
    change
        .world
        .sandbox
        .write(home.join("login.json"), "newest");
    let ran = change.world.sandbox.run(["profile", "status", "one"]);
    assert!(ran.stderr.contains("is kept in"), "{}", ran.stderr);
    assert_eq!(read(&change.credential).as_deref(), Some(&b"newest"[..]));
    let kept = change.beside();
    assert_eq!(kept, [format!(".login.json.fleet-{id}.orphan")]);
    for _ in 0..2 {
        change.world.command(&["doctor", "--fix"]);
    }
    assert_eq!(change.beside(), kept);
    let orphan = change.credential.with_file_name(&kept[0]);
    assert_eq!(read(&orphan).as_deref(), Some(&b"rotated"[..]));
    let doctor = change.world.command(&["doctor"]);
    let checks = doctor["profiles"][0]["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["id"] == "leftovers");
    let evidence = check.map(|check| check["evidence"].to_string());
    assert!(
        evidence.is_some_and(|said| said.contains(&kept[0])),
        "{doctor}"
    );
}
