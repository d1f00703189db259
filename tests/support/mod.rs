//! Hermetic worlds for tests.

pub(crate) mod again;
pub(crate) mod background;
pub(crate) mod change;
pub(crate) mod checkout;
pub(crate) mod fleet;
pub(crate) mod https;
pub(crate) mod lease_world;
pub(crate) mod leases;
pub(crate) mod living;
pub(crate) mod mounts;
pub(crate) mod online;
pub(crate) mod page;
pub(crate) mod ran;
pub(crate) mod sandbox;
pub(crate) mod secrets;
pub(crate) mod terminal;
pub(crate) mod waiter;
pub(crate) mod world;
