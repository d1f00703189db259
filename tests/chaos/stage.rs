//! The world that the actors play in: a scripted fleet whose state lies on a small disk of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::actor;
use crate::judge::PAIR;
use crate::sandbox::Sandbox;
use crate::truth::{CAP, PROFILES};
use crate::world::{Account, World};

/// How much the disk of the state holds, in bytes.
const DISK: &str = "size=64m";
/// Seconds that a reservation waits for its worker.
const TTL: &str = "2";
/// Longer than anything here lasts, and than any jump of the clock, in seconds.
const LIFE: u32 = 3_000_000_000;

/// Everything set up.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The scripted world.
    pub(crate) world: World,
    /// Where the truth is kept.
    pub(crate) truth: PathBuf,
    /// Whether the state has a disk of its own.
    pub(crate) own_disk: bool,
    /// The logins of the homes that nobody logs in to.
    logins: Vec<(PathBuf, Vec<u8>)>,
}

impl Stage {
    /// A world with these protections switched off.
    pub(crate) fn set(faults: &str) -> Self {
        let mut world = World::new(&[]);
        let state = world.sandbox.path("state");
        // Nothing was kept so far but by `init` and `config set`, which are repeated on the new disk.
        let own_disk = mount(&world.sandbox, &state);
        world.sandbox.set("AGENT_FLEET_TEST_SECOND_PROOF", "0");
        for name in PROFILES {
            let pools: &[&str] = if PAIR.contains(&name) {
                &["crew", "pair"]
            } else {
                &["crew"]
            };
            let slots = u32::try_from(CAP).expect("few slots");
            world.add(
                &Account::new(name)
                    .pools(pools)
                    .slots(slots)
                    .expires_in(LIFE),
            );
        }
        world.add(
            &Account::new("mark")
                .pools(&["mark"])
                .slots(64)
                .expires_in(LIFE),
        );
        world.add(&Account::new("seven").pools(&["quiet"]).expires_in(LIFE));
        world.change("seven", |account| {
            account["token_lifetime_seconds"] = LIFE.into();
        });
        world.command(&["config", "set", "settings.lease_ttl_seconds", TTL]);
        world.command(&["profile", "verify", "--all"]);
        let truth = world.sandbox.path("truth");
        std::fs::create_dir(&truth).expect("a directory");
        let now = world.sandbox.write("now", "+0");
        let project = world.project.to_str().expect("UTF-8").to_owned();
        for (name, value) in [
            ("AGENT_FLEET_TEST_NOW", format!("@{}", now.display())),
            ("AGENT_FLEET_TEST_FAULTS", faults.to_owned()),
            (actor::TRUTH, truth.display().to_string()),
            (actor::PROJECT, project),
        ] {
            world.sandbox.set(name, value);
        }
        let home = |name: &str| {
            world
                .sandbox
                .path(format!("share/accounts/scripted/{name}/login.json"))
        };
        let logins = PROFILES.iter().map(|name| {
            let path = home(name);
            let bytes = std::fs::read(&path).expect("a login");
            (path, bytes)
        });
        let logins = logins.collect();
        Self {
            world,
            truth,
            own_disk,
            logins,
        }
    }

    /// This program as an actor, behind what the shell is told first.
    pub(crate) fn actor(&self, before: &str, seed: u64) -> Command {
        let this = std::env::current_exe().expect("this program");
        let line = format!("{before} {} --actor {seed}", this.display());
        let mut command = self.world.sandbox.shell(&line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Moves the clock of all processes, while nobody depends on it.
    pub(crate) fn jump(&self, seconds: i64) {
        let path = self.world.sandbox.write("now.new", format!("{seconds:+}"));
        #[expect(
            clippy::disallowed_methods,
            reason = "test data, replaced so that nobody reads half of it"
        )]
        std::fs::rename(path, self.world.sandbox.path("now")).expect("a file in the sandbox");
    }

    /// Logins that are not what they were, or that no server would take.
    pub(crate) fn lost_logins(&self) -> Vec<String> {
        let changed = self
            .logins
            .iter()
            .filter(|(path, bytes)| std::fs::read(path).ok().as_ref() != Some(bytes));
        let mut lost: Vec<String> = changed
            .map(|(path, _)| format!("violation the login {} was changed", path.display()))
            .collect();
        let path = self
            .world
            .sandbox
            .path("share/accounts/scripted/seven/login.json");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let login: Value = serde_json::from_str(&text).unwrap_or_default();
        if !self.is_good(&login) {
            lost.push(format!(
                "violation the login {} is no login any more",
                path.display()
            ));
        }
        lost
    }

    /// Whether the server issued this refresh token to the account and did not see it spent.
    fn is_good(&self, login: &Value) -> bool {
        use sha2::{Digest as _, Sha256};
        let token = login["refresh_token"].as_str().unwrap_or_default();
        let name = agent_fleet::id::hex(&Sha256::digest(token.as_bytes()));
        let service = self.world.service();
        let issued = std::fs::read(service.join("tokens").join(&name)).unwrap_or_default();
        let issued: Value = serde_json::from_slice(&issued).unwrap_or_default();
        issued["account"] == "seven" && !service.join("spent").join(name).exists()
    }
}

/// Gives the state a small disk, where this process may mount.
fn mount(sandbox: &Sandbox, state: &Path) -> bool {
    if !crate::has_own_mounts() {
        return false;
    }
    let kept = sandbox.path("state.before");
    let script = r#"cp -a "$1" "$2" && mount -t tmpfs -o "$3" chaos "$1" && cp -a "$2/." "$1" && rm -r "$2""#;
    let made = Sandbox::tool("sh")
        .args(["-c", script, "sh"])
        .args([state, &kept])
        .arg(DISK)
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success())
}
