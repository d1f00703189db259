//! Running a worker on its leased account: launch, start gate, receipts, and what hooks report back.

pub mod gate;
pub mod receipt;
