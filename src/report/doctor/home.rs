//! Checks of a profile's home and of who lives in it. Pure.

use super::finding::{Finding, Rule};
use super::leftover::Standing;
use super::machine::of_error;
use super::profile::{ProfileFacts, Reached};
use super::storage::Entry;
use crate::contract::lease::Verdict;
use crate::contract::profile::OverrideScope;
use crate::contract::unleased::{Unleased, UnleasedRole};
use crate::id::ProviderKind;
use crate::report::refresh_lock;
use crate::sys::filesystem::OVERLAY;
use crate::sys::shell;

/// The checks of a home.
pub(super) const RULES: &[Rule<ProfileFacts>] = &[
    Rule {
        id: "home",
        looks_at: "whether the home is a directory of this user's that no link leads to: its very path names the login",
        cure: "`agent-fleet profile provision ID`, `chmod 700 HOME`",
        decide: home,
    },
    Rule {
        id: "home_file_system",
        looks_at: "whether the home lies on an overlay or a network file system, where Codex finds its databases in use",
        cure: "a volume for the home",
        decide: home_file_system,
    },
    Rule {
        id: "provisioned",
        looks_at: "whether our hooks are exact and trusted, and the settings that workers need hold",
        cure: "`agent-fleet profile provision ID`, or `agent-fleet doctor --fix`",
        decide: provisioned,
    },
    Rule {
        id: "overrides",
        looks_at: "files of the home, of projects and of the machine that would replace the login, by key",
        cure: "remove the key from the file that is named",
        decide: overrides,
    },
    Rule {
        id: "databases",
        looks_at: "whether a database of the home is a link: two homes that share one block each other",
        cure: "`rm LINK` while nobody works in the home",
        decide: databases,
    },
    Rule {
        id: "refresh_lock",
        looks_at: "directories by which Claude Code keeps others from refreshing, left by one that was killed",
        cure: "`rmdir DIR` once nobody lives in the home, or `agent-fleet doctor --fix`",
        decide: refresh_lock,
    },
    Rule {
        id: "leftovers",
        looks_at: "files that a change of the login left beside it: the login that came or went, or one that the CLI wrote meanwhile",
        cure: "`agent-fleet doctor --fix` removes what is proved ours; what the CLI wrote is yours to remove",
        decide: leftovers,
    },
    Rule {
        id: "leases",
        looks_at: "leases whose worker is gone but whose slot is held, and those that nobody can tell dead or alive",
        cure: "`agent-fleet lease list` names them and what settles them",
        decide: leases,
    },
    Rule {
        id: "unleased_sessions",
        looks_at: "sessions of the provider's CLI in the home that no lease accounts for: they use the account too",
        cure: "let them end; start workers with `agent-fleet exec` or `run`",
        decide: sessions,
    },
    Rule {
        id: "daemons",
        looks_at: "daemons of the provider in the home: they serve every later session with the login they began with",
        cure: "the provider's own command that stops them",
        decide: daemons,
    },
];

fn home(facts: &ProfileFacts) -> Finding {
    let (id, path) = (&facts.profile.id, &facts.profile.home);
    let quoted = shell::quote(path.as_str());
    let look = format!("ls -ld {quoted}");
    match (&facts.home.entry, &facts.home.reached) {
        (Entry::Missing, _) => Finding::fail(
            format!("the home `{path}` does not exist"),
            format!("agent-fleet profile provision {id}"),
        ),
        (Entry::Unusable(problem), _) => {
            Finding::fail(format!("the home `{path}` {problem}"), look)
        }
        (_, Reached::Link(target)) => Finding::fail(
            format!("the home `{path}` is a link to `{target}`, which another home may use too"),
            look,
        ),
        (Entry::Directory { ours: false, .. }, _) => {
            Finding::fail(format!("the home `{path}` belongs to another user"), look)
        }
        (
            Entry::Directory {
                writable: false, ..
            },
            _,
        ) => Finding::fail(
            format!(
                "nothing can be written in the home `{path}`, so no login can be refreshed there"
            ),
            format!("{look} && df {quoted}"),
        ),
        (Entry::Directory { mode, .. }, _) if mode & 0o002 != 0 => Finding::fail(
            format!("others may write in the home `{path}` ({mode:o})"),
            format!("chmod 700 {quoted}"),
        ),
        (Entry::Directory { mode, .. }, _) if mode & 0o077 != 0 => Finding::warn(
            format!("others may enter the home `{path}` ({mode:o})"),
            format!("chmod 700 {quoted}"),
        ),
        (Entry::Directory { .. }, Reached::Over(target)) => Finding::warn(
            format!("the home `{path}` is reached over a link and lies in `{target}`"),
            look,
        ),
        (Entry::Directory { .. }, Reached::Directly) => {
            Finding::ok(format!("`{path}` is this user's alone"))
        }
    }
}

