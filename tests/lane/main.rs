//! What only the real provider CLIs can show, against the lab in `tests/lab`.
//!
//! `tests/lane/run.sh` installs the CLIs and runs this. Every test has a lab and a world of its own below
//! `/var/tmp` (Codex refuses helper binaries below `/tmp`), names the promise, and reads the answer in the
//! lab's log: what the CLIs really sent, and with whose credential.

#![expect(clippy::panic, reason = "helpers of tests fail by panicking")]

mod accounts;
mod anchors;
mod binary;
mod cli;
mod enroll;
mod enroll_refused;
mod fleet;
mod gate;
mod given;
mod grammar;
mod guard;
mod guard_files;
mod hooks;
mod identity;
mod lab;
mod limits;
mod outputs;
mod overlay;
mod people;
mod provisioning;
#[path = "../support/ran.rs"]
mod ran;
mod readers;
mod renewal;
#[path = "../support/secrets.rs"]
mod secrets;
mod sessions;
mod telling;
mod terminal;
mod turns;
mod wait;
mod walk;
mod windows;
mod worker;
mod world;
