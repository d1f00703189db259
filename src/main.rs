//! argv and environment in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_fleet::cli::run(&agent_fleet::env::World::capture())
}
