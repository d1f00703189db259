//! What workers left behind in their own transcripts, read before it can mislead a choice.
//!
//! Hooks tell most of it, but not all: Codex fires none on a limit and its terminal screen stays alive, Claude
//! does not wait for the one it fires, and a worker that is killed fires none at all. So before a profile is
//! granted, the transcripts of its leases are looked at: one `stat` each, and the bounded end of those that
//! changed since they were read last. The lease of a dead worker is looked at once more when it is reclaimed.
//! All of it happens outside the `leases` lock and without a request to anyone.
//!
//! Limits: a transcript is known from the session start that named it, or from the task's session mapping; a
//! worker that died before its first hook told nothing. At most 32 transcripts are read in one go, the
//! newest first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::audit;
use crate::clock::{Deadline, ROUTINE};
use crate::env::Context;
use crate::error::Result;
use crate::id::{ProfileId, ProviderKind};
use crate::lease::{Ended, LeaseStore, Reclaimed};
use crate::provider;
use crate::provider::home::conversation::{Tail, lies_in};
use crate::quota::limit::Ending;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::limit::{Spending, apply_ending};
use crate::snapshot::profile::{ProfileState, Transcript};
use crate::snapshot::{fold, provider as snapshot, session};
use crate::sys::filesystem::Identity;

/// Transcripts that are read in one go.
const MOST: usize = 32;
/// A transcript that nobody has written to for so long is forgotten; its worker's next event names it again.
const IDLE: SignedDuration = SignedDuration::from_hours(24);

/// What a look at one transcript showed.
struct News {
    profile: ProfileId,
    spending: Spending,
    transcript: Transcript,
    /// How it ended; `None` when it is as it was when it was read last.
    ending: Option<Ending>,
    /// Nothing more is expected of it.
    over: bool,
}

/// Looks at a transcript, and reads its end if it changed since it was read last; `None` when there is nothing
/// to remember.
fn look_at(context: &Context, profile: &Profile, known: &Transcript) -> Option<News> {
    let news = |ending, seen, over| News {
        profile: profile.id.clone(),
        spending: Spending::of(profile),
        transcript: Transcript {
            seen,
            ..known.clone()
        },
        ending,
        over,
    };
    let Ok(metadata) = fs::metadata(&known.path) else {
        return Some(news(None, known.seen, true));
    };
    let file = Identity::from(&metadata);
    let written = Timestamp::from_nanosecond(file.modified).unwrap_or_default();
    let idle = context.clock.now().duration_since(written) > IDLE;
    if known.seen == Some(file) {
        return idle.then(|| news(None, known.seen, true));
    }
    let tail = Tail::read(known.path.as_std_path()).ok()?;
    let ending = provider::of(profile.provider).ending(&tail, &TimeZone::system());
    Some(news(Some(ending), Some(tail.file), idle))
}

/// Looks at the transcripts of a profile that is about to be granted; true when they changed what is known of
/// it. `looked` are the generations that this selection has looked at, each once: a busy worker writes on.
pub(super) fn look(
    context: &Context,
    profile: &Profile,
    state: &ProfileState,
    looked: &mut BTreeSet<u64>,
    deadline: &Deadline,
) -> Result<bool> {
    let unseen = state
        .transcripts
        .iter()
        .rev()
        .filter(|known| looked.insert(known.generation));
    let news: Vec<News> = unseen
        .filter(|known| lies_in(&known.path, &profile.home))
        .filter_map(|known| look_at(context, profile, known))
        .take(MOST)
        .collect();
    Ok(!take(context, profile.provider, &news, deadline)?.is_empty())
}

/// Takes what was seen into a provider's snapshot; returns the profiles of which something else is known now.
fn take(
    context: &Context,
    kind: ProviderKind,
    news: &[News],
    deadline: &Deadline,
) -> Result<BTreeSet<ProfileId>> {
    if news.is_empty() {
        return Ok(BTreeSet::new());
    }
    let now = context.clock.now();
    snapshot::update(context, kind, deadline, |snapshot| {
        let mut changed = BTreeSet::new();
        for one in news {
            let name = one.profile.as_str();
            let before = known(snapshot.entry(name));
            if let Some(ending) = &one.ending {
                apply_ending(snapshot, name, ending, one.spending, now);
            }
            let state = snapshot.entry(name);
            if known(state) != before {
                changed.insert(one.profile.clone());
            }
            // Another conversation of the lease may have been named meanwhile.
            let same = |known: &Transcript| {
                (known.generation, &known.path) == (one.transcript.generation, &one.transcript.path)
            };
            if one.over {
                state.transcripts.retain(|known| !same(known));
            } else if let Some(known) = state.transcripts.iter_mut().find(|known| same(known)) {
                known.seen = one.transcript.seen;
            }
        }
        Ok(changed)
    })
}

