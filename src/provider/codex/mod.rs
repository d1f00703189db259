//! Codex.

pub mod configuration;
pub mod conversation;
pub mod environment;
pub mod grammar;
pub mod home;
pub mod hooks;
pub(crate) mod login;
pub mod options;
pub mod overrides;
pub mod trust;
pub(crate) mod usage;

use super::http::Client;
use super::{FetchError, Fetched, Login, Want};
use crate::clock::Deadline;
use crate::env::Context;

/// Where Codex's accounts are asked about.
const HOST: &str = "chatgpt.com";

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
