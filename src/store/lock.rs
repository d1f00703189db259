//! The named locks, their order, and how long anyone waits.
//!
//! A lock is an `flock` (through fs4) on a file under `state/locks` that is never deleted or replaced. The
//! kernel releases it when its holder dies, so there is no stale-lock protocol. The file's body names the
//! exclusive holder, for people and for the maintenance check. Locks are taken in the order of [`Name`];
//! `Fetch` and `Start` are taken with no other held; only `Snapshot` may follow a `Fetch`. `Audit` may follow any:
//! nobody waits for it. A debug assertion keeps the order per thread.
//!
//! Limits: `flock` is advisory and per open file; network file systems are refused, not trusted.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use fs4::{FileExt, TryLockError};
use rustix::io::Errno;

use super::{owner, read};
use crate::clock::{Clock, Deadline};
use crate::env::{Context, Faults};
use crate::error::{Code, Error, Refusal, Result, code};
use crate::id::fleet::{RepositoryKey, RunId, WorkerId};
use crate::id::{ProfileId, ProviderKind};
use crate::sys::{filesystem, flock, process, shell};

/// Which lock; variants stand in the order in which they may be taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Beginning a run in a checkout.
    Repository(RepositoryKey),
    /// Everything that changes one run.
    Run(RepositoryKey, RunId),
    /// How far a consumer of a run's events is.
    Consumer(RepositoryKey, RunId, WorkerId),
    /// What launches of the fleet are held by.
    Holds,
    /// Lets maintenance in between selections.
    Turnstile(ProviderKind),
    /// Shared while selecting, exclusive for maintenance.
    Provider(ProviderKind),
    /// The lease table.
    Leases,
    /// A provider's snapshot.
    Snapshot(ProviderKind),
    /// The registry file.
    Registry,
    /// Setting a full audit file aside; never waited for.
    Audit,
    /// One fetch per profile and machine.
    Fetch(ProfileId),
    /// The start gate's record of a profile.
    Start(ProfileId),
}

impl Name {
    fn file(&self) -> String {
        match self {
            Self::Repository(key) => format!("repository-{key}.lock"),
            Self::Run(key, run) => format!("run-{key}-{run}.lock"),
            // Names hold no dot.
            Self::Consumer(key, run, name) => format!("consumer-{key}-{run}.{name}.lock"),
            Self::Holds => "holds.lock".to_owned(),
            Self::Turnstile(provider) => format!("turnstile-{provider}.lock"),
            Self::Provider(provider) => format!("provider-{provider}.lock"),
            Self::Leases => "leases.lock".to_owned(),
            Self::Snapshot(provider) => format!("snapshot-{provider}.lock"),
            Self::Registry => "registry.lock".to_owned(),
            Self::Audit => "audit.lock".to_owned(),
            Self::Fetch(profile) => format!("fetch-{profile}.lock"),
            Self::Start(profile) => format!("start-{profile}.lock"),
        }
    }

    fn is_alone(&self) -> bool {
        matches!(self, Self::Fetch(_) | Self::Start(_))
    }

    /// Whether `next` may be taken while this lock is held.
    fn admits(&self, next: &Self) -> bool {
        // A fetch writes down its result before it lets go, or the next waiter would fetch again. Nobody
        // waits for a fetch while holding anything, so this cannot close a circle.
        let result = matches!(
            (self, next),
            (Self::Fetch(_), Self::Snapshot(_)) | (_, Self::Audit)
        );
        result || (self < next && !self.is_alone())
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone held it until the deadline.
    #[error("the lock `{path}` was still held after the wait{holder}")]
    Timeout {
        /// The lock file.
        path: Utf8PathBuf,
        /// ` by …`, when its body or the kernel names a holder.
        holder: String,
        /// That process.
        pid: Option<u32>,
    },
    /// The file system cannot be trusted with locks.
    #[error("`{path}` is on {kind}, where locks cannot be trusted")]
    Filesystem {
        /// Where.
        path: Utf8PathBuf,
        /// Which kind.
        kind: String,
    },
}

impl Refusal for LockError {
    fn code(&self) -> Code {
        match self {
            Self::Timeout { .. } => code::LOCK_TIMEOUT,
            Self::Filesystem { .. } => code::UNSUPPORTED_FILESYSTEM,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            // Stopped, it shows as `T`.
            Self::Timeout { pid: Some(pid), .. } => format!("ps -o pid,stat,etime,args -p {pid}"),
            Self::Timeout { path, .. } => format!("ls -l {}", shell::quote(path.as_str())),
            Self::Filesystem { .. } => "export AGENT_FLEET_STATE_DIR=/a/local/directory".to_owned(),
        })
    }
}

