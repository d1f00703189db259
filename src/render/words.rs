//! Spans, instants, counts and shares in words.
//!
//! Instants are shown in the person's own time zone and always name it. Two units are enough for a span:
//! nobody plans by the seconds of a day.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use super::page::{Role, paint};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A number of seconds in its two largest units: `42 s`, `12 min`, `2 h 10 min`, `3 days 4 h`.
pub fn span(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let two = |large: String, small: i64, unit: &str| {
        if small == 0 {
            large
        } else {
            format!("{large} {small} {unit}")
        }
    };
    if seconds < MINUTE {
        format!("{seconds} s")
    } else if seconds < HOUR {
        format!("{} min", seconds / MINUTE)
    } else if seconds < DAY {
        two(
            format!("{} h", seconds / HOUR),
            seconds % HOUR / MINUTE,
            "min",
        )
    } else {
        let days = count(seconds / DAY, "day");
        // Hours stop mattering once the wait is longer than a week.
        let hours = if seconds < 8 * DAY {
            seconds % DAY / HOUR
        } else {
            0
        };
        two(days, hours, "h")
    }
}

/// How long ago an instant was: `just now`, `3 min ago`. One that lies ahead is `just now`.
pub fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(at.as_second());
    match u64::try_from(seconds) {
        Ok(seconds) if seconds >= 5 => format!("{} ago", span(seconds)),
        _ => "just now".to_owned(),
    }
}

/// How far ahead an instant is, and when that is by the clock on the wall: `in 2 h 10 min (14:05 UTC)`.
/// One that has passed says so: `since 3 min (11:52 UTC)`.
pub fn due(now: Timestamp, at: Timestamp) -> String {
    due_in(now, at, &TimeZone::system())
}

fn due_in(now: Timestamp, at: Timestamp, zone: &TimeZone) -> String {
    let seconds = at.as_second().saturating_sub(now.as_second());
    let word = if seconds < 0 { "since" } else { "in" };
    format!(
        "{word} {} ({})",
        span(seconds.unsigned_abs()),
        instant_in(now, at, zone)
    )
}

/// An instant by the clock on the wall: with its weekday when it is not today, with its date when it is
/// further than six days away.
pub fn instant(now: Timestamp, at: Timestamp) -> String {
    instant_in(now, at, &TimeZone::system())
}

fn instant_in(now: Timestamp, at: Timestamp, zone: &TimeZone) -> String {
    let here = at.to_zoned_datetime(zone.clone());
    let today = now.to_zoned_datetime(zone.clone());
    let away = at.as_second().abs_diff(now.as_second());
    let format = if here.date() == today.date() {
        "%H:%M"
    } else if away < 6 * DAY.unsigned_abs() {
        "%a %H:%M"
    } else if here.year() == today.year() {
        "%-d %b %H:%M"
    } else {
        "%-d %b %Y %H:%M"
    };
    format!("{} {}", here.strftime(format), zone_name(&here))
}

/// The zone as people write it. A machine without a configured zone runs on UTC.
fn zone_name(at: &ZonedDateTime) -> String {
    if at.time_zone().is_unknown() {
        return "UTC".to_owned();
    }
    let name = at.strftime("%Z").to_string();
    // Zones without letters of their own are called by their offset, as in `-03`.
    if name.starts_with(['+', '-']) {
        format!("UTC{name}")
    } else {
        name
    }
}

/// A number with its noun: `1 lease`, `2 leases`.
pub fn count<N: TryInto<u64> + Copy>(number: N, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o']) => format!("{number} {stem}ies"),
        (_, _) => format!("{number} {noun}s"),
    }
}

/// A generation: the table and the grant of it, as exec says it, and the whole number.
pub fn generation(number: u64) -> String {
    format!(
        "{}.{} ({number})",
        number >> 32,
        number & u64::from(u32::MAX)
    )
}

/// A fingerprint as people see it: its first eight digits.
pub fn fingerprint(whole: &str) -> String {
    whole.chars().take(8).collect()
}

