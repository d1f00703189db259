//! The process a lease is bound to, and what can be told of one from here.
//!
//! A pid means something only in its pid namespace, and only through a `/proc` of that namespace. Where either
//! is not ours, the process is not looked up at all and the witness alone decides.

use std::io;

use crate::error::{Error, Result};
use crate::sys::process::{self, Status};

/// A process on this kernel, named so that a reused pid is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Pid in its own namespace.
    pub pid: u32,
    /// Kernel start time in clock ticks since boot; 0 when it could not be told.
    pub start: u64,
    /// The kernel's id of the boot.
    pub boot: [u8; 16],
    /// Inode of its pid namespace; 0 when it could not be told.
    pub namespace: u64,
    /// The kernel's unique number of the process; 0 where the kernel has none. Only a cheaper way to tell
    /// what pid and start time tell too.
    pub unique: u64,
}

/// From where processes are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// The kernel's id of this boot.
    pub boot: [u8; 16],
    /// Inode of our pid namespace, when `/proc` shows that namespace.
    pub namespace: Option<u64>,
}

/// What the kernel says of a recorded holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Pid and start time match a process that has not ended.
    Alive,
    /// No such process, a zombie, or another process under its pid.
    Gone,
    /// Of another boot.
    OtherBoot,
    /// Its pid means nothing here.
    OtherNamespace,
    /// The kernel would not say.
    Unreadable,
}

/// The processes that a pid is looked up among.
pub(super) trait Processes {
    /// Looks a pid up; `None` when there is no such process.
    fn status(&self, pid: u32) -> io::Result<Option<Status>>;
    /// Whether the process with this pid and unique number has ended.
    fn has_ended(&self, pid: u32, unique: u64) -> io::Result<bool>;
}

/// Those of this machine.
struct Kernel;

impl Processes for Kernel {
    fn status(&self, pid: u32) -> io::Result<Option<Status>> {
        process::status(pid)
    }

    fn has_ended(&self, pid: u32, unique: u64) -> io::Result<bool> {
        process::has_ended(pid, unique)
    }
}

impl Here {
    /// Looks around once per command.
    pub fn look() -> Result<Self> {
        let boot = process::boot_id()
            .map_err(|error| Error::io("read", "/proc/sys/kernel/random/boot_id", &error))?;
        // A `/proc` mounted in another namespace answers questions about other processes than ours.
        let shown = process::proc_shows_us();
        let namespace = shown.then(process::pid_namespace).and_then(Result::ok);
        Ok(Self { boot, namespace })
    }

    /// Looks a recorded holder up.
    pub fn sight(&self, holder: &Holder) -> Sighting {
        self.sight_among(&Kernel, holder)
    }

    /// Looks a recorded holder up among processes.
    pub(super) fn sight_among(&self, processes: &impl Processes, holder: &Holder) -> Sighting {
        if holder.boot != self.boot {
            return Sighting::OtherBoot;
        }
        if holder.namespace == 0 || self.namespace != Some(holder.namespace) {
            return Sighting::OtherNamespace;
        }
        if holder.unique != 0 {
            return match processes.has_ended(holder.pid, holder.unique) {
                Ok(true) => Sighting::Gone,
                Ok(false) => Sighting::Alive,
                Err(_) => Sighting::Unreadable,
            };
        }
        match processes.status(holder.pid) {
            Ok(Some(status)) if status.start == holder.start && !status.zombie => Sighting::Alive,
            Ok(_) => Sighting::Gone,
            Err(_) => Sighting::Unreadable,
        }
    }

    /// The calling process as a holder.
    pub fn myself(&self) -> Result<Holder> {
        let pid = std::process::id();
        let (start, namespace, unique) = match self.namespace {
            Some(namespace) => {
                let (_, start) = process::current()
                    .map_err(|error| Error::io("look up", "/proc/self/stat", &error))?;
                (start, namespace, process::unique(pid).unwrap_or(0))
            }
            None => (0, 0, 0),
        };
        Ok(Holder {
            pid,
            start,
            boot: self.boot,
            namespace,
            unique,
        })
    }
}

impl Holder {
    /// The calling process.
    pub fn current() -> Result<Self> {
        Here::look()?.myself()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Here, Holder, Sighting};

    #[test]
    fn a_reused_pid_is_another_process() {
        let here = Here::look().unwrap();
        let me = here.myself().unwrap();
        assert_eq!(here.sight(&me), Sighting::Alive);
        for before in [
            Holder {
                start: me.start - 1,
                unique: 0,
                ..me
            },
            Holder {
                unique: me.unique.wrapping_sub(1),
                ..me
            },
        ] {
            assert_eq!(here.sight(&before), Sighting::Gone);
        }
        let old_kernel = Holder { unique: 0, ..me };
        assert_eq!(here.sight(&old_kernel), Sighting::Alive);
    }

    #[test]
    fn pids_of_elsewhere_are_not_looked_up() {
        let here = Here::look().unwrap();
        let me = here.myself().unwrap();
        let foreign = Holder {
            namespace: me.namespace + 1,
            ..me
        };
        assert_eq!(here.sight(&foreign), Sighting::OtherNamespace);
        let nowhere = Here {
            namespace: None,
            ..here
        };
        assert_eq!(nowhere.sight(&me), Sighting::OtherNamespace);
        assert_eq!(nowhere.myself().unwrap().namespace, 0);
        let earlier = Holder {
            boot: [0; 16],
            ..me
        };
        assert_eq!(here.sight(&earlier), Sighting::OtherBoot);
    }
}
