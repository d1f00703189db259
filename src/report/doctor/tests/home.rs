//! What may be wrong with a home, and what is said then.

use super::{Case, Fail, Warn, directory, error, lease, link, lock, overridden, unleased};
use crate::contract::lease::Verdict;
use crate::contract::profile::OverrideScope;
use crate::contract::unleased::UnleasedRole;
use crate::error::code;
use crate::report::doctor::leftover::{Leftover, Standing};
use crate::report::doctor::profile::Reached;
use crate::report::doctor::storage::Entry;
use crate::report::refresh_lock::Shape;

fn left(standing: Standing) -> Leftover {
    Leftover {
        path: "/h/codex-1/.auth.json.fleet-t.orphan".into(),
        standing,
    }
}

pub(super) const CASES: &[Case] = &[
    (
        "home",
        Fail,
        |f| f.home.entry = Entry::Missing,
        "agent-fleet profile provision codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.entry = Entry::Unusable("is a file".into()),
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.reached = Reached::Link("/elsewhere".into()),
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.entry = directory(0o702),
        "chmod 700 /h/codex-1",
    ),
    (
        "home",
        Warn,
        |f| f.home.reached = Reached::Over("/elsewhere".into()),
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Warn,
        |f| f.home.entry = directory(0o755),
        "chmod 700 /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| {
            f.home.entry = Entry::Directory {
                mode: 0o700,
                ours: false,
                writable: true,
            }
        },
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| {
            f.home.entry = Entry::Directory {
                mode: 0o700,
                ours: true,
                writable: false,
            }
        },
        "ls -ld /h/codex-1 && df /h/codex-1",
    ),
    (
        "home_file_system",
        Warn,
        |f| f.home.kind = Some("overlay"),
        "df /h/codex-1",
    ),
    (
        "home_file_system",
        Warn,
        |f| f.home.kind = Some("NFS"),
        "df /h/codex-1",
    ),
    (
        "provisioned",
        Fail,
        |f| f.not_ready = Some(error(code::NOT_PROVISIONED)),
        "type this",
    ),
    (
        "overrides",
        Fail,
        |f| f.overrides.push(overridden(OverrideScope::Project)),
        "${EDITOR:-vi} /w/.claude/settings.json",
    ),
    (
        "databases",
        Fail,
        |f| f.databases.push(link()),
        "rm /h/codex-1/state_5.sqlite",
    ),
    (
        "refresh_lock",
        Warn,
        |f| f.locks = (vec![lock(7200, Shape::Empty)], false),
        "ls -la /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "refresh_lock",
        Fail,
        |f| f.locks = (vec![lock(7200, Shape::Empty)], true),
        "rmdir /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "refresh_lock",
        Fail,
        |f| f.locks = (vec![lock(7200, Shape::Filled)], true),
        "ls -la /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "leftovers",
        Fail,
        |f| f.leftovers = Err(error(code::IO)),
        "type this",
    ),
    (
        "leftovers",
        Warn,
        |f| f.leftovers = Ok(vec![left(Standing::Ours)]),
        "agent-fleet doctor --fix",
    ),
    (
        "leftovers",
        Warn,
        |f| f.leftovers = Ok(vec![left(Standing::Ours), left(Standing::Providers)]),
        "agent-fleet profile verify codex-1 && rm /h/codex-1/.auth.json.fleet-t.orphan",
    ),
    (
        "leftovers",
        Warn,
        |f| f.leftovers = Ok(vec![left(Standing::Aside("t".to_owned()))]),
        "agent-fleet transaction show t",
    ),
    (
        "leftovers",
        Warn,
        |f| f.leftovers = Ok(vec![left(Standing::Needed)]),
        "ls -la /h/codex-1",
    ),
    (
        "leftovers",
        Warn,
        |f| f.leftovers = Ok(vec![left(Standing::Unreadable)]),
        "ls -l /h/codex-1/.auth.json.fleet-t.orphan",
    ),
    (
        "leases",
        Warn,
        |f| f.leases.push(lease(Verdict::Orphaned)),
        "agent-fleet lease list",
    ),
    (
        "leases",
        Warn,
        |f| f.leases.push(lease(Verdict::Unknown)),
        "agent-fleet lease list",
    ),
    (
        "leases",
        Warn,
        |f| f.leases[0].details_lost = true,
        "agent-fleet lease list",
    ),
    (
        "unleased_sessions",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Session, false)),
        "type this",
    ),
    (
        "unleased_sessions",
        Warn,
        |f| f.unreadable.push("/h/codex-1/tmp".into()),
        "ls -la /h/codex-1/tmp",
    ),
    (
        "daemons",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Daemon, false)),
        "type this",
    ),
    (
        "daemons",
        Fail,
        |f| f.unleased.push(unleased(UnleasedRole::Daemon, true)),
        "type this",
    ),
    (
        "daemons",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Updater, false)),
        "type this",
    ),
];
