//! What a worker's end tells of its account: limits, refused logins, and windows seen on the way.
//!
//! Only structured evidence counts: a hook's reason word, windows, a stated reset, the record of a failed
//! turn in a transcript; what a worker merely prints never does. The same evidence may come by several ways
//! and be read again from its beginning: applying it twice changes nothing, and news older than a proof, a
//! longer cooldown or a person's word yields to it; what lies ahead of the clock is from before it was set
//! back, and nothing yields to that. News older than the account itself, as far as it is the profile's, is of
//! another one that had the profile's name or home before, and counts for nothing.

use jiff::{SignedDuration, Timestamp};

use super::evidence::{Event, Kind};
use super::merge::{self, Extent};
use super::profile::{Durable, Note, ProfileState, Transcript};
use super::provider::Snapshot;
use crate::quota::limit::{Ending, Limit, Reset};
use crate::quota::poll::is_ahead;
use crate::quota::window::{Cooldown, Reading, Window};
use crate::reason::OVERAGE_USED;
use crate::registry::schema::Profile;

/// A cooldown longer than this survives the loss of the snapshot.
const LONG: SignedDuration = SignedDuration::from_hours(1);
/// How long a used-up account rests when nobody said until when: long enough for one measurement.
const UNSTATED: SignedDuration = SignedDuration::from_mins(10);
/// How long a per-minute limit rests, before jitter.
const RATE: SignedDuration = SignedDuration::from_secs(60);
/// How long an account rests after an end that nobody can name.
const SUSPECTED: SignedDuration = SignedDuration::from_mins(5);
/// No window is longer than a month: a reset that lies further ahead is none.
const FURTHEST: SignedDuration = SignedDuration::from_hours(40 * 24);
/// Transcripts that are kept for one profile; each costs a `stat` when it is about to be chosen.
const TRANSCRIPTS: usize = 64;

/// Source word of windows that stood in a transcript.
const ROLLOUT: &str = "rollout";
/// Source word of a window that a worker's limit named.
const LIMIT: &str = "limit";
/// Source word of windows that the status line was shown.
const STATUS_LINE: &str = "statusline";

/// Takes one event of a worker into its profile's state. Events of strangers change nothing.
pub fn apply_event(snapshot: &mut Snapshot, event: &Event, now: Timestamp) {
    if event.foreign {
        return;
    }
    let state = snapshot.entry(event.profile.as_str());
    if is_of_another(state, event.at, now) {
        return;
    }
    let used = state.last_used.filter(|used| !is_ahead(*used, now));
    state.last_used = used.max(Some(event.at));
    if let Some(path) = event
        .transcript
        .as_ref()
        .filter(|_| event.event != Kind::SessionEnd)
    {
        let seen = None;
        let (generation, path) = (event.generation, path.clone());
        remember(
            state,
            Transcript {
                generation,
                path,
                seen,
            },
        );
    }
    match event.event {
        Kind::Windows => {
            let source = event.reason.as_deref().unwrap_or(STATUS_LINE);
            saw_windows(state, &event.windows, event.at, source, now);
        }
        Kind::StopFailure => {
            if let Some(ending) = failure(event) {
                apply_ending(
                    snapshot,
                    event.profile.as_str(),
                    &ending,
                    Spending::Allowed,
                    now,
                );
            }
        }
        Kind::SessionStart
        | Kind::PromptSubmit
        | Kind::Stop
        | Kind::SessionEnd
        | Kind::PermissionRequest
        | Kind::Notification
        | Kind::TurnEnd => {}
    }
}

/// Whether what was seen at `at` is of another account than the one that was pinned since: no worker starts on a
/// profile whose account was never proved.
fn is_of_another(state: &ProfileState, at: Timestamp, now: Timestamp) -> bool {
    let pinned = state.durable.pinned.as_ref().map(|pinned| pinned.at);
    pinned.is_some_and(|pinned| at < pinned && !is_ahead(pinned, now))
}

