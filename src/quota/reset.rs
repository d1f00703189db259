//! When a limit is over, read out of the sentence that both CLIs show people. Pure.
//!
//! A fallback, for limits whose structured record names no reset. A time without a date is the next such time
//! after the sentence was written; a date without a year is the nearest one. Minutes are cut off in these
//! sentences, so the end of the minute counts. What is not said is taken to be later rather than earlier, and
//! the answer says that it was guessed: a zone that nobody knows, a date without a time. `GMT+5` means
//! opposite things to different writers, so the later one counts; `Etc/GMT+5` is west of Greenwich.
//!
//! Limits: English only. A sentence that names more than forty days ahead, or a time that has passed, names
//! nothing.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{Disambiguation, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::limit::Reset;

/// What comes before a reset.
const LEADS: [&str; 4] = ["try again", "resets", "reset", "available again"];
/// Words that mean nothing here.
const FILLERS: [&str; 6] = ["at", "on", "the", "about", "around", "approximately"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];
/// The sentences cut seconds off.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);
const SESSION: SignedDuration = SignedDuration::from_hours(5);
const DAY: SignedDuration = SignedDuration::from_hours(24);
const LONGEST: SignedDuration = SignedDuration::from_hours(40 * 24);

/// The reset that a sentence names. `said` is when it was written, `local` the zone of whoever wrote it.
pub fn reset(text: &str, said: Timestamp, local: &TimeZone) -> Option<Reset> {
    let text = text.to_lowercase();
    let mut leads = LEADS.iter().flat_map(|lead| {
        text.match_indices(lead)
            .map(|(at, lead)| &text[at + lead.len()..])
    });
    let named = leads.find_map(|rest| Words::read(rest)?.resolve(&text, said, local));
    let found = named.or_else(|| epoch(&text))?;
    let ahead = found.at.duration_since(said);
    (ahead > SignedDuration::ZERO && ahead <= LONGEST).then_some(found)
}

/// `…limit reached|1760004000`, as Claude wrote it once.
fn epoch(text: &str) -> Option<Reset> {
    let (_, rest) = text.rsplit_once("limit reached|")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let at = Timestamp::from_second(digits.parse().ok()?).ok()?;
    Some(Reset { at, guessed: false })
}

/// Whose clock is meant.
#[derive(Debug)]
enum Zone {
    /// It was not said.
    Unsaid,
    Known(TimeZone),
    /// Hours from Greenwich, in one direction or the other.
    EitherWay(i8),
    Unknown,
}

impl Zone {
    fn named(name: &str) -> Self {
        let name = name.trim();
        let fixed = |hours: i8| Offset::from_hours(hours).ok().map(TimeZone::fixed);
        if matches!(name, "utc" | "gmt" | "z" | "etc/utc" | "etc/gmt") {
            return Self::Known(TimeZone::UTC);
        }
        let hours = |prefix: &str| -> Option<i8> {
            let rest = name.strip_prefix(prefix)?;
            rest.starts_with(['+', '-']).then(|| rest.parse().ok())?
        };
        if let Some(west) = hours("etc/gmt") {
            let east = west.checked_neg().and_then(fixed);
            return east.map_or(Self::Unknown, Self::Known);
        }
        if let Some(east) = hours("utc") {
            return fixed(east).map_or(Self::Unknown, Self::Known);
        }
        if let Some(hours) = hours("gmt") {
            return fixed(hours).map_or(Self::Unknown, |_| Self::EitherWay(hours));
        }
        TimeZone::get(name).map_or(Self::Unknown, Self::Known)
    }
}

/// What a sentence says after its lead.
#[derive(Debug)]
struct Words {
    after: Option<SignedDuration>,
    month: Option<i8>,
    day: Option<i8>,
    year: Option<i16>,
    date: Option<Near>,
    time: Option<Time>,
    zone: Zone,
}

/// A day that is named by where it lies.
#[derive(Clone, Copy, Debug)]
enum Near {
    Today,
    Tomorrow,
    Next(Weekday),
}

