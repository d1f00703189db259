//! Who a Codex login is and what is left, as `GET /backend-api/wham/usage` tells both. Pure.
//!
//! A window is known by its duration, never by its slot: weekly limits were seen in the primary one. When
//! the server says that work is refused, that outweighs its percentages.

use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::answer::{add, instant, number, remaining_of_used, text};
use crate::provider::{FetchError, Usage};
use crate::quota::window::{Kind, Window};

/// The account in the usage endpoint's answer. Two people in one workspace are two accounts, so an answer
/// that lacks either id proves nothing.
pub(crate) fn account(answer: &Value) -> Result<Account, FetchError> {
    let user = text(&answer["user_id"]).ok_or(FetchError::Shape)?;
    let account = text(&answer["account_id"]).ok_or(FetchError::Shape)?;
    Ok(Account {
        user: Some(user),
        account: Some(account),
        organization: None,
    })
}

/// The windows in the usage endpoint's answer.
pub(crate) fn parse(answer: &Value) -> Result<Usage, FetchError> {
    let mut windows = limit(&answer["rate_limit"], None)?;
    for extra in answer["additional_rate_limits"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = text(&extra["limit_name"]).or_else(|| text(&extra["metered_feature"]));
        let scope = name.unwrap_or_else(|| "additional".to_owned());
        for window in limit(&extra["rate_limit"], Some(&scope.to_ascii_lowercase()))? {
            add(&mut windows, window);
        }
    }
    if !windows.iter().any(|window| window.scope.is_none()) {
        return Err(FetchError::Shape);
    }
    Ok(Usage {
        windows,
        overage_enabled: answer["credits"]["has_credits"].as_bool(),
    })
}

/// The two slots of one limit.
fn limit(limit: &Value, scope: Option<&str>) -> Result<Vec<Window>, FetchError> {
    let mut windows = Vec::new();
    for slot in ["primary_window", "secondary_window"] {
        let slot = &limit[slot];
        if !slot.is_null() {
            let minutes = number(&slot["limit_window_seconds"]).map(|seconds| seconds / 60.0);
            add(
                &mut windows,
                window(slot, minutes, &slot["reset_at"], scope)?,
            );
        }
    }
    let refused = limit["limit_reached"] == true || limit["allowed"] == false;
    if refused && windows.iter().all(|window| window.remaining_percent > 0.0) {
        windows.push(Window {
            id: "limit_reached".to_owned(),
            kind: Kind::Other,
            scope: scope.map(str::to_owned),
            remaining_percent: 0.0,
            resets_at: None,
        });
    }
    Ok(windows)
}

fn window(
    slot: &Value,
    minutes: Option<f64>,
    resets_at: &Value,
    scope: Option<&str>,
) -> Result<Window, FetchError> {
    let remaining = remaining_of_used(&slot["used_percent"]).ok_or(FetchError::Shape)?;
    let whole = minutes.filter(|minutes| (1.0..1e9).contains(minutes));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number below a thousand million fits"
    )]
    let minutes = whole.map_or(0, |minutes| minutes.round() as u64);
    let name = match minutes {
        300 => "five_hour".to_owned(),
        10_080 => "weekly".to_owned(),
        0 => "unknown".to_owned(),
        other => format!("{other}_minutes"),
    };
    Ok(Window {
        id: scope.map_or_else(
            || name.clone(),
            |scope| format!("{name}_{}", scope.replace(' ', "_")),
        ),
        kind: Kind::of_minutes(minutes),
        scope: scope.map(str::to_owned),
        remaining_percent: remaining,
        resets_at: instant(resets_at),
    })
}

