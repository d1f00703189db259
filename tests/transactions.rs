//! A change of a login, ended after each of its steps, and the commands that come next.
//!
//! After each end: the login is the old one or the new one, whole, and the old one unless the change was in
//! force for good; the next command leaves no record of it; a second one changes nothing; work can be given.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::crash::{ABORTED, Before};
use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::{Account, POOL, World};

/// A world with a profile `one`, and a second login of its account that waits in a file.
pub(crate) struct Change {
    pub(crate) world: World,
    pub(crate) credential: PathBuf,
    pub(crate) new: PathBuf,
    old: Vec<u8>,
}

impl Change {
    pub(crate) fn new() -> Self {
        let account = Account::new("one");
        let world = World::new(std::slice::from_ref(&account));
        let elsewhere = world.sandbox.path("elsewhere");
        std::fs::create_dir(&elsewhere).expect("a directory in the sandbox");
        world.log_in(elsewhere.to_str().expect("UTF-8"), &account);
        let credential = world.sandbox.path("share/accounts/scripted/one/login.json");
        let change = Self {
            new: elsewhere.join("login.json"),
            old: read(&credential),
            credential,
            world,
        };
        assert_ne!(change.old, read(&change.new));
        change
    }

    /// The promotion, with `more` variables.
    fn promote(&self, end: &[&str], more: &[(&str, &str)]) -> Ran {
        let mut run = Sandbox::tool(env!("CARGO_BIN_EXE_fake-promoter"));
        run.args(["scripted", "one"])
            .args([&self.credential, &self.new])
            .args(end)
            .env_clear()
            .env("HOME", self.world.sandbox.path("home"));
        for (name, root) in [("CONFIG", "config/accounts.toml"), ("STATE_DIR", "state")] {
            run.env(format!("AGENT_FLEET_{name}"), self.world.sandbox.path(root));
        }
        Ran::of(run.envs(more.iter().copied()))
    }

    /// Leaves the new login in force with its record open.
    pub(crate) fn cut(&self) -> String {
        let points = points(|trace| self.promote(&[], &[trace]).status == 0);
        // The promotion was whole: the old login is put back for the one that is not.
        self.put_back();
        let at = points.iter().position(|point| point == "promote.in_force");
        let at = (at.expect("a point with the new login in force") + 1).to_string();
        let ran = self.promote(&[], &[("AGENT_FLEET_TEST_CRASH_AT", &at)]);
        assert_eq!(ran.status, ABORTED, "{}", ran.stdout);
        assert_eq!(read(&self.credential), read(&self.new));
        let list = self.world.command(&["transaction", "list"]);
        let transactions = list["transactions"].as_array().expect("a list");
        assert_eq!(transactions.len(), 1, "{list}");
        transactions[0]["id"].as_str().expect("an id").to_owned()
    }

    fn put_back(&self) {
        std::fs::remove_file(&self.credential).expect("a login is in force");
        let relative = "share/accounts/scripted/one/login.json";
        self.world.sandbox.write(relative, &self.old);
    }

    fn record(&self, transaction: &str) -> PathBuf {
        let name = format!("state/transactions/{transaction}.json");
        self.world.sandbox.path(name)
    }

    fn choose(&self) -> Ran {
        let project = self.world.project.to_str().expect("UTF-8");
        let line = ["lease", "choose", "--task", "next", "--pool", POOL];
        let line = line.into_iter().chain(["--workspace", project]);
        self.world.sandbox.run(line)
    }

    fn beside(&self) -> Vec<String> {
        let names = names(self.credential.parent().expect("a home"));
        let ours = names.into_iter().filter(|name| name.contains(".fleet-"));
        ours.collect()
    }

