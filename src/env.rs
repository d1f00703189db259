//! Everything the program takes from the world around it, captured once.
//!
//! Nothing else reads argv, environment variables or the working directory. Every variable that we read is
//! a documented constant here; docs/cli.md lists them from [`VARIABLES`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;

use crate::clock::Clock;
use crate::error::{Error, Result, code};

/// Path of the registry; default `$XDG_CONFIG_HOME/agent-fleet/accounts.toml`.
pub const CONFIG: &str = "AGENT_FLEET_CONFIG";
/// State root; default `$XDG_STATE_HOME/agent-fleet`.
pub const STATE_DIR: &str = "AGENT_FLEET_STATE_DIR";
/// Share root, where provider homes live; default `$XDG_DATA_HOME/agent-fleet`.
pub const SHARE_DIR: &str = "AGENT_FLEET_SHARE_DIR";
/// Output format when `--format` is not given: json, toon or human.
pub const FORMAT: &str = "AGENT_FLEET_FORMAT";
/// `class` makes refusals exit with the number of their class.
pub const EXIT_CODES: &str = "AGENT_FLEET_EXIT_CODES";
/// Set in a worker: its task. A worker that starts another needs `--nested`.
pub const TASK_ID: &str = "AGENT_FLEET_TASK_ID";
/// Set in a worker: its profile.
pub const PROFILE: &str = "AGENT_FLEET_PROFILE";
/// Set in a worker: the provider of its profile.
pub const PROVIDER: &str = "AGENT_FLEET_PROVIDER";
/// Set in a worker: the pool it was asked for.
pub const POOL: &str = "AGENT_FLEET_POOL";
/// Set in a worker: its workspace.
pub const WORKSPACE: &str = "AGENT_FLEET_WORKSPACE";
/// Set in a worker: the generation of its lease.
pub const GENERATION: &str = "AGENT_FLEET_GENERATION";
/// Set in a worker: a file that is touched when a turn ends.
pub const TURN_END: &str = "AGENT_FLEET_TURN_END";
/// Set in a worker: a maildir that gets a copy of each of its lease's events.
pub const EVENTS: &str = "AGENT_FLEET_EVENTS";
/// Set by Claude in its hooks: its own pid.
pub const CLAUDE_PID: &str = "CLAUDE_PID";
/// Set for the person's own status line command, so that one that leads back to us ends there.
pub const IN_STATUSLINE: &str = "AGENT_FLEET_IN_STATUSLINE";
/// Prefix of the labels given to exec with `--label`.
pub const LABEL_PREFIX: &str = "AGENT_FLEET_LABEL_";
/// Tests only: moves the clock (see `clock`).
pub const TEST_NOW: &str = "AGENT_FLEET_TEST_NOW";
/// Tests only: comma-separated protections to switch off, so that a test can show that they matter, and failures to
/// bring about that no test could time.
pub const TEST_FAULTS: &str = "AGENT_FLEET_TEST_FAULTS";

/// Tests only: milliseconds between the two proofs of a new login.
#[cfg(feature = "test-fakes")]
pub const TEST_SECOND_PROOF: &str = "AGENT_FLEET_TEST_SECOND_PROOF";

/// The variables a user may set, with their meaning.
pub const VARIABLES: &[(&str, &str)] = &[
    (
        CONFIG,
        "path of the registry (default `~/.config/agent-fleet/accounts.toml`)",
    ),
    (
        STATE_DIR,
        "state root (default `~/.local/state/agent-fleet`)",
    ),
    (
        SHARE_DIR,
        "share root, where provider homes live (default `~/.local/share/agent-fleet`)",
    ),
    (
        FORMAT,
        "output format when `--format` is not given: json, toon or human",
    ),
    (
        EXIT_CODES,
        "`class`: refusals exit with the number of their class instead of 2",
    ),
];

/// A copy of the process environment. Only its names are shown in debug output: values may be secret.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Captures the environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the environment is captured"
    )]
    pub fn capture() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value as bytes, when set and not empty.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The value as text, when set, not empty and UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).and_then(OsStr::to_str)
    }

    /// All variables in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// What the process was started with.
#[derive(Clone, Debug)]
pub struct World {
    /// argv, the program name first.
    pub arguments: Vec<OsString>,
    /// The environment.
    pub variables: Variables,
    /// The working directory, when it still exists.
    pub directory: Option<PathBuf>,
    /// This program's own executable.
    pub executable: Option<PathBuf>,
}

impl World {
    /// Captures the world of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the environment is captured"
    )]
    pub fn capture() -> Self {
        Self {
            arguments: std::env::args_os().collect(),
            variables: Variables::capture(),
            directory: std::env::current_dir().ok(),
            executable: std::env::current_exe().ok(),
        }
    }
}

