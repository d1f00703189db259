//! How a Claude conversation ended, by the record that Claude Code makes of a failed request. Pure.
//!
//! The last `assistant` line of the transcript is such a record when it has `isApiErrorMessage`; Claude Code
//! sets that itself, with `error`, `apiErrorStatus`, `apiError` and, for a used-up window, `quotaLimits` with
//! the reset (run with 2.1.332). `error` is `rate_limit` for a used-up window and for a per-minute limit alike;
//! only then, and when there is no word at all, does the sentence of the record decide. Subscriptions that
//! are not paid come as `oauth_org_not_allowed`. `quotaLimits` also has `isUsingOverage` or `overageInUse` when
//! the server said so of the request that it refused.
//!
//! Limits: requests that the server answers beyond the subscription leave no such word in the transcript.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::usage::classify;
use crate::provider::home::conversation::Tail;
use crate::quota::limit::{Ending, Limit, Reset};
use crate::quota::reset;
use crate::quota::window::Window;
use crate::quota::wording;
use crate::snapshot::evidence::word;

/// How the last turn ended.
pub(super) fn of(tail: &Tail, local: &TimeZone) -> Ending {
    let answer = tail
        .newest(&["\"assistant\""])
        .find(|line| line["type"] == "assistant");
    let Some(answer) = answer.filter(|answer| answer["isApiErrorMessage"] == true) else {
        return Ending::default();
    };
    let text = sentence(&answer);
    let limit = limit(&answer, &text);
    let at = tail.time(&answer);
    let stated = answer["quotaLimits"]["resetsAt"]
        .as_i64()
        .and_then(|at| Timestamp::from_second(at).ok())
        .map(|at| Reset { at, guessed: false });
    let told = || reset::reset(&text, at?, local);
    let used_up = (limit == Some(Limit::Quota)).then_some(());
    let reset = used_up.and_then(|()| stated.or_else(told));
    let windows: Vec<Window> = used_up
        .and_then(|()| window(&answer["quotaLimits"], reset))
        .into_iter()
        .collect();
    Ending {
        limit,
        at,
        reset,
        windows_at: at.filter(|_| !windows.is_empty()),
        windows,
        overage_used: ["isUsingOverage", "overageInUse"]
            .iter()
            .any(|word| answer["quotaLimits"][word] == true),
    }
}

/// What people were shown.
fn sentence(answer: &Value) -> String {
    let blocks = answer["message"]["content"].as_array();
    let texts = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn limit(answer: &Value, text: &str) -> Option<Limit> {
    let refused = Refused {
        error: answer["error"].as_str().unwrap_or_default(),
        status: answer["apiErrorStatus"].as_u64(),
        used_up: answer["quotaLimits"]["status"] == "rejected"
            || answer["apiError"] == "usage_limit_reached",
        text,
    };
    refused.limit()
}

/// A record of a failed request; transcript and output stream have the same one under different names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    /// Claude Code's own word.
    pub error: &'a str,
    /// The server's status.
    pub status: Option<u64>,
    /// Whether a window is used up, by the words that say so and nothing else.
    pub used_up: bool,
    /// What people were shown.
    pub text: &'a str,
}

impl Refused<'_> {
    /// The limit that it tells of, if any.
    pub(crate) fn limit(self) -> Option<Limit> {
        if self.used_up {
            return Some(Limit::Quota);
        }
        match (self.error, self.status) {
            ("rate_limit", _) | (_, Some(429)) => {
                Some(wording::limit(self.text).unwrap_or(Limit::Suspected))
            }
            (_, Some(529)) => Some(Limit::Rate),
            (_, Some(402)) => Some(Limit::Billing),
            (_, Some(401)) => Some(Limit::Auth),
            _ => Limit::of_word(self.error).or_else(|| wording::limit(self.text)),
        }
    }
}

