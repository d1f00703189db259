//! Putting together what people and supervisors ask about: local files only.

pub mod pool;
pub mod profile;
