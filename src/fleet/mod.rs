//! The supervisor: a plan of work on leased workers.
//!
//! It stands on the broker and only on the broker: every provider process starts as `agent-fleet exec` or
//! `agent-fleet resume`, so accounts, limits and concurrency come from there. There is no daemon: a small
//! host per running turn is the parent of the leased process, everything else is a command over durable
//! files, and `fleet run` is a loop around the same step.

pub mod baseline;
pub mod files;
pub mod git;
pub mod launch;
pub mod ledger;
pub mod merge;
pub mod model;
pub mod record;
pub mod repository;
pub mod scope;
pub mod state;
pub mod tree;
pub mod turn;
pub mod worktree;

#[cfg(test)]
mod checkout_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod worktree_tests;
