//! How a Codex conversation ended, by the events that Codex writes into its rollout. Pure.
//!
//! `task_complete` ends a turn; one that failed has `error` with `codex_error_info`, a word or an object with
//! the status of the server's answer (run with 0.171). A login that is no longer taken often comes as `other`,
//! and then the sentence of that record decides. `token_count` has the account's windows as the server sent
//! them with the last answer, refused ones included; it is the only place where the reset of a limit stands.
//! A turn that was cut off says nothing of the account, so the one before it still counts.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::usage::rollout;
use crate::provider::answer::add;
use crate::provider::home::conversation::Tail;
use crate::quota::limit::{Ending, Limit, Reset};
use crate::quota::reset;
use crate::quota::window::Window;
use crate::quota::wording;

/// Failures that say nothing of the account.
const HARMLESS: [&str; 8] = [
    "active_turn_not_steerable",
    "bad_request",
    "context_window_exceeded",
    "cyber_policy",
    "internal_server_error",
    "response_stream_disconnected",
    "sandbox_error",
    "thread_rollback_failed",
];

/// How the last turn ended, and the windows that were seen last.
pub(super) fn of(tail: &Tail, local: &TimeZone) -> Ending {
    let mut found = Ending::default();
    let mut over = false;
    let mut reached = None;
    let mut seen = Vec::new();
    for line in tail.newest(&["\"task_complete\"", "\"token_count\""]) {
        let payload = &line["payload"];
        if line["type"] != "event_msg" {
            continue;
        }
        if payload["type"] == "task_complete" && !over {
            over = true;
            found.at = tail.time(&line);
            found.limit = limit(&payload["error"]);
            let text = payload["error"]["message"].as_str().unwrap_or_default();
            found.reset = found.at.and_then(|at| reset::reset(text, at, local));
        }
        let limits = &payload["rate_limits"];
        if payload["type"] == "token_count" && limits.is_object() {
            let name = limits["limit_id"].as_str().unwrap_or_default().to_owned();
            if seen.contains(&name) {
                continue;
            }
            let windows = rollout(limits);
            if seen.is_empty() {
                found.windows_at = tail.time(&line);
                reached = limits["rate_limit_reached_type"]
                    .as_str()
                    .map(str::to_owned);
            }
            seen.push(name);
            for window in windows {
                add(&mut found.windows, window);
            }
        }
    }
    if found.windows.is_empty() {
        found.windows_at = None;
    }
    if found.limit != Some(Limit::Quota) {
        found.reset = None;
        return found;
    }
    // The windows are those of the refused request only when they came with it.
    found.reset = exhausted(&found.windows).or(found.reset);
    if reached.is_some_and(|reached| reached.ends_with("credits_depleted")) {
        found.limit = Some(Limit::Billing);
    }
    found
}

/// When the windows that are used up are all full again.
fn exhausted(windows: &[Window]) -> Option<Reset> {
    let used_up = windows
        .iter()
        .filter(|window| window.remaining_percent <= 0.0);
    let at = used_up.filter_map(|window| window.resets_at).max()?;
    Some(Reset { at, guessed: false })
}

