//! The supervisor: a plan of work on leased workers.
//!
//! It stands on the broker and only on the broker: every provider process starts as `agent-fleet exec` or
//! `agent-fleet resume`, so accounts, limits and concurrency come from there. There is no daemon: a small
//! host per running turn is the parent of the leased process, everything else is a command over durable
//! files, and `fleet run` is a loop around the same step.

pub mod accept;
pub mod admit;
pub mod baseline;
pub mod begin;
pub mod board;
pub mod compose;
pub mod cursor;
pub mod deliver;
pub mod doctor;
pub mod drive;
pub mod ending;
pub mod engage;
pub mod exchange;
pub mod files;
pub mod follow;
pub mod forecast;
pub mod git;
pub mod guard;
pub mod history;
pub mod hold;
pub mod launch;
pub mod ledger;
pub mod left;
pub mod listing;
pub mod locate;
pub mod merge;
pub mod model;
pub mod notify;
pub mod plan;
pub mod prompt;
pub mod reach;
pub mod reconcile;
pub mod record;
pub mod recover;
pub mod report;
pub mod repository;
pub mod result;
pub mod review;
pub mod scope;
pub mod screen;
pub mod send;
pub mod set_aside;
pub mod settings;
pub mod settle;
pub mod show;
pub mod skill;
pub mod start;
pub mod state;
pub mod stop;
pub mod take;
pub mod tick;
pub mod tree;
pub mod turn;
pub mod verify;
pub mod view;
pub mod vigil;
pub mod wait;
pub mod waiting;
pub mod wake;
pub mod windows;
pub mod worktree;

#[cfg(test)]
mod checkout_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod trial;
#[cfg(test)]
mod worktree_tests;
