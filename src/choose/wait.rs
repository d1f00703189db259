//! Waiting for a profile: the choice again and again, in the order in which the waiting began.
//!
//! # Guarantees
//! - A slot that comes free goes to the oldest request it suits (see [`super::queue`]); others do not keep it from
//!   a request that has something of its own to wait for.
//! - A slot is noticed within a quarter of a second: at once when its holder ends; by the files that change when
//!   something is released, drained or measured; and by the clock, at the moment that the refusal named. What
//!   leaves no trace, such as a witness that is let go in another namespace, is noticed within five seconds.
//! - Nothing but a person can help: that is said at once and not waited for. A registry that cannot be read
//!   may be one that is being saved, so it has five seconds before it ends a wait.
//! - The wait is counted on a clock that runs on while the machine is suspended.
//! - Between two choices a waiter looks at a dozen files and does nothing else. It asks about an account no
//!   more often than the poll budget of everybody allows.
//!
//! # Limits
//! - Waiters share one machine's state; nobody is woken across machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;

use super::accounts::Key;
use super::apply::{Outlook, Purpose, Refused, Request, Selected, Terms, attempt};
use super::patience::Hope;
use super::queue::{self, Ticket};
use crate::clock::{BootTime, Deadline};
use crate::contract::lease::Verdict;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::lease::LeaseStore;
use crate::snapshot::{evidence, provider};
use crate::sys::filesystem::Identity;
use crate::sys::process::Endings;

/// How often a waiter looks whether anything changed.
const POLL: Duration = Duration::from_millis(250);
/// After this time a waiter chooses again although nothing seems to have changed: while slots are taken or
/// others are ahead, whose turn may pass without a trace, and else.
const AGAIN_SOON: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(5);
/// How long an account that was asked about is left alone by one waiter, whatever the poll budget says.
const SPARED: Duration = Duration::from_secs(30);
/// How long the registry may be unreadable during a wait: editors write it in several steps.
const SAVING: Duration = Duration::from_secs(5);
/// Most holders whose end is waited for; the others are noticed by the next look.
const HOLDERS: usize = 64;
/// Least time between two estimates.
const TOLD: Duration = Duration::from_mins(1);

/// How long to wait, and who is told how long that may take.
pub struct Patience<'a> {
    /// When to give up; `None` for never.
    pub limit: Option<Deadline>,
    /// Hears an estimate when the wait begins, and again when it became another, at most once a minute.
    pub tell: &'a mut dyn FnMut(&Estimate),
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Patience");
        shown.field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// How long a wait may take, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How many wait and come first.
    pub ahead: usize,
    /// When the first profile may come free by itself.
    pub retry_at: Option<Timestamp>,
    /// How many leases are held meanwhile on the profiles that lack nothing else.
    pub holders: usize,
    /// Why there is nothing now.
    pub reason: String,
}

/// Chooses a profile, waiting until one is free. `open` opens the store anew for each choice, whose locks have
/// deadlines of their own.
///
/// Ends with the last refusal once the limit has passed, or at once with one that no time can change.
pub fn select<S: LeaseStore>(
    context: &Context,
    open: &dyn Fn() -> Result<S>,
    request: &Request,
    purpose: Purpose,
    labels: &BTreeMap<String, String>,
    patience: Patience<'_>,
) -> Result<Selected> {
    let mut wait = Wait {
        context,
        patience,
        ticket: None,
        asked: BTreeMap::new(),
        told: None,
        unreadable: None,
    };
    loop {
        let seen = Signs::look(context, request);
        let begun = context.clock.now();
        let store = open()?;
        let refused = {
            let terms = Terms {
                purpose,
                labels,
                ticket: wait.ticket.as_ref(),
                spared: wait.spared(),
            };
            match attempt(context, &store, request, &terms) {
                Ok(selected) => return Ok(selected),
                Err(refused) => *refused,
            }
        };
        let Refused { error, outlook } = refused;
        let saving = wait.may_be_saved(&error);
        if !saving && !is_worth_waiting(&error, outlook.as_ref()) {
            return Err(in_vain(error, outlook.as_ref()));
        }
        if wait.is_over() {
            return Err(error);
        }
        let first = wait.ticket.is_none();
        wait.queue_up(request, outlook.as_ref())?;
        if first {
            // What came free before the ticket was drawn was nobody's.
            continue;
        }
        let holders = holders(&store, &error)?;
        wait.tell(&error, outlook.as_ref(), holders.len());
        let again = if holders.is_empty() && outlook.as_ref().is_none_or(|one| one.ahead == 0) {
            AGAIN
        } else {
            AGAIN_SOON
        };
        let due = error.retry_at.filter(|at| *at > begun);
        wait.until_something_changed(&Endings::of(holders), again, due, || {
            Signs::look(context, request) != seen
        })?;
    }
}

/// Whether the next try may be refused for another reason, or not at all.
fn is_worth_waiting(error: &Error, outlook: Option<&Outlook>) -> bool {
    match outlook {
        Some(outlook) => outlook.hope == Hope::Time,
        // Whoever changes the provider's profiles, or holds the lock, will be done some time.
        None => matches!(error.code, code::MAINTENANCE_BUSY | code::LOCK_TIMEOUT),
    }
}

/// A refusal that says that waiting was not tried because only a person can change it.
fn in_vain(mut error: Error, outlook: Option<&Outlook>) -> Error {
    if outlook.is_some() {
        error.message.push_str("; waiting does not change that");
    }
    error
}

