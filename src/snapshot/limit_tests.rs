//! What events and endings make of a profile's state.

use super::{Spending, TRANSCRIPTS, apply_ending, apply_event, met};
use crate::id::ProviderKind::Claude;
use crate::identity::fingerprint::{Account, Key};
use crate::quota::limit::{Ending, Limit, Reset};
use crate::quota::window::{Cooldown, Kind as WindowKind, Reading, Window};
use crate::snapshot::evidence::Event;
use crate::snapshot::evidence::Kind::{SessionStart, Stop, StopFailure, Windows};
use crate::snapshot::evidence::tests::event;
use crate::snapshot::profile::{Binding, ProfileState, Proof};
use crate::snapshot::provider::Snapshot;
use crate::snapshot::provider::tests::World;
use crate::snapshot::{hold, merge, provider};
use jiff::{SignedDuration, Timestamp};

const NAME: &str = "codex-1";

fn now() -> Timestamp {
    event("t", Stop, 1, 1).at
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn reset(seconds: i64) -> Reset {
    Reset {
        at: after(seconds),
        guessed: false,
    }
}

fn failure(word: &str) -> Event {
    let mut event = event("t", StopFailure, 1, 1);
    event.reason = Some(word.to_owned());
    event
}

fn window(kind: WindowKind, scope: Option<&str>, remaining: f64, resets: i64) -> Window {
    Window {
        id: format!("{kind:?}"),
        kind,
        scope: scope.map(str::to_owned),
        remaining_percent: remaining,
        resets_at: Some(after(resets)),
    }
}

fn ended(limit: Limit, reset: Option<Reset>, windows: Vec<Window>) -> Ending {
    Ending {
        limit: Some(limit),
        at: Some(now()),
        reset,
        windows_at: Some(now()),
        windows,
        overage_used: false,
    }
}

/// A profile that was proved a minute ago.
fn proved() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let account = Account {
        account: Some("a".to_owned()),
        ..Account::default()
    };
    merge::prove(
        snapshot.entry(NAME),
        Proof {
            fingerprint: Key::new([1; 32]).fingerprint(Claude, &account),
            source: "usage".to_owned(),
            at: after(-60),
            binding: Binding::NoCredential,
            file: None,
            digested_at: 0,
        },
    );
    snapshot
}

fn applied(event: &Event, now: Timestamp) -> ProfileState {
    let mut snapshot = Snapshot::default();
    apply_event(&mut snapshot, event, now);
    let once = snapshot.clone();
    apply_event(&mut snapshot, event, now);
    assert_eq!(snapshot, once, "folding an event twice changed something");
    snapshot.states.remove(NAME).unwrap_or_default()
}

/// A profile of which is known only when a worker last used it.
fn only_used() -> ProfileState {
    let mut state = ProfileState::named(NAME);
    state.last_used = Some(now());
    state
}

#[test]
fn each_kind_of_limit_has_its_own_consequence() {
    let quota = applied(&failure("usage_limit_reached"), now()).cooldown;
    let quota = quota.unwrap();
    assert_eq!((quota.reason.as_str(), quota.until), ("quota", after(600)));
    for word in ["overloaded", "rate_limit"] {
        let rate = applied(&failure(word), now()).cooldown.unwrap();
        assert_eq!(rate.reason, "rate");
        assert!(
            rate.until >= after(60) && rate.until < after(90),
            "{}",
            rate.until
        );
    }
    let suspected = applied(&failure("limit_suspected"), now())
        .cooldown
        .unwrap();
    assert_eq!(suspected.until, after(300));
    for word in ["billing_error", "oauth_org_not_allowed"] {
        assert!(
            applied(&failure(word), now())
                .durable
                .billing_block
                .is_some()
        );
    }
    assert!(
        applied(&failure("authentication_failed"), now())
            .auth_broken
            .is_some()
    );
    for harmless in [
        "server_error",
        "max_output_tokens",
        "unknown",
        "You hit your limit",
    ] {
        assert_eq!(
            applied(&failure(harmless), now()),
            only_used(),
            "{harmless}"
        );
    }
}

#[test]
fn one_word_for_two_limits_is_told_apart_by_a_reset() {
    let mut told = failure("rate_limit");
    told.windows = vec![window(WindowKind::Session, None, 0.0, 1200)];
    let cooldown = applied(&told, now()).cooldown.unwrap();
    assert_eq!(
        (cooldown.reason.as_str(), cooldown.until),
        ("quota", after(1200))
    );
    let mut stated = failure("quota");
    (stated.resets_at, stated.guessed) = (Some(after(1800)), true);
    let cooldown = applied(&stated, now()).cooldown.unwrap();
    assert_eq!((cooldown.until, cooldown.guessed), (after(1800), true));
}

