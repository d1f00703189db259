//! Claude Code.

mod config_lock;
pub mod conversation;
pub mod environment;
pub mod grammar;
pub mod home;
pub mod hooks;
pub(crate) mod identity;
pub(crate) mod login;
pub mod options;
pub mod overlay;
pub mod overrides;
pub(crate) mod usage;

use super::http::Client;
use super::{FetchError, Fetched, Login, Want};
use crate::clock::Deadline;
use crate::env::Context;

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
