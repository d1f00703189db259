//! Changes of a home that must not be half done: a new login takes the place of the old one.
//!
//! # Guarantees
//! - Whatever ends the program or the machine, and at any moment: the credential file is there, whole, and
//!   the old one, the new one, or one that the provider's CLI wrote meanwhile.
//! - A promotion that was reported done survives a power cut.
//! - Nothing that the provider wrote is deleted. What was in force at the moment of the exchange comes out
//!   whole; if it is not the login that was to be replaced, it is kept beside, and reported.
//! - Recovery may be cut short and repeated.
//!
//! # How
//! The new file is staged beside the old one, synced, and described by a journal entry in
//! `state/transactions/`. Then the two files trade names in one step of the kernel. Removing the entry
//! commits; whoever finds an entry takes the new login back.
//!
//! Whoever changes a login calls [`begin()`] and carries it out under the provider's lock; everybody who would take
//! a profile asks [`pending`] first, which costs one look at a directory.
//!
//! # Limits
//! A process that opened the old file before the exchange and rewrites it in place after it was found
//! unchanged, in the microseconds before it is removed, writes to no one. That is why a promotion refuses a
//! profile that has live leases. A file system without exchange (`renameat2`) is refused.

mod begin;
pub mod beside;
pub mod journal;
pub mod pending;
pub mod promote;
pub mod recover;

pub use begin::{Promotion, begin};

#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_tests;
