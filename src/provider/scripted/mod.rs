//! The built-in provider: an agent that follows a script, so that everything can be tried without an account.
//!
//! It has what the real ones have, in the same places: a home with a credential file, settings, hooks and
//! transcripts; a server, which is a directory, that knows accounts, quota and single-use refresh tokens; a
//! CLI, which is this program under a hidden verb. It goes through the same code as the real ones; nothing
//! outside this folder asks whether a provider is this one, except that it never shares a pool with them.
//!
//! Limits: its server is a directory of the same user, so it proves nothing about security; its text is
//! what its prompt told it to say.

mod account;
pub mod agent;
mod ending;
mod grammar;
mod home;
mod login;
mod script;
mod server;

use std::ffi::OsString;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::server::Server;
use super::closing::{Closing, Command};
use super::conveyance::Conveyance;
use super::enrollment::Method;
use super::inhabitant::{Host, Inhabitants};
use super::overrides::Override;
use super::{
    ArgumentRefused, FetchError, Fetched, HomePlan, Invocation, LaunchFacts, Login, LoginError,
    NotReady, Provider, Want,
};
use crate::clock::Deadline;
use crate::env::{Context, Variables};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::provider::home::conversation::Tail;
use crate::quota::limit::Ending;
use crate::registry::schema::{Credential, ProviderSettings};
use crate::secret::Secret;
use crate::sys::shell;

pub use grammar::VERB;

/// The variable that names the provider home.
const HOME_VARIABLE: &str = "SCRIPTED_HOME";
/// The home that the bare agent uses, below the person's home directory.
const DEFAULT_HOME: &str = ".scripted";

/// The built-in provider.
#[derive(Clone, Copy, Debug)]
pub struct Scripted;

impl Provider for Scripted {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Scripted
    }

    fn home_variable(&self) -> &'static str {
        HOME_VARIABLE
    }

    fn default_home(&self) -> &'static str {
        DEFAULT_HOME
    }

    fn credential_file(&self) -> &'static str {
        login::FILE
    }

    fn default_concurrency(&self) -> u32 {
        3
    }

    fn conveys(&self, credential: Credential) -> Conveyance {
        match credential {
            Credential::Home => Conveyance::Home,
            Credential::SetupToken | Credential::ApiKey => {
                Conveyance::Never("the scripted provider has logins alone")
            }
        }
    }

    fn has_form(&self, _: Credential, _: &str) -> bool {
        false
    }

    fn key_file(&self, _: &Secret) -> Option<Secret> {
        None
    }

    fn try_key(&self, _: &Context, _: &Secret, _: &Deadline) -> Result<(), FetchError> {
        Err(FetchError::Forbidden)
    }

    fn login_command(&self, home: &Utf8Path) -> String {
        let home = shell::quote(home.as_str());
        format!(
            "env {HOME_VARIABLE}={home} agent-fleet {VERB} -- login --account someone --service /path/to/service"
        )
    }

    fn login_arguments(&self, _: Method) -> Vec<OsString> {
        vec![VERB.into(), "--".into(), grammar::LOGIN.into()]
    }

    fn login_environment(&self, home: &Utf8Path, _: &Variables) -> Vec<(OsString, OsString)> {
        vec![(HOME_VARIABLE.into(), home.as_str().into())]
    }

    fn stage(&self, settings: &ProviderSettings, home: &Utf8Path) -> Result<()> {
        home::stage(settings, home)
    }

    /// Nothing: the agent notes nothing beside its login.
    fn carry_notes(&self, _: &Context, _: &Utf8Path, _: &Utf8Path) -> Result<()> {
        Ok(())
    }

    fn base_login_command(&self, home: Option<&Utf8Path>) -> String {
        self.login_command(home.unwrap_or(Utf8Path::new(DEFAULT_HOME)))
    }

    fn renew_command(&self, home: Option<&Utf8Path>) -> String {
        let command = format!("agent-fleet {VERB} -- {}", grammar::STATUS);
        match home {
            Some(home) => format!(
                "env {HOME_VARIABLE}={} {command}",
                shell::quote(home.as_str())
            ),
            None => command,
        }
    }

    fn refresh_arguments(&self) -> &'static [&'static str] {
        &[VERB, "--", grammar::STATUS]
    }

    fn refresh_starts(&self) -> u32 {
        1
    }

    fn refreshing(&self, _: &Utf8Path, _: Timestamp) -> Option<Utf8PathBuf> {
        None
    }

    fn parse_login(&self, bytes: &[u8]) -> Result<Login, LoginError> {
        login::parse(bytes)
    }

    fn fetch(
        &self,
        context: &Context,
        settings: &ProviderSettings,
        login: &Login,
        want: Want,
        _: &Deadline,
    ) -> Fetched {
        let answer = match (&settings.service, &login.access_token) {
            (None, _) => Err(FetchError::Unavailable(
                "the provider has no service directory".to_owned(),
            )),
            (Some(_), None) => Err(FetchError::Unauthorized),
            (Some(service), Some(token)) => Server::new(service, context.clock).ask(token),
        };
        let (identity, usage) = match answer {
            Ok((account, usage)) => (Ok(account), Ok(usage)),
            Err(error) => (Err(error.clone()), Err(error)),
        };
        Fetched {
            identity: want.identity.then_some(identity),
            usage: want.usage.then_some(usage),
        }
    }

    fn parse_arguments(
        &self,
        arguments: &[OsString],
        _: &ProviderSettings,
    ) -> Result<Invocation, ArgumentRefused> {
        grammar::worker(arguments)
    }

    fn command_line(
        &self,
        _: &Context,
        invocation: &Invocation,
        facts: &LaunchFacts,
    ) -> Result<Vec<OsString>> {
        Ok(grammar::command_line(invocation, &facts.conversation))
    }

    fn environment(&self, facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
        vec![(HOME_VARIABLE.into(), facts.home.as_str().into())]
    }

    fn provision(&self, plan: &HomePlan<'_>) -> Result<Vec<String>> {
        home::provision(plan)
    }

    fn readiness(&self, plan: &HomePlan<'_>) -> Result<(), NotReady> {
        home::readiness(plan)
    }

    fn overrides(&self, home: &Utf8Path, workspaces: &[&Utf8Path]) -> Vec<Override> {
        home::overrides(home, workspaces)
    }

    fn ambient(&self) -> Vec<(&'static str, &'static str)> {
        home::AMBIENT.to_vec()
    }

    fn transcript(&self, home: &Utf8Path, _: &Utf8Path, session: &str) -> Option<PathBuf> {
        home::transcript_path(home, session).filter(|path| path.is_file())
    }

    fn ending(&self, tail: &Tail, _: &TimeZone) -> Ending {
        ending::of(tail)
    }

    fn closing(&self, tail: &Tail) -> Closing {
        ending::closing(tail)
    }

    fn commands(&self, tail: &Tail, from: Timestamp) -> Vec<Command> {
        ending::commands(tail, from)
    }

    /// None: the scripted agent is always leased and starts nothing that outlives it.
    fn inhabitants(&self, _: &Utf8Path, _: &Host) -> Inhabitants {
        Inhabitants::default()
    }

    fn stop_command(&self, _: &Utf8Path, _: &str, _: &Inhabitants) -> String {
        "agent-fleet lease list".to_owned()
    }

    fn refresh_locks(&self, _: &Utf8Path) -> Vec<(Utf8PathBuf, u64)> {
        Vec::new()
    }
}
