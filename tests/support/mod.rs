//! Hermetic worlds for tests.

pub mod sandbox;