/// The limit that the error of a failed turn tells of, if any.
pub(crate) fn limit(error: &Value) -> Option<Limit> {
    if error.is_null() {
        return None;
    }
    let text = error["message"].as_str().unwrap_or_default();
    let told = wording::limit(text);
    let info = &error["codex_error_info"];
    let status = info.as_object().and_then(|info| {
        let mut details = info.values();
        details.find_map(|detail| detail["http_status_code"].as_u64())
    });
    match (info.as_str(), status) {
        (Some("usage_limit_exceeded"), _) if told == Some(Limit::Billing) => told,
        (Some("usage_limit_exceeded"), _) => Some(Limit::Quota),
        (Some("unauthorized"), _) | (_, Some(401)) => Some(Limit::Auth),
        (_, Some(402)) => Some(Limit::Billing),
        (_, Some(429)) => Some(told.unwrap_or(Limit::Rate)),
        (Some("server_overloaded"), _) | (_, Some(529)) => Some(Limit::Rate),
        (Some(word), _) if HARMLESS.contains(&word) => None,
        _ => told,
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::provider::home::conversation::Tail;
    use crate::quota::limit::Ending;
    use crate::quota::limit::Limit::{self, Auth, Billing, Quota, Rate, Suspected};
    use jiff::tz::TimeZone;
    use serde_json::{Value, json};

    fn ending(lines: &[&str]) -> Ending {
        of(&Tail::of(lines), &TimeZone::UTC)
    }

    fn event(payload: &Value) -> String {
        json!({"timestamp": "2026-11-30T12:28:39.471Z", "type": "event_msg", "payload": payload})
            .to_string()
    }

    fn windows(five_hours: f64, week: f64) -> String {
        event(
            &json!({"type": "token_count", "info": null, "rate_limits": {
                "limit_id": "codex",
                "primary": {"used_percent": five_hours, "window_minutes": 300, "resets_at": 1_796_045_319},
                "secondary": {"used_percent": week, "window_minutes": 10_080, "resets_at": 1_796_241_722},
                "rate_limit_reached_type": null,
            }}),
        )
    }

    fn failed(message: &str, info: &Value) -> String {
        event(&json!({"type": "task_complete", "last_agent_message": null,
            "error": {"message": message, "codex_error_info": info}}))
    }

    fn used_up() -> String {
        failed(
            "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at 1:28 PM.",
            &json!("usage_limit_exceeded"),
        )
    }

    const GOOD: &str = r#"{"timestamp":"2026-11-30T12:28:39Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":"m"}}"#;
    const CUT_OFF: &str = r#"{"timestamp":"2026-11-30T12:28:40Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}"#;

    #[test]
    fn a_used_up_window_resets_when_the_windows_say_so() {
        let found = ending(&[GOOD, &windows(100.0, 20.0), &used_up()]);
        assert_eq!((found.limit, found.windows.len()), (Some(Quota), 2));
        assert_eq!(found.at.unwrap().to_string(), "2026-11-30T12:28:39.471Z");
        let reset = found.reset.unwrap();
        assert_eq!(
            (reset.at.as_second(), reset.guessed),
            (1_796_045_319, false)
        );
        let week = ending(&[&windows(10.0, 100.0), &used_up()]).reset.unwrap();
        assert_eq!(week.at.as_second(), 1_796_241_722);
        let cut_off = ending(&[&windows(100.0, 20.0), &used_up(), CUT_OFF]);
        assert_eq!(cut_off.limit, Some(Quota));
        let far = "x".repeat(300 << 10);
        assert_eq!(ending(&[&far, &windows(100.0, 20.0), &used_up()]), found);
    }

    #[test]
    fn the_sentence_says_until_when_only_where_the_windows_do_not() {
        let found = ending(&[&used_up()]);
        let reset = found.reset.unwrap();
        assert_eq!(reset.at.to_string(), "2026-11-30T13:29:00Z");
        assert!(reset.guessed, "Codex names no zone");
        assert_eq!((found.windows.len(), found.windows_at), (0, None));
    }

    #[test]
    fn a_turn_that_went_well_leaves_its_windows() {
        let found = ending(&[&used_up(), &windows(40.0, 20.0), GOOD]);
        assert_eq!((found.limit, found.reset), (None, None));
        let left: Vec<f64> = found
            .windows
            .iter()
            .map(|window| window.remaining_percent)
            .collect();
        assert_eq!(left, [60.0, 80.0]);
        assert!(found.windows_at.is_some());
        let newer = ending(&[&windows(40.0, 20.0), &windows(41.0, 20.0)]);
        assert_eq!(newer.windows[0].remaining_percent.to_string(), "59");
        assert_eq!(newer.at, None, "the turn is not over");
    }

    #[test]
    fn a_limit_of_another_name_gates_that_alone() {
        let spark = windows(100.0, 100.0)
            .replace("\"codex\"", "\"codex_spark\",\"limit_name\":\"GPT Spark\"");
        let found = ending(&[&windows(40.0, 20.0), &spark]);
        let scopes: Vec<_> = found
            .windows
            .iter()
            .map(|window| window.scope.as_deref())
            .collect();
        assert_eq!(scopes, [Some("gpt spark"), Some("gpt spark"), None, None]);
    }

    #[test]
    fn each_failed_turn_is_what_its_record_says() {
        let status = |name: &str, code: u64| json!({name: {"http_status_code": code}});
        let cases: [(&str, Value, Option<Limit>); 15] = [
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                status("response_too_many_failed_attempts", 429),
                Some(Rate),
            ),
            ("busy", json!("server_overloaded"), Some(Rate)),
            (
                "unexpected status 402 Payment Required: payment required",
                status("http_connection_failed", 402),
                Some(Billing),
            ),
            (
                "Quota exceeded. Check your plan and billing details.",
                json!("usage_limit_exceeded"),
                Some(Billing),
            ),
            (
                "unexpected status 401 Unauthorized: OAuth token has been revoked",
                status("http_connection_failed", 401),
                Some(Auth),
            ),
            ("no", json!("unauthorized"), Some(Auth)),
            (
                "Your access token could not be refreshed because your refresh token was already used. Please log out and sign in again.",
                json!("other"),
                Some(Auth),
            ),
            (
                "workspace routing discovery unauthorized (401)",
                json!("other"),
                Some(Auth),
            ),
            (
                "Your fortnightly plan limit was met",
                json!("other"),
                Some(Suspected),
            ),
            (
                "Your fortnightly plan limit was met",
                json!("a_new_word"),
                Some(Suspected),
            ),
            (
                "Your input exceeds the context window of this model. Please adjust your input and try again",
                json!("context_window_exceeded"),
                None,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                json!("internal_server_error"),
                None,
            ),
            (
                "unexpected status 403 Forbidden: not allowed",
                status("http_connection_failed", 403),
                None,
            ),
            (
                "stream disconnected before completion",
                status("response_stream_disconnected", 200),
                None,
            ),
            ("", json!(7), None),
        ];
        for (text, info, expected) in cases {
            let found = ending(&[GOOD, &failed(text, &info)]);
            assert_eq!(found.limit, expected, "{text} {info}");
            assert_eq!(found.reset, None, "{text}");
        }
        let depleted = windows(10.0, 20.0).replace(
            "\"rate_limit_reached_type\":null",
            "\"rate_limit_reached_type\":\"workspace_member_credits_depleted\"",
        );
        assert_eq!(ending(&[&depleted, &used_up()]).limit, Some(Billing));
    }

    #[test]
    fn what_a_worker_says_is_no_record() {
        for line in [
            json!({"type": "response_item", "payload": {"type": "task_complete",
                "error": {"codex_error_info": "usage_limit_exceeded"}}}),
            json!({"type": "event_msg", "payload": {"type": "agent_message", "message": used_up()}}),
            json!({"type": "event_msg", "payload": {"type": "task_complete",
                "last_agent_message": "You've hit your usage limit. Try again at 9:59 AM."}}),
        ] {
            assert_eq!(ending(&[&line.to_string()]).limit, None, "{line}");
        }
    }
}
