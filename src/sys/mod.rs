//! What the operating system does for us. The only place with `unsafe` and with per-platform code.
//!
//! Linux is proved by tests. The macOS branches are written from documentation and have never run.

pub mod ask;
pub mod attend;
pub mod changes;
pub mod console;
pub mod descriptor;
pub mod exec;
pub mod filesystem;
pub mod flock;
pub mod interrupt;
pub mod process;
pub mod pty;
pub mod shell;
pub mod socket;
pub mod spawn;
#[cfg(feature = "test-fakes")]
mod started;
pub mod tend;
pub mod user;
