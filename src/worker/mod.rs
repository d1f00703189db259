//! Running a worker on its leased account: launch, start gate, receipts, and what it reports from inside.

pub mod ancestry;
mod asked;
mod checks;
pub mod conversation;
mod ending;
pub mod gate;
pub mod here;
pub mod hook;
pub mod identity;
pub mod launch;
pub mod probe;
pub mod receipt;
pub mod sources;
pub mod statusline;
pub mod which;
