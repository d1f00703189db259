//! Putting what was just learned into a profile's state, field by field.
//!
//! The first proof pins the account for good, and ends what rested before it. A later one of the same account renews the proof; one of
//! another account isolates the profile and leaves its last proof out, so that a sibling whose login was
//! copied here is not taken for the intruder. A reading counts only for the account it was taken with.
//!
//! What is newer wins, by the wall clock. What lies ahead of now is from before that clock was set back, and
//! outlasts nothing.

use jiff::Timestamp;

use super::profile::{Note, Pinned, ProfileState, Proof};
use crate::identity::fingerprint::Fingerprint;
use crate::quota::poll::is_ahead;
use crate::quota::window::{REFUSED, Reading, Window};

/// What a renewed proof meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proved {
    /// The first proof: the account is pinned now.
    Pinned,
    /// The account is the one that was pinned.
    Same,
    /// Another account: the profile is quarantined.
    Changed,
}

/// Takes a renewed proof of a profile.
pub fn prove(state: &mut ProfileState, proof: Proof) -> Proved {
    let pin = |proof: &Proof| Pinned {
        fingerprint: proof.fingerprint.clone(),
        source: proof.source.clone(),
        at: proof.at,
    };
    let proved = match &mut state.durable.pinned {
        None => {
            state.durable.pinned = Some(pin(&proof));
            // Whatever rests since before rests for an account that nobody knew.
            state.cooldown = None;
            state.durable.cooldown = None;
            Proved::Pinned
        }
        Some(pinned) if pinned.fingerprint.overlaps(&proof.fingerprint) => {
            // Another source may know more of the same account; what is known is never given up.
            if known(&proof.fingerprint) > known(&pinned.fingerprint) {
                // It is the account for as long as it was.
                let at = pinned.at;
                *pinned = Pinned { at, ..pin(&proof) };
            }
            Proved::Same
        }
        Some(_) => {
            state.proof = None;
            state.durable.quarantine.get_or_insert(Note {
                reason: "identity_changed".to_owned(),
                at: proof.at,
            });
            return Proved::Changed;
        }
    };
    if state
        .auth_broken
        .as_ref()
        // One from ahead is from before the clock was set back: no proof would ever be newer.
        .is_some_and(|note| note.at <= proof.at || is_ahead(note.at, proof.at))
    {
        state.auth_broken = None;
        state.refused_login = None;
    }
    state.proof = Some(proof);
    proved
}

/// Takes the proof of an anchor, which may change its account as the person likes.
pub fn prove_anchor(state: &mut ProfileState, proof: Proof) {
    state.auth_broken = None;
    state.refused_login = None;
    state.proof = Some(proof);
}

fn known(fingerprint: &Fingerprint) -> usize {
    let parts = [
        &fingerprint.user,
        &fingerprint.account,
        &fingerprint.organization,
    ];
    parts.into_iter().flatten().count()
}

/// How much of the account a reading's source sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every window: what it does not name is not there.
    Whole,
    /// Some windows: others that it does not name stay as they were.
    Part,
    /// Single windows: all that it does not name stay as they were. Where it names none that gates every
    /// model, the reading is as old as before.
    Patch,
}

/// Takes a reading, if it belongs to the proved account and is newer than what is there.
pub fn read(state: &mut ProfileState, mut reading: Reading, extent: Extent) -> bool {
    let ours = state
        .proof
        .as_ref()
        .is_some_and(|proof| proof.fingerprint.whole == reading.fingerprint);
    let before = state.reading.take_if(|old| {
        // A whole reading was just fetched: one from far ahead is from before the clock was set back.
        let set_back = extent == Extent::Whole && is_ahead(old.at, reading.at);
        old.fingerprint != reading.fingerprint || old.at <= reading.at || set_back
    });
    if !ours || state.reading.is_some() {
        state.reading = state.reading.take().or(before);
        return false;
    }
    for window in &mut reading.windows {
        // A reset that had passed when the window was read tells nothing; taken at its word, it would make a
        // used-up window full at once.
        window.resets_at = window.resets_at.filter(|at| *at > reading.at);
    }
    if let Some(old) = before.filter(|old| old.fingerprint == reading.fingerprint)
        && extent != Extent::Whole
    {
        if extent == Extent::Patch && reading.windows.iter().all(|window| window.scope.is_some()) {
            reading.at = old.at;
        }
        let kept: Vec<_> = old
            .windows
            .into_iter()
            // It stood for a window that the server did not name; what was seen now is newer.
            .filter(|window| window.id != REFUSED || extent == Extent::Patch)
            .filter(|window| {
                let same = |new: &&Window| new.kind == window.kind && new.scope == window.scope;
                !reading.windows.iter().any(|new| same(&new))
            })
            .collect();
        reading.windows.extend(kept);
        reading.overage_enabled = reading.overage_enabled.or(old.overage_enabled);
        reading.spend = reading.spend.or(old.spend);
    }
    state.reading = Some(reading);
    true
}

