//! Waiting tickets: who waits for a slot of which pool, since when, and what for.
//!
//! A ticket is a file below `state/queue/<pool>` that stands for its process ([`crate::store::presence`]): a killed waiter
//! leaves a file that the next look removes. Its name holds its place, its stamp the moment at which its
//! waiter last looked for a slot, and its line the terms, by which others judge what it could take.
//!
//! # Guarantees
//! - Who is before whom is read under no lock, but whether a waiter has been served is read and written under
//!   the `leases` lock only, where slots are given: nobody is counted twice, as holder and as waiter.
//! - A profile in several pools goes to the oldest waiter of any of them.
//!
//! # Limits
//! - A waiter that asks the network is silent meanwhile; after two seconds its turn passes until it is back.
//! - Of a waiter's other profiles, which a request does not look at, it cannot know whether they are free:
//!   one that could also take those still comes first.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::candidate::{Asked, Reserve};
use super::turn::{self, Place};
use crate::clock::Clock;
use crate::contract::lease::Waiting;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};
use crate::store::presence::{self, Presence, Seen};

/// What a waiter would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// What was asked for.
    pub(super) asked: Asked,
    /// The providers that may work in its workspace.
    pub(super) trusted: BTreeSet<ProviderKind>,
    /// Profiles found wanting when they were about to be granted to it.
    pub(super) rejected: BTreeSet<ProfileId>,
}

/// The line of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    schema: u32,
    task: Task,
    pid: u32,
    at: Timestamp,
    pool: PoolId,
    provider: Option<ProviderKind>,
    profile: Option<ProfileId>,
    ignores_reserve: bool,
    trusted: BTreeSet<ProviderKind>,
    rejected: BTreeSet<ProfileId>,
}

const SCHEMA: u32 = 1;

impl Line {
    fn set(&mut self, terms: &Terms) {
        self.provider = terms.asked.provider;
        self.profile.clone_from(&terms.asked.profile);
        self.ignores_reserve = terms.asked.reserve == Reserve::Ignore;
        self.trusted.clone_from(&terms.trusted);
        self.rejected.clone_from(&terms.rejected);
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::internal(format!("cannot serialise a ticket: {error}")))
    }

    /// The line of a ticket that this version understands.
    fn parse(text: &str) -> Option<Self> {
        let line: Self = serde_json::from_str(text).ok()?;
        (line.schema == SCHEMA).then_some(line)
    }

    fn terms(self) -> Terms {
        Terms {
            asked: Asked {
                pool: self.pool,
                provider: self.provider,
                profile: self.profile,
                reserve: if self.ignores_reserve {
                    Reserve::Ignore
                } else {
                    Reserve::Keep
                },
            },
            trusted: self.trusted,
            rejected: self.rejected,
        }
    }
}

/// This process's place in a pool's queue, given up when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    presence: Presence,
    place: Place,
    clock: Clock,
    line: Line,
}

impl Ticket {
    /// Joins the queue of the pool at its end.
    pub(super) fn draw(context: &Context, task: &Task, terms: &Terms) -> Result<Self> {
        let since = context.clock.boot().0;
        let mut line = Line {
            schema: SCHEMA,
            task: task.clone(),
            pid: std::process::id(),
            at: context.clock.now(),
            pool: terms.asked.pool.clone(),
            provider: None,
            profile: None,
            ignores_reserve: false,
            trusted: BTreeSet::new(),
            rejected: BTreeSet::new(),
        };
        line.set(terms);
        let name = format!("{since:016x}-{}", uuid::Uuid::new_v4().simple());
        let folder = folder(context, &terms.asked.pool);
        let presence = Presence::announce(folder, &name, since, &line.text()?, &context.clock)?;
        Ok(Self {
            place: Place { since, name },
            presence,
            clock: context.clock,
            line,
        })
    }

    /// Says that the waiter is there and looks.
    pub(super) fn attend(&self) -> Result<()> {
        self.presence.stamp(self.clock.boot().0)
    }

    /// Says that the waiter has been given its slot. Only under the `leases` lock.
    pub(super) fn served(&self) -> Result<()> {
        self.presence.stamp(0)
    }

    /// Says by which terms it waits from now on.
    pub(super) fn say(&mut self, terms: &Terms) -> Result<()> {
        let mut line = self.line.clone();
        line.set(terms);
        if line != self.line {
            self.presence.say(&line.text()?)?;
            self.line = line;
        }
        Ok(())
    }
}

/// Another process that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    seen: Seen,
    place: Place,
    /// What it would take.
    pub(super) terms: Terms,
}

impl Waiter {
    /// Whether it comes before the holder of `ticket`, or before a request without one, at this moment.
    pub(super) fn is_before(&self, ticket: Option<&Ticket>, clock: &Clock) -> bool {
        // A stamp that cannot be read is one of a file that is going away.
        let heard = self.seen.stamp().unwrap_or(0);
        let asker = ticket.map(|ticket| &ticket.place);
        turn::is_before(&self.place, heard, asker, clock.boot().0)
    }
}

pub(super) fn folder(context: &Context, pool: &PoolId) -> Utf8PathBuf {
    context.roots.state.join("queue").join(pool.as_str())
}

/// Everybody who waits in one of these pools and comes before the holder of `ticket`, oldest first.
pub(super) fn before(
    context: &Context,
    pools: &BTreeSet<PoolId>,
    ticket: Option<&Ticket>,
) -> Result<Vec<Waiter>> {
    if context.faults.no_queue {
        return Ok(Vec::new());
    }
    let clock = &context.clock;
    let mut found = Vec::new();
    for pool in pools {
        for seen in presence::present(folder(context, pool))? {
            // A ticket that cannot be read says nothing of what its waiter could take.
            let (Some(place), Some(line)) = (place(&seen.name), line(&seen, clock)) else {
                continue;
            };
            let waiter = Waiter {
                seen,
                place,
                terms: line.terms(),
            };
            if waiter.is_before(ticket, clock) {
                found.push(waiter);
            }
        }
    }
    found.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(found)
}

fn line(seen: &Seen, clock: &Clock) -> Option<Line> {
    Line::parse(&seen.text(clock)?)
}

fn place(name: &str) -> Option<Place> {
    let (since, _) = name.split_once('-')?;
    Some(Place {
        since: u64::from_str_radix(since, 16).ok()?,
        name: name.to_owned(),
    })
}

/// Everybody who waits, in the order of their turns.
pub fn list(context: &Context) -> Result<Vec<Waiting>> {
    let root = context.roots.state.join("queue");
    let entries = match std::fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &root, &error)),
    };
    let now = context.clock.boot().0;
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        for seen in presence::present(entry.path())? {
            let (Some(place), Some(line)) = (place(&seen.name), line(&seen, &context.clock)) else {
                continue;
            };
            let heard = seen.stamp().unwrap_or(0);
            // It has its lease already.
            if heard == 0 {
                continue;
            }
            let attending = turn::is_before(&place, heard, None, now);
            found.push((
                place,
                Waiting {
                    task: line.task,
                    pool: line.pool,
                    provider: line.provider,
                    profile: line.profile,
                    pid: line.pid,
                    since: line.at,
                    attending,
                },
            ));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found.into_iter().map(|(_, waiting)| waiting).collect())
}
