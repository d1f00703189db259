//! The one error that leaves the program.
//!
//! Every refusal has a stable snake-case code, a class, one sentence that names the thing, and where we
//! know a way out the next command to type. Domain modules have small enums of their own that implement
//! [`Refusal`]; `?` turns them into [`Error`]. Messages, hints and details never hold tokens, e-mails or keys: what a
//! person typed in the wrong place is withheld when the error is made ([`crate::withheld`]).

use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::sys::shell;
use crate::withheld::{withhold, withhold_in};

/// What kind of trouble a code is; decides the exit status under `--exit-codes class`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Bad input or policy: trying again changes nothing.
    Refused,
    /// Nothing free now; `retry_at` says when it may be.
    Capacity,
    /// The account behind a profile is not proved; a person has to act.
    Identity,
    /// Another command or worker holds the thing.
    Busy,
    /// The machine failed us.
    System,
    /// A bug in this program.
    Internal,
}

impl Class {
    /// The class as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Capacity => "capacity",
            Self::Identity => "identity",
            Self::Busy => "busy",
            Self::System => "system",
            Self::Internal => "internal",
        }
    }

    /// Exit status under `--exit-codes class`; without it every refusal is 2 and a bug is 1.
    pub fn status(self) -> u8 {
        match self {
            Self::Refused => 2,
            Self::Capacity => 10,
            Self::Identity => 11,
            Self::Busy => 12,
            Self::System => 13,
            Self::Internal => 1,
        }
    }
}

/// A stable error code with its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code {
    /// Snake-case name, part of the contract.
    pub name: &'static str,
    /// Class that decides the exit status.
    pub class: Class,
}

/// Declares the codes once: constant, JSON name, class, and what it means for docs/errors.md.
macro_rules! codes {
    ($($constant:ident $name:literal $class:ident $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $constant: Code = Code { name: $name, class: Class::$class };)*
        /// Every code with its meaning, in the order of the contract's classes.
        pub const ALL: &[(Code, &str)] = &[$(($constant, $meaning)),*];
    };
}

