//! The only thing that choosing reads: the compiled registry, one line per profile with everything known of
//! it, and the evidence that moves both forward.

pub mod durable;
pub mod evidence;
pub mod fold;
pub mod hold;
pub mod limit;
pub mod merge;
pub mod profile;
pub mod provider;
pub mod registry;
pub mod session;
