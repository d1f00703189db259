//! Who a Codex login is and what is left, as `GET /backend-api/wham/usage` tells both. Pure.
//!
//! A window is known by its duration, never by its slot: weekly limits were seen in the primary one. When
//! the server says that work is refused, that outweighs its percentages. A window whose numbers make no sense
//! has nothing left; an answer in which none makes sense is none.

use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::answer::{add, instant, nothing_left, number, remaining_of_used, text};
use crate::provider::{FetchError, Usage};
use crate::quota::window::{Kind, REFUSED, Spend, Window};

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
    let mut found = Found::default();
    found.limit(&answer["rate_limit"], None);
    match &answer["additional_rate_limits"] {
        Value::Null => {}
        Value::Array(extras) => {
            for extra in extras {
                let name = text(&extra["limit_name"]).or_else(|| text(&extra["metered_feature"]));
                let scope = name.unwrap_or_else(|| "additional".to_owned());
                found.limit(&extra["rate_limit"], Some(&scope.to_ascii_lowercase()));
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            found.misread(nothing_left("additional", Kind::Other, None));
        }
    }
    if !found.gates_all {
        return Err(FetchError::Shape);
    }
    let credits = &answer["credits"];
    let bought = [&credits["has_credits"], &credits["unlimited"]];
    // Whatever else it says, it does not say that nothing will be paid.
    let pays = |said: &&Value| !said.is_null() && **said != Value::Bool(false);
    let balance = number(&credits["balance"])
        .or_else(|| text(&credits["balance"])?.parse().ok())
        .filter(|balance: &f64| balance.is_finite());
    Ok(Usage {
        windows: found.windows,
        overage_enabled: bought
            .iter()
            .any(|said| !said.is_null())
            .then(|| bought.iter().any(pays)),
        spend: balance.map(|balance| Spend {
            used: None,
            limit: None,
            balance: Some(balance),
        }),
        misread: found.misread,
    })
}

/// Windows found so far.
#[derive(Debug, Default)]
struct Found {
    windows: Vec<Window>,
    /// Whether a window was understood.
    understood: bool,
    /// Whether one was that gates every model.
    gates_all: bool,
    misread: bool,
}

impl Found {
    fn misread(&mut self, window: Window) {
        self.misread = true;
        add(&mut self.windows, window);
    }

    /// The slots of one limit: `primary_window`, `secondary_window`, and any that may come.
    fn limit(&mut self, limit: &Value, scope: Option<&str>) {
        let slots = match limit {
            Value::Null => return,
            Value::Object(slots) => slots,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return self.misread(named("unknown", 0, scope));
            }
        };
        let before = self.windows.len();
        for (_, slot) in slots.iter().filter(|(name, _)| name.ends_with("_window")) {
            let minutes = number(&slot["limit_window_seconds"]).map(|seconds| seconds / 60.0);
            self.slot(slot, minutes, &slot["reset_at"], scope);
        }
        let own = self.windows.get(before..).unwrap_or_default();
        let is_off = |said: &Value, word: bool| !said.is_null() && *said != Value::Bool(word);
        let refused = is_off(&limit["limit_reached"], false) || is_off(&limit["allowed"], true);
        if refused && own.iter().all(|window| window.remaining_percent > 0.0) {
            add(&mut self.windows, named(REFUSED, 0, scope));
        }
    }

    /// One slot. One that makes no sense has nothing left, so that it neither promises anything nor hides
    /// that another is used up.
    fn slot(&mut self, slot: &Value, minutes: Option<f64>, resets_at: &Value, scope: Option<&str>) {
        if slot.is_null() {
            return;
        }
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
        let window = named(&name, minutes, scope);
        match remaining_of_used(&slot["used_percent"]) {
            Some(remaining_percent) => {
                self.understood = true;
                self.gates_all |= scope.is_none();
                let window = Window {
                    remaining_percent,
                    resets_at: instant(resets_at),
                    ..window
                };
                add(&mut self.windows, window);
            }
            None => self.misread(window),
        }
    }
}

