//! The services and their CLIs behind one trait.
//!
//! A provider knows its arguments, its environment, its home and its server's answers. Grammar,
//! environment and parsers are pure; only `home` touches files and only `http` opens sockets. Nothing in
//! here writes, copies or refreshes a credential.

pub(crate) mod account;
pub(crate) mod answer;
pub mod argument;
pub mod claude;
pub mod closing;
pub mod codex;
pub mod conveyance;
pub mod enrollment;
pub mod environment;
pub mod home;
pub(crate) mod http;
pub mod inhabitant;
mod model;
pub mod overrides;
pub mod scripted;
#[cfg(test)]
mod usage_properties;

use std::ffi::OsString;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::clock::Deadline;
use crate::env::{Context, Variables};
use crate::error::{Code, Refusal, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::identity::fingerprint::Account;
use crate::provider::home::conversation::Tail;
use crate::quota::limit::Ending;
use crate::quota::window::{Spend, Window};
use crate::registry::schema::{Credential, Profile, ProviderSettings, Registry};
use crate::secret::Secret;
use closing::{Closing, Command};
use conveyance::Conveyance;
use enrollment::Method;
use inhabitant::{Host, Inhabitants};
use overrides::Override;

/// What a provider's credential file says, read without trusting it.
#[derive(Clone, Debug)]
pub struct Login {
    /// What kind of credential it is.
    pub kind: LoginKind,
    /// Digest (64 hex) of the login tokens, by the provider's own list of fields.
    pub digest: String,
    /// The access token, for the readers alone.
    pub access_token: Option<Secret>,
    /// The account id that goes with the token in requests (Codex).
    pub account_id: Option<Secret>,
    /// When the access token expires.
    pub access_expires_at: Option<Timestamp>,
    /// Whether the provider's CLI can renew it.
    pub refreshable: bool,
    /// From when a CLI that starts renews it first; `None` when it never does.
    pub renewed_from: Option<Timestamp>,
    /// When the whole login ends, where the file says so; with its access token, when nothing can renew that.
    pub login_expires_at: Option<Timestamp>,
}

/// How long before its expiry both CLIs renew an access token when they start (run with both).
pub const RENEWAL_WINDOW: SignedDuration = SignedDuration::from_mins(5);

impl Login {
    /// From when a token that expires then is renewed at a start.
    pub fn renewal_of(expires: Timestamp) -> Timestamp {
        expires
            .checked_sub(RENEWAL_WINDOW)
            .unwrap_or(Timestamp::MIN)
    }
}

/// Kinds of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginKind {
    /// A subscription login.
    Subscription,
    /// An API key: paid per token.
    ApiKey,
    /// A logged-out stub: the tokens are empty.
    Blank,
}

/// Why a credential file could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Empty or not the provider's format; a writer may be at work.
    #[error("the credential file is empty or not in the provider's format")]
    Unparsable,
}

/// What to ask the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Who the account is.
    pub identity: bool,
    /// How much is left.
    pub usage: bool,
}

/// Why a read-only request gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server does not accept the token: 401, or the login was revoked.
    #[error("the server does not accept the login")]
    Unauthorized,
    /// The token may not ask this (403).
    #[error("the token may not ask this")]
    Forbidden,
    /// 429, with the seconds it asked us to wait.
    #[error("the server is throttling")]
    Throttled(Option<u64>),
    /// The server was reached and gave no answer, or an answer that is no answer.
    #[error("the server could not be asked: {0}")]
    Unavailable(String),
    /// No server was reached.
    #[error("the server could not be reached: {0}")]
    Unreached(String),
    /// An answer of unknown shape.
    #[error("the server's answer has an unknown shape")]
    Shape,
}

/// What a read-only request brought.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Present when identity was asked for.
    pub identity: Option<Result<Account, FetchError>>,
    /// Present when usage was asked for (or came along).
    pub usage: Option<Result<Usage, FetchError>>,
}

impl Fetched {
    /// The same failure for everything that was wanted.
    pub fn failed(want: Want, error: &FetchError) -> Self {
        Self {
            identity: want.identity.then(|| Err(error.clone())),
            usage: want.usage.then(|| Err(error.clone())),
        }
    }
}

/// The server's quota answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The windows it named; one that made no sense has nothing left.
    pub windows: Vec<Window>,
    /// Whether paid overage is on, when it says so.
    pub overage_enabled: Option<bool>,
    /// What overage has cost, when it says so.
    pub spend: Option<Spend>,
    /// Whether some window made no sense.
    pub misread: bool,
}

/// How a worker talks to the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One turn, output to a stream (`claude -p`, `codex exec`).
    Headless,
    /// The provider's own terminal screen.
    Terminal,
}

