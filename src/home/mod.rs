//! Making homes ready for workers.

pub mod program;
