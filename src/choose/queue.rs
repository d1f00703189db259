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
//! - A waiter whose task another request got a lease for counts as waiting until it looks again, a quarter of a
//!   second later.
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
use crate::quota::model::Model;
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
    #[serde(default)]
    model: Option<String>,
    ignores_reserve: bool,
    trusted: BTreeSet<ProviderKind>,
    rejected: BTreeSet<ProfileId>,
}

const SCHEMA: u32 = 1;

impl Line {
    fn set(&mut self, terms: &Terms) {
        self.provider = terms.asked.provider;
        self.profile.clone_from(&terms.asked.profile);
        self.model = terms.asked.model.as_ref().map(Model::to_string);
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
                model: self.model.and_then(|model| model.parse().ok()),
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
            model: None,
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

#[cfg(test)]
mod tests {
    use super::{Terms, Ticket, before, list};
    use crate::choose::candidate::tests::asked;
    use crate::choose::candidate::{Asked, Reserve};
    use crate::id::{PoolId, ProviderKind, Task};
    use crate::snapshot::provider::tests::World;
    use std::collections::BTreeSet;

    fn terms(asked: Asked) -> Terms {
        Terms {
            asked,
            trusted: BTreeSet::from([ProviderKind::Scripted]),
            rejected: BTreeSet::new(),
        }
    }

    fn draw(world: &World, task: &str) -> Ticket {
        let task: Task = task.parse().unwrap();
        Ticket::draw(&world.context, &task, &terms(asked())).unwrap()
    }

    fn pools() -> BTreeSet<PoolId> {
        BTreeSet::from([asked().pool])
    }

    #[test]
    fn one_who_was_served_is_not_counted_until_it_waits_again() {
        let world = World::new();
        let ticket = draw(&world, "t");
        let clock = &world.context.clock;
        let seen = before(&world.context, &pools(), None).unwrap();
        let [waiter] = &seen[..] else {
            panic!("{seen:?}")
        };
        assert!(waiter.is_before(None, clock));
        ticket.served().unwrap();
        assert!(!waiter.is_before(None, clock), "holder and waiter at once");
        assert!(list(&world.context).unwrap().is_empty());
        ticket.attend().unwrap();
        assert!(waiter.is_before(None, clock));
        drop(ticket);
        assert!(before(&world.context, &pools(), None).unwrap().is_empty());
    }

    #[test]
    fn the_older_comes_before_the_younger_and_both_before_a_direct_request() {
        let world = World::new();
        let first = draw(&world, "first");
        world
            .context
            .clock
            .pause(std::time::Duration::from_millis(2));
        let second = draw(&world, "second");
        let ahead = |ticket| before(&world.context, &pools(), ticket).unwrap().len();
        assert_eq!(
            (ahead(Some(&first)), ahead(Some(&second)), ahead(None)),
            (0, 1, 2)
        );
        let queue = list(&world.context).unwrap();
        let tasks: Vec<_> = queue.iter().map(|one| one.task.as_str()).collect();
        assert_eq!(tasks, ["first", "second"]);
    }

    #[test]
    fn others_see_by_which_terms_one_waits_now() {
        let world = World::new();
        let mut ticket = draw(&world, "t");
        let mut now = terms(Asked {
            profile: Some("p".parse().unwrap()),
            provider: Some(ProviderKind::Scripted),
            reserve: Reserve::Ignore,
            ..asked()
        });
        for rejected in ["q", "a-longer-name"] {
            now.rejected = BTreeSet::from([rejected.parse().unwrap()]);
            ticket.say(&now).unwrap();
            let seen = before(&world.context, &pools(), None).unwrap();
            assert_eq!(seen[0].terms, now);
        }
        ticket.say(&terms(asked())).unwrap();
        let seen = before(&world.context, &pools(), None).unwrap();
        assert_eq!(seen[0].terms, terms(asked()));
    }

    #[test]
    fn a_ticket_of_another_version_is_passed_over_and_left_alone() {
        let world = World::new();
        let folder = super::folder(&world.context, &asked().pool);
        let clock = world.context.clock;
        let now = clock.boot().0;
        let announce = |name: &str, text: &str| {
            super::Presence::announce(&folder, name, now, text, &clock).unwrap()
        };
        let newer = announce("0000000000000001-a", r#"{"schema":2}"#);
        let foreign = announce("nobody", "{}");
        assert!(before(&world.context, &pools(), None).unwrap().is_empty());
        assert!(list(&world.context).unwrap().is_empty());
        assert!(folder.join(newer.name()).exists() && folder.join(foreign.name()).exists());
    }
}