/// The codes of contract version 1. The set is open: new ones may be added, none is renamed.
pub mod code {
    use super::{Class, Code};
    codes! {
        USAGE "usage" Refused "the command line is wrong";
        CONFIG_INVALID "config_invalid" Refused "the registry cannot be used as it is";
        CONFIG_MISSING "config_missing" Refused "there is no registry yet";
        INSTALL_MISMATCH "install_mismatch" Refused "registry and state root belong to different installs";
        NOT_FOUND "not_found" Refused "the named thing does not exist";
        ALREADY_EXISTS "already_exists" Refused "the named thing exists already";
        POLICY "policy" Refused "the registry forbids it";
        PROFILE_DISABLED "profile_disabled" Refused "no profile that could do it is enabled";
        NOT_PROVISIONED "not_provisioned" Refused "the provider home is not set up for workers";
        WORKSPACE_INVALID "workspace_invalid" Refused "the workspace is not the root of a git worktree";
        WORKSPACE_UNTRUSTED "workspace_untrusted" Refused "the workspace is not a registered project";
        ARGUMENT_REFUSED "argument_refused" Refused "a provider option that workers may not pass";
        MONEY_GUARD "money_guard" Refused "it would spend money outside the subscription";
        TASK_CONFLICT "task_conflict" Refused "the task has a lease with other terms";
        NESTED "nested" Refused "a worker tried to start another worker under its own task";
        RUN_OVER "run_over" Refused "the run has ended, or is being stopped as a whole";
        STEP_NOT_READY "step_not_ready" Refused "the step or its worker cannot take this now";
        REVIEW_MISSING "review_missing" Refused "a review is missing, unverified or of another diff";
        ACCEPTANCE_FAILED "acceptance_failed" Refused "what the step was to bring is not there";
        TREE_CHANGED "tree_changed" Refused "HEAD or the index of the checkout changed during the run";
        MERGE_CONFLICT "merge_conflict" Refused "the worktree's changes cannot be brought over as they are";
        SETTINGS_INVALID "settings_invalid" Refused "the settings of the fleet cannot be used as they are";
        PLAN_INVALID "plan_invalid" Refused "the plan cannot be run as it is";
        PROMPT_INVALID "prompt_invalid" Refused "a prompt cannot be made, or is not finished";
        SESSION_MISMATCH "session_mismatch" Refused "the session belongs elsewhere";
        REPOSITORY_INVALID "repository_invalid" Refused "no git worktree with a commit is there";
        SCOPE_INVALID "scope_invalid" Refused "a path that no step may own";
        WORKTREE_UNMERGED "worktree_unmerged" Refused "a step's worktree holds changes that are nowhere else";
        RECORD_DAMAGED "record_damaged" Refused "a state record cannot be read and is left alone";
        NEWER_FORMAT "newer_format" Refused "the file was made by a newer agent-fleet";
        CAPACITY "capacity" Capacity "every slot is taken";
        COOLDOWN "cooldown" Capacity "the profile waits for a limit to reset";
        QUOTA_RESERVE "quota_reserve" Capacity "headroom is at or below the reserve";
        DRAINING "draining" Capacity "the profile takes no new leases";
        ALL_EXHAUSTED "all_exhausted" Capacity "no profile can take the task now";
        IDENTITY_UNPROVEN "identity_unproven" Identity "the account behind the profile is not proved";
        DUPLICATE_PROVIDER_IDENTITY "duplicate_provider_identity" Identity "two profiles hold one account";
        BASE_IDENTITY "base_identity" Identity "the profile holds the account of the base CLI login";
        BASE_IDENTITY_UNVERIFIED "base_identity_unverified" Identity "the base CLI login cannot be proved";
        DESKTOP_IDENTITY "desktop_identity" Identity "the profile holds the account of the Desktop app";
        DESKTOP_IDENTITY_UNVERIFIED "desktop_identity_unverified" Identity "the Desktop login cannot be read";
        IDENTITY_CHANGED "identity_changed" Identity "the profile's home holds another account than before";
        AUTH_BROKEN "auth_broken" Identity "the login no longer works";
        LOGIN_EXPIRED "login_expired" Identity "the login is past its life";
        LOGIN_FAILED "login_failed" Identity "the provider's login did not end with a login that can be used";
        AUTH_OVERRIDE "auth_override" Identity "something would replace the profile's login";
        MAINTENANCE_BUSY "maintenance_busy" Busy "another command changes the provider's profiles";
        LEASE_ACTIVE "lease_active" Busy "a live lease is in the way";
        TRANSACTION_PENDING "transaction_pending" Busy "a change of a login was cut short and could not be taken back";
        TASK_OWNED "task_owned" Busy "a live worker owns the task";
        RUN_ACTIVE "run_active" Busy "another run of the checkout has a worker that may still run";
        WORKER_ACTIVE "worker_active" Busy "the worker has a process, or may have one";
        HELD "held" Busy "a person holds launches";
        LOCK_TIMEOUT "lock_timeout" Busy "a lock was not free in time";
        PROBE_SLOW "probe_slow" Busy "the provider's CLI is still refreshing a login";
        GIT_MISSING "git_missing" System "the git program is not installed";
        GIT_FAILED "git_failed" System "git failed";
        IO "io" System "reading or writing failed";
        DISK_FULL "disk_full" System "no space is left";
        READ_ONLY "read_only" System "the file system is read-only or the file may not be written";
        UNSUPPORTED_FILESYSTEM "unsupported_filesystem" System "locks cannot be trusted on this file system, or logins not be changed safely";
        EXPOSED "exposed" System "somebody else may change files that decide, or they are somebody else's";
        PROVIDER_MISSING "provider_missing" System "the provider's binary is not usable";
        PROVIDER_FAILED "provider_failed" System "the provider's program failed";
        QUOTA_UNAVAILABLE "quota_unavailable" System "the quota could not be read";
        TIMEOUT "timeout" System "it took too long";
        INTERNAL "internal" Internal "a bug in agent-fleet";
    }
}

/// What a domain error tells the user; its `Display` is the sentence.
pub trait Refusal: std::error::Error {
    /// The stable code.
    fn code(&self) -> Code;
    /// A command that can be typed next.
    fn hint(&self) -> Option<String> {
        None
    }
    /// Facts for programs; keys are stable, values never secret.
    fn details(&self) -> Map<String, Value> {
        Map::new()
    }
    /// When trying again may work.
    fn retry_at(&self) -> Option<Timestamp> {
        None
    }
}

/// A refusal on its way to the user.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Stable code and class.
    pub code: Code,
    /// One sentence that names the thing.
    pub message: String,
    /// The next command to type.
    pub hint: Option<String>,
    /// Facts for programs.
    pub details: Box<Map<String, Value>>,
    /// When trying again may work.
    pub retry_at: Option<Timestamp>,
}

