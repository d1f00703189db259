//! Running a worker on its leased account: launch, start gate, receipts, and what it reports from inside.

pub mod ancestry;
pub mod gate;
pub mod hook;
pub mod identity;
pub mod receipt;
pub mod sources;
pub mod statusline;
pub mod which;
