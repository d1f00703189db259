//! Claude Code's own processes in a home: `sessions/<pid>.json`, `daemon.lock` and `daemon/roster.json`.
//!
//! Each names pid and kernel start time. The session files hold their `pidDomain`, which ends in the pid
//! namespace (`…:pid:[4026531836]`), and are removed by their process at its end.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use serde_json::Value;

use crate::provider::inhabitant::{Host, Inhabitant, Inhabitants, Life, Role, number, pid};
use crate::sys::shell;

/// Everybody in the home.
pub fn find(home: &Utf8Path, host: &Host) -> Inhabitants {
    let mut all = Inhabitants::default();
    if let Some(lock) = all.published(&home.join("daemon.lock")) {
        take(&mut all, host, &lock, Role::Daemon);
    }
    let folder = home.join("sessions");
    for name in all.names(&folder) {
        let is_session = name
            .strip_suffix(".json")
            .is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()));
        if is_session && let Some(session) = all.published(&folder.join(&name)) {
            take(&mut all, host, &session, Role::Session);
        }
    }
    roster(&mut all, host, home);
    all
}

/// Background sessions that have not published themselves yet.
fn roster(all: &mut Inhabitants, host: &Host, home: &Utf8Path) {
    let Some(roster) = all.published(&home.join("daemon/roster.json")) else {
        return;
    };
    for worker in roster["workers"].as_object().into_iter().flatten() {
        let session = worker.1["sessionId"].as_str();
        let known = all
            .found
            .iter()
            .any(|one| session.is_some() && one.session.as_deref() == session);
        if !known {
            take(all, host, worker.1, Role::Session);
        }
    }
}

fn take(all: &mut Inhabitants, host: &Host, published: &Value, role: Role) {
    let Some(pid) = pid(&published["pid"]) else {
        return;
    };
    let namespace = published["pidDomain"].as_str().and_then(namespace);
    let since = published["startedAt"].as_i64();
    let one = Inhabitant {
        pid,
        start: number(&published["procStart"]),
        role,
        session: published["sessionId"].as_str().and_then(identifier),
        since: since.and_then(|at| Timestamp::from_millisecond(at).ok()),
        life: Life::Alive,
    };
    all.take(host, one, namespace);
}

/// An id, if it looks like one: whatever else stands there is not repeated.
fn identifier(text: &str) -> Option<String> {
    uuid::Uuid::parse_str(text).ok().map(|id| id.to_string())
}

fn namespace(domain: &str) -> Option<u64> {
    let (_, inode) = domain.rsplit_once("pid:[")?;
    inode.strip_suffix(']')?.parse().ok()
}

/// The directories that Claude Code makes while it refreshes a login or writes its configuration, each with the
/// age in seconds from which it takes one over: it renews their time every few seconds.
pub fn locks(home: &Utf8Path) -> Vec<(Utf8PathBuf, u64)> {
    vec![
        (home.join(".oauth_refresh.lock"), 60),
        (Utf8PathBuf::from(format!("{home}.lock")), 60),
        (home.join(".claude.json.lock"), 10),
    ]
}

/// What a person types to end the daemon and its background sessions. It asks no server, whatever the age of
/// the login (run with 2.1.332 on an expired one).
pub fn stop(home: &Utf8Path, binary: &str) -> String {
    format!(
        "env CLAUDE_CONFIG_DIR={} {} daemon stop --any",
        shell::quote(home.as_str()),
        shell::quote(binary)
    )
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::provider::home::tests::World;
    use crate::provider::inhabitant::{Host, Life, Role};
    use crate::sys::process;
    use serde_json::json;

    const SESSION: &str = "42c493a9-902a-449b-b837-e5847dbade2f";

    fn session(pid: u32, start: u64, namespace: u64) -> String {
        json!({"pid": pid, "sessionId": SESSION, "startedAt": 1_796_041_736_063_i64,
            "procStart": start.to_string(), "pidDomain": format!("linux:3d12:pid:[{namespace}]"),
            "name": "a prompt"})
        .to_string()
    }

    #[test]
    fn only_a_living_process_of_that_start_time_is_believed() {
        let world = World::new();
        let (pid, start) = process::current().unwrap();
        let host = Host::look();
        let namespace = host.namespace.unwrap();
        let home = world.path("home");
        assert_eq!(find(&home, &host).found, []);
        let file = format!("home/sessions/{pid}.json");
        world.write(&file, &session(pid, start, namespace));
        world.write("home/sessions/77.e039.key", "{}");
        let found = find(&home, &host);
        assert_eq!(found.unreadable, [""; 0]);
        let [one] = &found.found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (one.pid, one.start, one.life),
            (pid, Some(start), Life::Alive)
        );
        assert_eq!(
            (one.role, one.session.as_deref()),
            (Role::Session, Some(SESSION))
        );
        world.write(&file, &session(pid, start - 1, namespace));
        assert_eq!(find(&home, &host).found, [], "its pid was reused");
        world.write(&file, &session(pid, start - 1, namespace + 1));
        assert_eq!(find(&home, &host).found[0].life, Life::Unknown);
        let path = world.write(&file, "{\"pid\":");
        assert_eq!(find(&home, &host).unreadable, [path]);
    }

    #[test]
    fn a_daemon_and_what_it_runs_are_told_apart() {
        let world = World::new();
        let (pid, start) = process::current().unwrap();
        let host = Host::look();
        let lock =
            json!({"pid": pid, "procStart": start.to_string(), "startedAt": 1_796_041_785_968_i64});
        world.write("home/daemon.lock", &lock.to_string());
        let worker = |pid: u32, start: u64| json!({"pid": pid, "procStart": start.to_string(), "sessionId": SESSION});
        let parent = process::status(pid).unwrap().unwrap().parent;
        let begun = process::status(parent).unwrap().unwrap().start;
        let roster = json!({"workers": {"c4e48ab5": worker(parent, begun), "gone": worker(u32::MAX >> 1, 1)}});
        world.write("home/daemon/roster.json", &roster.to_string());
        let found = find(&world.path("home"), &host).found;
        let daemon = found.iter().find(|one| one.pid == pid).unwrap();
        assert_eq!(daemon.role, Role::Daemon);
        assert_eq!(daemon.since, "2026-11-30T12:29:45.968Z".parse().ok());
        let worker = found.iter().find(|one| one.pid == parent).unwrap();
        assert_eq!(worker.role, Role::Session);
        assert_eq!(found.len(), 2);
    }
}
