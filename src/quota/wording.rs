//! The sentences in which providers tell of a limit, for errors whose structure does not name it. Pure.
//!
//! Only the text of an error that the provider's own CLI recorded as one comes here: what a worker or a tool
//! prints never does. A sentence that nobody knows, yet speaks of an allowance, is suspected of being a limit;
//! one that speaks of the size of a request is none.

use super::limit::Limit;

/// Sentences that say themselves that the account's allowance is not meant, or that time will mend it soon.
const RATE: &[&str] = &[
    "not your usage limit",
    "temporarily limiting requests",
    "too many requests",
    "per-minute",
    "per minute",
    "requests rate limit",
    "overloaded",
    "is at capacity",
];
/// Only a new login helps.
const AUTH: &[&str] = &[
    "sign in again",
    "please run /login",
    "log in again",
    "session expired and could not be refreshed",
    "token could not be refreshed",
    "refresh token was already used",
    "not logged in",
    "invalid bearer token",
    "token has been revoked",
    "unauthorized (401)",
    "401 unauthorized",
];
/// Only a person with a card helps.
const BILLING: &[&str] = &[
    "credit balance is too low",
    "payment is past due",
    "payment required",
    "check your plan and billing",
    "out of credits",
    "insufficient credits",
    "no credits",
    "spend limit",
    "spending limit",
    "spending cap",
    "upgrade to plus",
    "not included in your plan",
];
/// The allowance of a window.
const QUOTA: &[&str] = &[
    "usage limit",
    "session limit",
    "5-hour limit",
    "five-hour limit",
    "daily limit",
    "weekly limit",
    "monthly limit",
    "opus limit",
    "sonnet limit",
    "haiku limit",
    "out of extra usage",
    "usage has been exhausted",
    "quota exceeded",
    "exceeded your current quota",
    "exceed your account's rate limit",
];
/// What a limit is told by.
const LIMITS: &[&str] = &["limit", "quota", "allowance", "credit"];
/// What an allowance, and nothing else, has to do with.
const ALLOWANCES: &[&str] = &[
    "usage",
    "hour",
    "daily",
    "weekly",
    "monthly",
    "plan",
    "subscription",
    "account",
    "organization",
    "billing",
    "upgrade",
    "reset",
    "try again",
];
/// Limits on what is sent, not on how much.
const SIZES: &[&str] = &[
    "context",
    "token",
    "prompt is too long",
    "too large",
    "too long",
    "size",
    "length",
    "image",
    "pages",
    "timeout",
];

/// The limit that the text of a recorded error speaks of, if it speaks of one.
pub fn limit(text: &str) -> Option<Limit> {
    let text = text.to_lowercase().replace('’', "'");
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if says(RATE) {
        Some(Limit::Rate)
    } else if says(AUTH) {
        Some(Limit::Auth)
    } else if says(BILLING) {
        Some(Limit::Billing)
    } else if says(QUOTA) {
        Some(Limit::Quota)
    } else if says(LIMITS) && says(ALLOWANCES) && !says(SIZES) {
        Some(Limit::Suspected)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::limit;
    use crate::quota::limit::Limit::{self, Auth, Billing, Quota, Rate, Suspected};

    /// Sentences of both CLIs as they were seen or reported, with what they mean.
    const SEEN: &[(&str, Option<Limit>)] = &[
        (
            "You've hit your 5-hour limit · resets 10:01am (UTC)",
            Some(Quota),
        ),
        (
            "You've hit your session limit · resets 3pm (UTC)",
            Some(Quota),
        ),
        (
            "You've hit your weekly limit · resets Dec 2, 3:34pm (UTC)",
            Some(Quota),
        ),
        (
            "You’ve hit your Opus limit · resets Oct 31, 9am",
            Some(Quota),
        ),
        (
            "Opus weekly limit reached ∙ resets Oct 31, 9am",
            Some(Quota),
        ),
        ("Session limit reached ∙ resets 8pm", Some(Quota)),
        ("You've hit your org's monthly usage limit", Some(Quota)),
        (
            "You're out of extra usage · resets 3am (America/Santiago)",
            Some(Quota),
        ),
        ("Claude AI usage limit reached|1760004000", Some(Quota)),
        (
            "This request would exceed your account's rate limit. Please try again later.",
            Some(Quota),
        ),
        (
            "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at 9:59 AM.",
            Some(Quota),
        ),
        (
            "You've hit your usage limit. To get more access now, send a request to your admin or try again in 3 days 6 hours 57 minutes.",
            Some(Quota),
        ),
        (
            "API Error: Server is temporarily limiting requests (not your usage limit) · You exceeded your current quota",
            Some(Rate),
        ),
        (
            "exceeded retry limit, last status: 429 Too Many Requests",
            Some(Rate),
        ),
        ("Credit balance is too low", Some(Billing)),
        (
            "Claude Code can't use your Claude subscription, usually because a payment is past due",
            Some(Billing),
        ),
        (
            "Quota exceeded. Check your plan and billing details.",
            Some(Billing),
        ),
        (
            "unexpected status 402 Payment Required: payment required",
            Some(Billing),
        ),
        (
            "To use Codex with your ChatGPT plan, upgrade to Plus: https://openai.com",
            Some(Billing),
        ),
        (
            "Your access token could not be refreshed because your refresh token was already used. Please log out and sign in again.",
            Some(Auth),
        ),
        ("workspace routing discovery unauthorized (401)", Some(Auth)),
        (
            "Failed to authenticate: OAuth session expired and could not be refreshed",
            Some(Auth),
        ),
        (
            "Your fortnightly plan limit was met; upgrade for more",
            Some(Suspected),
        ),
        (
            "The account has no allowance left until the cycle resets",
            Some(Suspected),
        ),
        (
            "Prompt is too long · this conversation is a single exchange",
            None,
        ),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
            None,
        ),
        (
            "API Error: 500 boom. This is a server-side issue — try again in a moment.",
            None,
        ),
        (
            "We’re currently experiencing high demand, which may cause temporary errors.",
            None,
        ),
        ("API Error: Connection error.", None),
        ("", None),
    ];

    #[test]
    fn each_known_sentence_means_what_it_says_and_an_unknown_one_is_suspected() {
        for (sentence, expected) in SEEN {
            assert_eq!(limit(sentence), *expected, "{sentence}");
        }
    }

    #[test]
    fn each_word_of_ours_is_read_back() {
        for limit in [Quota, Rate, Billing, Auth, Suspected] {
            assert_eq!(Limit::of_word(limit.word()), Some(limit));
        }
    }
}
