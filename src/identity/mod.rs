//! Who is behind a credential: fingerprints, proofs, anchors and their conflicts.

pub mod anchor;
pub mod auth;
pub mod conflict;
pub mod credential;
pub mod expiry;
pub mod fingerprint;
pub mod proof;
pub mod refusal;
pub mod show;
pub mod verify;