/// The window that was used up, where the record names it.
fn window(limits: &Value, reset: Option<Reset>) -> Option<Window> {
    let id = limits["rateLimitType"].as_str().and_then(word)?;
    let (kind, scope) = classify(&id);
    Some(Window {
        id,
        kind,
        scope,
        remaining_percent: 0.0,
        resets_at: reset.map(|reset| reset.at),
    })
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::provider::home::conversation::Tail;
    use crate::quota::limit::Limit::{self, Auth, Billing, Quota, Rate, Suspected};
    use crate::quota::limit::{Ending, Reset};
    use crate::quota::window::Kind;
    use jiff::tz::TimeZone;
    use serde_json::{Value, json};

    /// A record as 2.1.332 writes it, with these fields on top.
    fn failed(text: &str, fields: &Value) -> String {
        let mut line = json!({
            "type": "assistant",
            "isSidechain": false,
            "timestamp": "2026-11-30T12:28:38.515Z",
            "message": {"model": "<synthetic>", "content": [{"type": "text", "text": text}]},
            "isApiErrorMessage": true,
        });
        line.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        line.to_string()
    }

    fn ending(lines: &[&str]) -> Ending {
        of(&Tail::of(lines), &TimeZone::UTC)
    }

    const GOOD: &str =
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}"#;
    const RESET: i64 = 1_796_045_318;

    fn five_hours() -> String {
        failed(
            "You've hit your 5-hour limit · resets 1:28pm (UTC)",
            &json!({
                "error": "rate_limit", "apiErrorStatus": 429, "apiError": "usage_limit_reached",
                "quotaLimits": {"status": "rejected", "resetsAt": RESET, "rateLimitType": "five_hour"},
            }),
        )
    }

    #[test]
    fn a_used_up_window_says_which_and_until_when() {
        let found = ending(&[GOOD, &five_hours(), r#"{"type":"last-prompt"}"#]);
        assert_eq!(found.limit, Some(Quota));
        assert_eq!(found.at.unwrap().to_string(), "2026-11-30T12:28:38.515Z");
        let Reset { at, guessed } = found.reset.unwrap();
        assert_eq!((at.as_second(), guessed), (RESET, false));
        let window = &found.windows[0];
        assert_eq!(
            (window.id.as_str(), window.kind),
            ("five_hour", Kind::Session)
        );
        assert_eq!(window.resets_at, Some(at));
        let opus = five_hours().replace("five_hour", "seven_day_opus");
        let window = &ending(&[&opus]).windows[0];
        assert_eq!(window.scope.as_deref(), Some("opus"));
        let prose = five_hours().replace("\"five_hour\"", "\"a sentence of somebody\"");
        assert!(ending(&[&prose]).windows.is_empty());
        assert_eq!(ending(&[&five_hours(), GOOD]), Ending::default());
    }

    #[test]
    fn a_refused_request_says_whether_usage_beyond_the_subscription_is_paid_for() {
        let with = |fields: &str| {
            let line = five_hours().replace(
                "\"status\":\"rejected\"",
                &format!("\"status\":\"rejected\",{fields}"),
            );
            ending(&[&line])
        };
        // As 2.1.332 wrote it when the server refused with overage allowed and in use.
        for used in [
            r#""overageStatus":"allowed","isUsingOverage":true,"overageInUse":true"#,
            r#""isUsingOverage":true"#,
            r#""overageInUse":true"#,
        ] {
            let found = with(used);
            assert_eq!(
                (found.overage_used, found.limit),
                (true, Some(Quota)),
                "{used}"
            );
        }
        for unused in [
            r#""overageStatus":"rejected","isUsingOverage":false"#,
            r#""isUsingOverage":"true""#,
        ] {
            assert!(!with(unused).overage_used, "{unused}");
        }
        assert!(!ending(&[&five_hours()]).overage_used);
    }

    #[test]
    fn the_sentence_says_until_when_only_where_the_record_does_not() {
        let unstated = five_hours().replace(&RESET.to_string(), "null");
        let reset = ending(&[&unstated]).reset.unwrap();
        assert_eq!(reset.at.to_string(), "2026-11-30T13:29:00Z");
        let silent = unstated.replace("resets", "was met");
        let found = ending(&[&silent]);
        assert_eq!((found.limit, found.reset), (Some(Quota), None));
    }

    #[test]
    fn each_failed_request_is_what_its_record_says() {
        let cases: [(&str, Value, Option<Limit>); 14] = [
            (
                "API Error: Server is temporarily limiting requests (not your usage limit)",
                json!({"error": "rate_limit", "apiErrorStatus": 429}),
                Some(Rate),
            ),
            (
                "You've hit your org's monthly usage limit",
                json!({"error": "rate_limit", "apiErrorStatus": 429}),
                Some(Quota),
            ),
            (
                "Fair use has been measured",
                json!({"error": "rate_limit", "apiErrorStatus": 429}),
                Some(Suspected),
            ),
            (
                "The plan allowance of this subscription is gone",
                json!({"error": "unknown", "apiErrorStatus": 418}),
                Some(Suspected),
            ),
            (
                "Credit balance is too low",
                json!({"error": "billing_error", "apiErrorStatus": 400}),
                Some(Billing),
            ),
            (
                "API Error: 402 payment required",
                json!({"error": "unknown", "apiErrorStatus": 402}),
                Some(Billing),
            ),
            (
                "Claude Code can't use your Claude subscription",
                json!({"error": "oauth_org_not_allowed", "apiErrorStatus": 403}),
                Some(Billing),
            ),
            (
                "Failed to authenticate. API Error: 401 OAuth token has been revoked",
                json!({"error": "authentication_failed", "apiErrorStatus": 401}),
                Some(Auth),
            ),
            (
                "Failed to authenticate: OAuth session expired and could not be refreshed",
                json!({"error": "authentication_failed"}),
                Some(Auth),
            ),
            (
                "API Error: 529 Overloaded.",
                json!({"error": "server_error", "apiErrorStatus": 529}),
                Some(Rate),
            ),
            (
                "API Error: 500 boom. This is a server-side issue — try again in a moment.",
                json!({"error": "server_error", "apiErrorStatus": 500}),
                None,
            ),
            (
                "Prompt is too long · this conversation is a single exchange",
                json!({"error": "invalid_request", "apiErrorStatus": 400}),
                None,
            ),
            (
                "API Error: Connection error.",
                json!({"error": "unknown"}),
                None,
            ),
            ("", json!({"error": 7, "apiErrorStatus": "429"}), None),
        ];
        for (text, fields, expected) in cases {
            let found = ending(&[GOOD, &failed(text, &fields)]);
            assert_eq!(found.limit, expected, "{text} {fields}");
        }
    }

    #[test]
    fn what_a_worker_says_is_no_record() {
        let quoted = failed("x", &json!({"error": "rate_limit", "apiErrorStatus": 429}));
        for line in [
            json!({"type": "assistant", "message": {"content": [{"type": "text",
                "text": "You've hit your 5-hour limit · resets 1:28pm (UTC)"}]}}),
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": quoted}]}}),
            json!({"type": "user", "isApiErrorMessage": true, "error": "rate_limit",
                "message": {"content": "You've hit your weekly limit"}}),
            json!({"type": "assistant", "error": "rate_limit", "apiErrorStatus": 429,
                "quotaLimits": {"status": "rejected", "resetsAt": RESET}}),
        ] {
            assert_eq!(ending(&[&line.to_string()]), Ending::default(), "{line}");
        }
    }
}