/// One option that passed the allowlist, in canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOption {
    /// Canonical long name with its dashes, such as `--model`.
    pub name: String,
    /// Its values; empty for a flag.
    pub values: Vec<OsString>,
}

/// A worker's arguments, parsed and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Headless or terminal.
    pub mode: Mode,
    /// Allowed options in the order given.
    pub options: Vec<AllowedOption>,
    /// Zero or one prompt.
    pub prompt: Option<OsString>,
}

/// A provider option or word that workers may not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider} argument `{argument}` is refused: {reason}")]
pub struct ArgumentRefused {
    /// Whose grammar.
    pub provider: ProviderKind,
    /// The argument's name alone: its value may be a secret.
    pub argument: String,
    /// Why, in the user's terms.
    pub reason: String,
    /// The `worker_options` that would allow it, where a setting can.
    pub allowed_by: Option<String>,
}

impl Refusal for ArgumentRefused {
    fn code(&self) -> Code {
        code::ARGUMENT_REFUSED
    }
    fn hint(&self) -> Option<String> {
        Some(match &self.allowed_by {
            Some(options) => format!(
                "agent-fleet config set providers.{}.worker_options {options}",
                self.provider
            ),
            None => "agent-fleet exec --help".to_owned(),
        })
    }
}

/// Which conversation a launch belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// A new one; the id is used by providers that let us choose it.
    New {
        /// A fresh UUID.
        id: String,
    },
    /// One to be continued.
    Resume {
        /// The provider's id, as its first hook reported it.
        id: String,
    },
}

/// Everything a command line and an environment are built from.
#[derive(Clone, Debug)]
pub struct LaunchFacts {
    /// The provider home.
    pub home: Utf8PathBuf,
    /// Canonical workspace.
    pub workspace: Utf8PathBuf,
    /// The registered project root that the workspace is, or is a linked worktree of.
    pub project: Utf8PathBuf,
    /// Which conversation.
    pub conversation: Conversation,
    /// The provider's native binary.
    pub binary: Utf8PathBuf,
    /// Stable path of this program, which hooks call.
    pub program: Utf8PathBuf,
    /// Whether the worker may spend money outside the subscription.
    pub may_spend: bool,
}

/// Why a home cannot take workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the home of profile `{profile}` is not ready for workers: {reason}")]
pub struct NotReady {
    /// Whose home.
    pub profile: ProfileId,
    /// What is missing or wrong.
    pub reason: String,
}

impl Refusal for NotReady {
    fn code(&self) -> Code {
        code::NOT_PROVISIONED
    }
    fn hint(&self) -> Option<String> {
        Some(format!("agent-fleet profile provision {}", self.profile))
    }
}

/// What provisioning needs to know.
#[derive(Debug)]
pub struct HomePlan<'a> {
    /// The world.
    pub context: &'a Context,
    /// The registry.
    pub registry: &'a Registry,
    /// The provider's settings.
    pub settings: &'a ProviderSettings,
    /// Whose home.
    pub profile: &'a Profile,
    /// Stable path of this program, which hooks call.
    pub program: &'a Utf8Path,
    /// A task that holds a live lease of the profile now: files that a running worker reads stay as they are.
    pub occupied: Option<&'a str>,
}

/// The provider of a kind.
pub fn of(kind: ProviderKind) -> &'static dyn Provider {
    match kind {
        ProviderKind::Claude => &claude::Claude,
        ProviderKind::Codex => &codex::Codex,
        ProviderKind::Scripted => &scripted::Scripted,
    }
}

/// A service and its CLI.
pub trait Provider: Sync + std::fmt::Debug {
    /// Which one.
    fn kind(&self) -> ProviderKind;

    /// Environment variable that names the home.
    fn home_variable(&self) -> &'static str;

    /// The home that the bare CLI uses, below the person's home directory.
    fn default_home(&self) -> &'static str;

    /// The credential file, relative to the home.
    fn credential_file(&self) -> &'static str;

    /// Slots of a new profile.
    fn default_concurrency(&self) -> u32;

    /// How a credential of this kind reaches the CLI.
    fn conveys(&self, credential: Credential) -> Conveyance;

    /// Whether a person's text looks like a credential of this kind, by its form alone.
    fn has_form(&self, credential: Credential, secret: &str) -> bool;

    /// What the credential file in the home holds for an API key, where the CLI takes one from there.
    fn key_file(&self, key: &Secret) -> Option<Secret>;

    /// Asks the server, read-only and for nothing, whether it takes an API key: one GET before the deadline.
    fn try_key(
        &self,
        context: &Context,
        key: &Secret,
        deadline: &Deadline,
    ) -> Result<(), FetchError>;

    /// The provider's own command by which a person logs in to this home.
    fn login_command(&self, home: &Utf8Path) -> String;