#[test]
fn strangers_change_nothing() {
    for kind in [StopFailure, SessionStart, Windows] {
        let mut foreign = failure("rate_limit");
        foreign.event = kind;
        foreign.foreign = true;
        assert_eq!(applied(&foreign, now()), ProfileState::default());
    }
}

#[test]
fn a_stated_reset_is_the_end_and_a_long_one_is_durable() {
    let mut state = ProfileState::named("x");
    met(&mut state, Limit::Quota, now(), Some(reset(1200)), now());
    assert_eq!(state.cooldown.as_ref().unwrap().until, after(1200));
    met(&mut state, Limit::Quota, now(), Some(reset(90_000)), now());
    assert_eq!(state.durable.cooldown.unwrap().until, after(90_000));
}

#[test]
fn a_reset_that_no_window_can_have_is_not_waited_for() {
    let mut state = ProfileState::named("x");
    let never = Some(reset(1_000_000_000));
    met(&mut state, Limit::Quota, now(), never, now());
    assert_eq!(state.cooldown.unwrap().until, after(600));
}

#[test]
fn old_news_neither_shortens_a_cooldown_nor_brings_one_back() {
    let mut state = ProfileState::named("x");
    met(&mut state, Limit::Quota, now(), Some(reset(1200)), now());
    met(&mut state, Limit::Suspected, now(), None, now());
    let kept: Option<Cooldown> = state.cooldown.clone();
    assert_eq!(kept.unwrap().until, after(1200));
    assert_eq!(
        applied(&failure("usage_limit_reached"), after(700)),
        only_used()
    );
}

#[test]
fn what_a_person_lifted_does_not_come_back_when_it_is_read_again() {
    let mut state = ProfileState::named("x");
    state.durable.limits_cleared = Some(now());
    let before = state.clone();
    for limit in [Limit::Quota, Limit::Rate, Limit::Billing, Limit::Suspected] {
        met(&mut state, limit, now(), Some(reset(1200)), now());
    }
    assert_eq!(state, before);
    met(&mut state, Limit::Billing, after(1), None, after(1));
    assert!(state.durable.billing_block.is_some(), "news is news");
}

#[test]
fn usage_that_was_paid_for_blocks_a_profile_that_may_not_spend_until_a_person_looks() {
    let mut paid = ended(Limit::Quota, Some(reset(900)), Vec::new());
    paid.overage_used = true;
    let mut snapshot = proved();
    apply_ending(&mut snapshot, NAME, &paid, Spending::Allowed, now());
    assert_eq!(snapshot.states[NAME].durable.billing_block, None);
    for _ in 0..2 {
        apply_ending(&mut snapshot, NAME, &paid, Spending::Refused, now());
        let state = snapshot.entry(NAME);
        let block = state.durable.billing_block.clone().unwrap();
        assert_eq!((block.reason.as_str(), block.at), ("overage_used", now()));
        assert!(state.cooldown.is_some(), "the limit itself counts as well");
    }
    let state = snapshot.entry(NAME);
    state.durable.billing_block = None;
    state.durable.limits_cleared = Some(now());
    apply_ending(&mut snapshot, NAME, &paid, Spending::Refused, now());
    assert_eq!(snapshot.states[NAME].durable.billing_block, None);
}

#[test]
fn a_limit_leaves_the_windows_it_does_not_name_and_empties_its_own() {
    let mut snapshot = proved();
    let week = window(WindowKind::Weekly, None, 70.0, 300_000);
    let mut seen = event("t", Windows, 1, 1);
    (seen.at, seen.reason) = (after(-30), Some("rollout".to_owned()));
    seen.windows = vec![week.clone(), window(WindowKind::Session, None, 5.0, 900)];
    apply_event(&mut snapshot, &seen, now());
    assert_eq!(
        snapshot.states[NAME].reading.as_ref().unwrap().source,
        "rollout"
    );
    let empty = window(WindowKind::Session, None, 0.0, 900);
    let ending = ended(Limit::Quota, Some(reset(900)), vec![empty.clone()]);
    apply_ending(&mut snapshot, NAME, &ending, Spending::Refused, now());
    let state = &snapshot.states[NAME];
    let reading = state.reading.as_ref().unwrap();
    assert_eq!(reading.windows, [empty, week]);
    assert_eq!((reading.source.as_str(), reading.at), ("limit", now()));
    assert_eq!(state.cooldown.as_ref().unwrap().until, after(900));
}