/// The processes on whose end a slot comes free.
fn holders(store: &dyn LeaseStore, error: &Error) -> Result<Vec<u32>> {
    // Only a refusal for want of a slot names holders.
    if !error.details.contains_key("holders") {
        return Ok(Vec::new());
    }
    let leases = store.list()?.leases;
    // An orphan's process has ended already.
    let alive = leases
        .into_iter()
        .filter(|lease| lease.verdict == Verdict::Alive);
    Ok(alive.filter_map(|lease| lease.pid).take(HOLDERS).collect())
}

struct Wait<'c, 'p> {
    context: &'c Context,
    patience: Patience<'p>,
    ticket: Option<Ticket>,
    /// When accounts were asked about last.
    asked: BTreeMap<Key, BootTime>,
    told: Option<(BootTime, Estimate)>,
    /// Since when the registry cannot be read.
    unreadable: Option<BootTime>,
}

impl Wait<'_, '_> {
    fn now(&self) -> BootTime {
        self.context.clock.boot()
    }

    fn is_over(&self) -> bool {
        self.patience.limit.is_some_and(|limit| limit.passed())
    }

    /// Whether the refusal may be over as soon as somebody has saved the registry. One that could not be read in
    /// the first place is no such thing.
    fn may_be_saved(&mut self, error: &Error) -> bool {
        let unreadable = matches!(error.code, code::CONFIG_INVALID | code::CONFIG_MISSING);
        if self.ticket.is_none() || !unreadable {
            self.unreadable = None;
            return false;
        }
        let now = self.now();
        now.since(*self.unreadable.get_or_insert(now)) < SAVING
    }

    /// The accounts that were asked about a moment ago.
    fn spared(&self) -> BTreeSet<Key> {
        let now = self.now();
        let lately = |at: &BootTime| now.since(*at) < SPARED;
        let recent = self.asked.iter().filter(|(_, at)| lately(at));
        recent.map(|(key, _)| key.clone()).collect()
    }

    /// Draws a ticket, or brings it up to date.
    fn queue_up(&mut self, request: &Request, outlook: Option<&Outlook>) -> Result<()> {
        let now = self.now();
        self.asked.retain(|_, at| now.since(*at) < SPARED);
        for key in outlook.iter().flat_map(|outlook| &outlook.fetched) {
            self.asked.entry(key.clone()).or_insert(now);
        }
        // Before everything could be looked at, nothing is known that it could take.
        let unknown = || queue::Terms {
            asked: request.asked.clone(),
            trusted: BTreeSet::new(),
            rejected: BTreeSet::new(),
        };
        match (&mut self.ticket, outlook) {
            (Some(ticket), Some(outlook)) => ticket.say(&outlook.terms)?,
            (Some(_), None) => {}
            (empty @ None, outlook) => {
                let terms = outlook.map_or_else(unknown, |outlook| outlook.terms.clone());
                *empty = Some(Ticket::draw(self.context, &request.task, &terms)?);
            }
        }
        Ok(())
    }

    fn tell(&mut self, error: &Error, outlook: Option<&Outlook>, holders: usize) {
        let estimate = Estimate {
            ahead: outlook.map_or(0, |outlook| outlook.ahead),
            retry_at: error.retry_at,
            holders,
            reason: error.message.clone(),
        };
        let now = self.now();
        let known = self.told.as_ref();
        if known.is_none_or(|(at, known)| *known != estimate && now.since(*at) >= TOLD) {
            (self.patience.tell)(&estimate);
            self.told = Some((now, estimate));
        }
    }

    /// Returns when a holder ended, `changed` says so, the time `due` came, `again` or the limit has passed.
    fn until_something_changed(
        &self,
        holders: &Endings,
        again: Duration,
        due: Option<Timestamp>,
        changed: impl Fn() -> bool,
    ) -> Result<()> {
        let again = self.context.clock.deadline(again);
        loop {
            if let Some(ticket) = &self.ticket {
                ticket.attend()?;
            }
            let limit = self.patience.limit.as_ref().map(Deadline::left);
            let span = POLL.min(again.left()).min(limit.unwrap_or(POLL));
            let ended = holders.wait(span);
            let now = self.context.clock.now();
            if ended
                || changed()
                || due.is_some_and(|at| at <= now)
                || again.passed()
                || self.is_over()
            {
                break;
            }
        }
        match &self.ticket {
            Some(ticket) => ticket.attend(),
            None => Ok(()),
        }
    }
}

/// What changes when a slot may have come free: the table, what is known of accounts, the registry, the queue.
#[derive(Debug, PartialEq, Eq)]
struct Signs(Vec<Option<Identity>>);

impl Signs {
    fn look(context: &Context, request: &Request) -> Self {
        let state = &context.roots.state;
        let mut paths: Vec<Utf8PathBuf> = vec![
            context.roots.config.clone(),
            state.join("leases").join("table"),
            queue::folder(context, &request.asked.pool),
        ];
        for kind in ProviderKind::ALL {
            paths.push(provider::path(context, kind));
            paths.push(evidence::path(state, kind));
        }
        let identity = |path: &Utf8PathBuf| {
            let metadata = path.as_std_path().metadata().ok()?;
            Some(Identity::from(&metadata))
        };
        Self(paths.iter().map(identity).collect())
    }
}
