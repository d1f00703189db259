//! Claude Code.

mod closing;
mod config_lock;
pub mod conversation;
pub(crate) mod ending;
pub mod environment;
pub mod grammar;
pub mod home;
pub mod hooks;
pub(crate) mod identity;
pub mod inhabitant;
pub(crate) mod login;
pub mod options;
pub mod overlay;
pub mod overrides;
mod refresh_lock;
pub(crate) mod usage;

use std::ffi::OsString;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::closing::{Closing, Command};
use super::conveyance::Conveyance;
use super::enrollment::Method;
use super::http::Client;
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

/// Where Claude's accounts are asked about.
const HOST: &str = "api.anthropic.com";
/// Without this the server does not take a login's token.
const BETA: (&str, &str) = ("anthropic-beta", "oauth-2025-04-20");

/// Asks who the login is and how much is left, one GET each. Usage is not asked for when the identity was
/// wanted and did not come: the reading could not be told whose it is.
pub(crate) fn fetch(context: &Context, login: &Login, want: Want, deadline: &Deadline) -> Fetched {
    let Some(token) = &login.access_token else {
        return Fetched::failed(want, &FetchError::Unauthorized);
    };
    let client = match Client::new(context, HOST, deadline) {
        Ok(client) => client,
        Err(error) => return Fetched::failed(want, &error),
    };
    let get = |path| client.get(path, token, &[BETA]);
    let identity = want
        .identity
        .then(|| get("/api/oauth/profile").and_then(|answer| identity::parse(&answer)));
    let usage = match &identity {
        _ if !want.usage => None,
        Some(Err(error)) => Some(Err(error.clone())),
        Some(Ok(_)) | None => {
            Some(get("/api/oauth/usage").and_then(|answer| usage::parse(&answer)))
        }
    };
    Fetched { identity, usage }
}

/// Claude Code and its service.
#[derive(Clone, Copy, Debug)]
pub struct Claude;