/// Result of everything that can be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl<E: Refusal> From<E> for Error {
    fn from(refusal: E) -> Self {
        Self {
            hint: refusal.hint().map(|hint| withhold(&hint).into_owned()),
            details: Box::new(
                refusal
                    .details()
                    .into_iter()
                    .map(|(key, value)| (key, withhold_in(value)))
                    .collect(),
            ),
            retry_at: refusal.retry_at(),
            ..Self::new(refusal.code(), refusal.to_string())
        }
    }
}

impl Error {
    /// An error with a code and its sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: withhold(&message.into()).into_owned(),
            hint: None,
            details: Box::default(),
            retry_at: None,
        }
    }

    /// Adds the command to type next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(withhold(&hint.into()).into_owned());
        self
    }

    /// Adds one fact for programs.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details
            .insert(key.to_owned(), withhold_in(value.into()));
        self
    }

    /// Says when trying again may work.
    #[must_use]
    pub fn retry_at(mut self, at: Option<Timestamp>) -> Self {
        self.retry_at = at;
        self
    }

    /// An io failure on a named object: `what` is a verb in the infinitive, as in "cannot read `x`".
    pub fn io(what: &str, path: impl AsRef<Path>, source: &io::Error) -> Self {
        let path = path.as_ref();
        let kind = source.kind();
        let code = if matches!(
            kind,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ) {
            code::DISK_FULL
        } else if matches!(
            kind,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
        ) {
            code::READ_ONLY
        } else {
            code::IO
        };
        let name = path.display().to_string();
        Self::new(code, format!("cannot {what} `{name}`: {source}"))
            .hint(look(path, source))
            .detail("path", name)
    }

    /// A state that cannot happen; the panic hook's sibling for places that must return.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message).hint("agent-fleet version")
    }
}

/// The command that shows what an io failure is about.
fn look(path: &Path, source: &io::Error) -> String {
    // EMFILE and ENFILE: no descriptor is left, whatever the file.
    if matches!(source.raw_os_error(), Some(23 | 24)) {
        return "ulimit -n 4096".to_owned();
    }
    // What is not there cannot be listed; the directory that lacks it can.
    let there = path
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok());
    let there = shell::quote(&there.unwrap_or(path).display().to_string());
    format!("ls -ld {there} && df {there}")
}

#[cfg(test)]
mod tests {
    use super::{Class, Error, code};
    use std::collections::BTreeSet;
    use std::io;

    #[test]
    fn code_names_are_unique_and_snake_case() {
        let names: BTreeSet<_> = code::ALL.iter().map(|(code, _)| code.name).collect();
        assert_eq!(names.len(), code::ALL.len(), "two codes share a name");
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
    }

    #[test]
    fn what_was_pasted_in_the_wrong_place_is_not_repeated() {
        let token = "sk-ant-oat01-pasted";
        let error = Error::new(code::NOT_FOUND, format!("no profile `{token}`"))
            .hint(format!("agent-fleet profile add {token}"))
            .detail("profiles", vec![token, "me@example.invalid"]);
        let parsed: Error = crate::id::InvalidName::Id(token.to_owned(), "profile").into();
        let text = format!("{error:?}{parsed:?}");
        assert!(!text.contains("pasted") && !text.contains("me@"), "{text}");
        assert_eq!(error.message, "no profile `[withheld]`");
    }

    #[test]
    fn io_failures_are_told_apart_by_what_the_user_can_do() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Error::io("write", "/x", &full).code, code::DISK_FULL);
        let frozen = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(Error::io("write", "/x", &frozen).code, code::READ_ONLY);
        assert_eq!(Error::io("write", "/x", &frozen).code.class, Class::System);
    }

    #[test]
    fn the_command_after_an_io_failure_can_be_typed_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("it's here");
        std::fs::create_dir(&odd).unwrap();
        let missing = io::Error::from(io::ErrorKind::NotFound);
        for path in [odd.clone(), odd.join("no/such")] {
            let hint = Error::io("write", &path, &missing).hint.unwrap();
            #[expect(clippy::disallowed_methods, reason = "asks the real shell")]
            let status = std::process::Command::new("/bin/sh")
                .args(["-c", &hint])
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "{hint}");
        }
        let many = io::Error::from_raw_os_error(24);
        assert_eq!(
            Error::io("open", "/x", &many).hint.unwrap(),
            "ulimit -n 4096"
        );
    }
}
