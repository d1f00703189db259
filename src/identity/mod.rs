//! Who is behind a credential: fingerprints, proofs, anchors and their conflicts.

pub mod fingerprint;
