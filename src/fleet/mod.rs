//! The supervisor: a plan of work on leased workers.
//!
//! It stands on the broker and only on the broker: every provider process starts as `agent-fleet exec` or
//! `agent-fleet resume`, so accounts, limits and concurrency come from there. There is no daemon: a small
//! host per running turn is the parent of the leased process, everything else is a command over durable
//! files, and `fleet run` is a loop around the same step.

pub mod files;
pub mod launch;
pub mod ledger;
pub mod model;
pub mod plan;
pub mod prompt;
pub mod record;
pub mod report;
pub mod settings;
pub mod state;
#[cfg(test)]
mod trial;