/// A window of this length with nothing left.
fn named(name: &str, minutes: u64, scope: Option<&str>) -> Window {
    let id = scope.map_or_else(
        || name.to_owned(),
        |scope| format!("{name}_{}", scope.replace(' ', "_")),
    );
    nothing_left(id, Kind::of_minutes(minutes), scope.map(str::to_owned))
}

/// The windows in a rollout's `token_count.rate_limits`, where durations are in minutes; empty when it
/// holds none that make sense. Those of another limit than the plan's own gate what it is named for alone.
pub fn rollout(limits: &Value) -> Vec<Window> {
    let mut found = Found::default();
    let scope = text(&limits["limit_id"])
        .filter(|id| id != "codex")
        .map(|id| {
            text(&limits["limit_name"])
                .unwrap_or(id)
                .to_ascii_lowercase()
        });
    for slot in ["primary", "secondary"] {
        let slot = &limits[slot];
        found.slot(
            slot,
            number(&slot["window_minutes"]),
            &slot["resets_at"],
            scope.as_deref(),
        );
    }
    if found.understood {
        found.windows
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{account, parse, rollout};
    use crate::provider::FetchError;
    use crate::quota::window::Kind;
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
    fn a_slot_of_a_new_name_and_length_is_kept_and_gates() {
        let mut answer = fixture();
        answer["rate_limit"]["tertiary_window"] =
            json!({"used_percent": 90, "limit_window_seconds": 2_592_000, "reset_at": null});
        answer["rate_limit"]["odd_window"] = json!({"used_percent": 95});
        let windows = parse(&answer).unwrap().windows;
        let kind = |id: &str| {
            windows
                .iter()
                .find(|window| window.id == id)
                .map(|it| it.kind)
        };
        assert_eq!(kind("43200_minutes"), Some(Kind::Monthly));
        assert_eq!(kind("unknown"), Some(Kind::Other));
    }

    #[test]
    fn credits_are_overage_and_their_balance_is_told() {
        let mut answer = fixture();
        assert_eq!(parse(&answer).unwrap().overage_enabled, Some(false));
        answer["credits"] = json!({"has_credits": true, "unlimited": false, "balance": "12.5"});
        let usage = parse(&answer).unwrap();
        assert_eq!(usage.overage_enabled, Some(true));
        assert_eq!(usage.spend.unwrap().balance, Some(12.5));
        answer["credits"] = json!({"has_credits": false, "unlimited": true, "balance": "NaN"});
        let usage = parse(&answer).unwrap();
        assert_eq!((usage.overage_enabled, usage.spend), (Some(true), None));
        answer["credits"] = json!(null);
        assert_eq!(parse(&answer).unwrap().overage_enabled, None);
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
    fn what_makes_no_sense_gives_no_headroom_and_hides_no_other_window() {
        for bad in [json!("12"), json!(null), json!(-3), json!({})] {
            let mut answer = fixture();
            answer["rate_limit"]["primary_window"]["used_percent"] = bad.clone();
            let usage = parse(&answer).unwrap();
            let left = |id: &str| {
                let window = usage.windows.iter().find(|window| window.id == id);
                window.map(|window| window.remaining_percent)
            };
            assert_eq!(
                (left("five_hour"), left("weekly")),
                (Some(0.0), Some(30.0)),
                "{bad}"
            );
            assert!(usage.misread);
            answer["rate_limit"]["secondary_window"] = json!(null);
            assert_eq!(parse(&answer), Err(FetchError::Shape), "{bad}");
        }
        for (path, value) in [
            ("/rate_limit/allowed", json!("no")),
            ("/rate_limit/limit_reached", json!(1)),
            ("/rate_limit/secondary_window", json!("70")),
            ("/additional_rate_limits", json!("none")),
            ("/additional_rate_limits/0/rate_limit", json!(5)),
        ] {
            let mut answer = fixture();
            *answer.pointer_mut(path).unwrap() = value;
            let least = parse(&answer).unwrap().windows.into_iter();
            let least = least.map(|window| window.remaining_percent);
            assert!(least.fold(100.0, f64::min) <= 0.0, "{path}");
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
}
