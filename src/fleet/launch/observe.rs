//! What a launch's files and processes say about it. [`conclude`] is pure; [`look`] reads.

use std::time::Duration;

use camino::Utf8Path;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::{ClaimRecord, ExitRecord, LaunchRecord, Life, StartedRecord, boot};
use crate::error::Result;
use crate::fleet::files::LaunchFiles;
use crate::fleet::record::{self, RecordError};
use crate::id::ProfileId;
use crate::sys::tend::Exit;
use crate::worker::receipt::Receipt;

/// How long a host may take to claim a launch before it is given up.
pub const CLAIM_PATIENCE: Duration = Duration::from_secs(20);

/// Everything that is known of a launch.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Since when it is to be started, and whether in this boot.
    pub age: Duration,
    /// Whether it was written down in this boot.
    pub same_boot: bool,
    /// Who claimed it.
    pub claim: Option<ClaimRecord>,
    /// Whether the host of the claim lives.
    pub host: Life,
    /// Its processes.
    pub started: Option<StartedRecord>,
    /// Whether the child lives.
    pub child: Life,
    /// How the child ended, as its host saw it.
    pub exit: Option<ExitRecord>,
    /// Whether the broker has a live lease of the task; asked for only when it decides.
    pub lease: Life,
}

/// What a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its host is on its way.
    Waiting,
    /// Nobody claimed it for too long: it may be revoked.
    Overdue,
    /// It was given up, or its host died before the child went on: no process of it ever runs.
    NeverStarted,
    /// Its process lives.
    Running {
        /// Whether its host died and it runs on by itself.
        adopted: bool,
    },
    /// Its process ended; `None` when nobody saw how.
    Ended(Option<Exit>),
    /// It cannot be told.
    Unknown,
}

/// Draws the conclusion.
pub fn conclude(facts: &Facts) -> Seen {
    if let Some(exit) = &facts.exit {
        return Seen::Ended(exit.exit());
    }
    let Some(claim) = &facts.claim else {
        return if facts.same_boot && facts.age < CLAIM_PATIENCE {
            Seen::Waiting
        } else {
            Seen::Overdue
        };
    };
    if claim.revoked.is_some() {
        return Seen::NeverStarted;
    }
    if facts.started.is_none() {
        // The child waits at its gate until `started.json` is there, and the gate closes with its host.
        return match facts.host {
            Life::Alive => Seen::Waiting,
            Life::Gone => Seen::NeverStarted,
            Life::Unknown => Seen::Unknown,
        };
    }
    match (facts.child, facts.host) {
        (Life::Alive, host) => Seen::Running {
            adopted: host == Life::Gone,
        },
        // Its host is about to say how it ended.
        (Life::Gone, Life::Alive) => Seen::Running { adopted: false },
        (Life::Gone, Life::Gone) if facts.lease == Life::Gone => Seen::Ended(None),
        (Life::Gone | Life::Unknown, _) => Seen::Unknown,
    }
}

/// A launch with what was read of it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The conclusion.
    pub seen: Seen,
    /// What was to be started.
    pub launch: LaunchRecord,
    /// Its processes, once known.
    pub started: Option<StartedRecord>,
    /// What the broker said.
    pub receipt: Option<Receipt>,
}

impl Observed {
    /// The account that the broker gave.
    pub fn profile(&self) -> Option<ProfileId> {
        self.receipt.as_ref()?.profile.clone()
    }
}

/// Reads a launch. `lease` says whether the broker has a live lease of the task; it is asked at most once.
///
/// Refused with `record_damaged` when one of its files cannot be read or is another launch's. Once it is known how
/// the child ended, the others decide nothing.
pub fn look(
    files: &LaunchFiles,
    token: &str,
    now: Timestamp,
    lease: impl FnOnce() -> Life,
) -> Result<Observed> {
    let launch: LaunchRecord = record::require(&files.launch())?;
    refuse_other(&files.launch(), &launch.token, token)?;
    let exit = exit(files, token)?;
    let claim = own(&files.claim(), token, |claim: &ClaimRecord| &claim.token);
    let started = own(&files.started(), token, |started: &StartedRecord| {
        &started.token
    });
    let (claim, started) = if exit.is_some() {
        (claim.unwrap_or_default(), started.unwrap_or_default())
    } else {
        (claim?, started?)
    };
    let life =
        |process: Option<&super::Process>| process.map_or(Life::Unknown, super::Process::life);
    let host = life(claim.as_ref().map(|claim| &claim.by));
    let child = life(started.as_ref().map(|started| &started.child));
    let decides = exit.is_none() && child == Life::Gone && host == Life::Gone;
    let age = now.duration_since(launch.at).unsigned_abs();
    let facts = Facts {
        age,
        same_boot: boot().is_ok_and(|boot| boot == launch.boot),
        claim,
        host,
        started,
        child,
        exit,
        lease: if decides { lease() } else { Life::Unknown },
    };
    let seen = conclude(&facts);
    // The exit may have come between the two looks.
    let seen = match (seen, facts.exit.is_none()) {
        (Seen::Ended(None), true) => {
            Seen::Ended(self::exit(files, token)?.and_then(|exit| exit.exit()))
        }
        _ => seen,
    };
    Ok(Observed {
        seen,
        launch,
        started: facts.started,
        receipt: receipt(files)?,
    })
}

