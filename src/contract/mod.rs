//! The versioned public JSON. Types only; `docs/schema` is generated from them.
//!
//! Adding a field keeps [`VERSION`]; renaming or removing one raises it.

pub mod audit;
pub mod doctor;
pub mod document;
pub mod enrollment;
pub mod failure;
pub mod fleet;
pub mod identity;
pub mod import;
pub mod launch;
pub mod lease;
pub mod pool;
pub mod profile;
pub mod provider;
pub mod quota;
pub mod reason;
pub mod registry;
pub mod schema;
pub mod selection;
pub mod session;
pub mod status;
pub mod transaction;
pub mod unleased;
pub mod watch;
pub mod worker;

/// Version of the contract that shell supervisors depend on.
pub const VERSION: u32 = 1;
