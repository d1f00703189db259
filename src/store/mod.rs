//! Durability primitives: the only code that writes state files.
//!
//! What is true after each call is written at the call. Files are 0600, directories we create 0700; the
//! mode of anything we did not create is left alone. Nothing is overwritten because it could not be read.

pub mod append;
pub mod crash;
pub mod directory;
pub mod files;
pub mod inplace;
pub mod lock;
pub mod maildir;
pub mod owner;
pub mod presence;
pub mod read;
pub mod replace;
pub mod seal;
pub mod symlink;
pub mod touch;
