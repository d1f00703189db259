//! A login that gives way to a new one of its account, by the real command, which a test ends where it wants.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::sandbox::Ran;
use super::world::{Account, POOL, World};
use crate::crash::ABORTED;

/// Where a run is to end: the number or the name of a crash point.
pub(crate) const END: &str = "AGENT_FLEET_TEST_CRASH_AT";
/// The file that lists the crash points of a run.
const TRACE: &str = "AGENT_FLEET_TEST_CRASH_TRACE";

/// A world with a profile `one`.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) world: World,
    /// Its credential file.
    pub(crate) credential: PathBuf,
    /// What that holds before the change; `None` for a profile that never had a login.
    pub(crate) old: Option<Vec<u8>>,
}

impl Change {
    /// The login in force is good and ends within a week, so that a new one takes its place.
    pub(crate) fn new() -> Self {
        let mut change = Self::over(World::new(&[Account::new("one")]));
        let bytes = read(&change.credential).expect("a login");
        let mut login: Value = serde_json::from_slice(&bytes).expect("JSON");
        let ends: jiff::Timestamp = login["expires_at"]
            .as_str()
            .and_then(|at| at.parse().ok())
            .expect("a time");
        login["login_expires_at"] = (ends + jiff::SignedDuration::from_hours(48))
            .to_string()
            .into();
        change
            .world
            .sandbox
            .write(&change.credential, login.to_string());
        change.old = read(&change.credential);
        change
    }

    /// Nobody ever logged in to the profile, which is provisioned.
    pub(crate) fn first() -> Self {
        let world = World::with(0);
        let add = ["profile", "add", "one", "--provider", "scripted"];
        world.command(&[&add[..], &["--pool", POOL]].concat());
        world.command(&["profile", "provision", "one"]);
        Self::over(world)
    }

    fn over(mut world: World) -> Self {
        world.sandbox.set(crate::enroll::SECOND_PROOF, "0");
        Self {
            credential: world.sandbox.path("share/accounts/scripted/one/login.json"),
            world,
            old: None,
        }
    }

    /// `profile enroll` by a person who logs in to the account of the profile, with `more` variables.
    pub(crate) fn enroll(&self, more: &[(&str, &str)]) -> Ran {
        let mut run = self.world.sandbox.command(["profile", "enroll", "one"]);
        Ran::answered(run.envs(more.iter().copied()), "one\n")
    }

    /// The same, ended at this point.
    #[track_caller]
    pub(crate) fn end(&self, at: &str, more: &[(&str, &str)]) {
        let ran = self.enroll(&[more, &[(END, at)]].concat());
        assert_eq!(ran.status, ABORTED, "{at}: {}{}", ran.stdout, ran.stderr);
    }

    /// Leaves the new login in force with its record open; returns the transaction.
    #[track_caller]
    pub(crate) fn cut(&self) -> String {
        self.end("promote.in_force", &[]);
        assert_eq!(read(&self.credential), self.new_login());
        let list = self.world.command(&["transaction", "list"]);
        let transactions = list["transactions"].as_array().expect("a list");
        assert_eq!(transactions.len(), 1, "{list}");
        transactions[0]["id"].as_str().expect("an id").to_owned()
    }

    /// The login that came out of a login that was ended: its private home is still there.
    pub(crate) fn new_login(&self) -> Option<Vec<u8>> {
        let staging = self.world.sandbox.path("state/staging");
        let mut homes = names(&staging).into_iter();
        read(&staging.join(homes.next()?).join("home/login.json"))
    }

    /// The record of a transaction.
    pub(crate) fn record(&self, transaction: &str) -> PathBuf {
        let name = format!("state/transactions/{transaction}.json");
        self.world.sandbox.path(name)
    }

    /// The records that are open.
    pub(crate) fn records(&self) -> Vec<String> {
        let all = names(&self.world.sandbox.path("state/transactions")).into_iter();
        all.filter(|name| !name.starts_with('.')).collect()
    }

    /// What lies beside the credential.
    pub(crate) fn beside(&self) -> Vec<String> {
        let names = names(self.credential.parent().expect("a home"));
        let ours = names.into_iter().filter(|name| name.contains(".fleet-"));
        ours.collect()
    }

    /// `lease choose`.
    pub(crate) fn choose(&self) -> Ran {
        let project = self.world.project.to_str().expect("UTF-8");
        let line = ["lease", "choose", "--task", "next", "--pool", POOL];
        let line = line.into_iter().chain(["--workspace", project]);
        self.world.sandbox.run(line)
    }

    /// What must hold after the next command, whatever came before it: this login is in force, nothing is pending,
    /// and a second recovery changes nothing.
    #[track_caller]
    pub(crate) fn judge(&self, at: &str, wanted: Option<&[u8]>) {
        let status = self.world.sandbox.run(["profile", "status", "one"]);
        assert_eq!(status.status, 0, "{at}: {}{}", status.stdout, status.stderr);
        let in_force = read(&self.credential);
        assert_eq!(in_force.as_deref(), wanted, "{at}: another login");
        assert_eq!(self.records(), Vec::<String>::new(), "{at}: pending");
        let before = self.beside();
        self.world.command(&["transaction", "recover", "--all"]);
        assert_eq!(
            (read(&self.credential), self.beside()),
            (in_force, before),
            "{at}: a second recovery changed something"
        );
    }

    /// What must hold once that was asked for and a login is in force: nothing else of any is left.
    #[track_caller]
    pub(crate) fn tidy(&self, at: &str) {
        self.world.command(&["doctor", "--fix"]);
        let staged = names(&self.world.sandbox.path("state/staging"));
        let all = names(&self.world.sandbox.path("state/transactions"));
        assert_eq!(
            (self.beside(), staged, all),
            (Vec::new(), Vec::new(), Vec::new()),
            "{at}: litter"
        );
    }
}

/// The names in a directory, which need not be there.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The bytes of a file, if it is there.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// The crash points that a whole run passes: the command that is given gets a variable more.
pub(crate) fn points(run: impl FnOnce((&str, &str))) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("trace");
    run((TRACE, trace.to_str().expect("UTF-8")));
    let text = String::from_utf8(read(&trace).unwrap_or_default()).expect("names are text");
    text.lines().map(str::to_owned).collect()
}

/// Runs a command that ends at a point.
#[track_caller]
pub(crate) fn ended(command: &mut Command, at: &str) {
    let ran = Ran::of(command.env(END, at));
    assert_eq!(ran.status, ABORTED, "{at}: {}{}", ran.stdout, ran.stderr);
}
