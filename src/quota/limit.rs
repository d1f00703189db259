//! Kinds of limit that a worker can meet, and what the end of its conversation's transcript says of them.

use jiff::Timestamp;

use super::window::Window;

/// What kind of limit a worker met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The allowance of a window is used up.
    Quota,
    /// Too many requests in a short time, or a server that has too much to do.
    Rate,
    /// The account owes money or has run out of it: time alone does not mend that.
    Billing,
    /// The login is no longer taken.
    Auth,
    /// Something that looks like a limit but has no known name.
    Suspected,
}

impl Limit {
    /// Its own word, which [`Limit::of_word`] reads back.
    pub fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Rate => "rate",
            Self::Billing => "billing",
            Self::Auth => "auth",
            Self::Suspected => "limit_suspected",
        }
    }

    /// The limit that a reason word names, ours or a provider's, if it names one.
    ///
    /// Claude's `StopFailure` says `rate_limit` for a used-up window and for a per-minute limit alike
    /// (2.1.332). Only its transcript tells them apart, so the word alone means the shorter rest.
    pub fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "usage_limit_reached" | "usage_limit_exceeded" | "quota" => Self::Quota,
            "rate_limit" | "overloaded" | "rate" | "too_many_requests" => Self::Rate,
            "billing_error"
            | "billing"
            | "insufficient_quota"
            | "credit_balance_too_low"
            | "oauth_org_not_allowed" => Self::Billing,
            "authentication_failed" | "authentication_error" | "unauthorized" | "auth" => {
                Self::Auth
            }
            "limit_suspected" => Self::Suspected,
            _ => return None,
        })
    }
}

/// When a limit is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The instant.
    pub at: Timestamp,
    /// True when it was read out of a text that did not say everything: then it is rather too late.
    pub guessed: bool,
}

/// How the last turn of a conversation ended, and which windows its CLI was shown last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// The limit that ended it; `None` when it ended well, on something else, or is not over.
    pub limit: Option<Limit>,
    /// When the line was written that says so.
    pub at: Option<Timestamp>,
    /// When that limit is over, where it says so.
    pub reset: Option<Reset>,
    /// The account's windows.
    pub windows: Vec<Window>,
    /// When they were told.
    pub windows_at: Option<Timestamp>,
    /// The record of the failed request says that usage beyond the subscription was being paid for.
    pub overage_used: bool,
}