/// The three roots, found the same way by every command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The person's home directory.
    pub home: Utf8PathBuf,
    /// The registry file.
    pub config: Utf8PathBuf,
    /// The state root.
    pub state: Utf8PathBuf,
    /// The share root.
    pub share: Utf8PathBuf,
}

impl Roots {
    /// Finds the roots from `--config`, our variables, or the XDG defaults.
    ///
    /// Fails with `usage` when a root is relative or not UTF-8, or no home directory is known.
    pub fn find(variables: &Variables, config: Option<&Path>) -> Result<Self> {
        let home = match variables.raw("HOME") {
            Some(home) => absolute("HOME", Path::new(home))?,
            None => {
                return Err(Error::new(
                    code::USAGE,
                    "the variable `HOME` is not set, so no root can be found",
                )
                .hint("export HOME=/path/to/your/home"));
            }
        };
        let base = |variable: &str, fallback: &str| -> Result<Utf8PathBuf> {
            // The XDG specification says that a relative value must be ignored.
            match variables
                .raw(variable)
                .map(Path::new)
                .filter(|path| path.is_absolute())
            {
                Some(path) => absolute(variable, path),
                None => Ok(home.join(fallback)),
            }
        };
        let root = |variable: &str, fallback: Result<Utf8PathBuf>| -> Result<Utf8PathBuf> {
            match variables.raw(variable) {
                Some(path) => expand(variable, Path::new(path), &home),
                None => fallback.map(|path| path.join("agent-fleet")),
            }
        };
        let config = match (config, variables.raw(CONFIG)) {
            (Some(path), _) => expand("--config", path, &home)?,
            (None, Some(path)) => expand(CONFIG, Path::new(path), &home)?,
            (None, None) => base("XDG_CONFIG_HOME", ".config")?.join("agent-fleet/accounts.toml"),
        };
        let state = root(STATE_DIR, base("XDG_STATE_HOME", ".local/state"))?;
        let share = root(SHARE_DIR, base("XDG_DATA_HOME", ".local/share"))?;
        Ok(Self {
            home,
            config,
            state,
            share,
        })
    }
}

/// Expands a leading `~/` and requires an absolute UTF-8 path without `.` or `..` at its end.
pub fn expand(name: &str, path: &Path, home: &Utf8PathBuf) -> Result<Utf8PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => absolute(name, &home.as_std_path().join(rest)),
        Err(_) => absolute(name, path),
    }
}

fn absolute(name: &str, path: &Path) -> Result<Utf8PathBuf> {
    let refused = |message: String| {
        let hint = match name.strip_prefix("--") {
            Some(_) => "agent-fleet --help".to_owned(),
            None => format!("export {name}=/an/absolute/path"),
        };
        Error::new(code::USAGE, message).hint(hint)
    };
    let Some(text) = path.to_str() else {
        return Err(refused(format!(
            "{name} is not UTF-8: `{}`",
            path.display()
        )));
    };
    if !path.is_absolute() {
        return Err(refused(format!(
            "{name} must be an absolute path or begin with `~/`, not `{text}`"
        )));
    }
    Ok(path
        .components()
        .collect::<PathBuf>()
        .to_str()
        .map_or_else(|| text.into(), Utf8PathBuf::from))
}

/// Protections that a test may switch off, and failures that it may bring about; none in a shipped build.
#[expect(clippy::struct_excessive_bools, reason = "each is off or on by itself")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The `leases` lock is not taken.
    pub no_leases_lock: bool,
    /// The locks of the snapshots are not taken.
    pub no_snapshot_lock: bool,
    /// The turnstiles let everyone through.
    pub no_turnstile: bool,
    /// The witness is neither held nor believed.
    pub no_witness: bool,
    /// The start gate lets everyone through.
    pub no_start_gate: bool,
    /// Nobody sees who waits.
    pub no_queue: bool,
    /// The last look at a new login, before there is no way back, does not find it.
    pub last_look_fails: bool,
}

/// What every operation needs from the world.
#[derive(Clone, Debug)]
pub struct Context {
    /// Where things are.
    pub roots: Roots,
    /// Time.
    pub clock: Clock,
    /// The caller's environment.
    pub variables: Variables,
    /// The caller's working directory.
    pub directory: Option<PathBuf>,
    /// This program's executable.
    pub executable: Option<PathBuf>,
    /// Protections switched off by a test.
    pub faults: Faults,
    /// The command that runs, without its options and arguments; what it does is written down under this name.
    pub command: String,
}

