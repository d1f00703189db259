//! Codex.

pub(crate) mod login;
