//! Signals by which a person ends a command, for commands that have to tidy up first.
//!
//! While they are watched for, the signals do not end the process: whoever waits looks at [`Interrupts::came`] and
//! ends by itself. A program that is started meanwhile has the default dispositions, since a handler does not
//! survive an exec. One that was ignored stays ignored, as under nohup.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::{SA_RESTART, SIG_IGN, SIGHUP, SIGINT, SIGQUIT, SIGTERM, c_int, sigaction};

/// What a person or the terminal sends to end a command.
const SIGNALS: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Whether one came; a handler can reach nothing but a static.
static CAME: AtomicBool = AtomicBool::new(false);
/// How often the person at the terminal asked.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// Whether the terminal went away, or a program asked.
static TOLD: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: c_int) {
    CAME.store(true, Ordering::SeqCst);
    if signal == SIGINT || signal == SIGQUIT {
        ASKED.fetch_add(1, Ordering::SeqCst);
    } else {
        TOLD.store(true, Ordering::SeqCst);
    }
}

/// The watch; when it is dropped, the signals do again what they did.
pub struct Interrupts {
    before: Vec<(c_int, sigaction)>,
}

impl std::fmt::Debug for Interrupts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Interrupts(…)")
    }
}

impl Interrupts {
    /// Begins to watch. There is one watch at a time.
    pub fn watch() -> io::Result<Self> {
        CAME.store(false, Ordering::SeqCst);
        ASKED.store(0, Ordering::SeqCst);
        TOLD.store(false, Ordering::SeqCst);
        let mut watch = Self { before: Vec::new() };
        for signal in SIGNALS {
            let before = handle(signal)?;
            if before.sa_sigaction == SIG_IGN {
                set(signal, &before)?;
            } else {
                watch.before.push((signal, before));
            }
        }
        Ok(watch)
    }

    /// Whether one of the signals has come since.
    pub fn came(&self) -> bool {
        CAME.load(Ordering::SeqCst)
    }

    /// How often the person at the terminal asked for an end since, by Ctrl-C.
    pub fn asked(&self) -> u32 {
        ASKED.load(Ordering::SeqCst)
    }

    /// Whether nobody is there any more to be waited for: the terminal hung up, or a program asked for an end.
    pub fn told(&self) -> bool {
        TOLD.load(Ordering::SeqCst)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // It was in force before; there is nobody to tell.
            drop(set(*signal, before));
        }
    }
}

/// Notes a signal from now on; returns what it did before.
#[expect(unsafe_code, reason = "dispositions of signals have no safe interface")]
fn handle(signal: c_int) -> io::Result<sigaction> {
    let mut before = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: all zeros is a valid `sigaction`: no flags, an empty mask, no handler.
    let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int) = note;
    action.sa_sigaction = handler as usize;
    action.sa_flags = SA_RESTART;
    // SAFETY: both point to a whole `sigaction`; the handler only stores to an atomic.
    let status = unsafe { sigaction(signal, &raw const action, before.as_mut_ptr()) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call filled it, and it was zeroed before.
    Ok(unsafe { before.assume_init() })
}

/// Makes a signal do what it did before.
#[expect(unsafe_code, reason = "dispositions of signals have no safe interface")]
fn set(signal: c_int, action: &sigaction) -> io::Result<()> {
    // SAFETY: it is what the kernel gave us for this very signal.
    let status = unsafe { sigaction(signal, ptr::from_ref(action), ptr::null_mut()) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupts;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn a_signal_is_noticed_and_ends_nothing() {
        let watch = Interrupts::watch().unwrap();
        assert!(!watch.came());
        kill_process(getpid(), Signal::HUP).unwrap();
        // Another thread of this process may be the one that handles it.
        let clock = crate::clock::Clock::real();
        let deadline = clock.deadline(std::time::Duration::from_secs(10));
        while !watch.told() && deadline.pause(std::time::Duration::from_millis(1)) {}
        assert!(watch.came());
        assert_eq!(watch.asked(), 0);
        for count in 1..=2 {
            kill_process(getpid(), Signal::INT).unwrap();
            while watch.asked() < count && deadline.pause(std::time::Duration::from_millis(1)) {}
            assert_eq!(watch.asked(), count);
        }
    }
}
