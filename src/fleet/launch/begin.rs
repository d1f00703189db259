//! The launching command's part: write the launch down, then start its host.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use sha2::{Digest as _, Sha256};

use super::LaunchRecord;
use super::revoke::revoke;
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::files::LaunchFiles;
use crate::fleet::record;
use crate::id::hex;
use crate::store::append;
use crate::sys::spawn::Program;
use crate::sys::tend::Tended;

/// The hidden verb of a host.
pub const HOST_VERB: &str = "_host";
/// The hidden verb of the process that becomes the worker.
pub const TURN_VERB: &str = "_turn";

/// Writes a launch down. One of this number must not be there yet.
pub fn write_down(files: &LaunchFiles, launch: &LaunchRecord) -> Result<()> {
    if !record::create(&files.launch(), launch)? {
        let message = format!("the launch `{}` is there already", files.directory);
        return Err(Error::new(code::ALREADY_EXISTS, message).hint("agent-fleet fleet status"));
    }
    crash_point!("launch.written");
    Ok(())
}

/// Starts the host of a launch that is written down; it may be waited for or left alone.
///
/// When it cannot be started the launch is revoked, so that nothing is left waiting.
pub fn start_host(context: &Context, files: &LaunchFiles, token: &str) -> Result<Tended> {
    let started = program(context, HOST_VERB, files).and_then(|program| {
        let log = append::stream(files.host_log())?;
        Tended::start(&program, log).map_err(|error| Error::io("start", &program.path, &error))
    });
    if started.is_err() {
        revoke(files, token, "host_not_started")?;
    }
    started
}

/// This program under one of the hidden verbs, with the caller's environment.
pub(super) fn program(context: &Context, verb: &str, files: &LaunchFiles) -> Result<Program> {
    let path = context
        .executable
        .clone()
        .ok_or_else(|| Error::internal("the path of this program is not known"))?;
    Ok(Program {
        path,
        arguments: ["fleet", verb, files.directory.as_str()]
            .map(OsString::from)
            .to_vec(),
        environment: context
            .variables
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        directory: None,
        input: Vec::new(),
    })
}

/// Digest of an environment: two launches with the same were started from the same.
pub fn environment_digest(context: &Context) -> String {
    let mut digest = Sha256::new();
    for (name, value) in context.variables.iter() {
        digest.update(name.as_bytes());
        digest.update(b"=");
        digest.update(value.as_bytes());
        digest.update(b"\0");
    }
    hex(&digest.finalize())
}
