//! What a process does next: one look or one attempt of the shipped protocol, whole or killed half way.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{PLACES, PROFILE_IDS, PROFILES, TASKS, TICK};
use super::state::{Ask, Asking, Doing, Reserved, State, Ticket, Want, Work};
use super::world::{Broken, Model};
use crate::choose::turn::{self, Place};
use crate::error::{Error, code};
use crate::id::{ProfileId, ProviderKind};
use crate::lease::leases::{Attempt, Leases, PROBES};
use crate::lease::locked::Locked;
use crate::lease::record::Slot;
use crate::lease::{Choice, Force, Granted, Hold, Occupancy, Request};

/// The rules of a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) caps: [u32; PROFILES],
    pub(super) broken: Option<Broken>,
    /// Whether the look before the lock is a step of its own.
    pub(super) early: bool,
}

/// What the broker said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted {
        sticky: bool,
        profile: usize,
        generation: u64,
    },
    Ended,
    Refused(&'static str),
    Unsure,
}

/// What one step came to.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) state: State,
    /// `None` while the call goes on without one, or was killed.
    pub(super) answer: Option<Answer>,
    /// Changes that it made.
    pub(super) changes: usize,
    /// By which the answer must be judged.
    pub(super) asking: Option<Asking>,
}

fn best(wishes: u8, occupancy: &Occupancy, caps: [u32; PROFILES]) -> Option<usize> {
    (0..PROFILES).find(|index| {
        let id = &PROFILE_IDS[*index];
        let free = occupancy.live(id) < caps[*index] && !occupancy.probed.contains(id);
        wishes & (1 << index) != 0 && free
    })
}

fn is_one(wishes: u8) -> bool {
    wishes.is_power_of_two()
}

fn index(profile: &ProfileId) -> usize {
    let found = PROFILE_IDS.iter().position(|id| id == profile);
    found.expect("the model's profiles are two")
}

impl State {
    fn asking(&self, pid: usize) -> Option<&Asking> {
        match &self.processes[pid].doing {
            Doing::Asking(asking) => Some(asking),
            Doing::Nothing | Doing::Working(_) | Doing::Closing(_) => None,
        }
    }

    /// Starts a process that asks.
    pub(super) fn start(&mut self, pid: usize, ask: Ask) {
        self.starts += 1;
        let process = &mut self.processes[pid];
        process.start = self.starts;
        process.doing = Doing::Asking(Asking {
            ask,
            pid,
            attempts: 0,
            ahead: crate::lease::reclaim::Ahead::default(),
            stale: None,
            first: Vec::new(),
            looked: false,
        });
    }

    /// Whether the process can go on now. What is dying has died before a third look is taken.
    pub(super) fn can_step(&self, pid: usize) -> bool {
        let last = |asking: &Asking| asking.attempts + 1 == PROBES;
        let waits = self.asking(pid).is_some_and(last) && self.survivors.iter().any(|it| it.dying);
        let leaves = matches!(self.processes[pid].doing, Doing::Nothing);
        self.processes[pid].start > 0 && (self.asking(pid).is_some() || leaves) && !waits
    }

    /// The protocol as this process runs it.
    pub(super) fn model(self, pid: usize, rules: Rules, cut: Option<usize>) -> Leases<Model> {
        let asking = self.asking(pid);
        let suspects = asking.map(|asking| asking.ahead.suspects.iter().copied().collect());
        let stale = asking.and_then(|asking| asking.stale.clone());
        let forces = asking.is_some_and(|asking| asking.ask.want == Want::Force);
        Leases::on(Model {
            me: pid,
            broken: rules.broken,
            stale,
            suspects: suspects.unwrap_or_default(),
            forces,
            cut,
            changes: 0.into(),
            dead: false.into(),
            state: self.into(),
        })
    }

    /// The next step of a process, killed before the change `cut`.
    pub(super) fn step(mut self, pid: usize, rules: Rules, cut: Option<usize>) -> Stepped {
        let Some(asking) = self.asking(pid).cloned() else {
            self.end(pid);
            return Stepped::on(self);
        };
        if !asking.looked {
            self = self.look(pid, rules);
            if rules.early {
                return Stepped::on(self);
            }
        }
        if rules.broken == Some(Broken::NoLock)
            && self.asking(pid).is_some_and(|it| it.stale.is_none())
        {
            let table = self.world.table.clone().unwrap_or_default();
            if let Doing::Asking(asking) = &mut self.processes[pid].doing {
                asking.stale = Some(table);
            }
            return Stepped::on(self);
        }
        self.attempt(pid, rules, cut)
    }