#[test]
fn a_limit_on_one_model_keeps_its_window_empty_and_leaves_the_others_to_work() {
    let opus = window(WindowKind::Weekly, Some("opus"), 0.0, 200_000);
    let ending = ended(Limit::Quota, Some(reset(200_000)), vec![opus.clone()]);
    let mut unproved = Snapshot::default();
    apply_ending(&mut unproved, NAME, &ending, Spending::Refused, now());
    assert!(
        unproved.states[NAME].durable.cooldown.is_some(),
        "nothing else keeps work for that model away"
    );
    let mut snapshot = proved();
    let mut seen = event("t", Windows, 1, 1);
    seen.at = after(-30);
    seen.windows = vec![window(WindowKind::Weekly, None, 70.0, 300_000)];
    apply_event(&mut snapshot, &seen, now());
    apply_ending(&mut snapshot, NAME, &ending, Spending::Refused, now());
    let state = &snapshot.states[NAME];
    assert_eq!((&state.cooldown, &state.durable.cooldown), (&None, &None));
    let reading = state.reading.as_ref().unwrap();
    assert!(reading.windows.contains(&opus));
    assert_eq!(
        reading.at,
        after(-30),
        "the other windows are as old as they were"
    );
}

#[test]
fn a_refused_login_is_broken_until_a_newer_proof() {
    let mut snapshot = proved();
    let refused = ended(Limit::Auth, None, Vec::new());
    apply_ending(&mut snapshot, NAME, &refused, Spending::Refused, now());
    assert!(snapshot.states[NAME].auth_broken.is_some());
    let state = snapshot.entry(NAME);
    let mut newer = state.proof.clone().unwrap();
    newer.at = after(1);
    merge::prove(state, newer);
    assert_eq!(state.auth_broken, None);
    apply_ending(&mut snapshot, NAME, &refused, Spending::Refused, after(2));
    assert_eq!(snapshot.states[NAME].auth_broken, None, "it was read again");
}

#[test]
fn what_is_older_than_the_account_itself_is_of_another_and_counts_for_nothing() {
    let before = after(-90);
    let windows = vec![window(WindowKind::Weekly, None, 0.0, 200_000)];
    let mut seen = event("t", Windows, 1, 1);
    (seen.at, seen.windows) = (before, windows.clone());
    let mut failed = failure("usage_limit_reached");
    (failed.at, failed.windows) = (before, windows.clone());
    failed.transcript = Some("/home/t.jsonl".into());
    let ending = Ending {
        at: Some(before),
        windows_at: Some(before),
        overage_used: true,
        ..ended(Limit::Quota, Some(reset(200_000)), windows)
    };
    let apply = |snapshot: &mut Snapshot| {
        apply_event(snapshot, &seen, now());
        apply_event(snapshot, &failed, now());
        apply_ending(snapshot, NAME, &ending, Spending::Refused, now());
    };
    let mut snapshot = proved();
    apply(&mut snapshot);
    assert_eq!(snapshot.states, proved().states);
    // Met while the profile had no account, it ends with the first.
    let mut early = Snapshot::default();
    apply(&mut early);
    assert!(early.states[NAME].durable.cooldown.is_some());
    let proof = snapshot.states[NAME].proof.clone().unwrap();
    merge::prove(early.entry(NAME), proof);
    assert_eq!(early.states[NAME].durable.cooldown, None);
    // A pin from ahead is from before the clock was set back.
    let mut set_back = proved();
    let pinned = set_back.entry(NAME).durable.pinned.as_mut().unwrap();
    pinned.at = after(7200);
    apply(&mut set_back);
    assert!(set_back.states[NAME].durable.cooldown.is_some());
}

#[test]
fn each_leases_transcript_is_kept_and_a_later_conversation_replaces_it() {
    let mut snapshot = Snapshot::default();
    let mut start = |generation: u64, path: &str| {
        let mut event = event("t", SessionStart, generation, 1);
        event.transcript = Some(path.into());
        apply_event(&mut snapshot, &event, now());
    };
    start(2, "/b");
    start(1, "/a");
    start(2, "/c");
    for generation in 3..100 {
        start(generation, "/x");
    }
    let known = &snapshot.states[NAME].transcripts;
    assert_eq!(known.len(), TRANSCRIPTS);
    assert_eq!(known.last().unwrap().generation, 99, "the newest stay");
    let mut few = Snapshot::default();
    for (generation, path) in [(2, "/b"), (1, "/a"), (2, "/c")] {
        let mut event = event("t", SessionStart, generation, 1);
        event.transcript = Some(path.into());
        apply_event(&mut few, &event, now());
    }
    let paths: Vec<_> = few.states[NAME]
        .transcripts
        .iter()
        .map(|known| known.path.as_str())
        .collect();
    assert_eq!(paths, ["/a", "/c"]);
}

