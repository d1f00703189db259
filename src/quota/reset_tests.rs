//! Sentences of both CLIs, by the instant that they name.

use super::reset;
use crate::quota::limit::Reset;
use jiff::Timestamp;
use jiff::tz::{TimeZone, offset};
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What a sentence of 30 November 2026, 12:28:38 UTC names, read on a machine in UTC.
fn read(text: &str) -> Option<(String, bool)> {
    read_at(text, "2026-11-30T12:28:38Z", &TimeZone::UTC)
}

fn read_at(text: &str, said: &str, local: &TimeZone) -> Option<(String, bool)> {
    reset(text, at(said), local).map(|Reset { at, guessed }| (at.to_string(), guessed))
}

fn known(at: &str) -> (String, bool) {
    (at.to_owned(), false)
}

fn guessed(at: &str) -> (String, bool) {
    (at.to_owned(), true)
}

#[test]
fn a_zone_that_cannot_be_is_no_panic() {
    for zone in ["Etc/GMT-128", "UTC-128", "GMT-128", "Etc/GMT+99"] {
        let (at, guessed) = read(&format!("resets 3pm ({zone})")).unwrap();
        assert_eq!(
            (at.as_str(), guessed),
            ("2026-12-01T12:28:38Z", true),
            "{zone}"
        );
    }
}

#[test]
fn sentences_that_name_a_zone_name_an_instant() {
    for (text, expected) in [
        (
            "You've hit your 5-hour limit · resets 1:28pm (UTC)",
            "2026-11-30T13:29:00Z",
        ),
        (
            "You've hit your session limit · resets 3pm (UTC)",
            "2026-11-30T15:01:00Z",
        ),
        (
            "You've hit your weekly limit · resets Dec 2, 3:34pm (UTC)",
            "2026-12-02T15:35:00Z",
        ),
        (
            "weekly limit · resets Dec 2 at 5pm (Asia/Shanghai)",
            "2026-12-02T09:01:00Z",
        ),
        (
            "Your limit will reset at 3am (America/Santiago).",
            "2026-12-01T06:01:00Z",
        ),
        ("resets 2 Dec 2026, 15:34 (UTC)", "2026-12-02T15:35:00Z"),
        ("resets 2026-12-02 15:34 UTC", "2026-12-02T15:35:00Z"),
        ("resets 12am (UTC)", "2026-12-01T00:01:00Z"),
        ("resets 12:05pm (UTC)", "2026-12-01T12:06:00Z"),
        ("resets 9pm (Etc/GMT+5)", "2026-12-01T02:01:00Z"),
        ("resets 9pm (Etc/GMT-5)", "2026-11-30T16:01:00Z"),
        ("resets 9pm (UTC-3)", "2026-12-01T00:01:00Z"),
        ("resets tomorrow at noon (UTC)", "2026-12-01T12:01:00Z"),
        ("resets Mon 9am (UTC)", "2026-12-07T09:01:00Z"),
        ("resets December 2 at 9am (UTC)", "2026-12-02T09:01:00Z"),
        ("resets Tuesday at 9 a.m. (UTC)", "2026-12-01T09:01:00Z"),
        (
            "try again in 3 days 6 hours 57 minutes.",
            "2026-12-03T19:26:38Z",
        ),
        (
            "Session limit reached – resets in 2 hours",
            "2026-11-30T14:29:38Z",
        ),
        ("resets in 1h 5m and 3s", "2026-11-30T13:34:41Z"),
        ("resets in about an hour!", "2026-11-30T13:29:38Z"),
        ("try again in a week", "2026-12-07T12:29:38Z"),
        (
            "Claude AI usage limit reached|1796045318",
            "2026-11-30T13:28:38Z",
        ),
    ] {
        assert_eq!(read(text), Some(known(expected)), "{text}");
    }
}