impl Words {
    /// Reads as far as the words make sense.
    fn read(rest: &str) -> Option<Self> {
        let mut found = Self {
            after: None,
            month: None,
            day: None,
            year: None,
            date: None,
            time: None,
            zone: Zone::Unsaid,
        };
        let rest = match rest.split_once('(') {
            Some((before, after)) if before.len() <= 48 => {
                let (zone, _) = after.split_once(')')?;
                found.zone = Zone::named(zone);
                before
            }
            _ => rest,
        };
        let mut words = rest
            .split_whitespace()
            .map(|word| word.trim_end_matches([',', '.', ';']))
            .peekable();
        while let Some(word) = words.next() {
            if word == "in" {
                found.after = span(words);
                return found.after.is_some().then_some(found);
            }
            let next = words.peek().copied().unwrap_or_default();
            let taken = FILLERS.contains(&word)
                || found.half(word)
                || found.clock(word, next)
                || found.calendar(word, next)
                || found.offset(word);
            if !taken {
                break;
            }
        }
        let any = found.time.is_some() || found.day.is_some() || found.date.is_some();
        any.then_some(found)
    }

    /// `am` and `pm` beside a time that has been read already.
    fn half(&mut self, word: &str) -> bool {
        matches!(word, "am" | "pm" | "a.m" | "p.m") && self.time.is_some()
    }

    fn clock(&mut self, word: &str, next: &str) -> bool {
        if self.time.is_some() {
            return false;
        }
        self.time = match word {
            "noon" => Time::new(12, 0, 0, 0).ok(),
            "midnight" => Time::new(0, 0, 0, 0).ok(),
            _ => time(word, next),
        };
        self.time.is_some()
    }

    fn calendar(&mut self, word: &str, next: &str) -> bool {
        if let Ok(date) = word.parse::<Date>() {
            (self.year, self.month, self.day) =
                (Some(date.year()), Some(date.month()), Some(date.day()));
            return true;
        }
        if let Some(month) = month(word) {
            return self.month.replace(month).is_none();
        }
        if let Some((_, day)) = WEEKDAYS.iter().find(|(name, _)| is_short_for(word, name)) {
            return self.date.replace(Near::Next(*day)).is_none();
        }
        if let Some(near) = match word {
            "today" => Some(Near::Today),
            "tomorrow" => Some(Near::Tomorrow),
            _ => None,
        } {
            return self.date.replace(near).is_none();
        }
        let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let Ok(number) = digits.parse::<i16>() else {
            return false;
        };
        if self.month.is_some() && self.day.is_some() && self.year.is_none() {
            self.year = (2000..2200).contains(&number).then_some(number);
            return self.year.is_some();
        }
        let is_day = self.day.is_none() && (self.month.is_some() || month(next).is_some());
        self.day = i8::try_from(number)
            .ok()
            .filter(|day| is_day && (1..=31).contains(day))
            .or(self.day);
        is_day && self.day.is_some()
    }

    fn offset(&mut self, word: &str) -> bool {
        let names = ["utc", "gmt", "etc/"];
        let named = names.iter().any(|name| word.starts_with(name)) || word.contains('/');
        let free = matches!(self.zone, Zone::Unsaid);
        if named && free {
            self.zone = Zone::named(word);
        }
        named && free
    }

    fn resolve(&self, text: &str, said: Timestamp, local: &TimeZone) -> Option<Reset> {
        if let Some(after) = self.after {
            let at = said.checked_add(after).ok()?.checked_add(MINUTE).ok()?;
            return Some(Reset { at, guessed: false });
        }
        let whole = self.time.is_some();
        let in_zone = |zone: &TimeZone, guessed: bool| {
            let at = self.in_zone(said, zone)?;
            let guessed = guessed || !whole;
            Some(Reset { at, guessed })
        };
        match &self.zone {
            Zone::Known(zone) => in_zone(zone, false),
            // The CLI wrote its own local time; its zone is the machine's unless somebody set another.
            Zone::Unsaid if !local.is_unknown() => in_zone(local, true),
            Zone::EitherWay(hours) => {
                let both = [*hours, -hours].map(|hours| {
                    let zone = TimeZone::fixed(Offset::from_hours(hours).ok()?);
                    in_zone(&zone, true)
                });
                both.into_iter().flatten().max_by_key(|reset| reset.at)
            }
            Zone::Unsaid | Zone::Unknown => {
                let has_date = self.day.is_some() || self.date.is_some();
                let at = if has_date {
                    // No day ends later than the one at the date line.
                    self.in_zone(said, &TimeZone::fixed(Offset::from_hours(-12).ok()?))?
                } else if text.contains("session") || text.contains("5-hour") {
                    said.checked_add(SESSION).ok()?
                } else {
                    said.checked_add(DAY).ok()?
                };
                Some(Reset { at, guessed: true })
            }
        }
    }

