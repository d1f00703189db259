//! Giving a task exactly one account: who could take it, who is best, and why not the others.
//!
//! [`candidate`], [`rank`], [`turn`], [`pace`], [`patience`] and [`explain`] are pure; [`apply`] gathers the facts and makes
//! the one atomic step; [`wait`] makes it again until it succeeds, in the order of [`queue`]. Selection starts no provider process, and uses the network only to renew a proof or an aged
//! reading that it needs.

mod accounts;
pub mod aftermath;
pub mod apply;
pub mod candidate;
pub mod examine;
pub mod explain;
pub mod overage;
pub mod pace;
pub mod patience;
pub mod queue;
pub mod rank;
#[cfg(test)]
mod rank_properties;
#[cfg(test)]
mod retry_tests;
pub mod routeability;
mod run;
mod survey;
pub mod turn;
pub mod wait;
