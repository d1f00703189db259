//! Codex's own processes in a home: the daemon's pid files, and locks that the kernel says are held.
//!
//! A process that writes a thread holds `thread-writer-locks/<thread>.lock`, and any process of the home whose
//! helpers lie in it holds `tmp/arg0*/codex-arg0*/.lock`. The screen (TUI) lets a daemon work for it, unless it
//! was started with `--no-daemon`: then the thread is the daemon's, which keeps the login that it began with.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use crate::provider::inhabitant::{
    Host, Inhabitant, Inhabitants, Life, Role, number, pid, written,
};
use crate::sys::flock::Held;
use crate::sys::{process, shell};

/// Below the home: what the daemon keeps.
const DAEMON: &str = "app-server-daemon";

/// Everybody in the home.
pub fn find(home: &Utf8Path, host: &Host) -> Inhabitants {
    let mut all = Inhabitants::default();
    for (name, role) in [
        ("daemon.pid", Role::Daemon),
        ("daemon-updater.pid", Role::Updater),
    ] {
        daemon(&mut all, host, &home.join(DAEMON).join(name), role);
    }
    let locks = locks(&mut all, home);
    if locks.is_empty() {
        return all;
    }
    let held = Held::look();
    for (path, thread) in locks {
        let holder = fs::symlink_metadata(&path)
            .ok()
            .and_then(|file| held.by(&file));
        let Some(pid) = holder else { continue };
        let start = process::status(pid).ok().flatten().map(|found| found.start);
        let one = Inhabitant {
            pid,
            start,
            role: Role::Session,
            session: thread,
            since: written(&path),
            life: Life::Alive,
        };
        all.take(host, one, None);
    }
    all
}

fn daemon(all: &mut Inhabitants, host: &Host, path: &Utf8Path, role: Role) {
    let Some(published) = all.published(path) else {
        return;
    };
    let Some(pid) = pid(&published["pid"]) else {
        return;
    };
    let identity = &published["processIdentity"];
    let boot = identity["bootId"].as_str().map(|id| id.replace('-', ""));
    if boot.is_some() && host.boot.is_some() && boot != host.boot {
        return;
    }
    let one = Inhabitant {
        pid,
        start: number(&identity["startTicks"]),
        role,
        session: None,
        since: written(path),
        life: Life::Alive,
    };
    all.take(host, one, None);
}

/// Files that a process of the home holds locked while it lives, with the thread that it writes.
fn locks(all: &mut Inhabitants, home: &Utf8Path) -> Vec<(Utf8PathBuf, Option<String>)> {
    let mut found = Vec::new();
    let threads = home.join("thread-writer-locks");
    for name in all.names(&threads) {
        let thread = name
            .strip_suffix(".lock")
            .and_then(|stem| uuid::Uuid::parse_str(stem).ok());
        if let Some(thread) = thread {
            found.push((threads.join(&name), Some(thread.to_string())));
        }
    }
    let helpers = home.join("tmp");
    for kind in all.names(&helpers) {
        if !kind.starts_with("arg0") {
            continue;
        }
        let folder = helpers.join(kind);
        for name in all.names(&folder) {
            found.push((folder.join(name).join(".lock"), None));
        }
    }
    found
}

/// What a person types to end the daemon. Codex's own command leaves the updater running, which holds no login
/// and ends on a plain signal; neither asks a server, whatever the age of the login (run with 0.171.0).
pub fn stop(home: &Utf8Path, binary: &str, inhabitants: &Inhabitants) -> String {
    let of = |role: Role| {
        inhabitants
            .found
            .iter()
            .filter(move |one| one.role == role && one.life == Life::Alive)
    };
    let daemon = of(Role::Daemon).next().map(|_| {
        format!(
            "env CODEX_HOME={} {} app-server daemon stop",
            shell::quote(home.as_str()),
            shell::quote(binary)
        )
    });
    let updaters = of(Role::Updater).map(|one| format!("kill {}", one.pid));
    let commands: Vec<String> = daemon.into_iter().chain(updaters).collect();
    commands.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::{find, stop};
    use crate::provider::home::tests::World;
    use crate::provider::inhabitant::{Host, Role};
    use crate::store::lock::{Mode, open_lifetime, try_flock, unlock};
    use crate::sys::process;
    use serde_json::json;

    const THREAD: &str = "01a22c6e-d38f-7180-9c62-31d568d51c17";

    fn boot() -> String {
        let boot = uuid::Uuid::from_bytes(process::boot_id().unwrap());
        boot.to_string()
    }

    #[test]
    fn a_daemon_of_this_boot_is_found_and_its_end_can_be_typed() {
        let world = World::new();
        let (pid, start) = process::current().unwrap();
        let (host, home) = (Host::look(), world.path("home"));
        let file = |pid: u32, start: u64, boot: &str| {
            json!({"pid": pid, "processIdentity": {"bootId": boot, "startTicks": start}})
                .to_string()
        };
        world.write(
            "home/app-server-daemon/daemon.pid",
            &file(pid, start, &boot()),
        );
        let parent = process::status(pid).unwrap().unwrap().parent;
        let begun = process::status(parent).unwrap().unwrap().start;
        world.write(
            "home/app-server-daemon/daemon-updater.pid",
            &file(parent, begun, &boot()),
        );
        let found = find(&home, &host);
        let role = |pid: u32| found.found.iter().find(|one| one.pid == pid).unwrap().role;
        assert_eq!((role(pid), role(parent)), (Role::Daemon, Role::Updater));
        assert_eq!(
            stop(&home, "/bin/codex", &found),
            format!("env CODEX_HOME={home} /bin/codex app-server daemon stop && kill {parent}")
        );
        let other = "00000000-0000-0000-0000-000000000000";
        world.write(
            "home/app-server-daemon/daemon.pid",
            &file(pid, start, other),
        );
        world.write(
            "home/app-server-daemon/daemon-updater.pid",
            &file(parent, begun - 1, &boot()),
        );
        assert_eq!(
            find(&home, &host).found,
            [],
            "another boot, and a reused pid"
        );
    }

    #[test]
    fn a_thread_is_somebodys_only_while_its_lock_is_held() {
        let world = World::new();
        let (host, home) = (Host::look(), world.path("home"));
        let path = world.write(&format!("home/thread-writer-locks/{THREAD}.lock"), "");
        world.write("home/thread-writer-locks/.coordination.lock", "");
        world.write("home/tmp/arg0-linux/codex-arg0abc/.lock", "");
        assert_eq!(find(&home, &host).found, []);
        let lock = open_lifetime(&path).unwrap();
        assert!(try_flock(&lock, Mode::Exclusive).unwrap());
        let found = find(&home, &host).found;
        unlock(&lock).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].pid, std::process::id());
        assert_eq!(found[0].session.as_deref(), Some(THREAD));
        assert_eq!(find(&home, &host).found, []);
    }
}
