//! What choosing reads: the compiled registry, and one line per profile with everything known of it.

pub mod evidence;
pub mod fold;
pub mod profile;
pub mod session;