/// A share of a hundred: `82%`, or `82.5%` where the tenth says something.
pub fn percent(share: f64) -> String {
    let tenths = (share * 10.0).round() / 10.0;
    if tenths.fract() == 0.0 {
        format!("{tenths:.0}%")
    } else {
        format!("{tenths:.1}%")
    }
}

/// A bar of ten cells with its share: green above half, yellow above a fifth, else red.
pub fn gauge(remaining_percent: f64) -> String {
    let share = remaining_percent.clamp(0.0, 100.0);
    let full = (1..=10).filter(|step| f64::from(*step) * 10.0 - 5.0 <= share);
    let full = full.count();
    let bar = "\u{2588}".repeat(full) + &"\u{2591}".repeat(10 - full);
    let role = if share > 50.0 {
        Role::Good
    } else if share > 20.0 {
        Role::Warning
    } else {
        Role::Bad
    };
    format!("{} {:>5}", paint(role, &bar), percent(share))
}

/// Text from outside, safe to show on a terminal: control characters are written as escapes.
pub fn plain(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .map(|letter| {
            if letter.is_control() && letter != '\n' {
                letter.escape_default().to_string()
            } else {
                letter.to_string()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{ago, count, due_in, percent, plain, span};
    use jiff::Timestamp;
    use jiff::tz::{TimeZone, offset};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn spans_name_their_two_largest_units() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (7_800, "2 h 10 min"),
            (7_200, "2 h"),
            (86_400, "1 day"),
            (273_600, "3 days 4 h"),
            (20 * 86_400 + 7_200, "20 days"),
        ] {
            assert_eq!(span(seconds), words);
        }
        assert!(span(u64::MAX).ends_with("days"));
    }

    #[test]
    fn an_instant_names_its_zone_and_its_day_when_it_is_not_today() {
        let now = at("2026-11-30T11:55:00Z");
        let zone = TimeZone::fixed(offset(-3));
        for (instant, words) in [
            ("2026-11-30T14:05:00Z", "in 2 h 10 min (11:05 UTC-03)"),
            ("2026-11-30T11:52:00Z", "since 3 min (08:52 UTC-03)"),
            ("2026-12-03T12:00:00Z", "in 3 days (Thu 09:00 UTC-03)"),
            ("2026-12-30T12:00:00Z", "in 30 days (30 Dec 09:00 UTC-03)"),
            (
                "2027-01-30T12:00:00Z",
                "in 61 days (30 Jan 2027 09:00 UTC-03)",
            ),
        ] {
            assert_eq!(due_in(now, at(instant), &zone), words);
        }
        let unset = due_in(now, at("2026-11-30T14:05:00Z"), &TimeZone::unknown());
        assert_eq!(unset, "in 2 h 10 min (14:05 UTC)");
    }

    #[test]
    fn ages_never_lie_in_the_future() {
        let now = at("2026-11-30T12:00:00Z");
        assert_eq!(ago(now, at("2026-11-30T11:57:00Z")), "3 min ago");
        assert_eq!(ago(now, at("2026-11-30T13:00:00Z")), "just now");
    }

    #[test]
    fn counts_agree_with_their_nouns() {
        assert_eq!(count(0, "lease"), "0 leases");
        assert_eq!(count(1, "lease"), "1 lease");
        assert_eq!(count(2_usize, "entry"), "2 entries");
        assert_eq!(count(2, "day"), "2 days");
    }

    #[test]
    fn a_generation_reads_as_exec_says_it() {
        assert_eq!(super::generation(4_294_967_298), "1.2 (4294967298)");
    }

    #[test]
    fn a_share_shows_its_tenth_only_when_it_has_one() {
        assert_eq!(percent(82.0), "82%");
        assert_eq!(percent(82.49), "82.5%");
        assert_eq!(percent(99.96), "100%");
    }

    #[test]
    fn text_from_outside_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(plain("Grüße"), "Grüße");
    }
}