    fn in_zone(&self, said: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let today = said.to_zoned_datetime(zone.clone()).date();
        let time = self.time.unwrap_or(Time::constant(23, 59, 0, 0));
        // The later of two instants where clocks are set back, and after the gap where they are set forward.
        let instant = |date: Date| {
            let at = DateTime::from_parts(date, time);
            let instant = zone
                .to_ambiguous_timestamp(at)
                .disambiguate(Disambiguation::Later)
                .ok()?;
            instant.checked_add(MINUTE).ok()
        };
        let day = self.day.or_else(|| self.month.map(|_| 1));
        if let (Some(month), Some(day)) = (self.month, day) {
            let years = match self.year {
                Some(year) => vec![year],
                None => vec![today.year() - 1, today.year(), today.year() + 1],
            };
            let dates = years
                .into_iter()
                .filter_map(|year| instant(Date::new(year, month, day).ok()?));
            return dates.min_by_key(|at| at.duration_since(said).abs());
        }
        let next = |from: Date| {
            let at = instant(from)?;
            if at > said {
                return Some(at);
            }
            instant(from.tomorrow().ok()?)
        };
        match self.date {
            None | Some(Near::Today) => next(today),
            Some(Near::Tomorrow) => instant(today.tomorrow().ok()?),
            Some(Near::Next(weekday)) if today.weekday() == weekday => {
                let at = instant(today)?;
                if at > said {
                    return Some(at);
                }
                instant(today.nth_weekday(1, weekday).ok()?)
            }
            Some(Near::Next(weekday)) => instant(today.nth_weekday(1, weekday).ok()?),
        }
    }
}

fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|name| is_short_for(word, name))?;
    i8::try_from(at + 1).ok()
}

/// `sep`, `sept` and `september`, but not `monthly` for a Monday.
fn is_short_for(word: &str, name: &str) -> bool {
    word.len() >= 3 && name.starts_with(word)
}

/// `3pm`, `3:34pm`, `9:59` before `am`, `15:34`, `15:34:10`.
fn time(word: &str, next: &str) -> Option<Time> {
    let digits =
        word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '.');
    let own = &word[digits.len()..];
    let half = if own.is_empty() { next } else { own };
    let afternoon = match half.replace('.', "").as_str() {
        "am" => Some(false),
        "pm" => Some(true),
        _ if own.is_empty() => None,
        _ => return None,
    };
    let mut parts = digits.split(':').map(str::parse::<i8>);
    let hour = parts.next()?.ok()?;
    let minute = parts.next();
    if minute.is_none() && afternoon.is_none() {
        return None;
    }
    let minute = minute.unwrap_or(Ok(0)).ok()?;
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    let hour = match afternoon {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(false) => hour % 12,
        Some(true) => hour % 12 + 12,
    };
    Time::new(hour, minute, second, 0).ok()
}

/// `3 days 6 hours 57 minutes`, `2h 5m`, `about an hour`; a day is 24 hours. One with a unit that nobody knows
/// says nothing: a month is no minute.
fn span<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<SignedDuration> {
    let mut seconds: i64 = 0;
    let mut any = false;
    while let Some(word) = words.next() {
        if word == "and" || FILLERS.contains(&word) {
            continue;
        }
        let word = if matches!(word, "a" | "an") {
            "1"
        } else {
            word
        };
        let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let Ok(number) = digits.parse::<i64>() else {
            break;
        };
        let own = &word[digits.len()..];
        let unit = if own.is_empty() { words.next()? } else { own };
        let each = match unit.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic()) {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            "w" | "wk" | "week" | "weeks" => 604_800,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(each)?)?;
        any = true;
    }
    any.then(|| SignedDuration::from_secs(seconds))
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