/// Notes that the server or the provider's CLI no longer took the login at `at`, unless it was proved since.
pub fn auth_broken(state: &mut ProfileState, reason: &str, at: Timestamp, now: Timestamp) {
    let proof = state.proof.as_ref();
    if proof.is_none_or(|proof| proof.at < at || is_ahead(proof.at, now)) {
        state.auth_broken = Some(Note {
            reason: reason.to_owned(),
            at,
        });
    }
}

/// Notes that the server refused this very login now.
pub fn refused(state: &mut ProfileState, login: Option<&str>, now: Timestamp) {
    auth_broken(state, "unauthorized", now, now);
    state.refused_login = login.map(str::to_owned);
}

#[cfg(test)]
mod tests {
    use super::{Extent, Proved, auth_broken, prove, read};
    use crate::id::ProviderKind::Claude;
    use crate::identity::fingerprint::{Account, Key};
    use crate::quota::window::{Kind, Reading, Window};
    use crate::snapshot::profile::{Binding, ProfileState, Proof};
    use jiff::{SignedDuration, Timestamp};

    fn at(seconds: i64) -> Timestamp {
        let start: Timestamp = "2030-01-02T12:00:00Z".parse().unwrap();
        start + SignedDuration::from_secs(seconds)
    }

    fn proof(account: &str, organization: Option<&str>, seconds: i64) -> Proof {
        let account = Account {
            user: None,
            account: Some(account.to_owned()),
            organization: organization.map(str::to_owned),
        };
        Proof {
            fingerprint: Key::new([1; 32]).fingerprint(Claude, &account),
            source: "oauth-profile".to_owned(),
            at: at(seconds),
            binding: Binding::NoCredential,
            file: None,
            digested_at: 0,
        }
    }

    fn window(id: &str, scope: Option<&str>, remaining: f64) -> Window {
        Window {
            id: id.to_owned(),
            kind: Kind::Weekly,
            scope: scope.map(str::to_owned),
            remaining_percent: remaining,
            resets_at: None,
        }
    }

    fn reading(proof: &Proof, seconds: i64, windows: Vec<Window>) -> Reading {
        Reading {
            at: at(seconds),
            fingerprint: proof.fingerprint.whole.clone(),
            source: "builtin".to_owned(),
            windows,
            overage_enabled: None,
            spend: None,
        }
    }

    #[test]
    fn the_first_proof_pins_and_another_account_quarantines() {
        let mut state = ProfileState::named("claude-1");
        assert_eq!(
            prove(&mut state, proof("a1", Some("o1"), 0)),
            Proved::Pinned
        );
        assert_eq!(prove(&mut state, proof("a1", Some("o1"), 5)), Proved::Same);
        assert_eq!(state.durable.pinned.as_ref().unwrap().at, at(0));
        assert_eq!(
            prove(&mut state, proof("a1", Some("o2"), 9)),
            Proved::Changed
        );
        assert_eq!(
            state.durable.quarantine.as_ref().unwrap().reason,
            "identity_changed"
        );
        assert_eq!(
            state.proof, None,
            "the intruder is not the profile's account"
        );
        assert_eq!(
            state.durable.pinned.unwrap().fingerprint,
            proof("a1", Some("o1"), 0).fingerprint,
            "the pin is what the profile is"
        );
    }

    #[test]
    fn a_source_that_knows_more_completes_the_pin_and_one_that_knows_less_does_not_loosen_it() {
        let mut state = ProfileState::named("claude-1");
        prove(&mut state, proof("a1", None, 0));
        assert_eq!(prove(&mut state, proof("a1", Some("o1"), 1)), Proved::Same);
        assert_eq!(prove(&mut state, proof("a1", None, 2)), Proved::Same);
        assert_eq!(
            prove(&mut state, proof("a1", Some("o2"), 3)),
            Proved::Changed
        );
    }