#[test]
fn what_is_not_said_is_guessed_and_rather_late() {
    for (text, expected) in [
        // The local zone of the machine.
        ("or try again at 9:59 AM.", "2026-12-01T10:00:00Z"),
        ("or try again at 1:28 PM.", "2026-11-30T13:29:00Z"),
        (
            "or try again at Dec 2nd, 2026 8:02 PM.",
            "2026-12-02T20:03:00Z",
        ),
        // The end of the day.
        (
            "Opus weekly limit reached ∙ resets Dec 4",
            "2026-12-05T00:00:00Z",
        ),
        (
            "weekly limit reached, resets Dec 4 (UTC)",
            "2026-12-05T00:00:00Z",
        ),
        // A zone of which nobody knows where it lies: within a session, within a day, by the date line.
        (
            "You've hit your session limit · resets 3pm (Mars/Base)",
            "2026-11-30T17:28:38Z",
        ),
        ("limit · resets 3pm (XYZ)", "2026-12-01T12:28:38Z"),
        (
            "weekly limit · resets Dec 2, 3pm (XYZ)",
            "2026-12-03T03:01:00Z",
        ),
        // Writers do not agree on the sign.
        ("resets 9pm (GMT+5)", "2026-12-01T02:01:00Z"),
        ("resets 9pm (GMT-5)", "2026-12-01T02:01:00Z"),
    ] {
        assert_eq!(read(text), Some(guessed(expected)), "{text}");
    }
}

#[test]
fn the_reset_after_midnight_or_new_year_lies_ahead() {
    let utc = &TimeZone::UTC;
    let night = "2026-12-31T23:50:00Z";
    let text = "resets 12:10am (UTC)";
    assert_eq!(
        read_at(text, night, utc),
        Some(known("2027-01-01T00:11:00Z"))
    );
    let text = "resets Jan 3, 9am (UTC)";
    assert_eq!(
        read_at(text, night, utc),
        Some(known("2027-01-03T09:01:00Z"))
    );
    let same_minute = "2026-11-30T10:01:55Z";
    let text = "resets 10:01am (UTC)";
    assert_eq!(
        read_at(text, same_minute, utc),
        Some(known("2026-11-30T10:02:00Z"))
    );
}

#[test]
fn clocks_that_are_set_forward_or_back_make_it_later_not_earlier() {
    let eastern = &TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
    // 01:30 comes twice on 1 November 2026: 05:30 and 06:30 UTC.
    let back = read_at("try again at 1:30 AM.", "2026-11-01T04:00:00Z", eastern);
    assert_eq!(back, Some(guessed("2026-11-01T06:31:00Z")));
    // 02:30 does not come on 14 March 2027; an hour later it is 03:30, 07:30 UTC.
    let forward = read_at("try again at 2:30 AM.", "2027-03-14T05:00:00Z", eastern);
    assert_eq!(forward, Some(guessed("2027-03-14T07:31:00Z")));
    let west = &TimeZone::fixed(offset(-8));
    let text = "or try again at 9:59 AM.";
    let found = read_at(text, "2026-11-30T12:28:38Z", west);
    assert_eq!(found, Some(guessed("2026-11-30T18:00:00Z")));
}

#[test]
fn what_names_no_reset_names_none() {
    for text in [
        "",
        "You've hit your usage limit. Try again later.",
        "You've hit your org's monthly usage limit",
        "resets",
        "resets soon",
        "your usage resets monthly",
        "resets maybe at the end of the week",
        "resets in 2 months",
        "try again in 500ms",
        "resets in 3 fortnights",
        "resets 25:00 (UTC)",
        "resets 13pm (UTC)",
        "resets Feb 30, 9am (UTC)",
        "resets Aug 8, 2027, 9am (UTC)",
        "resets Oct 1, 2026, 9am (UTC)",
        "Claude AI usage limit reached|",
        "Claude AI usage limit reached|99999999999999999999",
        "we reset the 3 servers at random",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_sentence_panics_and_every_reset_lies_ahead(
        rest in "[ a-zA-Z0-9:,.()/+|'-]{0,40}",
        seconds in -60_000_000_000_i64..250_000_000_000,
    ) {
        let said = Timestamp::from_second(seconds).unwrap();
        for lead in ["resets", "try again at", "try again in", "limit reached|"] {
            if let Some(found) = reset(&format!("{lead} {rest}"), said, &TimeZone::UTC) {
                prop_assert!(found.at > said);
            }
        }
    }
}
