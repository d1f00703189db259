//! Hermetic worlds for tests.

pub(crate) mod page;
pub(crate) mod sandbox;
