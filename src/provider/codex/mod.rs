//! Codex.

mod closing;
pub mod configuration;
pub mod conversation;
pub(crate) mod ending;
pub mod environment;
pub mod grammar;
pub mod home;
pub mod hooks;
pub mod inhabitant;
pub(crate) mod login;
pub mod options;
pub mod overrides;
pub mod trust;
pub mod usage;

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

/// Where Codex's accounts are asked about.
const HOST: &str = "chatgpt.com";
/// Where API keys are asked about.
const KEY_HOST: &str = "api.openai.com";

/// Asks who the login is and how much is left: one GET tells both.
pub(crate) fn fetch(context: &Context, login: &Login, want: Want, deadline: &Deadline) -> Fetched {
    let Some(token) = &login.access_token else {
        return Fetched::failed(want, &FetchError::Unauthorized);
    };
    let account = login
        .account_id
        .as_ref()
        .map(|id| ("chatgpt-account-id", id.expose()));
    let headers: Vec<_> = account.into_iter().collect();
    let answer = Client::new(context, HOST, deadline)
        .and_then(|client| client.get("/backend-api/wham/usage", token, &headers));
    match answer {
        Ok(answer) => Fetched {
            identity: Some(usage::account(&answer)),
            usage: Some(usage::parse(&answer)),
        },
        Err(error) => Fetched::failed(want, &error),
    }
}

/// Codex and its service.
#[derive(Clone, Copy, Debug)]
pub struct Codex;

impl Provider for Codex {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Codex
    }

    fn home_variable(&self) -> &'static str {
        "CODEX_HOME"
    }

    fn default_home(&self) -> &'static str {
        ".codex"
    }

    fn credential_file(&self) -> &'static str {
        login::FILE
    }

    fn default_concurrency(&self) -> u32 {
        3
    }

    /// An API key is in the home: the CLI has no other way that keeps it from its tools' environment (run with 0.171).
    fn conveys(&self, credential: Credential) -> Conveyance {
        match credential {
            Credential::Home | Credential::ApiKey => Conveyance::Home,
            Credential::SetupToken => Conveyance::Never("Codex has no long-lived tokens"),
        }
    }

    fn has_form(&self, credential: Credential, secret: &str) -> bool {
        match credential {
            Credential::Home | Credential::SetupToken => false,
            Credential::ApiKey => secret.starts_with("sk-") && !secret.starts_with("sk-ant-"),
        }
    }

    fn key_file(&self, key: &Secret) -> Option<Secret> {
        Some(login::of_key(key))
    }

    fn try_key(
        &self,
        context: &Context,
        key: &Secret,
        deadline: &Deadline,
    ) -> Result<(), FetchError> {
        let client = Client::new(context, KEY_HOST, deadline)?;
        client.get("/v1/models", key, &[]).map(drop)
    }

    fn login_command(&self, home: &Utf8Path) -> String {
        format!(
            "env {}={} codex login --device-auth",
            self.home_variable(),
            shell::quote(home.as_str())
        )
    }

    fn login_arguments(&self, method: Method) -> Vec<OsString> {
        match method {
            Method::Anywhere => vec!["login".into(), "--device-auth".into()],
            Method::Browser => vec!["login".into()],
        }
    }

    fn login_environment(&self, home: &Utf8Path, _: &Variables) -> Vec<(OsString, OsString)> {
        environment::homes(home)
    }

    fn stage(&self, _: &ProviderSettings, home: &Utf8Path) -> Result<()> {
        home::stage(home)
    }

    /// Nothing: Codex keeps everything about an account in the credential file.
    fn carry_notes(&self, _: &Context, _: &Utf8Path, _: &Utf8Path) -> Result<()> {
        Ok(())
    }

    fn base_login_command(&self, home: Option<&Utf8Path>) -> String {
        match home {
            Some(home) => self.login_command(home),
            None => "codex login --device-auth".to_owned(),
        }
    }

    /// Without a request the server only refreshes a token that ran out, and ends (run with 0.171).
    fn renew_command(&self, home: Option<&Utf8Path>) -> String {
        let command = "codex app-server < /dev/null";
        match home {
            Some(home) => format!(
                "env {}={} {command}",
                self.home_variable(),
                shell::quote(home.as_str())
            ),
            None => command.to_owned(),
        }
    }

    /// It ends at the end of its input, and not before a refresh that it began is written (run with 0.171).
    fn refresh_arguments(&self) -> &'static [&'static str] {
        &["app-server"]
    }

    fn refresh_starts(&self) -> u32 {
        1
    }

    /// Codex has a lock of its own, which the kernel releases.
    fn refreshing(&self, _: &Utf8Path, _: Timestamp) -> Option<Utf8PathBuf> {
        None
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
        let trust = trust::entries(
            context,
            facts.binary.as_std_path(),
            &facts.program,
            &facts.home,
        )?;
        Ok(grammar::command_line(invocation, facts, &trust)?)
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

    fn overrides(&self, home: &Utf8Path, _: &[&Utf8Path]) -> Vec<Override> {
        overrides::overrides(home)
    }

    fn ambient(&self) -> Vec<(&'static str, &'static str)> {
        environment::AMBIENT.to_vec()
    }

    fn transcript(&self, home: &Utf8Path, _: &Utf8Path, session: &str) -> Option<PathBuf> {
        conversation::path(home, session)
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

    fn stop_command(&self, home: &Utf8Path, binary: &str, inhabitants: &Inhabitants) -> String {
        inhabitant::stop(home, binary, inhabitants)
    }

    /// None: Codex locks files, and the kernel lets go of those when their holder ends.
    fn refresh_locks(&self, _: &Utf8Path) -> Vec<(Utf8PathBuf, u64)> {
        Vec::new()
    }
}
