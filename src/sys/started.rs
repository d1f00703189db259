//! With the feature `test-fakes`, `AGENT_FLEET_TEST_STARTED=<file>` lists the words of every program that is started,
//! so that a test can see that none is a secret. Without it there is no code.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Notes a program that is about to be started.
#[expect(
    clippy::disallowed_methods,
    reason = "a test switch far below the captured environment"
)]
pub(super) fn note(program: &Path, arguments: &[OsString]) {
    let Some(path) = std::env::var_os("AGENT_FLEET_TEST_STARTED") else {
        return;
    };
    let mut line = program.as_os_str().as_bytes().to_vec();
    for argument in arguments {
        line.push(b' ');
        line.extend(argument.as_bytes());
    }
    line.push(b'\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    // A test that looks for a line misses it.
    drop(file.and_then(|mut file| file.write_all(&line)));
}
