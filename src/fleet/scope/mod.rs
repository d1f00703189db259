//! The files that a step owns: which paths may be named, what was in them when its work began, and what changed.

pub mod diff;
pub mod lines;
pub mod path;
pub mod place;
pub mod snapshot;

#[cfg(test)]
mod path_properties;
