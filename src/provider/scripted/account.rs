//! An account of the scripted provider's server: who it is, its windows, how the server treats it. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::provider::Usage;
use crate::quota::window::{Kind, Spend, Window};

/// `<account>.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct AccountFile {
    /// The person.
    pub user: Option<String>,
    /// The organisation.
    #[serde(default)]
    pub organization: Option<String>,
    /// Quota windows.
    #[serde(default)]
    pub windows: Vec<ServerWindow>,
    /// No token of the account is accepted any more.
    #[serde(default)]
    pub revoked: bool,
    /// Whether paid overage is switched on.
    #[serde(default)]
    pub overage_enabled: Option<bool>,
    /// What paid overage has cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overage_used: Option<f64>,
    /// Life of the access tokens that are issued, in seconds.
    #[serde(default)]
    pub token_lifetime_seconds: Option<u64>,
    /// How long a refresh takes to be answered, in seconds.
    #[serde(default)]
    pub refresh_latency_seconds: f64,
    /// Whether using a refresh token twice revokes the account, as real servers may.
    #[serde(default)]
    pub reuse_revokes: bool,
    /// What readers are answered instead of the truth.
    #[serde(default)]
    pub fault: Option<Fault>,
    /// Anything else in the file, kept.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Ways in which a server fails readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fault {
    /// 403.
    Forbidden,
    /// 429 with `Retry-After: 60`.
    Throttled,
    /// No answer.
    Unavailable,
    /// An answer of unknown shape.
    Shape,
}

/// A quota window as the server keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ServerWindow {
    /// Its name.
    pub id: String,
    /// Its length.
    pub minutes: u64,
    /// 0 to 100.
    pub used_percent: f64,
    /// When it becomes empty again.
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
    /// Model class that it gates alone.
    #[serde(default)]
    pub scope: Option<String>,
}

/// The whole second at least `seconds` after `now`; servers state resets in whole seconds.
pub(super) fn later(now: Timestamp, seconds: u64) -> Option<Timestamp> {
    let begun = i64::from(now.subsec_nanosecond() > 0);
    let second = now
        .as_second()
        .checked_add(i64::try_from(seconds).ok()?)?
        .checked_add(begun)?;
    Timestamp::from_second(second).ok()
}

impl ServerWindow {
    /// The window now: one whose reset has passed is empty, and its next reset is one length later.
    fn at(&self, now: Timestamp) -> Self {
        match self.resets_at {
            Some(at) if at <= now => Self {
                used_percent: 0.0,
                resets_at: later(now, self.minutes.saturating_mul(60)),
                ..self.clone()
            },
            _ => self.clone(),
        }
    }
}

impl AccountFile {
    /// Two windows, as both real providers have, with this much used of each.
    pub(super) fn new(user: &str, used_percent: f64, now: Timestamp) -> Self {
        let window = |id: &str, minutes: u64| ServerWindow {
            id: id.to_owned(),
            minutes,
            used_percent,
            resets_at: later(now, minutes * 60),
            scope: None,
        };
        Self {
            user: Some(user.to_owned()),
            windows: vec![window("five_hour", 300), window("seven_day", 10_080)],
            ..Self::default()
        }
    }

    /// Uses up the first window until `resets_at`.
    pub(super) fn exhaust(&mut self, resets_at: Timestamp) {
        let window = match self.windows.first() {
            Some(window) => window.clone(),
            None => ServerWindow {
                id: "five_hour".to_owned(),
                minutes: 300,
                used_percent: 0.0,
                resets_at: None,
                scope: None,
            },
        };
        let used_up = ServerWindow {
            used_percent: 100.0,
            resets_at: Some(resets_at),
            ..window
        };
        self.windows.splice(..self.windows.len().min(1), [used_up]);
    }

    /// Sets how much of every window is used.
    pub(super) fn set_used(&mut self, percent: f64) {
        for window in &mut self.windows {
            window.used_percent = percent;
        }
    }

    /// When the account may be used again, if some window that gates every request is used up.
    pub(super) fn exhausted_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.windows
            .iter()
            .map(|window| window.at(now))
            .filter(|window| window.scope.is_none() && window.used_percent >= 100.0)
            .filter_map(|window| window.resets_at)
            .max()
    }

    /// What readers are told; a window of unknown shape is left out.
    pub(super) fn usage(&self, now: Timestamp) -> Usage {
        let windows = self.windows.iter().map(|window| window.at(now));
        Usage {
            windows: windows
                .filter(|window| (0.0..=100.0).contains(&window.used_percent))
                .map(|window| Window {
                    id: window.id,
                    kind: Kind::of_minutes(window.minutes),
                    scope: window.scope,
                    remaining_percent: 100.0 - window.used_percent,
                    resets_at: window.resets_at,
                })
                .collect(),
            overage_enabled: self.overage_enabled,
            spend: self.overage_used.map(|used| Spend {
                used: Some(used),
                limit: None,
                balance: None,
            }),
            misread: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountFile, ServerWindow};
    use jiff::Timestamp;

    #[test]
    fn windows_of_any_length_and_fill_end_in_an_answer() {
        let now: Timestamp = "2030-01-02T03:04:05.5Z".parse().unwrap();
        let window = |minutes, used_percent| ServerWindow {
            id: "w".to_owned(),
            minutes,
            used_percent,
            resets_at: Some(Timestamp::UNIX_EPOCH),
            scope: None,
        };
        let mut account = AccountFile::new("ada", 0.0, now);
        account.windows = vec![window(u64::MAX, 50.0), window(0, 50.0)];
        let usage = account.usage(now);
        assert!(
            usage
                .windows
                .iter()
                .all(|window| window.remaining_percent > 99.0)
        );
        assert_eq!(usage.windows[0].resets_at, None);
        account.set_used(101.0);
        account.windows[0].resets_at = None;
        account.windows[1].resets_at = None;
        assert_eq!(account.usage(now).windows, vec![]);
        assert_eq!(account.exhausted_until(now), None, "no reset is known");
    }

    #[test]
    fn a_stated_reset_is_a_whole_second_and_never_early() {
        let now: Timestamp = "2030-01-02T03:04:05.5Z".parse().unwrap();
        let reset = super::later(now, 60).unwrap();
        assert_eq!(reset.to_string(), "2030-01-02T03:05:06Z");
        assert_eq!(super::later(now, u64::MAX), None);
    }
}