impl Context {
    /// Resolves roots and clock from the captured world.
    pub fn resolve(world: &World, config: Option<&Path>) -> Result<Self> {
        Ok(Self {
            roots: Roots::find(&world.variables, config)?,
            clock: clock(&world.variables),
            faults: faults(&world.variables),
            variables: world.variables.clone(),
            directory: world.directory.clone(),
            executable: world.executable.clone(),
            command: command(&world.arguments),
        })
    }
}

/// Commands that consist of a noun and a verb.
const NOUNS: [&str; 10] = [
    "config",
    "fleet",
    "hook",
    "lease",
    "pool",
    "profile",
    "project",
    "quota",
    "session",
    "transaction",
];
/// Options that are followed by a value and may stand before the command.
const VALUED: [&str; 3] = ["--config", "--exit-codes", "--format"];
/// The command in a command line, without its options and arguments; empty when it is none that may be named.
fn command(arguments: &[OsString]) -> String {
    let mut words = arguments.iter().skip(1);
    let mut name = String::new();
    while let Some(word) = words.next().and_then(|word| word.to_str()) {
        if word == "--" {
            break;
        }
        if word.starts_with('-') {
            if VALUED.contains(&word) {
                words.next();
            }
            continue;
        }
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        if !word.bytes().all(plain) || word.len() > 24 {
            break;
        }
        if !name.is_empty() {
            name.push(' ');
            name.push_str(word);
            break;
        }
        let is_noun = NOUNS.contains(&word);
        word.clone_into(&mut name);
        if !is_noun {
            break;
        }
    }
    name
}

#[cfg(feature = "test-fakes")]
fn clock(variables: &Variables) -> Clock {
    variables
        .text(TEST_NOW)
        .map_or_else(Clock::real, Clock::moved)
}
#[cfg(not(feature = "test-fakes"))]
fn clock(_: &Variables) -> Clock {
    Clock::real()
}

#[cfg(feature = "test-fakes")]
fn faults(variables: &Variables) -> Faults {
    let text = variables.text(TEST_FAULTS).unwrap_or_default();
    let has = |name: &str| text.split(',').any(|word| word == name);
    Faults {
        no_leases_lock: has("no-leases-lock"),
        no_snapshot_lock: has("no-snapshot-lock"),
        no_turnstile: has("no-turnstile"),
        no_witness: has("no-witness"),
        no_start_gate: has("no-start-gate"),
        no_queue: has("no-queue"),
        last_look_fails: has("last-look-fails"),
    }
}
#[cfg(not(feature = "test-fakes"))]
fn faults(_: &Variables) -> Faults {
    Faults::default()
}

#[cfg(test)]
mod tests {
    use super::{Roots, Variables};

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().copied().collect()
    }

    #[test]
    fn roots_follow_xdg_and_our_variables_win() {
        let plain = Roots::find(&variables(&[("HOME", "/h")]), None).unwrap();
        assert_eq!(plain.config, "/h/.config/agent-fleet/accounts.toml");
        assert_eq!(plain.state, "/h/.local/state/agent-fleet");
        let set = variables(&[
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "/x"),
            ("AGENT_FLEET_SHARE_DIR", "~/s/"),
            ("XDG_DATA_HOME", "rel"),
        ]);
        let roots = Roots::find(&set, None).unwrap();
        assert_eq!(
            (roots.state.as_str(), roots.share.as_str()),
            ("/x/agent-fleet", "/h/s")
        );
    }

    #[test]
    fn a_value_of_the_environment_is_never_in_debug_output() {
        let shown = format!("{:?}", variables(&[("API_KEY", "sk-synthetic")]));
        assert_eq!(shown, r#"{"API_KEY"}"#);
    }

    #[test]
    fn relative_roots_are_refused_by_name() {
        let error = Roots::find(
            &variables(&[("HOME", "/h"), ("AGENT_FLEET_STATE_DIR", "x/y")]),
            None,
        )
        .unwrap_err();
        assert!(
            error.message.contains("AGENT_FLEET_STATE_DIR"),
            "{}",
            error.message
        );
    }

    #[test]
    fn a_command_is_named_without_its_arguments() {
        let name = |line: &str| {
            let words: Vec<_> = line.split(' ').map(Into::into).collect();
            super::command(&words)
        };
        assert_eq!(name("agent-fleet lease choose --task t"), "lease choose");
        assert_eq!(
            name("agent-fleet --format json -q profile enable sk-1"),
            "profile enable"
        );
        assert_eq!(name("agent-fleet exec --task t -- exec hello"), "exec");
        assert_eq!(name("agent-fleet --config=/x status secret"), "status");
        assert_eq!(name("agent-fleet profile --quiet status"), "profile status");
        assert_eq!(name("x Bearer-Token"), "");
        assert_eq!(name("agent-fleet"), "");
    }
}
