//! agent-fleet: gives each coding-agent worker exactly one of your own accounts.

pub mod choose;
pub mod cli;
pub mod clock;
pub mod contract;
pub mod env;
pub mod error;
pub mod id;
pub mod identity;
pub mod lease;
pub mod provider;
pub mod quota;
pub mod registry;
pub mod render;
pub mod secret;
pub mod snapshot;
pub mod store;
pub mod sys;
pub mod worker;
