//! Claude Code.

pub mod environment;
pub mod grammar;
pub mod options;
pub mod overlay;
