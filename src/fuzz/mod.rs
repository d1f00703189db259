//! What must hold whatever bytes somebody else wrote: one function per format that is read.
//!
//! Each takes any bytes and panics when a promise is broken. `tests/fuzz` feeds them from libFuzzer; the unit tests
//! give them `fixtures/fuzz`, where every input stays that once broke one.
//!
//! # Limits
//! Built for tests and with the feature `fuzz` alone, which no shipped build has. Files are written to a directory of
//! the process, so one process works at one input per format.

mod arguments;
mod fleet;
mod quota;
mod registry;
mod secrets;
mod state;
mod transcript;
mod turn;

pub use crate::lease::fuzz::lease_table;
pub use arguments::{arguments_claude, arguments_codex};
pub use fleet::{fleet_plan, fleet_report, fleet_settings};
pub use quota::{quota_claude, quota_codex, quota_external};
pub use registry::{imports, registry};
pub use secrets::secrets;
pub use state::{audit, durable, evidence, journal, session, snapshot};
pub use transcript::{reset_text, transcript_claude, transcript_codex};
pub use turn::{turn_claude, turn_codex};

use camino::Utf8PathBuf;

use crate::env::{Context, Variables, World};
use crate::store::directory;
use crate::store::replace::{Durability, replace};

/// Takes any bytes; panics when they break a promise.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its file in `tests/fuzz` and of its directory in `fixtures/fuzz`.
pub const TARGETS: [(&str, Target); 23] = [
    ("arguments_claude", arguments_claude),
    ("arguments_codex", arguments_codex),
    ("audit", audit),
    ("durable", durable),
    ("evidence", evidence),
    ("fleet_plan", fleet_plan),
    ("fleet_report", fleet_report),
    ("fleet_settings", fleet_settings),
    ("imports", imports),
    ("journal", journal),
    ("lease_table", lease_table),
    ("quota_claude", quota_claude),
    ("quota_codex", quota_codex),
    ("quota_external", quota_external),
    ("registry", registry),
    ("reset_text", reset_text),
    ("secrets", secrets),
    ("session", session),
    ("snapshot", snapshot),
    ("transcript_claude", transcript_claude),
    ("transcript_codex", transcript_codex),
    ("turn_claude", turn_claude),
    ("turn_codex", turn_codex),
];

/// A private home of this thread, in memory where the machine has such a file system.
struct Ground {
    context: Context,
    _directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a temporary directory");
        let home = directory.path().as_os_str();
        let world = World {
            arguments: Vec::new(),
            variables: [("HOME", home)].into_iter().collect::<Variables>(),
            directory: None,
            executable: None,
        };
        let context = Context::resolve(&world, None).expect("a home makes a context");
        directory::ensure(&context.roots.state).expect("a state root");
        Self {
            context,
            _directory: directory,
        }
    }

    /// Puts a file in place.
    fn put(path: &Utf8PathBuf, bytes: &[u8]) {
        if let Some(parent) = path.parent() {
            directory::ensure(parent).expect("a directory");
        }
        replace(path, bytes, Durability::Volatile).expect("a temporary file takes all");
    }
}

thread_local! {
    static GROUND: Ground = Ground::new();
}

fn on_ground<T>(work: impl FnOnce(&Ground) -> T) -> T {
    GROUND.with(work)
}

#[cfg(test)]
mod tests;
