//! Leases taken straight from the table, as many as it can give: the same code and locks as below every choice.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_fleet::clock::{Clock, ROUTINE};
use agent_fleet::error::{Error, code};
use agent_fleet::id::{ProfileId, ProviderKind, Task};
use agent_fleet::lease::{
    Choice, Force, Granted, Hold, LeaseStore as _, Occupancy, Request, TableStore,
};

use crate::actor::Actor;
use crate::truth::{CAP, STORES, TABLED};

/// How often in a row.
const TURNS: usize = 20;

fn request(task: &str, hold: Hold) -> Request {
    Request {
        task: task.parse().expect("a task"),
        workspace: "/srv/space".into(),
        pool: None,
        provider: None,
        profile: None,
        labels: BTreeMap::new(),
        hold,
    }
}

/// The first of these with a free slot.
fn pick(names: &[ProfileId], occupancy: &Occupancy) -> Choice {
    let cap = u32::try_from(CAP).expect("few slots");
    let free = names.iter().find(|name| occupancy.live(name) < cap);
    match free {
        Some(profile) => Choice::Take {
            profile: profile.clone(),
            provider: ProviderKind::Scripted,
            cap,
        },
        None => Choice::Nothing {
            error: Error::new(code::CAPACITY, "every slot is taken"),
            full: names.to_vec(),
        },
    }
}

/// Some turns at the table.
pub(crate) fn turns(actor: &mut Actor) {
    let opened = actor.context().and_then(|context| {
        let deadline = context.clock.deadline(ROUTINE * 4);
        TableStore::open(&context, deadline)
    });
    let Ok(store) = opened else { return };
    let mut names: Vec<ProfileId> = STORES.map(|name| name.parse().expect("a profile")).to_vec();
    names.rotate_left(actor.dice.pick(STORES.len()));
    for _ in 0..TURNS {
        turn(actor, &store, &names);
    }
}

fn turn(actor: &mut Actor, store: &TableStore, names: &[ProfileId]) {
    let tell = |actor: &Actor, kind: &str, error: Option<&Error>| {
        let code = error.map_or("", |error| error.code.name);
        actor.told(kind, code, error.map_or("", |error| error.message.as_str()));
    };
    let task = format!("s{}", actor.dice.pick(TABLED));
    let reserved = (!actor.dice.one_in(3)).then(|| {
        let hold = Hold::Later(Duration::from_millis(actor.dice.below(40)));
        store.reserve(&request(&task, hold), &mut |occupancy| {
            Ok(pick(names, occupancy))
        })
    });
    if let Some(reserved) = &reserved {
        tell(actor, "table-reserve", reserved.as_ref().err());
        if reserved.is_err() {
            return;
        }
        match actor.dice.below(8) {
            // Nobody comes back for it.
            0 => return,
            1..=4 => {
                let task: Task = task.parse().expect("a task");
                let released = store.release(&task, Force::No);
                return tell(actor, "table-release", released.err().as_ref());
            }
            _ => {}
        }
    }
    let Ok(holder) = store.myself() else { return };
    let bound = store.reserve(&request(&task, Hold::Now(holder)), &mut |occupancy| {
        Ok(pick(names, occupancy))
    });
    tell(actor, "table-bind", bound.as_ref().err());
    if let Ok(granted) = bound {
        work(actor, &task, &granted);
        tell(actor, "table-end", store.abandon(granted).err().as_ref());
    }
}

fn work(actor: &mut Actor, task: &str, granted: &Granted) {
    let span = Duration::from_micros(actor.dice.below(2_000));
    match actor.truth.hold(task, granted.lease.profile.as_str()) {
        Ok(held) => {
            Clock::real().pause(span);
            held.give_back();
        }
        Err(violation) => actor.notes.say(&format!("violation {violation}")),
    }
}