thread_local! {
    static HELD: RefCell<Vec<Name>> = const { RefCell::new(Vec::new()) };
}

/// The lock directory of one state root.
#[derive(Clone, Debug)]
pub struct Locks {
    directory: Utf8PathBuf,
    clock: Clock,
    faults: Faults,
}

/// A held lock; released, explicitly, when dropped.
#[must_use = "the lock is released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    name: Name,
    path: Utf8PathBuf,
    mode: Mode,
    file: Option<File>,
}

impl Locks {
    /// The locks of the context's state root.
    pub fn of(context: &Context) -> Self {
        Self {
            faults: context.faults,
            ..Self::new(&context.roots.state, context.clock)
        }
    }

    /// The locks below `state`.
    pub fn new(state: &Utf8Path, clock: Clock) -> Self {
        Self {
            directory: state.join("locks"),
            clock,
            faults: Faults::default(),
        }
    }

    /// Whether a test switched this lock off, to show what it is for.
    fn is_off(&self, name: &Name) -> bool {
        match name {
            Name::Leases => self.faults.no_leases_lock,
            Name::Snapshot(_) => self.faults.no_snapshot_lock,
            Name::Turnstile(_) => self.faults.no_turnstile,
            Name::Repository(_)
            | Name::Run(..)
            | Name::Consumer(..)
            | Name::Holds
            | Name::Provider(_)
            | Name::Registry
            | Name::Audit
            | Name::Fetch(_)
            | Name::Start(_) => false,
        }
    }

    /// Takes a lock, polling until the deadline.
    pub fn take(&self, name: &Name, mode: Mode, deadline: &Deadline) -> Result<Guard> {
        let mut waited = Duration::from_micros(200);
        loop {
            if let Some(guard) = self.try_take(name.clone(), mode)? {
                return Ok(guard);
            }
            if !deadline.pause(waited) {
                let path = self.directory.join(name.file());
                let pid = path.metadata().ok().and_then(|file| flock::holder(&file));
                let holder = self
                    .holder(name)
                    .or_else(|| pid.map(|pid| format!("process {pid}")))
                    .map(|who| format!(" by {who}"))
                    .unwrap_or_default();
                return Err(LockError::Timeout { path, holder, pid }.into());
            }
            waited = (waited * 2).min(Duration::from_millis(10));
        }
    }

