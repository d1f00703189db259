//! Provider processes in the profiles' homes that no lease accounts for.
//!
//! A process is accounted for when it is a lease's holder, by pid and start time, or descends from one: a CLI
//! that a worker's tool starts works for that worker. A daemon never is, since it serves whoever comes.
//! Reads a few files of each home and of `/proc`; starts nothing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::contract::lease::Lease;
use crate::contract::unleased::{Unleased, UnleasedLife, UnleasedRole};
use crate::provider::inhabitant::{Host, Inhabitant, Inhabitants, Life, Role};
use crate::provider::{self};
use crate::registry::schema::{Profile, Registry};
use crate::sys::process;

/// How far up a process is followed; a worker's tools are a handful of processes below it.
const GENERATIONS: usize = 32;

/// What is in one home.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// Processes that no lease accounts for, sorted by pid.
    pub unleased: Vec<Unleased>,
    /// Whether nobody lives in it, leased or not, as far as can be told.
    pub empty: bool,
    /// Where somebody may be published that could not be read.
    pub unreadable: Vec<Utf8PathBuf>,
}

/// The processes in the profiles' homes that no lease accounts for, sorted by profile and pid.
pub fn all(registry: &Registry, leases: &[Lease]) -> Vec<Unleased> {
    let host = Host::look();
    let mut found: Vec<Unleased> = registry
        .profiles
        .iter()
        .flat_map(|profile| home(registry, profile, leases, &host).unleased)
        .collect();
    found.sort_by(|one, other| (&one.profile, one.pid).cmp(&(&other.profile, other.pid)));
    found
}

/// What is in one profile's home.
pub fn home(registry: &Registry, profile: &Profile, leases: &[Lease], host: &Host) -> Home {
    let provider = provider::of(profile.provider);
    let everybody = provider.inhabitants(&profile.home, host);
    let holders: Vec<(u32, u64)> = leases
        .iter()
        .filter(|lease| lease.profile == profile.id)
        .filter_map(|lease| Some((lease.pid?, lease.process_start?)))
        .collect();
    let written = written(&profile.home.join(provider.credential_file()));
    let unleased = everybody
        .found
        .iter()
        .filter(|one| one.role != Role::Session || !is_leased(one, &holders, parent))
        .map(|one| Unleased {
            profile: profile.id.clone(),
            provider: profile.provider,
            home: profile.home.clone(),
            pid: one.pid,
            process_start: one.start,
            role: match one.role {
                Role::Session => UnleasedRole::Session,
                Role::Daemon => UnleasedRole::Daemon,
                Role::Updater => UnleasedRole::Updater,
            },
            life: match one.life {
                Life::Alive => UnleasedLife::Alive,
                Life::Unknown => UnleasedLife::Unknown,
            },
            session_id: one.session.clone(),
            since: one.since,
            older_login: one.role == Role::Daemon && is_older(one, written),
            hint: hint(registry, profile, one, &everybody),
        })
        .collect();
    Home {
        unleased,
        empty: everybody.found.is_empty() && everybody.unreadable.is_empty(),
        unreadable: everybody.unreadable,
    }
}

/// Whether a process is a lease's holder or descends from one. `parent` looks a process's parent up.
fn is_leased(
    one: &Inhabitant,
    holders: &[(u32, u64)],
    parent: impl Fn(u32) -> Option<(u64, u32)>,
) -> bool {
    let holds = |pid: u32, start: u64| holders.contains(&(pid, start));
    if one.start.is_some_and(|start| holds(one.pid, start)) {
        return true;
    }
    // A pid of another namespace means nothing in this one's `/proc`.
    if one.life == Life::Unknown {
        return false;
    }
    let mut pid = one.pid;
    for _ in 0..GENERATIONS {
        let Some((start, above)) = parent(pid) else {
            return false;
        };
        if holds(pid, start) {
            return true;
        }
        pid = above;
    }
    false
}

/// Start time and parent of a process; nothing for the first one.
fn parent(pid: u32) -> Option<(u64, u32)> {
    let status = process::status(pid).ok()??;
    (pid > 1).then_some((status.start, status.parent))
}

fn written(path: &Utf8Path) -> Option<i64> {
    fs::symlink_metadata(path).ok().map(|file| file.mtime())
}

/// Whether a daemon began before the login was last written, in seconds since 1970.
fn is_older(daemon: &Inhabitant, written: Option<i64>) -> bool {
    match (daemon.since, written) {
        (Some(since), Some(written)) => since.as_second() < written,
        (_, _) => false,
    }
}

fn hint(
    registry: &Registry,
    profile: &Profile,
    one: &Inhabitant,
    everybody: &Inhabitants,
) -> String {
    match one.role {
        Role::Session => format!("ps -o pid,etime,args -p {}", one.pid),
        Role::Daemon | Role::Updater => {
            let binary = registry
                .provider(profile.provider)
                .ok()
                .and_then(|settings| settings.binary.as_ref())
                .map_or(profile.provider.name(), |path| path.as_str());
            provider::of(profile.provider).stop_command(&profile.home, binary, everybody)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_leased, is_older};
    use crate::provider::inhabitant::{Inhabitant, Life, Role};

    fn inhabitant(pid: u32, start: u64) -> Inhabitant {
        Inhabitant {
            pid,
            start: Some(start),
            role: Role::Session,
            session: None,
            since: "2030-01-02T12:00:00Z".parse().ok(),
            life: Life::Alive,
        }
    }

    /// Process 30 is a child of 20, and 20 of 10; each began at ten times its pid.
    fn parent(pid: u32) -> Option<(u64, u32)> {
        (pid >= 10).then(|| (u64::from(pid) * 10, pid - 10))
    }

    #[test]
    fn a_holder_and_its_descendants_are_leased_and_a_reused_pid_is_not() {
        let one = inhabitant(30, 300);
        assert!(is_leased(&one, &[(30, 300)], parent));
        assert!(is_leased(&one, &[(10, 100)], parent), "a grandchild");
        assert!(!is_leased(&one, &[(30, 299)], parent), "a reused pid");
        assert!(!is_leased(&one, &[(10, 99)], parent), "a reused pid above");
        assert!(!is_leased(&one, &[], parent));
        let elsewhere = Inhabitant {
            life: Life::Unknown,
            ..one
        };
        assert!(!is_leased(&elsewhere, &[(10, 100)], parent));
        assert!(is_leased(&elsewhere, &[(30, 300)], parent));
    }

    #[test]
    fn a_daemon_from_before_the_login_is_older() {
        let daemon = inhabitant(30, 300);
        let began = daemon.since.unwrap().as_second();
        assert!(is_older(&daemon, Some(began + 1)));
        assert!(!is_older(&daemon, Some(began)));
        assert!(!is_older(&daemon, None));
    }
}