    fn records(&self) -> Vec<String> {
        names(&self.world.sandbox.path("state/transactions"))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// The crash points that a whole run passes.
fn points(run: impl FnOnce((&str, &str)) -> bool) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("trace");
    let path = trace.to_str().expect("UTF-8");
    assert!(run(("AGENT_FLEET_TEST_CRASH_TRACE", path)), "it failed");
    let text = String::from_utf8(read(&trace)).expect("names are text");
    text.lines().map(str::to_owned).collect()
}

/// What must hold after the next command, whatever came before it.
fn judge(change: &Change, at: &str, committed: bool) {
    let status = change.world.sandbox.run(["profile", "status", "one"]);
    assert_eq!(status.status, 0, "{at}: {}{}", status.stdout, status.stderr);
    let wanted = if committed {
        read(&change.new)
    } else {
        change.old.clone()
    };
    assert_eq!(read(&change.credential), wanted, "{at}: another login");
    let open = change.records().into_iter();
    let open: Vec<_> = open.filter(|name| !name.starts_with('.')).collect();
    assert_eq!(open, Vec::<String>::new(), "{at}: a record is open");
    let before = change.beside();
    change.world.command(&["transaction", "recover", "--all"]);
    assert_eq!(
        (read(&change.credential), change.beside()),
        (wanted, before),
        "{at}: a second recovery changed something"
    );
    change.world.command(&["doctor", "--fix"]);
    assert_eq!(change.beside(), Vec::<String>::new(), "{at}: litter");
    let chosen = change.choose();
    assert_eq!(
        chosen.status, 0,
        "{at}: no work is given: {}",
        chosen.stdout
    );
}

#[test]
fn each_end_of_a_change_leaves_a_login_in_force_and_the_next_command_settles_it() {
    let change = Change::new();
    let before = Before::of(&change.world);
    for end in [&[][..], &["falls"]] {
        before.restore();
        let points = points(|trace| change.promote(end, &[trace]).status == 0);
        assert!(points.len() >= 6, "too few points: {points:?}");
        for (index, point) in points.iter().enumerate() {
            before.restore();
            let at = (index + 1).to_string();
            let ran = change.promote(end, &[("AGENT_FLEET_TEST_CRASH_AT", &at)]);
            let at = format!("{end:?} ended at {point}");
            assert_eq!(ran.status, ABORTED, "{at}: {}", ran.stdout);
            let left = read(&change.credential);
            assert!(
                left == change.old || left == read(&change.new),
                "{at}: neither the old login nor the new"
            );
            judge(&change, &at, point == "promote.committed");
        }
    }
}

#[test]
fn a_recovery_may_end_anywhere_and_the_next_command_finishes_it() {
    let change = Change::new();
    change.cut();
    let before = Before::of(&change.world);
    let status = ["profile", "status", "one"];
    let all = points(|(name, value)| {
        let mut run = change.world.sandbox.command(status);
        Ran::of(run.env(name, value)).status == 0
    });
    let recovery = all
        .iter()
        .filter(|point| point.starts_with("recover.") || point.starts_with("take_back."));
    assert!(recovery.count() >= 4, "too few points: {all:?}");
    for (index, point) in all.iter().enumerate() {
        before.restore();
        let mut run = change.world.sandbox.command(status);
        let at = (index + 1).to_string();
        let ran = Ran::of(run.env("AGENT_FLEET_TEST_CRASH_AT", at));
        assert_eq!(ran.status, ABORTED, "{point}: {}{}", ran.stdout, ran.stderr);
        judge(&change, &format!("recovery ended at {point}"), false);
    }
}

#[test]
fn every_command_that_takes_a_profile_settles_what_was_cut_short_first() {
    let change = Change::new();
    change.cut();
    let before = Before::of(&change.world);
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
    let mut torn = read(&record);
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
        (torn.clone(), beside.clone())
    );

    let done = change
        .world
        .command(&["transaction", "recover", &id, "--set-aside"]);
    assert_eq!(done["recovered"][0]["outcome"], "set_aside");
    let kept = change
        .world
        .sandbox
        .path(format!("state/transactions/{id}.set-aside"));
    assert_eq!(read(&kept), torn);
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
    let before = Before::of(&change.world);
    let out = home.join(&change.beside()[0]);
    change.world.sandbox.write(&out, "rotated");
    change.world.command(&["profile", "status", "one"]);
    assert_eq!(
        read(&change.credential),
        b"rotated",
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
    assert_eq!(read(&change.credential), b"newest");
    let kept = change.beside();
    assert_eq!(kept, [format!(".login.json.fleet-{id}.orphan")]);
    for _ in 0..2 {
        change.world.command(&["doctor", "--fix"]);
    }
    assert_eq!(change.beside(), kept);
    let orphan = change.credential.with_file_name(&kept[0]);
    assert_eq!(read(&orphan), b"rotated");
    let doctor = change.world.command(&["doctor"]);
    let checks = doctor["profiles"][0]["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["id"] == "leftovers");
    let evidence = check.map(|check| check["evidence"].to_string());
    assert!(
        evidence.is_some_and(|said| said.contains(&kept[0])),
        "{doctor}"
    );
}
