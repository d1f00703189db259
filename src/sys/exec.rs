//! Becoming another program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

/// A program about to replace this process.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Absolute path of a native binary.
    pub program: PathBuf,
    /// Arguments after argv\[0\].
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: PathBuf,
    /// Whether standard input becomes /dev/null.
    pub close_stdin: bool,
}

/// Replaces this process; returns only on failure. Signal mask and dispositions are the defaults.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where a worker's process starts"
)]
pub fn exec(launch: &Launch) -> io::Error {
    #[cfg(feature = "test-fakes")]
    super::started::note(&launch.program, &launch.arguments);
    let mut command = std::process::Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.directory);
    if launch.close_stdin {
        command.stdin(std::process::Stdio::null());
    }
    command.exec()
}
