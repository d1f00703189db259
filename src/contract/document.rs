//! The contract about itself: what programs may rely on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{VERSION, schema};

/// The answer of `version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Version {
    /// Version of the program.
    pub cli_version: &'static str,
    /// Version of the contract.
    pub contract_version: u32,
}

impl Version {
    /// Of this build.
    pub const THIS: Self = Self {
        cli_version: env!("CARGO_PKG_VERSION"),
        contract_version: VERSION,
    };
}

/// The answer of `contract`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Contract {
    /// Version of the contract.
    pub contract_version: u32,
    /// Version of the program.
    pub cli_version: &'static str,
    /// Words that `--format` takes.
    pub formats: Vec<&'static str>,
    /// Fields of a selection, sorted.
    pub selection_fields: Vec<String>,
    /// What a supervisor does, and the command line that does it.
    pub commands: BTreeMap<&'static str, &'static str>,
}

/// The words that `--format` takes.
pub const FORMATS: [&str; 3] = ["json", "toon", "human"];

/// What a supervisor does, and the command line that does it.
pub const COMMANDS: &[(&str, &str)] = &[
    (
        "atomic_choose",
        "lease choose --pool <pool> --task <task> --workspace <path>",
    ),
    (
        "dry_run",
        "choose --pool <pool> --task <task> --workspace <path> --dry-run",
    ),
    (
        "explicit_acquire",
        "lease acquire --profile <profile> --task <task> --workspace <path>",
    ),
    (
        "exec",
        "exec --profile <profile> --task <task> --pool <pool> --workspace <path> -- <argv>",
    ),
    (
        "resume_task",
        "resume --task <task> --workspace <path> -- <argv>",
    ),
    ("resume_explicit", "managed task/session mapping required"),
    ("recover", "lease recover --task <task> --workspace <path>"),
    ("release", "lease release --task <task>"),
    (
        "pool_summary",
        "pool status --pool <pool> [--provider <provider>]",
    ),
    ("profile_enroll", "profile enroll <profile>"),
    ("profile_verify", "profile verify <profile>|--all"),
    (
        "project_register",
        "project register --provider <provider> <git-worktree>",
    ),
    (
        "project_remove",
        "project remove --provider <provider> <git-worktree>",
    ),
    ("project_list", "project list [--provider <provider>]"),
    ("session_status", "session status --task <task>"),
    ("session_remove", "session remove --task <task>"),
];

impl Contract {
    /// Of this build.
    pub fn this() -> Self {
        Self {
            contract_version: VERSION,
            cli_version: Version::THIS.cli_version,
            formats: FORMATS.to_vec(),
            selection_fields: schema::selection_fields(),
            commands: COMMANDS.iter().copied().collect(),
        }
    }
}
