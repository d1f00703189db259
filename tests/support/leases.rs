//! A lease store in a directory, and requests to it.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_fleet::env::{Context, Faults, Variables, World};
use agent_fleet::error::{Error, Result, code};
use agent_fleet::id::{ProfileId, ProviderKind};
use agent_fleet::lease::holder::Holder;
use agent_fleet::lease::{Choice, Granted, Hold, LeaseStore as _, Occupancy, Request, TableStore};

/// The context of a state root.
pub(crate) fn context(root: &str, faults: Faults) -> Context {
    let variables: Variables = [("HOME", root), ("AGENT_FLEET_STATE_DIR", root)]
        .into_iter()
        .collect();
    let world = World {
        arguments: Vec::new(),
        variables,
        directory: None,
        executable: None,
    };
    let mut context = Context::resolve(&world, None).expect("the roots are absolute");
    context.faults = faults;
    context
}

/// A store with a minute of patience.
pub(crate) fn store(root: &str, faults: Faults) -> TableStore {
    let context = context(root, faults);
    let deadline = context.clock.deadline(Duration::from_mins(1));
    TableStore::open(&context, deadline).expect("the kernel tells who we are")
}

/// A request for a task that waits a minute for its process.
pub(crate) fn later(task: &str) -> Request {
    Request {
        task: task.parse().expect("a task"),
        workspace: "/srv/space".into(),
        pool: Some("crew".parse().expect("a pool")),
        provider: None,
        profile: None,
        labels: BTreeMap::new(),
        hold: Hold::Later(Duration::from_mins(1)),
    }
}

/// A request for a task that gets its process, this one, at once.
pub(crate) fn now(task: &str) -> Request {
    Request {
        hold: Hold::Now(Holder::current().expect("the kernel tells who we are")),
        ..later(task)
    }
}

pub(crate) fn profile(name: &str) -> ProfileId {
    name.parse().expect("a profile")
}

/// A pick that takes the first of `profiles` with a free slot.
pub(crate) fn first_free<'a>(
    profiles: &'a [&'a str],
    cap: u32,
) -> impl FnMut(&Occupancy) -> Result<Choice> + 'a {
    move |occupancy| {
        let free = profiles
            .iter()
            .map(|name| profile(name))
            .find(|id| occupancy.live(id) < cap && !occupancy.probed.contains(id));
        Ok(match free {
            Some(profile) => Choice::Take {
                profile,
                provider: ProviderKind::Scripted,
                cap,
            },
            None => Choice::Nothing {
                error: Error::new(code::CAPACITY, "every slot is taken")
                    .hint("agent-fleet lease list"),
                full: profiles.iter().map(|name| profile(name)).collect(),
            },
        })
    }
}

/// Reserves on the first free of `profiles`.
pub(crate) fn reserve(
    store: &TableStore,
    request: &Request,
    profiles: &[&str],
    cap: u32,
) -> Result<Granted> {
    store.reserve(request, &mut first_free(profiles, cap))
}
