//! Codex.

pub mod configuration;
pub mod environment;
pub mod grammar;
pub mod options;