    #[test]
    fn only_the_newest_reading_of_the_proved_account_is_kept() {
        let mut state = ProfileState::named("claude-1");
        let (mine, other) = (proof("a1", None, 0), proof("a2", None, 0));
        assert!(!read(
            &mut state,
            reading(&mine, 0, Vec::new()),
            Extent::Whole
        ));
        prove(&mut state, mine.clone());
        assert!(read(
            &mut state,
            reading(&mine, 10, Vec::new()),
            Extent::Whole
        ));
        assert!(!read(
            &mut state,
            reading(&mine, 5, Vec::new()),
            Extent::Whole
        ));
        assert!(!read(
            &mut state,
            reading(&other, 20, Vec::new()),
            Extent::Whole
        ));
        assert_eq!(state.reading.as_ref().unwrap().at, at(10));
    }

    #[test]
    fn a_reset_that_had_passed_when_it_was_read_makes_no_window_full() {
        let mut state = ProfileState::named("claude-1");
        let mine = proof("a1", None, 0);
        prove(&mut state, mine.clone());
        let mut used_up = window("seven_day", None, 0.0);
        for (resets_at, kept) in [(at(9), None), (at(10), None), (at(11), Some(at(11)))] {
            used_up.resets_at = Some(resets_at);
            state.reading = None;
            let windows = vec![used_up.clone()];
            assert!(read(&mut state, reading(&mine, 10, windows), Extent::Whole));
            let windows = &state.reading.as_ref().unwrap().windows;
            assert_eq!(windows[0].resets_at, kept);
        }
    }

    #[test]
    fn a_partial_reading_keeps_the_windows_it_does_not_see() {
        let mut state = ProfileState::named("claude-1");
        let mine = proof("a1", None, 0);
        prove(&mut state, mine.clone());
        let whole = vec![
            window("seven_day", None, 50.0),
            window("seven_day_opus", Some("opus"), 3.0),
            Window {
                kind: Kind::Monthly,
                ..window("monthly", None, 2.0)
            },
            Window {
                kind: Kind::Other,
                ..window("limit_reached", None, 0.0)
            },
        ];
        read(&mut state, reading(&mine, 0, whole), Extent::Whole);
        read(
            &mut state,
            reading(&mine, 1, vec![window("seven_day", None, 40.0)]),
            Extent::Part,
        );
        let left: Vec<f64> = state
            .reading
            .as_ref()
            .unwrap()
            .windows
            .iter()
            .map(|window| window.remaining_percent)
            .collect();
        assert_eq!(left, [40.0, 3.0, 2.0]);
        read(
            &mut state,
            reading(&mine, 2, vec![window("seven_day", None, 40.0)]),
            Extent::Whole,
        );
        assert_eq!(state.reading.unwrap().windows.len(), 1);
    }

    #[test]
    fn a_newer_proof_mends_a_broken_login_and_older_news_does_not_break_it() {
        let mut state = ProfileState::named("claude-1");
        auth_broken(&mut state, "unauthorized", at(0), at(9));
        assert!(state.auth_broken.is_some());
        prove(&mut state, proof("a1", None, 5));
        assert_eq!(state.auth_broken, None);
        auth_broken(&mut state, "unauthorized", at(3), at(9));
        assert_eq!(state.auth_broken, None);
        auth_broken(&mut state, "unauthorized", at(6), at(9));
        assert!(state.auth_broken.is_some());
    }

    #[test]
    fn what_lies_ahead_of_the_clock_neither_breaks_a_login_for_good_nor_keeps_it_from_breaking() {
        let ahead = 400 * 24 * 3600;
        let mut state = ProfileState::named("claude-1");
        auth_broken(&mut state, "auth", at(ahead), at(ahead));
        prove(&mut state, proof("a1", None, 5));
        assert_eq!(state.auth_broken, None, "it was proved since");
        prove(&mut state, proof("a1", None, ahead));
        auth_broken(&mut state, "auth", at(6), at(6));
        assert!(state.auth_broken.is_some(), "the proof is older");
    }
}