impl Provider for Claude {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Claude
    }

    fn home_variable(&self) -> &'static str {
        "CLAUDE_CONFIG_DIR"
    }

    fn default_home(&self) -> &'static str {
        ".claude"
    }

    fn credential_file(&self) -> &'static str {
        login::FILE
    }

    fn default_concurrency(&self) -> u32 {
        2
    }

    fn conveys(&self, credential: Credential) -> Conveyance {
        match credential {
            Credential::Home => Conveyance::Home,
            Credential::SetupToken => Conveyance::Descriptor(environment::TOKEN_DESCRIPTOR),
            Credential::ApiKey => Conveyance::Descriptor(environment::KEY_DESCRIPTOR),
        }
    }

    fn has_form(&self, credential: Credential, secret: &str) -> bool {
        match credential {
            Credential::Home => false,
            Credential::SetupToken => secret.starts_with("sk-ant-oat"),
            Credential::ApiKey => secret.starts_with("sk-ant-api"),
        }
    }

    /// None: a key in `.claude.json` is found and refused as an override.
    fn key_file(&self, _: &Secret) -> Option<Secret> {
        None
    }

    fn try_key(
        &self,
        context: &Context,
        key: &Secret,
        deadline: &Deadline,
    ) -> Result<(), FetchError> {
        let client = Client::new(context, HOST, deadline)?;
        let version = ("anthropic-version", "2023-06-01");
        let answer = client.request(
            "/v1/models?limit=1",
            ("x-api-key", key.expose()),
            &[version],
        );
        answer.map(drop)
    }

    fn login_command(&self, home: &Utf8Path) -> String {
        format!(
            "env {}={} claude auth login",
            self.home_variable(),
            shell::quote(home.as_str())
        )
    }

    /// One way for both: it opens a browser where there is one, and takes a pasted code.
    fn login_arguments(&self, _: Method) -> Vec<OsString> {
        ["auth", "login", "--claudeai"].map(Into::into).to_vec()
    }

    fn login_environment(
        &self,
        home: &Utf8Path,
        variables: &Variables,
    ) -> Vec<(OsString, OsString)> {
        environment::login(home, variables)
    }

    /// Nothing: without a keychain the login goes to the credential file by itself.
    fn stage(&self, _: &ProviderSettings, _: &Utf8Path) -> Result<()> {
        Ok(())
    }

    fn carry_notes(&self, context: &Context, from: &Utf8Path, to: &Utf8Path) -> Result<()> {
        home::carry_account(context, from, to)
    }

    fn base_login_command(&self, home: Option<&Utf8Path>) -> String {
        match home {
            Some(home) => self.login_command(home),
            None => "claude auth login".to_owned(),
        }
    }

    /// Claude refreshes a token that ran out before it answers, if not at the first time then at the next (run with
    /// 2.1.332).
    fn renew_command(&self, home: Option<&Utf8Path>) -> String {
        let command = "claude auth status";
        match home {
            Some(home) => format!(
                "env {}={} {command}",
                self.home_variable(),
                shell::quote(home.as_str())
            ),
            None => command.to_owned(),
        }
    }

    fn refresh_arguments(&self) -> &'static [&'static str] {
        &["auth", "status"]
    }

    /// It now and then ends before it has begun to refresh: no lock taken, nothing sent (run with 2.1.332, where it
    /// was half of all starts and up to three in a row).
    fn refresh_starts(&self) -> u32 {
        12
    }

    fn refreshing(&self, home: &Utf8Path, now: Timestamp) -> Option<Utf8PathBuf> {
        refresh_lock::held(home, now)
    }

    fn parse_login(&self, bytes: &[u8]) -> Result<Login, LoginError> {
        login::parse(bytes)
    }

    fn fetch(
        &self,
        context: &Context,
        _: &ProviderSettings,
        login: &Login,
        want: Want,
        deadline: &Deadline,
    ) -> Fetched {
        fetch(context, login, want, deadline)
    }

    fn parse_arguments(
        &self,
        arguments: &[OsString],
        settings: &ProviderSettings,
    ) -> Result<Invocation, ArgumentRefused> {
        grammar::parse(arguments, &settings.worker_options)
    }

    fn command_line(
        &self,
        context: &Context,
        invocation: &Invocation,
        facts: &LaunchFacts,
    ) -> Result<Vec<OsString>> {
        let overlay = overlay::overlay(facts, &context.variables, &invocation.options);
        Ok(grammar::command_line(invocation, facts, &overlay))
    }

    fn environment(&self, facts: &LaunchFacts) -> Vec<(OsString, OsString)> {
        environment::variables(facts)
    }

    fn provision(&self, plan: &HomePlan<'_>) -> Result<Vec<String>> {
        home::provision(plan)
    }

    fn readiness(&self, plan: &HomePlan<'_>) -> Result<(), NotReady> {
        home::readiness(plan)
    }

    fn overrides(&self, home: &Utf8Path, workspaces: &[&Utf8Path]) -> Vec<Override> {
        overrides::overrides(home, workspaces)
    }

    fn ambient(&self) -> Vec<(&'static str, &'static str)> {
        environment::ambient()
    }

    fn transcript(&self, home: &Utf8Path, workspace: &Utf8Path, session: &str) -> Option<PathBuf> {
        conversation::path(home, workspace, session)
    }

    fn ending(&self, tail: &Tail, local: &TimeZone) -> Ending {
        ending::of(tail, local)
    }

    fn closing(&self, tail: &Tail) -> Closing {
        closing::of(tail)
    }

    fn commands(&self, tail: &Tail, from: Timestamp) -> Vec<Command> {
        closing::commands(tail, from)
    }

    fn inhabitants(&self, home: &Utf8Path, host: &Host) -> Inhabitants {
        inhabitant::find(home, host)
    }

    fn stop_command(&self, home: &Utf8Path, binary: &str, _: &Inhabitants) -> String {
        inhabitant::stop(home, binary)
    }

    fn refresh_locks(&self, home: &Utf8Path) -> Vec<(Utf8PathBuf, u64)> {
        inhabitant::locks(home)
    }
}
