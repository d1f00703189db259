//! Claude Code.

mod config_lock;
pub mod home;
pub mod hooks;
pub(crate) mod login;