fn home_file_system(facts: &ProfileFacts) -> Finding {
    let path = &facts.profile.home;
    let fix = format!("df {}", shell::quote(path.as_str()));
    match (facts.home.kind, facts.profile.provider) {
        (Some(OVERLAY), ProviderKind::Codex) => Finding::warn(
            format!(
                "`{path}` is on an overlay, where Codex may find its databases in use and its locks not held"
            ),
            fix,
        ),
        (Some(OVERLAY) | None, _) => Finding::ok("the home is on a local file system"),
        (Some(kind), _) => Finding::warn(
            format!(
                "`{path}` is on {kind}, where neither the provider's locks nor its databases can be trusted"
            ),
            fix,
        ),
    }
}

fn provisioned(facts: &ProfileFacts) -> Finding {
    if facts.home.entry == Entry::Missing {
        return Finding::ok("there is no home to look into");
    }
    match &facts.not_ready {
        None => Finding::ok("hooks and settings are as workers need them"),
        Some(error) => of_error(
            error,
            &format!("agent-fleet profile provision {}", facts.profile.id),
        ),
    }
}

fn overrides(facts: &ProfileFacts) -> Finding {
    let found = facts
        .overrides
        .iter()
        .find(|found| found.scope != OverrideScope::Environment);
    match found {
        None => Finding::ok("no file would replace the login"),
        Some(found) => {
            let fix = match &found.file {
                Some(file) => format!("${{EDITOR:-vi}} {}", shell::quote(file.as_str())),
                None => format!("agent-fleet profile status {}", facts.profile.id),
            };
            Finding::fail(format!("`{}`: it {}", found.source, found.effect), fix)
        }
    }
}

fn databases(facts: &ProfileFacts) -> Finding {
    match facts.databases.first() {
        None => Finding::ok("no database of the home is a link"),
        Some((path, target)) => Finding::fail(
            format!("`{path}` is {target}: two homes may share it"),
            format!("rm {}", shell::quote(path.as_str())),
        ),
    }
}

fn refresh_lock(facts: &ProfileFacts) -> Finding {
    let (locks, empty) = &facts.locks;
    let oldest = locks
        .iter()
        .filter(|lock| lock.standing(*empty) != refresh_lock::Standing::Held)
        .max_by_key(|lock| lock.age);
    let Some(lock) = oldest else {
        let held = locks.first();
        return held.map_or_else(
            || Finding::ok("no refresh was left unfinished"),
            |lock| {
                Finding::ok(format!("`{}` is held by a refresh at work", lock.path)).aged(lock.age)
            },
        );
    };
    let standing = lock.standing(*empty);
    let fix = lock.command(standing);
    let path = &lock.path;
    match standing {
        refresh_lock::Standing::Doubtful => Finding::warn(
            format!("`{path}` is old, but somebody lives in the home: it is left alone until they end"),
            fix,
        ),
        refresh_lock::Standing::Odd => Finding::fail(
            format!("`{path}` keeps every CLI of this home from refreshing its login, and is no empty directory; its owner is unknown"),
            fix,
        ),
        refresh_lock::Standing::Left | refresh_lock::Standing::Held => Finding::fail(
            format!("`{path}` keeps every CLI of this home from refreshing its login; its owner is unknown and nobody lives in the home"),
            fix,
        ),
    }
    .aged(lock.age)
}

/// Names every lease, and what settles it.
const LIST: &str = "agent-fleet lease list";

