//! Claude Code.

pub(crate) mod login;