    /// Takes a lock if it is free now.
    pub fn try_take(&self, name: Name, mode: Mode) -> Result<Option<Guard>> {
        HELD.with_borrow(|held| {
            let below = held.iter().all(|other| other.admits(&name));
            debug_assert!(
                below && (held.is_empty() || !name.is_alone()),
                "{name:?} taken while holding {held:?}"
            );
        });
        let path = self.directory.join(name.file());
        if self.is_off(&name) {
            return Ok(Some(Guard {
                name,
                path,
                mode: Mode::Shared,
                file: None,
            }));
        }
        let file = self.open(&path)?;
        let outcome = match mode {
            Mode::Shared => FileExt::try_lock_shared(&file),
            Mode::Exclusive => FileExt::try_lock(&file),
        };
        match outcome {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error))
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP)
                ) =>
            {
                return Err(LockError::Filesystem {
                    path,
                    kind: format!("a file system without locks ({error})"),
                }
                .into());
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, &error)),
        }
        HELD.with_borrow_mut(|held| held.push(name.clone()));
        Ok(Some(Guard {
            name,
            path,
            mode,
            file: Some(file),
        }))
    }

    fn open(&self, path: &Utf8Path) -> Result<File> {
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            owner::open(options.mode(0o600), path)
        };
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                super::directory::ensure(&self.directory)?;
                open()
            }
            // `flock` needs no write access: a read-only state root can still be looked at.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                read::open(path).map_err(|_| error)
            }
            other => other,
        };
        let file = file.map_err(|error| owner::refused("open the lock", path, &error))?;
        match filesystem::untrusted_kind(&file) {
            Some(kind) => Err(LockError::Filesystem {
                path: path.to_owned(),
                kind: kind.to_owned(),
            }
            .into()),
            None => Ok(file),
        }
    }

    /// Whom the body of a lock names, if that process still lives.
    pub fn holder(&self, name: &Name) -> Option<String> {
        let mut text = String::new();
        let file = read::open(self.directory.join(name.file())).ok()?;
        file.take(256).read_to_string(&mut text).ok()?;
        let mut words = text.split_whitespace();
        let (pid, start): (u32, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let alive = process::status(pid)
            .ok()?
            .is_some_and(|status| status.start == start);
        let purpose: Vec<&str> = words.collect();
        alive.then(|| format!("process {pid} ({})", purpose.join(" ")))
    }

    /// Returns once every selection of the provider that runs now has ended, so that whatever it looked at
    /// before is of no more consequence. The turnstile keeps new ones out meanwhile.
    pub fn await_selections(&self, provider: ProviderKind, deadline: &Deadline) -> Result<()> {
        let _turnstile = self.take(&Name::Turnstile(provider), Mode::Exclusive, deadline)?;
        let _provider = self.take(&Name::Provider(provider), Mode::Exclusive, deadline)?;
        Ok(())
    }

    /// Takes turnstile and provider lock for maintenance of one provider.
    ///
    /// Refuses at once when the provider lock's body names live maintenance; otherwise lets running
    /// selections end for up to two seconds, while the turnstile keeps new ones out.
    pub fn maintenance(&self, provider: ProviderKind, purpose: &str) -> Result<(Guard, Guard)> {
        let mut guards = self.maintenance_of(&[provider], purpose)?;
        match (guards.pop(), guards.pop()) {
            (Some(guard), Some(turnstile)) => Ok((turnstile, guard)),
            _ => Err(Error::internal("maintenance took no locks")),
        }
    }

    /// Takes the locks of [`Self::maintenance`] for several providers: every turnstile, then every provider
    /// lock, each in their order, so that two commands cannot wait for each other.
    pub fn maintenance_of(&self, providers: &[ProviderKind], purpose: &str) -> Result<Vec<Guard>> {
        let busy = |provider: ProviderKind| {
            let message = format!("provider maintenance is already in progress for {provider}");
            let path = self.directory.join(Name::Provider(provider).file());
            let error = Error::new(code::MAINTENANCE_BUSY, message)
                .hint(format!("cat {}", shell::quote(path.as_str())));
            match self.holder(&Name::Provider(provider)) {
                Some(holder) => error.detail("holder", holder),
                None => error,
            }
        };
        let mut providers = providers.to_vec();
        providers.sort_unstable();
        providers.dedup();
        for provider in &providers {
            if self.holder(&Name::Provider(*provider)).is_some() {
                return Err(busy(*provider));
            }
        }
        let deadline = self.clock.deadline(Duration::from_secs(2));
        let take = |name: Name, provider: ProviderKind| {
            self.take(&name, Mode::Exclusive, &deadline)
                .map_err(|error| match error.code {
                    code::LOCK_TIMEOUT => busy(provider),
                    _ => error,
                })
        };
        let mut guards = Vec::new();
        for provider in &providers {
            guards.push(take(Name::Turnstile(*provider), *provider)?);
        }
        for provider in &providers {
            let mut guard = take(Name::Provider(*provider), *provider)?;
            guard.sign(purpose)?;
            guards.push(guard);
        }
        Ok(guards)
    }
}

impl Guard {
    /// Writes who holds the lock, and why, into its body; cleared on release.
    pub fn sign(&mut self, purpose: &str) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let (pid, start) =
            process::current().map_err(|error| Error::io("look up", "/proc/self/stat", &error))?;
        let body = format!("{pid} {start} {purpose}\n");
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(body.as_bytes()));
        written.map_err(|error| {
            // One that could only be opened for reading says `EINVAL` now; why it could not is the answer.
            let reason = OpenOptions::new().write(true).open(&self.path).err();
            Error::io("write the lock", &self.path, &reason.unwrap_or(error))
        })
    }

    /// Which lock this is.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Opens the empty file of a lifetime lock read-only, creating it 0600; close-on-exec, links not followed.
pub fn open_lifetime(path: &Utf8Path) -> io::Result<File> {
    use rustix::fs::{Mode as Permissions, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let permissions = Permissions::RUSR | Permissions::WUSR;
    Ok(open(path.as_std_path(), flags, permissions)?.into())
}

/// Locks an open file if nobody else holds it; true when it did.
pub fn try_flock(file: &File, mode: Mode) -> io::Result<bool> {
    let outcome = match mode {
        Mode::Shared => FileExt::try_lock_shared(file),
        Mode::Exclusive => FileExt::try_lock(file),
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Unlocks an open file for every descriptor that shares it.
pub fn unlock(file: &File) -> io::Result<()> {
    FileExt::unlock(file)
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        if self.mode == Mode::Exclusive && matches!(self.name, Name::Provider(_)) {
            // The body is only for people; a stale one is disproved by its pid.
            drop(file.set_len(0));
        }
        // Closing alone leaves the lock held while another thread is between fork and exec.
        drop(FileExt::unlock(file));
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|name| *name == self.name) {
                held.remove(at);
            }
        });
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
