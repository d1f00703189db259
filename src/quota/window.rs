//! Quota windows as a provider reports them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::poll::is_ahead;

/// Kind of window, by duration and never by the slot it was reported in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Hours: five hours at both providers today.
    Session,
    /// Seven days.
    Weekly,
    /// A month.
    Monthly,
    /// Anything else; gates like the others.
    Other,
}

impl Kind {
    /// The kind of a window of this length.
    pub fn of_minutes(minutes: u64) -> Self {
        match minutes {
            1..=1_440 => Self::Session,
            1_441..=11_520 => Self::Weekly,
            11_521..=46_080 => Self::Monthly,
            _ => Self::Other,
        }
    }

    /// The kind as it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
            Self::Other => "other",
        }
    }
}

/// The name of what stands for a window that is used up and that the server did not name.
pub const REFUSED: &str = "limit_reached";

/// A rest that is longer was stated by a provider; the ones that we choose ourselves are minutes.
const OUR_REST: SignedDuration = SignedDuration::from_hours(1);

/// One quota window at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The provider's name for it, such as `five_hour`.
    pub id: String,
    /// By duration.
    pub kind: Kind,
    /// Model class that it gates alone; all models when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// 0 to 100.
    pub remaining_percent: f64,
    /// When it becomes full again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

/// Windows of one account at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When they were read.
    pub at: Timestamp,
    /// Whole fingerprint of the account that they belong to.
    pub fingerprint: String,
    /// Who read them: `builtin`, `external`, `rollout`, `statusline`, `limit`.
    pub source: String,
    /// The windows, in the provider's order.
    pub windows: Vec<Window>,
    /// Whether paid overage is switched on at the provider, when it says so.
    pub overage_enabled: Option<bool>,
    /// What overage has cost, when the provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
}

/// Paid overage as the provider tells it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    /// Paid in this month, in the account's currency (Claude).
    pub used: Option<f64>,
    /// Most that may be paid in a month, in the account's currency (Claude).
    pub limit: Option<f64>,
    /// Credits that were bought and not used yet (Codex).
    pub balance: Option<f64>,
}

/// No new leases until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cooldown {
    /// `quota`, `rate`, `manual` or `limit_suspected`.
    pub reason: String,
    /// When it ends by itself.
    pub until: Timestamp,
    /// When it was set.
    pub since: Timestamp,
    /// True when its end was read out of a sentence that did not say everything, and so is rather late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

impl Cooldown {
    /// Whether it holds now.
    ///
    /// One that began ahead of now is from before the clock was set back: a rest of minutes would last until the
    /// clock is there again. A reset that the provider stated is an instant, whatever our clock was.
    pub fn holds(&self, now: Timestamp) -> bool {
        let stated = !self.guessed && self.until.duration_since(self.since) > OUR_REST;
        self.until > now && (stated || !is_ahead(self.since, now))
    }
}

#[cfg(test)]
mod tests {
    use super::Cooldown;
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn a_clock_that_is_set_back_ends_a_rest_of_minutes_and_no_stated_reset() {
        let now: Timestamp = "2030-01-02T12:00:00Z".parse().unwrap();
        let ahead = now + SignedDuration::from_hours(72);
        let rest = |since: Timestamp, seconds: i64, guessed: bool| Cooldown {
            reason: "rate".to_owned(),
            until: since + SignedDuration::from_secs(seconds),
            since,
            guessed,
        };
        assert!(rest(now, 60, false).holds(now));
        assert!(!rest(now, 60, false).holds(now + SignedDuration::from_secs(60)));
        assert!(!rest(ahead, 60, false).holds(now));
        assert!(rest(ahead, 86_400, false).holds(now), "the server said so");
        assert!(
            !rest(ahead, 86_400, true).holds(now),
            "read by our own clock"
        );
        let skewed = now + SignedDuration::from_secs(30);
        assert!(
            rest(skewed, 60, false).holds(now),
            "two commands at one time"
        );
    }
}