/// What the event of a failed turn says of its account.
fn failure(event: &Event) -> Option<Ending> {
    let word = event.reason.as_deref()?;
    // The windows of a failed turn are those that it failed on.
    let told = event.windows.iter().filter_map(|window| window.resets_at);
    let at = event.resets_at.or(told.max());
    let named = Limit::of_word(word)?;
    // One word for two limits; a reset tells them apart.
    let used_up = word == "rate_limit" && at.is_some();
    let limit = if used_up { Limit::Quota } else { named };
    Some(Ending {
        limit: Some(limit),
        at: Some(event.at),
        reset: at.map(|at| Reset {
            at,
            guessed: event.guessed,
        }),
        windows: event.windows.clone(),
        windows_at: Some(event.at),
        overage_used: false,
    })
}

/// Keeps where the conversation of a lease is written down; a later one of the same lease replaces it.
fn remember(state: &mut ProfileState, transcript: Transcript) {
    let known = &mut state.transcripts;
    match known
        .iter_mut()
        .find(|known| known.generation == transcript.generation)
    {
        Some(same) if same.path == transcript.path => {}
        Some(moved) => *moved = transcript,
        None => known.push(transcript),
    }
    known.sort_by_key(|known| known.generation);
    let surplus = known.len().saturating_sub(TRANSCRIPTS);
    known.drain(..surplus);
}

/// Whether a profile may use more than its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// It may, or nothing that is applied speaks of it.
    Allowed,
    /// It may not: evidence that it did blocks it.
    Refused,
}

impl Spending {
    /// What the registry says of a profile.
    pub fn of(profile: &Profile) -> Self {
        if profile.allow_overage {
            Self::Allowed
        } else {
            Self::Refused
        }
    }
}

/// Takes how a conversation ended into the state of the profile that it ran on.
pub fn apply_ending(
    snapshot: &mut Snapshot,
    profile: &str,
    ending: &Ending,
    spending: Spending,
    now: Timestamp,
) {
    let unknown = snapshot.damaged.contains_key(profile);
    let state = snapshot.entry(profile);
    if ending.at.is_some_and(|at| is_of_another(state, at, now)) {
        return;
    }
    let kept = unknown.then(|| state.durable.clone());
    if let Some(at) = ending
        .windows_at
        .filter(|at| !is_of_another(state, *at, now))
    {
        let source = source(&ending.windows, ending.limit);
        saw_windows(state, &ending.windows, at, source, now);
    }
    if let (Some(limit), Some(at)) = (ending.limit, ending.at)
        && !is_one_models(state, ending)
    {
        met(state, limit, at, ending.reset, now);
    }
    if let (true, Spending::Refused, Some(at)) = (ending.overage_used, spending, ending.at) {
        block(state, OVERAGE_USED, at, now);
    }
    if let Some(kept) = kept {
        volatile_only(state, kept);
    }
}

/// The source word of windows that a CLI was told by the end of a turn: a limit of Claude's names a single one, and
/// says nothing of the others.
pub fn source(windows: &[Window], limit: Option<Limit>) -> &'static str {
    if windows.len() == 1 && limit == Some(Limit::Quota) {
        LIMIT
    } else {
        ROLLOUT
    }
}

/// Whether the limit is one of single models alone, whose windows in the profile's reading keep work for them
/// away: other models go on.
fn is_one_models(state: &ProfileState, ending: &Ending) -> bool {
    let used_up: Vec<&Window> = ending
        .windows
        .iter()
        .filter(|window| window.remaining_percent <= 0.0)
        .collect();
    let is_kept = |wanted: &Window| {
        let windows = state.reading.iter().flat_map(|reading| &reading.windows);
        let mut same = windows.filter(|one| one.kind == wanted.kind && one.scope == wanted.scope);
        wanted.scope.is_some() && wanted.resets_at.is_some() && same.next().is_some()
    };
    ending.limit == Some(Limit::Quota) && !used_up.is_empty() && used_up.into_iter().all(is_kept)
}

