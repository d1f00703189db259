//! Minding a turn on a screen: bringing the run up to date when it tells something, and ending its process when the
//! turn is over and no person is at its keys.
//!
//! It runs beside the loop that draws the screen, because it waits for locks. What it does, every other command would
//! do as well; only the end of the process is its own. It asks for that once in a while and never kills: a process
//! that stays is the lead's to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::LaunchRecord;
use super::signal::{Gate, Reached, signal};
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::fleet::files::{LaunchFiles, RunFiles};
use crate::fleet::tick;
use crate::fleet::turn::told::{Heard, Listener};
use crate::store::touch::touch;
use crate::store::{append, directory};
use crate::sys::changes::Changes;
use crate::sys::tend::Signal;

/// Longest wait between two looks: a transcript grows without an event.
const LOOK: Duration = Duration::from_secs(1);
/// How long a process that was asked to end has before it is asked again.
const AGAIN: Duration = Duration::from_secs(30);

/// What the loop knows and the minder asks.
#[derive(Debug, Default)]
pub(super) struct Watched {
    typed_at: AtomicBool,
    ended: AtomicBool,
}

impl Watched {
    /// Says whether a person is at the keys.
    pub(super) fn typed_at(&self, is: bool) {
        self.typed_at.store(is, Ordering::SeqCst);
    }

    /// Says that the process has ended.
    pub(super) fn has_ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

/// Who minds one turn.
struct Minder {
    context: Context,
    run: RunFiles,
    files: LaunchFiles,
    launch: LaunchRecord,
    pid: u32,
    watched: Arc<Watched>,
    /// What went wrong last, so that it is said once.
    complaint: Option<String>,
    /// Whether it is told that a person is at the keys.
    is_told: bool,
    asked: Option<Deadline>,
}

/// Minds a turn in a thread of its own until its process has ended.
pub(super) fn mind(
    context: &Context,
    run: &RunFiles,
    files: &LaunchFiles,
    launch: &LaunchRecord,
    pid: u32,
    watched: &Arc<Watched>,
) -> Result<JoinHandle<()>> {
    let minder = Minder {
        context: context.clone(),
        run: run.clone(),
        files: files.clone(),
        launch: launch.clone(),
        pid,
        watched: Arc::clone(watched),
        complaint: None,
        is_told: false,
        asked: None,
    };
    Builder::new()
        .spawn(|| minder.mind())
        .map_err(|error| Error::io("start a thread for", &files.directory, &error))
}

impl Minder {
    fn mind(mut self) {
        let (files, launch) = (self.files.clone(), self.launch.clone());
        let mut changes = Changes::watch();
        let mut listener = Listener::new(&files, &launch);
        let mut is_news = false;
        while !self.has_ended() {
            // The directory of events that came is made with the first.
            changes.also(files.events());
            changes.also(files.events().join("new"));
            changes.wait(&[self.pid], LOOK);
            if self.has_ended() {
                return;
            }
            let told = self.tell_of_keys();
            is_news |= self.note(told).unwrap_or_default();
            let heard = listener.hear(&self.context);
            let heard = self.note(heard).unwrap_or(Heard::Nothing);
            is_news |= heard == Heard::News;
            if is_news {
                let settled = tick::settle(&self.context, &self.run);
                is_news = self.note(settled).is_none();
            }
            if heard == Heard::Over {
                let ended = self.end();
                self.note(ended);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.watched.ended.load(Ordering::SeqCst)
    }

    /// Says to everybody whether a person is at the keys; whether that was not known.
    fn tell_of_keys(&mut self) -> Result<bool> {
        let is_typed_at = self.watched.typed_at.load(Ordering::SeqCst);
        if is_typed_at == self.is_told {
            return Ok(false);
        }
        if is_typed_at {
            touch(self.files.typed())?;
        } else {
            directory::remove_file(self.files.typed())?;
        }
        self.is_told = is_typed_at;
        Ok(true)
    }

    /// Asks the process to end, unless a person is at its keys.
    fn end(&mut self) -> Result<()> {
        let is_typed_at = self.watched.typed_at.load(Ordering::SeqCst);
        let is_asked = self.asked.as_ref().is_some_and(|asked| !asked.passed());
        if is_typed_at || is_asked {
            return Ok(());
        }
        let reached = signal(
            &self.context,
            &self.files,
            &self.launch.token,
            &self.launch.task()?,
            Signal::Terminate,
            Gate::Respected,
        )?;
        match reached {
            Reached::Sent | Reached::Gone => {
                self.asked = Some(self.context.clock.deadline(AGAIN));
            }
            // It is tried again at the next look.
            Reached::NotYet | Reached::Refreshing(_) | Reached::Unknown => {}
        }
        Ok(())
    }

    /// Keeps a failure for whoever reads the host's log; it does not end the turn.
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.complaint = None;
                Some(value)
            }
            Err(error) => {
                if self.complaint.as_ref() != Some(&error.message) {
                    complain(&self.files, &error.message);
                    self.complaint = Some(error.message);
                }
                None
            }
        }
    }
}

/// Says something in the host's log; one that cannot be written is no reason to end a turn.
pub(super) fn complain(files: &LaunchFiles, text: &str) {
    let line = text.replace('\n', " ");
    let end = line.floor_char_boundary(append::LINE_LIMIT / 2);
    drop(append::line(
        files.host_log(),
        line.get(..end).unwrap_or_default(),
    ));
}