/// What a choice goes by.
fn known(state: &ProfileState) -> ProfileState {
    ProfileState {
        transcripts: Vec::new(),
        ..state.clone()
    }
}

/// Reads the transcripts of the leases that a store found ended, before anybody goes by what is known of their
/// profiles; returns the profiles of which something else is known now.
pub(super) fn bury(
    context: &Context,
    registry: &Registry,
    ended: &[Reclaimed],
    deadline: &Deadline,
) -> Result<BTreeSet<ProfileId>> {
    let mut by_provider: BTreeMap<ProviderKind, Vec<&Reclaimed>> = BTreeMap::new();
    for one in ended.iter().filter(|one| one.ended == Ended::Died) {
        let leases = by_provider.entry(one.lease.provider).or_default();
        leases.push(one);
    }
    let mut changed = BTreeSet::new();
    for (kind, mut leases) in by_provider {
        let snapshot = fold::load(context, kind, deadline)?;
        leases.sort_by_key(|one| std::cmp::Reverse(one.lease.generation));
        let news: Vec<News> = leases
            .iter()
            .filter_map(|one| {
                let profile = registry.profile(&one.lease.profile).ok()?;
                let state = snapshot.states.get(profile.id.as_str());
                let transcript = transcript(context, profile, state, one)?;
                let ending = look_at(context, profile, &transcript);
                Some(News {
                    profile: profile.id.clone(),
                    spending: Spending::of(profile),
                    ending: ending.and_then(|news| news.ending),
                    transcript,
                    over: true,
                })
            })
            .take(MOST)
            .collect();
        changed.extend(take(context, kind, &news, deadline)?);
    }
    Ok(changed)
}

/// Where the conversation of an ended lease is written down, if it had one.
fn transcript(
    context: &Context,
    profile: &Profile,
    state: Option<&ProfileState>,
    ended: &Reclaimed,
) -> Option<Transcript> {
    let generation = ended.lease.generation;
    let mut known = state.into_iter().flat_map(|state| &state.transcripts);
    if let Some(known) = known.find(|known| known.generation == generation) {
        return lies_in(&known.path, &profile.home).then(|| known.clone());
    }
    let record = session::of_key(&context.roots.state, ended.task_key).ok()??;
    if record.generation != generation || record.session.profile != profile.id {
        return None;
    }
    let session = &record.session;
    let path = match record.transcript {
        Some(path) => path.into_std_path_buf(),
        None => provider::of(profile.provider).transcript(
            &profile.home,
            &session.workspace,
            &session.session_id,
        )?,
    };
    Some(Transcript {
        generation,
        path: own(profile, path)?,
        seen: None,
    })
}

/// Only what lies in the profile's own home speaks for its account.
fn own(profile: &Profile, path: PathBuf) -> Option<camino::Utf8PathBuf> {
    let path = camino::Utf8PathBuf::from_path_buf(path).ok()?;
    lies_in(&path, &profile.home).then_some(path)
}

/// The leases that a store found ended, written down.
pub(super) fn ended(context: &Context, store: &dyn LeaseStore) -> Vec<Reclaimed> {
    let ended = store.reclaimed();
    for one in &ended {
        let reason = match one.ended {
            Ended::Died => "died",
            Ended::Expired => "expired",
        };
        audit::of_lease_because(context, audit::lease::RECLAIMED, &one.lease, reason);
    }
    ended
}

/// Reads the transcripts of the leases that a command other than a selection found ended. Its own work is done
/// by then, so what cannot be read now is left for the next selection of the profile.
pub fn settle(context: &Context, store: &dyn LeaseStore) {
    let ended = ended(context, store);
    if ended.is_empty() {
        return;
    }
    let deadline = context.clock.deadline(ROUTINE);
    drop(
        crate::snapshot::registry::load(context)
            .and_then(|registry| bury(context, &registry, &ended, &deadline)),
    );
}

#[cfg(test)]
mod tests {
    use super::{look, snapshot};
    use crate::clock::Clock;
    use crate::env::Context;
    use crate::id::ProviderKind::Scripted;
    use crate::registry::schema::{Credential, Profile, SafetyPolicy};
    use crate::snapshot::profile::{ProfileState, Transcript};
    use crate::snapshot::provider::tests::World;
    use crate::store::append;
    use std::collections::BTreeSet;