/// Puts durable facts that cannot be written back as they were. A profile whose record is damaged takes no
/// work anyway, and an attempt to write it would keep its siblings' evidence from being folded.
fn volatile_only(state: &mut ProfileState, kept: Durable) {
    let met = std::mem::replace(&mut state.durable, kept);
    if met.cooldown != state.durable.cooldown {
        // The longer of two: a short one may have been met before.
        let cooldowns = [state.cooldown.take(), met.cooldown];
        state.cooldown = cooldowns.into_iter().flatten().max_by_key(|it| it.until);
    }
}

/// Takes windows that a worker's own CLI was told: a reading that cost no request.
fn saw_windows(
    state: &mut ProfileState,
    windows: &[Window],
    at: Timestamp,
    source: &str,
    now: Timestamp,
) {
    let Some(proof) = &state.proof else { return };
    if windows.is_empty() {
        return;
    }
    if let Some(known) = &mut state.reading
        && is_ahead(known.at, now)
    {
        known.at = at;
    }
    let reading = Reading {
        at,
        fingerprint: proof.fingerprint.whole.clone(),
        source: source.to_owned(),
        windows: windows.to_vec(),
        overage_enabled: None,
        spend: None,
    };
    let extent = if source == LIMIT {
        Extent::Patch
    } else {
        Extent::Part
    };
    merge::read(state, reading, extent);
}

/// Takes a limit that a worker met at `at`, and when it is over, if that was said.
pub fn met(
    state: &mut ProfileState,
    limit: Limit,
    at: Timestamp,
    reset: Option<Reset>,
    now: Timestamp,
) {
    let at = if is_ahead(at, now) { now } else { at };
    let rest = |span: SignedDuration| Cooldown {
        reason: limit.word().to_owned(),
        until: at.checked_add(span).unwrap_or(at),
        since: at,
        guessed: false,
    };
    if is_lifted(state, at, now) && limit != Limit::Auth {
        return;
    }
    let reset = reset.filter(|reset| reset.at.duration_since(at) <= FURTHEST);
    let cooldown = match (limit, reset) {
        (Limit::Quota, Some(reset)) => Cooldown {
            until: reset.at,
            guessed: reset.guessed,
            ..rest(UNSTATED)
        },
        (Limit::Quota, None) => rest(UNSTATED),
        (Limit::Rate, _) => rest(RATE + jitter(&state.profile, at)),
        (Limit::Suspected, _) => rest(SUSPECTED),
        (Limit::Auth, _) => return merge::auth_broken(state, "auth", at, now),
        (Limit::Billing, _) => return block(state, limit.word(), at, now),
    };
    if cooldown.until <= now {
        return;
    }
    let long = cooldown.until.duration_since(at) > LONG;
    let slot = if long {
        &mut state.durable.cooldown
    } else {
        &mut state.cooldown
    };
    if slot
        .as_ref()
        .is_none_or(|known| known.until < cooldown.until || !known.holds(now))
    {
        *slot = Some(cooldown);
    }
}

/// Whether a person has lifted what was met at `at`. When they did so ahead of now, the clock was set back since:
/// that would hide every limit until it is there again.
fn is_lifted(state: &ProfileState, at: Timestamp, now: Timestamp) -> bool {
    let lifted = state.durable.limits_cleared;
    lifted.is_some_and(|lifted| at <= lifted && !is_ahead(lifted, now))
}

/// Blocks a profile until a person looks, unless one has since.
fn block(state: &mut ProfileState, reason: &str, at: Timestamp, now: Timestamp) {
    if !is_lifted(state, at, now) {
        state.durable.billing_block.get_or_insert_with(|| Note {
            reason: reason.to_owned(),
            at,
        });
    }
}

/// Up to 30 seconds that differ between profiles and events, so that a herd does not come back at once.
fn jitter(profile: &str, at: Timestamp) -> SignedDuration {
    let seed = crc32fast::hash(format!("{profile} {at}").as_bytes());
    SignedDuration::from_millis(i64::from(seed % 30_000))
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
