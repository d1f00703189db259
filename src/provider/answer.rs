//! Reading numbers, times and lengths out of answers that nobody promised us. Pure.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::offset;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::hex;
use crate::quota::window::{Kind, Window};

/// A finite number; a number in a string is of unknown shape, and so is NaN.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// What is left of a window whose used percent is given: over 100 % used leaves nothing, a negative use is
/// of unknown shape.
pub(crate) fn remaining_of_used(value: &Value) -> Option<f64> {
    let used = number(value).filter(|used| *used >= 0.0)?;
    Some((100.0 - used).max(0.0))
}

/// An instant: RFC 3339, or seconds (or milliseconds) since 1970 as a number or its digits. One without a
/// zone is read where it comes last on Earth, twelve hours behind UTC: a window may only be taken for full
/// too late.
pub(crate) fn instant(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text
            .parse()
            .ok()
            .or_else(|| latest(text))
            .or_else(|| since_1970(text.parse().ok()?)),
        Value::Number(_) => since_1970(number(value)?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn latest(text: &str) -> Option<Timestamp> {
    let here: DateTime = text.parse().ok()?;
    offset(-12).to_timestamp(here).ok()
}

fn since_1970(number: f64) -> Option<Timestamp> {
    /// Seconds beyond this are milliseconds: it is the year 5138 in one and 1973 in the other.
    const MILLISECONDS_FROM: f64 = 1e11;
    let seconds = if number >= MILLISECONDS_FROM {
        number / 1000.0
    } else {
        number
    };
    let span = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    Timestamp::from_duration(span).ok()
}

/// Text that is there and not empty.
pub(crate) fn text(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// SHA-256 (64 hex) over length-prefixed fields; a missing field differs from an empty one.
pub(crate) fn digest(fields: &[Option<&str>]) -> String {
    let mut hash = Sha256::new();
    for field in fields {
        match field {
            Some(text) => {
                hash.update([1]);
                hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
                hash.update(text.as_bytes());
            }
            None => hash.update([0]),
        }
    }
    hex(&hash.finalize())
}

/// Adds a window, or tightens the one that is known already by this name and for the same models: one that gates
/// every model may not be taken into one that gates few.
pub(crate) fn add(windows: &mut Vec<Window>, window: Window) {
    let same = |known: &&mut Window| known.id == window.id && known.scope == window.scope;
    match windows.iter_mut().find(same) {
        Some(known) => {
            known.remaining_percent = known.remaining_percent.min(window.remaining_percent);
            known.resets_at = known.resets_at.max(window.resets_at);
        }
        None => windows.push(window),
    }
}

/// A window that is there and makes no sense: nothing is known to be left of it, nor when it is full again.
pub(crate) fn nothing_left(id: impl Into<String>, kind: Kind, scope: Option<String>) -> Window {
    Window {
        id: id.into(),
        kind,
        scope,
        remaining_percent: 0.0,
        resets_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{add, digest, instant, nothing_left, number, remaining_of_used};
    use crate::quota::window::Kind;
    use serde_json::json;

    #[test]
    fn a_window_of_every_model_is_not_taken_into_one_of_few() {
        let mut windows = Vec::new();
        add(
            &mut windows,
            nothing_left("x", Kind::Other, Some("opus".to_owned())),
        );
        add(&mut windows, nothing_left("x", Kind::Other, None));
        add(&mut windows, nothing_left("x", Kind::Other, None));
        let scopes: Vec<_> = windows.iter().map(|it| it.scope.as_deref()).collect();
        assert_eq!(scopes, [Some("opus"), None]);
    }

    #[test]
    fn what_is_no_plain_number_is_no_number() {
        for value in [json!(null), json!("97"), json!([1]), json!({}), json!(true)] {
            assert_eq!(number(&value), None, "{value}");
        }
        assert_eq!(remaining_of_used(&json!(105)), Some(0.0));
        assert_eq!(remaining_of_used(&json!(-5)), None);
        assert_eq!(remaining_of_used(&json!(97.5)), Some(2.5));
    }

    #[test]
    fn instants_come_with_a_zone_or_in_seconds_or_milliseconds() {
        let expected = "2026-11-30T08:00:00Z".parse().ok();
        for value in [
            json!("2026-11-30T08:00:00.000000+00:00"),
            json!("2026-11-30T09:00:00+01:00"),
            json!(1_796_025_600),
            json!(1_796_025_600_000_i64),
            json!("1796025600"),
            json!("2026-11-29T20:00:00"),
            json!("2026-11-29 20:00"),
        ] {
            assert_eq!(instant(&value), expected, "{value}");
        }
        for value in [
            json!("soon"),
            json!("NaN"),
            json!("inf"),
            json!(""),
            json!(null),
            json!(1e300),
            json!(-1e300),
        ] {
            assert_eq!(instant(&value), None, "{value}");
        }
    }

    #[test]
    fn fields_cannot_be_shifted_and_missing_is_not_empty() {
        assert_ne!(
            digest(&[Some("ab"), Some("c")]),
            digest(&[Some("a"), Some("bc")])
        );
        assert_ne!(digest(&[Some(""), None]), digest(&[None, Some("")]));
        assert_eq!(digest(&[None]).len(), 64);
    }
}