    /// Looks at the processes of the table and at who waits, with no lock.
    fn look(mut self, pid: usize, rules: Rules) -> Self {
        let now = self.world.now;
        if let Some(ticket) = &mut self.processes[pid].ticket {
            ticket.heard = now;
        }
        let mine = self.processes[pid]
            .ticket
            .as_ref()
            .map(|it| it.place.clone());
        let others = self.processes.iter().filter_map(|it| it.ticket.as_ref());
        let mut first: Vec<Place> = others
            .filter(|ticket| {
                let heard = heard(ticket, now, rules);
                turn::is_before(&ticket.place, heard, mine.as_ref(), now)
            })
            .map(|ticket| ticket.place.clone())
            .collect();
        first.sort();
        let leases = self.model(pid, rules, None);
        let ahead = leases.look_ahead();
        let mut state = leases.machine.state.into_inner();
        if let Doing::Asking(asking) = &mut state.processes[pid].doing {
            asking.ahead = ahead;
            asking.first = first;
            asking.looked = true;
        }
        state
    }

    /// One attempt under the lock.
    fn attempt(self, pid: usize, rules: Rules, cut: Option<usize>) -> Stepped {
        let asking = self.asking(pid).expect("it asks").clone();
        let last = asking.attempts + 1 == PROBES;
        let confirmed = last || rules.broken == Some(Broken::OneProbe);
        let leases = self.model(pid, rules, cut);
        let answer = answer(&leases, &asking, rules, confirmed);
        let (changes, dead) = (leases.machine.changes.get(), leases.machine.dead.get());
        let mut state = leases.machine.state.into_inner();
        if dead {
            state.end(pid);
            let ask = asking.ask;
            state.learn(ask.task, TASKS[ask.task].key, ask.want);
            return Stepped {
                changes,
                ..Stepped::on(state)
            };
        }
        state.follow(pid, &asking, answer);
        Stepped {
            state,
            answer: Some(answer),
            changes,
            asking: Some(asking),
        }
    }

    /// What an answer changes in truth.
    fn follow(&mut self, pid: usize, asking: &Asking, answer: Answer) {
        let ask = asking.ask;
        match (ask.want, answer) {
            (_, Answer::Unsure) => {
                if let Doing::Asking(asking) = &mut self.processes[pid].doing {
                    asking.attempts += 1;
                    asking.stale = None;
                }
                return;
            }
            (
                Want::Choose | Want::Wait,
                Answer::Granted {
                    profile,
                    generation,
                    ..
                },
            ) => {
                let works = self.working().chain(self.closing());
                let runs = works.into_iter().any(|work| work.generation == generation);
                if !runs && let Some(reserved) = self.reserved.get_mut(ask.task) {
                    *reserved = Some(Reserved {
                        profile,
                        generation,
                        expires: self.world.now + TICK,
                        place: ask.place,
                    });
                }
                self.highest = self.highest.max(generation);
                let sticky = matches!(answer, Answer::Granted { sticky: true, .. });
                if self.processes[pid].ticket.is_some() && !sticky {
                    // Its ticket goes a moment later.
                    self.processes[pid].doing = Doing::Nothing;
                    return;
                }
            }
            (
                Want::Exec | Want::Probe,
                Answer::Granted {
                    profile,
                    generation,
                    ..
                },
            ) => {
                if let Some(reserved) = self.reserved.get_mut(ask.task) {
                    *reserved = None;
                }
                self.highest = self.highest.max(generation);
                self.processes[pid].doing = Doing::Working(Work {
                    task: ask.task,
                    profile,
                    generation,
                    place: ask.place,
                    evicted: false,
                    probes: ask.want == Want::Probe,
                });
                return;
            }
            (Want::Release | Want::Force, Answer::Ended) => {
                if let Some(reserved) = self.reserved.get_mut(ask.task) {
                    *reserved = None;
                }
                self.evict(ask.task);
            }
            (Want::Wait, Answer::Refused("capacity")) => {
                self.queue_up(pid, ask.wishes);
                return;
            }
            (_, Answer::Refused(_) | Answer::Ended | Answer::Granted { .. }) => {}
        }
        self.end(pid);
    }

    /// A person removes a damaged record; a worker that it was of lives on.
    pub(super) fn settle(&mut self, at: usize, rules: Rules) {
        if !matches!(self.slots().get(at), Some(Slot::Damaged { .. })) {
            return;
        }
        let leases = std::mem::take(self).model(0, rules, None);
        if let Ok(mut locked) = Locked::open(&leases, true) {
            drop(locked.settle(u32::try_from(at).unwrap_or(u32::MAX)));
        }
        *self = leases.machine.state.into_inner();
        let known = |slots: &[Slot], task: usize| {
            let has =
                |slot: &Slot| matches!(slot, Slot::Lease(record) if record.task == TASKS[task].key);
            slots.iter().any(has)
        };
        let slots = self.slots();
        for task in 0..TASKS.len() {
            if !known(&slots, task) {
                self.evict(task);
            }
        }
    }

    fn queue_up(&mut self, pid: usize, wishes: u8) {
        if self.processes[pid].ticket.is_none() {
            self.tickets += 1;
            self.processes[pid].ticket = Some(Ticket {
                place: Place {
                    since: self.world.now,
                    name: format!("{:06}", self.tickets),
                },
                heard: self.world.now,
                wishes,
            });
        }
        if let Doing::Asking(asking) = &mut self.processes[pid].doing {
            asking.attempts = 0;
            asking.looked = false;
            asking.stale = None;
        }
    }
}

