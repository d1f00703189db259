//! agent-fleet: gives each coding-agent worker exactly one of your own accounts.

pub mod clock;
pub mod env;
pub mod error;
pub mod id;
pub mod store;
pub mod sys;