fn leftovers(facts: &ProfileFacts) -> Finding {
    let left = match &facts.leftovers {
        Ok(left) => left,
        Err(error) => return of_error(error, "agent-fleet transaction list"),
    };
    // What the person has to decide about speaks first.
    let kept = left.iter().find(|one| one.standing != Standing::Ours);
    let Some(one) = kept.or_else(|| left.first()) else {
        return Finding::ok("no change of the login left anything");
    };
    let (id, path) = (&facts.profile.id, &one.path);
    let quoted = shell::quote(path.as_str());
    match &one.standing {
        Standing::Ours => Finding::warn(
            format!("a change of the login left `{path}`, which nobody needs"),
            "agent-fleet doctor --fix",
        ),
        Standing::Providers => Finding::warn(
            format!(
                "the CLI wrote a login while its home's was changed: it is kept in `{path}` and not in force"
            ),
            format!("agent-fleet profile verify {id} && rm {quoted}"),
        ),
        Standing::Aside(transaction) => Finding::warn(
            format!(
                "`{path}` is left from a change of the login whose record was set aside, and may be the only copy"
            ),
            format!("agent-fleet transaction show {transaction}"),
        ),
        Standing::Needed => Finding::warn(
            format!("a change of the login left `{path}`, and there is no login in force"),
            format!("ls -la {}", shell::quote(facts.profile.home.as_str())),
        ),
        Standing::Unreadable => Finding::warn(
            format!("a change of the login left `{path}`, which cannot be read"),
            format!("ls -l {quoted}"),
        ),
    }
}

fn leases(facts: &ProfileFacts) -> Finding {
    let of = |verdict: Verdict| {
        facts
            .leases
            .iter()
            .filter(move |lease| lease.verdict == verdict)
    };
    let task = |lease: &crate::contract::lease::Lease| {
        lease
            .task
            .clone()
            .unwrap_or_else(|| "details lost".to_owned())
    };
    if let Some(lease) = of(Verdict::Unknown).next() {
        let said = format!(
            "nobody can tell from here whether the worker of task `{}` lives; it keeps its slot",
            task(lease)
        );
        return Finding::warn(said, LIST);
    }
    if let Some(lease) = of(Verdict::Orphaned).next() {
        let said = format!(
            "the worker of task `{}` is gone, but a process that it started holds its slot",
            task(lease)
        );
        return Finding::warn(said, LIST);
    }
    if let Some(lease) = facts.leases.iter().find(|lease| lease.details_lost) {
        let said = format!("the details of lease {} are lost", lease.generation);
        return Finding::warn(said, LIST);
    }
    let dead = of(Verdict::Dead).count();
    let live = facts.leases.len() - dead;
    Finding::ok(match dead {
        0 => format!("{live} live"),
        _ => format!("{live} live; {dead} that ended, reclaimed by the next choice"),
    })
}

fn sessions(facts: &ProfileFacts) -> Finding {
    if let Some(path) = facts.unreadable.first() {
        return Finding::warn(
            format!("`{path}` cannot be read, so a session without a lease may live in the home"),
            format!("ls -la {}", shell::quote(path.as_str())),
        );
    }
    let found: Vec<&Unleased> = of_role(facts, |role| role == UnleasedRole::Session);
    let Some(first) = found.first() else {
        return Finding::ok("every session in the home has a lease");
    };
    let conversation = first
        .session_id
        .as_ref()
        .map_or_else(String::new, |id| format!(", conversation {id}"));
    let said = format!(
        "{} in the home without a lease; the first is process {}{conversation}",
        counted(found.len(), "session"),
        first.pid
    );
    Finding::warn(said, first.hint.clone()).aged(age(facts, first))
}

fn daemons(facts: &ProfileFacts) -> Finding {
    let found = of_role(facts, |role| role != UnleasedRole::Session);
    let worst = found
        .iter()
        .max_by_key(|one| (one.older_login, one.role == UnleasedRole::Daemon));
    let Some(one) = worst else {
        return Finding::ok("no daemon lives in the home");
    };
    let pid = one.pid;
    match one.role {
        UnleasedRole::Daemon if one.older_login => Finding::fail(
            format!("process {pid} is a daemon that began before the login was last written: it may serve an older one"),
            one.hint.clone(),
        ),
        UnleasedRole::Daemon | UnleasedRole::Session => Finding::warn(
            format!("process {pid} is a daemon: it serves every later session with the login that it began with"),
            one.hint.clone(),
        ),
        UnleasedRole::Updater => Finding::warn(
            format!("process {pid} restarts a daemon of the provider after an update"),
            one.hint.clone(),
        ),
    }
    .aged(age(facts, one))
}

fn of_role(facts: &ProfileFacts, wanted: impl Fn(UnleasedRole) -> bool) -> Vec<&Unleased> {
    facts
        .unleased
        .iter()
        .filter(|one| wanted(one.role))
        .collect()
}

fn age(facts: &ProfileFacts, one: &Unleased) -> Option<u64> {
    let seconds = facts.now.as_second() - one.since?.as_second();
    u64::try_from(seconds).ok()
}

fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