impl Answer {
    /// One word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Granted { sticky: true, .. } => "sticky",
            Self::Granted { sticky: false, .. } => "granted",
            Self::Ended => "ended",
            Self::Refused(code) => code,
            Self::Unsure => "unsure",
        }
    }
}

impl Stepped {
    pub(super) fn on(state: State) -> Self {
        Self {
            state,
            answer: None,
            changes: 0,
            asking: None,
        }
    }
}

fn heard(ticket: &Ticket, now: u64, rules: Rules) -> u64 {
    match rules.broken {
        Some(Broken::StoppedKept) if ticket.heard > 0 => now,
        Some(_) | None => ticket.heard,
    }
}

/// Runs the shipped code.
fn answer(leases: &Leases<Model>, asking: &Asking, rules: Rules, confirmed: bool) -> Answer {
    let ask = asking.ask;
    let task = &TASKS[ask.task].task;
    let granted = |granted: Granted| Answer::Granted {
        sticky: granted.sticky,
        profile: index(&granted.lease.profile),
        generation: granted.lease.generation,
    };
    let mut locked = match Locked::open(leases, confirmed) {
        Ok(locked) => locked,
        Err(error) => return Answer::Refused(error.code.name),
    };
    let hold = match ask.want {
        Want::Exec => Hold::Now(leases.machine.myself()),
        Want::Choose | Want::Wait | Want::Probe | Want::Release | Want::Force => {
            Hold::Later(Duration::from_millis(TICK))
        }
    };
    let wish = (0..PROFILES).find(|it| ask.wishes == 1 << it);
    let request = Request {
        task: task.clone(),
        workspace: PLACES[ask.place].into(),
        pool: None,
        provider: None,
        profile: wish.map(|index| PROFILE_IDS[index].clone()),
        labels: BTreeMap::new(),
        hold,
    };
    let outcome = match ask.want {
        Want::Choose | Want::Wait | Want::Exec => {
            let mut pick =
                |occupancy: &Occupancy| Ok(choice(&leases.machine, asking, occupancy, rules));
            locked
                .reserve(&request, &asking.ahead, &mut pick)
                .map(|attempt| told(attempt, granted))
        }
        Want::Probe => {
            let profile = &PROFILE_IDS[wish.unwrap_or(0)];
            let holder = leases.machine.myself();
            locked
                .grant_probe(profile, ProviderKind::Scripted, holder)
                .map(|attempt| told(attempt, granted))
        }
        Want::Release | Want::Force => {
            let force = match ask.want {
                Want::Force => Force::Yes,
                Want::Release | Want::Choose | Want::Wait | Want::Exec | Want::Probe => Force::No,
            };
            locked
                .release(task, force)
                .map(|attempt| told(attempt, |_| Answer::Ended))
        }
    };
    match outcome {
        Ok(answer) => answer,
        Err(error) => Answer::Refused(error.code.name),
    }
}

fn told<T>(attempt: Attempt<T>, tell: impl FnOnce(T) -> Answer) -> Answer {
    match attempt {
        Attempt::Done(value) => tell(value),
        Attempt::Unsure => Answer::Unsure,
    }
}

/// The pick: what those who come first leave. One profile by name is taken whatever its use seems to be, since
/// the store checks the cap again.
fn choice(model: &Model, asking: &Asking, occupancy: &Occupancy, rules: Rules) -> Choice {
    let ask = asking.ask;
    let mut state = model.state.borrow_mut();
    let now = state.world.now;
    let mine = state.processes[model.me].ticket.as_ref();
    let mine = mine.map(|ticket| ticket.place.clone());
    let waiters: Vec<u8> = asking
        .first
        .iter()
        .filter_map(|place| {
            let mut tickets = state.processes.iter().filter_map(|it| it.ticket.as_ref());
            let ticket = tickets.find(|ticket| ticket.place == *place)?;
            let heard = heard(ticket, now, rules);
            turn::is_before(place, heard, mine.as_ref(), now).then_some(ticket.wishes)
        })
        .collect();
    let waiters = match rules.broken {
        Some(Broken::NoQueue) => Vec::new(),
        Some(_) | None => waiters,
    };
    let left = turn::after(&waiters, occupancy.clone(), |wishes, occupancy| {
        best(*wishes, occupancy, rules.caps).map(|index| PROFILE_IDS[index].clone())
    });
    let found = match best(ask.wishes, &left, rules.caps) {
        None if waiters.is_empty() && is_one(ask.wishes) => {
            (0..PROFILES).find(|index| ask.wishes == 1 << index)
        }
        found => found,
    };
    match found {
        Some(index) => {
            if let Some(ticket) = &mut state.processes[model.me].ticket
                && rules.broken != Some(Broken::NotServed)
            {
                ticket.heard = 0;
            }
            Choice::Take {
                profile: PROFILE_IDS[index].clone(),
                provider: ProviderKind::Scripted,
                cap: rules.caps[index],
            }
        }
        None => Choice::Nothing {
            error: Error::new(code::CAPACITY, "nothing is free"),
            full: Vec::new(),
        },
    }
}
