//! Putting together what people and supervisors ask about: local files only.

pub mod doctor;
pub mod inhabitants;
pub mod log_in;
pub mod pool;
pub mod profile;
pub mod refresh_lock;
pub mod status;
pub mod transaction;