    const LIMIT: &str = r#"{"type":"failure","limit":"rate"}"#;

    fn profile(world: &World) -> Profile {
        let home = world.directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        Profile {
            id: "one".parse().unwrap(),
            provider: Scripted,
            home: home.try_into().unwrap(),
            pools: Vec::new(),
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 1,
            reserve_percent: 0.0,
            weight: 1,
            safety_policy: SafetyPolicy::Worker,
            allow_overage: false,
        }
    }

    /// Makes a transcript known, and returns its profile's state.
    fn knows(context: &Context, world: &World, generation: u64, path: &str) -> ProfileState {
        let transcript = Transcript {
            generation,
            path: path.into(),
            seen: None,
        };
        snapshot::update(context, Scripted, &world.deadline(), |snapshot| {
            snapshot.entry("one").transcripts.push(transcript);
            Ok(())
        })
        .unwrap();
        state(context)
    }

    fn state(context: &Context) -> ProfileState {
        let states = snapshot::load(context, Scripted).unwrap().states;
        states["one"].clone()
    }

    /// Whether a new selection learns something of the profile.
    fn news(context: &Context, world: &World, profile: &Profile, state: &ProfileState) -> bool {
        let looked = &mut BTreeSet::new();
        look(context, profile, state, looked, &world.deadline()).unwrap()
    }

    #[test]
    fn what_changed_is_read_once_and_remembered() {
        let world = World::new();
        let (context, profile) = (&world.context, profile(&world));
        let path = profile.home.join("t.jsonl");
        let known = knows(context, &world, 7, path.as_str());
        assert!(
            !news(context, &world, &profile, &known),
            "it is not there yet"
        );
        append::line(&path, LIMIT).unwrap();
        let known = knows(context, &world, 7, path.as_str());
        assert!(news(context, &world, &profile, &known));
        let after = state(context);
        assert!(after.cooldown.is_some() && after.transcripts[0].seen.is_some());
        assert!(!news(context, &world, &profile, &after));
        assert_eq!(state(context), after);
        append::line(&path, "{}").unwrap();
        let looked = &mut BTreeSet::from([7]);
        assert!(!look(context, &profile, &after, looked, &world.deadline()).unwrap());
        assert_eq!(state(context), after, "one selection looks once");
    }

    #[test]
    fn usage_that_was_paid_for_blocks_the_profile_unless_it_may_spend() {
        for allowed in [false, true] {
            let world = World::new();
            let (context, mut profile) = (&world.context, profile(&world));
            profile.allow_overage = allowed;
            let path = profile.home.join("t.jsonl");
            let line = r#"{"type":"failure","limit":"rate","overage_used":true}"#;
            append::line(&path, line).unwrap();
            let known = knows(context, &world, 7, path.as_str());
            assert!(news(context, &world, &profile, &known));
            let block = state(context).durable.billing_block;
            let reason = block.map(|note| note.reason);
            assert_eq!(reason.as_deref(), (!allowed).then_some("overage_used"));
        }
    }

    #[test]
    fn only_what_lies_in_the_home_is_read() {
        let world = World::new();
        let (context, profile) = (&world.context, profile(&world));
        let path = world.directory.path().join("home-of-another.jsonl");
        append::line(&path, LIMIT).unwrap();
        let climbing = profile.home.join("../home-of-another.jsonl");
        for outside in [path.to_str().unwrap(), climbing.as_str()] {
            let known = knows(context, &world, 7, outside);
            assert!(!news(context, &world, &profile, &known), "{outside}");
            assert_eq!(state(context), known);
        }
    }

    #[test]
    fn a_transcript_that_is_gone_or_long_unchanged_is_forgotten() {
        let world = World::new();
        let (context, profile) = (&world.context, profile(&world));
        let path = profile.home.join("t.jsonl");
        append::line(&path, "{}").unwrap();
        knows(context, &world, 1, profile.home.join("gone").as_str());
        let known = knows(context, &world, 2, path.as_str());
        assert!(!news(context, &world, &profile, &known));
        let left = state(context).transcripts;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].generation, 2);
        let mut later = context.clone();
        later.clock = Clock::moved("+90000");
        assert!(!news(&later, &world, &profile, &state(context)));
        assert_eq!(state(context).transcripts, []);
    }
}