/// The windows in a rollout's `token_count.rate_limits`, where durations are in minutes; empty when it
/// holds none that make sense. Those of another limit than the plan's own gate what it is named for alone.
pub fn rollout(limits: &Value) -> Vec<Window> {
    let mut windows = Vec::new();
    let scope = text(&limits["limit_id"])
        .filter(|id| id != "codex")
        .map(|id| {
            text(&limits["limit_name"])
                .unwrap_or(id)
                .to_ascii_lowercase()
        });
    for slot in ["primary", "secondary"] {
        let slot = &limits[slot];
        if slot.is_null() {
            continue;
        }
        match window(
            slot,
            number(&slot["window_minutes"]),
            &slot["resets_at"],
            scope.as_deref(),
        ) {
            Ok(window) => add(&mut windows, window),
            Err(_) => return Vec::new(),
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::{account, parse, rollout};
    use crate::provider::FetchError;
    use crate::quota::window::Kind;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../../fixtures/provider/codex/usage.json")).unwrap()
    }

    #[test]
    fn one_answer_names_the_account_and_the_windows() {
        let account = account(&fixture()).unwrap();
        assert_eq!(account.user.as_deref(), Some("user-LAB0001"));
        let usage = parse(&fixture()).unwrap();
        let seen: Vec<_> = usage
            .windows
            .iter()
            .map(|window| {
                (
                    window.id.as_str(),
                    window.kind,
                    window.scope.as_deref(),
                    window.remaining_percent,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("five_hour", Kind::Session, None, 88.0),
                ("weekly", Kind::Weekly, None, 30.0),
                (
                    "five_hour_gpt-spark",
                    Kind::Session,
                    Some("gpt-spark"),
                    100.0
                ),
            ]
        );
        assert_eq!(
            usage.windows[0].resets_at,
            "2026-11-30T11:00:00Z".parse().ok()
        );
    }

    #[test]
    fn a_weekly_window_in_the_primary_slot_is_weekly() {
        let mut answer = fixture();
        answer["rate_limit"]["primary_window"]["limit_window_seconds"] = json!(604_800);
        answer["rate_limit"]["secondary_window"] = json!(null);
        let windows = parse(&answer).unwrap().windows;
        assert_eq!(
            (windows[0].id.as_str(), windows[0].kind),
            ("weekly", Kind::Weekly)
        );
    }

    #[test]
    fn a_refusal_outweighs_the_percentages() {
        let mut answer = fixture();
        answer["rate_limit"]["limit_reached"] = json!(true);
        let least = parse(&answer)
            .unwrap()
            .windows
            .iter()
            .map(|window| window.remaining_percent)
            .fold(100.0, f64::min);
        assert!(least <= 0.0, "{least}");
    }

    #[test]
    fn what_makes_no_sense_gives_no_headroom() {
        for bad in [json!("12"), json!(null), json!(-3), json!({})] {
            let mut answer = fixture();
            answer["rate_limit"]["primary_window"]["used_percent"] = bad.clone();
            assert_eq!(parse(&answer), Err(FetchError::Shape), "{bad}");
        }
        for empty in [
            json!(null),
            json!([]),
            json!({}),
            json!({"rate_limit": null}),
        ] {
            assert_eq!(parse(&empty), Err(FetchError::Shape), "{empty}");
            assert_eq!(account(&empty), Err(FetchError::Shape), "{empty}");
        }
    }

    #[test]
    fn a_rollouts_windows_are_the_same_windows() {
        let windows = rollout(&json!({
            "primary": {"used_percent": 100.0, "window_minutes": 300, "resets_at": 1_796_036_400},
            "secondary": {"used_percent": 20.0, "window_minutes": 10_080, "resets_at": 1_796_198_400},
        }));
        assert_eq!(windows.len(), 2);
        assert_eq!(
            (windows[0].id.as_str(), windows[0].remaining_percent),
            ("five_hour", 0.0)
        );
        assert!(rollout(&json!({"primary": {"used_percent": "x"}})).is_empty());
    }

    proptest! {
        #[test]
        fn no_number_makes_a_panic_or_more_than_a_percentage(used in any::<f64>(), seconds in any::<f64>(), at in any::<f64>()) {
            let mut answer = fixture();
            answer["rate_limit"]["primary_window"] =
                json!({"used_percent": used, "limit_window_seconds": seconds, "reset_at": at});
            for window in parse(&answer).map(|usage| usage.windows).unwrap_or_default() {
                prop_assert!((0.0..=100.0).contains(&window.remaining_percent));
            }
        }
    }
}