#[test]
fn what_a_person_lifts_is_lifted_for_good_and_measured_anew() {
    let world = World::new();
    let (context, deadline) = (&world.context, world.deadline());
    let (id, now) = ("claude-1".parse().unwrap(), context.clock.now());
    let reset = Reset {
        at: now + SignedDuration::from_hours(50),
        guessed: false,
    };
    let meet = || {
        let meet = provider::update(context, Claude, &deadline, |snapshot| {
            let state = snapshot.entry("claude-1");
            met(state, Limit::Quota, now, Some(reset), now);
            met(state, Limit::Billing, now, None, now);
            state.reading = Some(Reading {
                at: now,
                fingerprint: "f".to_owned(),
                source: "limit".to_owned(),
                windows: vec![Window {
                    id: "five_hour".to_owned(),
                    kind: WindowKind::Session,
                    scope: None,
                    remaining_percent: 0.0,
                    resets_at: Some(reset.at),
                }],
                overage_enabled: None,
                spend: None,
            });
            Ok(())
        });
        meet.unwrap();
        provider::load(context, Claude).unwrap().states["claude-1"].clone()
    };
    assert!(meet().durable.cooldown.is_some());
    let clear = || hold::clear_limits(context, Claude, &id, &deadline).unwrap();
    assert!(clear());
    let state = provider::load(context, Claude).unwrap().states["claude-1"].clone();
    assert_eq!((state.durable.cooldown, state.reading), (None, None));
    std::fs::remove_file(provider::path(context, Claude)).unwrap();
    let again = meet();
    assert_eq!(
        (&again.durable.cooldown, &again.durable.billing_block),
        (&None, &None)
    );
    assert!(!clear(), "there was nothing to lift");
}

#[test]
fn what_a_clock_ahead_left_hides_no_limit_and_outlasts_none() {
    let ahead = after(259_200);
    let mut state = ProfileState::named("x");
    state.durable.limits_cleared = Some(ahead);
    met(&mut state, Limit::Rate, ahead, None, ahead);
    assert_eq!(state.cooldown, None, "lifted in that very moment");
    met(
        &mut state,
        Limit::Suspected,
        after(259_201),
        None,
        after(259_201),
    );
    assert!(state.rest(after(259_201)).is_some());
    assert_eq!(state.rest(now()), None, "the clock was set back");
    met(&mut state, Limit::Rate, now(), None, now());
    let rest = state
        .rest(now())
        .map(|rest| (rest.since, rest.reason.as_str()));
    assert_eq!(rest, Some((now(), "rate")));
    met(&mut state, Limit::Billing, now(), None, now());
    assert!(state.durable.billing_block.is_some(), "money is at stake");
}

#[test]
fn after_the_clock_was_set_back_limits_uses_and_windows_count_again() {
    let ahead = now() + SignedDuration::from_hours(400 * 24);
    let mut snapshot = proved();
    let state = snapshot.entry(NAME);
    state.durable.limits_cleared = Some(ahead);
    state.last_used = Some(ahead);
    merge::read(
        state,
        Reading {
            at: ahead,
            fingerprint: state.fingerprint().unwrap().whole.clone(),
            source: "builtin".to_owned(),
            windows: vec![window(WindowKind::Weekly, None, 90.0, 500)],
            overage_enabled: None,
            spend: None,
        },
        merge::Extent::Whole,
    );
    met(state, Limit::Quota, now(), Some(reset(500)), now());
    let until = state.cooldown.take().map(|cooldown| cooldown.until);
    assert_eq!(until, Some(after(500)), "it was lifted before it was met");
    met(state, Limit::Rate, ahead, None, now());
    let until = state.cooldown.take().unwrap().until;
    assert!(until < after(100), "rests until {until}");
    let mut seen = event("t", Windows, 1, 1);
    seen.windows = vec![window(WindowKind::Session, None, 7.0, 500)];
    apply_event(&mut snapshot, &seen, now());
    let state = &snapshot.states[NAME];
    assert_eq!(state.last_used, Some(seen.at));
    let reading = state.reading.as_ref().unwrap();
    assert_eq!((reading.at, reading.windows.len()), (seen.at, 2));
}
