//! The launching command's part: write the launch down, then start its host.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::revoke::revoke;
use super::{ClaimRecord, LaunchRecord};
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::files::LaunchFiles;
use crate::fleet::record;
use crate::id::hex;
use crate::store::append;
use crate::sys::shell;
use crate::sys::spawn::Program;
use crate::sys::tend::Tended;

/// How long a command that launches and goes away waits for its host's claim; it takes milliseconds.
const SETTLING: Duration = Duration::from_secs(1);
/// Time between two looks for it.
const POLL: Duration = Duration::from_millis(5);

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

/// The host of a launch, as whoever started it sees it; it may be waited for or left alone.
#[derive(Debug)]
pub struct Host {
    process: Tended,
    files: LaunchFiles,
    token: String,
}

/// Starts the host of a launch that is written down.
///
/// When it cannot be started the launch is revoked, so that nothing is left waiting.
pub fn start_host(context: &Context, files: &LaunchFiles, token: &str) -> Result<Host> {
    let started = program(context, HOST_VERB, files).and_then(|program| {
        let log = append::stream(files.host_log())?;
        Tended::start(&program, log).map_err(|error| Error::io("start", &program.path, &error))
    });
    match started {
        Ok(process) => Ok(Host {
            process,
            files: files.clone(),
            token: token.to_owned(),
        }),
        Err(error) => {
            revoke(files, token, "host_not_started")?;
            Err(error)
        }
    }
}

impl Host {
    /// Whether it has ended. One that ended without its claim never makes it, so its launch is revoked at once.
    pub fn has_ended(&mut self) -> Result<bool> {
        if !self.process.has_ended() {
            return Ok(false);
        }
        if !self.files.claim().exists() {
            revoke(&self.files, &self.token, "host_ended")?;
        }
        Ok(true)
    }

    /// Gives it a moment to claim its launch, for a command that does not stay to see its end.
    ///
    /// Refused with `io` when it ended before; one that is slow is left to whoever looks next.
    pub fn settle_in(&mut self, context: &Context) -> Result<()> {
        let deadline = context.clock.deadline(SETTLING);
        while !self.files.claim().exists() {
            if self.has_ended()? {
                let claim: ClaimRecord = record::require(&self.files.claim())?;
                if claim.revoked.is_none() {
                    return Ok(());
                }
                let log = self.files.host_log();
                let message = format!(
                    "the host of `{}` ended before it began",
                    self.files.directory
                );
                let hint = format!("cat {}", shell::quote(log.as_str()));
                return Err(Error::new(code::IO, message).hint(hint));
            }
            if !deadline.pause(POLL) {
                break;
            }
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::start_host;
    use crate::env::{Context, World};
    use crate::error::code;
    use crate::fleet::files::LaunchFiles;
    use crate::fleet::launch::{ClaimRecord, Process};
    use crate::fleet::record;
    use camino::Utf8Path;

    fn claim(files: &LaunchFiles) -> ClaimRecord {
        record::require(&files.claim()).unwrap()
    }

    #[test]
    fn a_host_that_ends_before_its_claim_costs_nobody_a_wait() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let mut context = Context::resolve(&World::capture(), None).unwrap();
        context.executable = Some("/bin/false".into());
        let files = |name: &str| {
            let files = LaunchFiles {
                directory: root.join(name),
            };
            std::fs::create_dir(&files.directory).unwrap();
            files
        };

        let gone = files("one.1");
        let mut host = start_host(&context, &gone, "t").unwrap();
        let error = host.settle_in(&context).unwrap_err();
        assert_eq!(error.code, code::IO);
        assert!(error.message.contains("one.1"), "{}", error.message);
        assert_eq!(claim(&gone).revoked.as_deref(), Some("host_ended"));

        // One that made its claim is none of this, whatever became of it.
        let claimed = files("one.2");
        let own = ClaimRecord {
            schema: 1,
            token: "t".to_owned(),
            by: Process::current().unwrap(),
            revoked: None,
        };
        record::save(&claimed.claim(), &own).unwrap();
        let mut host = start_host(&context, &claimed, "t").unwrap();
        host.settle_in(&context).unwrap();
        while !host.has_ended().unwrap() {
            context.clock.pause(super::POLL);
        }
        assert_eq!(claim(&claimed), own);
    }
}