    /// The arguments by which the CLI logs a person in.
    fn login_arguments(&self, method: Method) -> Vec<OsString>;

    /// Variables for that on top of the scrubbed environment, home variable included.
    fn login_environment(
        &self,
        home: &Utf8Path,
        variables: &Variables,
    ) -> Vec<(OsString, OsString)>;

    /// Writes what the CLI must find in an empty home, so that the login ends up in the credential file there.
    fn stage(&self, settings: &ProviderSettings, home: &Utf8Path) -> Result<()>;

    /// Brings what the CLI noted about the account beside the login from one home to another.
    fn carry_notes(&self, context: &Context, from: &Utf8Path, to: &Utf8Path) -> Result<()>;

    /// The same for the base CLI; `None` is the CLI's own default home, whose name on macOS must not be spelt out.
    fn base_login_command(&self, home: Option<&Utf8Path>) -> String;

    /// What a person types so that a login whose access token ran out can be asked about again.
    /// `None` is the CLI's own default home, whose name on macOS must not be spelt out.
    fn renew_command(&self, home: Option<&Utf8Path>) -> String;

    /// Arguments by which the CLI refreshes a login whose access token ran out, does nothing else with it, and
    /// ends by itself; without input, and whoever reads its output.
    fn refresh_arguments(&self) -> &'static [&'static str];

    /// How often the CLI may have to be started so before it does refresh.
    fn refresh_starts(&self) -> u32;

    /// The file or directory by which another process says that it is refreshing the login of this home now.
    fn refreshing(&self, home: &Utf8Path, now: Timestamp) -> Option<Utf8PathBuf>;

    /// Reads a credential file's bytes.
    fn parse_login(&self, bytes: &[u8]) -> Result<Login, LoginError>;

    /// Asks the server, read-only, with the login's access token: at most one GET per thing wanted, all of
    /// them before the deadline.
    fn fetch(
        &self,
        context: &Context,
        settings: &ProviderSettings,
        login: &Login,
        want: Want,
        deadline: &Deadline,
    ) -> Fetched;

    /// Parses and checks a worker's arguments; nothing unknown passes.
    fn parse_arguments(
        &self,
        arguments: &[OsString],
        settings: &ProviderSettings,
    ) -> Result<Invocation, ArgumentRefused>;

    /// The argv (after argv\[0\]) in the order that the CLI wants.
    fn command_line(
        &self,
        context: &Context,
        invocation: &Invocation,
        facts: &LaunchFacts,
    ) -> Result<Vec<OsString>>;

    /// Variables set for the worker on top of the scrubbed environment, home variable included.
    fn environment(&self, facts: &LaunchFacts) -> Vec<(OsString, OsString)>;

    /// Makes or repairs the home, idempotently; returns what was changed, one line each.
    fn provision(&self, plan: &HomePlan<'_>) -> Result<Vec<String>>;

    /// Checks that what workers need of the home holds.
    fn readiness(&self, plan: &HomePlan<'_>) -> Result<(), NotReady>;

    /// Everything in the home, these workspaces and the machine that would replace the login.
    fn overrides(&self, home: &Utf8Path, workspaces: &[&Utf8Path]) -> Vec<Override>;

    /// Variables that would replace the login or its route if a worker saw them, each with what it would do.
    fn ambient(&self) -> Vec<(&'static str, &'static str)>;

    /// The transcript of a conversation in this home, if it exists.
    fn transcript(&self, home: &Utf8Path, workspace: &Utf8Path, session: &str) -> Option<PathBuf>;

    /// How the last turn in this end of a transcript ended, by the records that the CLI itself makes of
    /// errors. What a worker says or a tool prints is never one. `local` is the zone in which the CLI writes
    /// times for people.
    fn ending(&self, tail: &Tail, local: &TimeZone) -> Ending;

    /// How the last turn in this end of a transcript stands, by the CLI's own records.
    fn closing(&self, tail: &Tail) -> Closing;

    /// The shell commands in this end of a transcript that ended at or after `from`, in order.
    fn commands(&self, tail: &Tail, from: Timestamp) -> Vec<Command>;

    /// The provider's own processes that live in this home, leased or not.
    fn inhabitants(&self, home: &Utf8Path, host: &Host) -> Inhabitants;

    /// What a person types to end the daemons among them without harm to the login. `binary` is the
    /// provider's program.
    fn stop_command(&self, home: &Utf8Path, binary: &str, inhabitants: &Inhabitants) -> String;

    /// Directories by which the provider's CLI keeps two processes from refreshing one login at once, with the
    /// age in seconds from which it takes one over itself.
    fn refresh_locks(&self, home: &Utf8Path) -> Vec<(Utf8PathBuf, u64)>;
}