/// How the child ended, if its host said so.
fn exit(files: &LaunchFiles, token: &str) -> Result<Option<ExitRecord>> {
    own(&files.exit(), token, |exit: &ExitRecord| &exit.token)
}

/// Reads a record of this very launch; `None` when there is none.
fn own<T: DeserializeOwned>(
    path: &Utf8Path,
    token: &str,
    whose: impl Fn(&T) -> &str,
) -> Result<Option<T>> {
    let found: Option<T> = record::load(path)?;
    if let Some(found) = &found {
        refuse_other(path, whose(found), token)?;
    }
    Ok(found)
}

/// Refuses a record of another launch: what it says is not about this one, and what this one's said is lost.
fn refuse_other(path: &Utf8Path, found: &str, token: &str) -> Result<()> {
    if found == token {
        return Ok(());
    }
    let damaged = RecordError::Damaged {
        path: path.to_string(),
        reason: "it belongs to another launch".to_owned(),
    };
    Err(damaged.into())
}

/// What the broker said of the launch; written without a sync, so one that is not whole counts as none.
pub fn receipt(files: &LaunchFiles) -> Result<Option<Receipt>> {
    let bytes = crate::store::read::optional(files.receipt())?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::{CLAIM_PATIENCE, Facts, Seen, conclude};
    use crate::fleet::launch::{ClaimRecord, ExitRecord, Life, Process, StartedRecord};
    use crate::sys::tend::Exit;
    use jiff::Timestamp;
    use std::time::Duration;

    fn process() -> Process {
        Process {
            pid: 1,
            start: 1,
            boot: String::new(),
            namespace: 1,
        }
    }

    fn facts() -> Facts {
        Facts {
            age: Duration::ZERO,
            same_boot: true,
            claim: None,
            host: Life::Unknown,
            started: None,
            child: Life::Unknown,
            exit: None,
            lease: Life::Unknown,
        }
    }

    fn claimed(revoked: Option<&str>, host: Life) -> Facts {
        Facts {
            claim: Some(ClaimRecord {
                schema: 1,
                token: String::new(),
                by: process(),
                revoked: revoked.map(str::to_owned),
            }),
            host,
            ..facts()
        }
    }

    fn started(host: Life, child: Life, lease: Life) -> Facts {
        Facts {
            started: Some(StartedRecord {
                schema: 1,
                token: String::new(),
                host: process(),
                child: process(),
            }),
            child,
            lease,
            ..claimed(None, host)
        }
    }

    #[test]
    fn nothing_is_given_up_before_its_time_and_nothing_kept_after_a_boot() {
        assert_eq!(conclude(&facts()), Seen::Waiting);
        let old = Facts {
            age: CLAIM_PATIENCE,
            ..facts()
        };
        assert_eq!(conclude(&old), Seen::Overdue);
        let earlier = Facts {
            same_boot: false,
            ..facts()
        };
        assert_eq!(conclude(&earlier), Seen::Overdue);
    }

    #[test]
    fn a_child_that_was_not_let_through_its_gate_never_ran() {
        assert_eq!(
            conclude(&claimed(Some("recover"), Life::Gone)),
            Seen::NeverStarted
        );
        assert_eq!(conclude(&claimed(None, Life::Alive)), Seen::Waiting);
        assert_eq!(conclude(&claimed(None, Life::Gone)), Seen::NeverStarted);
        assert_eq!(conclude(&claimed(None, Life::Unknown)), Seen::Unknown);
    }

    #[test]
    fn an_end_needs_the_child_gone_and_no_live_lease() {
        use Life::{Alive, Gone, Unknown};
        let seen = |host, child, lease| conclude(&started(host, child, lease));
        assert_eq!(
            seen(Alive, Alive, Unknown),
            Seen::Running { adopted: false }
        );
        assert_eq!(seen(Gone, Alive, Unknown), Seen::Running { adopted: true });
        assert_eq!(seen(Alive, Gone, Gone), Seen::Running { adopted: false });
        assert_eq!(seen(Gone, Gone, Gone), Seen::Ended(None));
        assert_eq!(seen(Gone, Gone, Alive), Seen::Unknown);
        assert_eq!(seen(Gone, Gone, Unknown), Seen::Unknown);
        assert_eq!(seen(Gone, Unknown, Gone), Seen::Unknown);
        let said = Facts {
            exit: Some(ExitRecord {
                schema: 1,
                token: String::new(),
                status: None,
                signal: Some(15),
                at: Timestamp::UNIX_EPOCH,
            }),
            ..started(Unknown, Unknown, Unknown)
        };
        assert_eq!(conclude(&said), Seen::Ended(Some(Exit::Signal(15))));
    }
}
