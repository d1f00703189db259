//! What choosing reads: the compiled registry, and one line per profile with everything known of it.

pub mod durable;
pub mod profile;
pub mod provider;
