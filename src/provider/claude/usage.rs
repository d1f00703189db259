//! What is left, as `GET /api/oauth/usage` tells it. Pure.
//!
//! The answer has flat buckets (`five_hour`, `seven_day`, `seven_day_opus`, …) and a newer `limits` list
//! that may repeat them and scope them to a model. A bucket that is null is absent, and so is one for a
//! model whose numbers are all null. One whose numbers make no sense has nothing left: without it the others
//! would promise too much, and without the others a limit that was reached would go unseen. An answer in
//! which nothing makes sense is none.

use serde_json::Value;

use crate::provider::answer::{add, instant, nothing_left, number, remaining_of_used, text};
use crate::provider::{FetchError, Usage};
use crate::quota::window::{Kind, Spend, Window};

/// Parts of the answer that are no windows.
const NOT_WINDOWS: [&str; 2] = ["extra_usage", "limits"];
/// Weekly buckets of other programs that use the same account; they do not gate Claude Code.
const OTHER_PROGRAMS: [&str; 2] = ["oauth_apps", "cowork"];

/// What one part of the answer says.
enum Part {
    /// No window.
    Nothing,
    /// A window that was understood.
    Window(Window),
    /// A window that was not: nothing is left of it.
    Misread(Window),
}

/// The windows in the usage endpoint's answer.
pub(crate) fn parse(answer: &Value) -> Result<Usage, FetchError> {
    let buckets = answer.as_object().ok_or(FetchError::Shape)?;
    let mut parts: Vec<Part> = buckets
        .iter()
        .filter(|(name, _)| !NOT_WINDOWS.contains(&name.as_str()))
        .map(|(name, bucket)| flat(name, bucket))
        .collect();
    match &answer["limits"] {
        Value::Null => {}
        Value::Array(rows) => parts.extend(rows.iter().map(row)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            parts.push(Part::Misread(nothing_left("limits", Kind::Other, None)));
        }
    }
    let understood = parts.iter().any(|part| matches!(part, Part::Window(_)));
    if !understood {
        return Err(FetchError::Shape);
    }
    let mut windows = Vec::new();
    let mut misread = false;
    for part in parts {
        match part {
            Part::Nothing => {}
            Part::Window(window) => add(&mut windows, window),
            Part::Misread(window) => {
                misread = true;
                add(&mut windows, window);
            }
        }
    }
    windows.sort_by(|one, other| {
        (one.kind, &one.scope, &one.id).cmp(&(other.kind, &other.scope, &other.id))
    });
    let overage = &answer["extra_usage"];
    let amount = |name: &str| number(&overage[name]).map(|cents| cents / unit(overage));
    let spend = Spend {
        used: amount("used_credits"),
        limit: amount("monthly_limit"),
        balance: None,
    };
    Ok(Usage {
        windows,
        overage_enabled: match &overage["is_enabled"] {
            Value::Null => None,
            Value::Bool(enabled) => Some(*enabled),
            // Whatever else it says, it does not say that nothing will be paid.
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Some(true),
        },
        spend: (spend.used.is_some() || spend.limit.is_some()).then_some(spend),
        misread,
    })
}

/// How many of the smallest coins that amounts are told in make one unit of the currency: a hundred, unless
/// it says otherwise (read in quota-axi 0.1.40).
fn unit(overage: &Value) -> f64 {
    let places = overage["decimal_places"].as_u64().unwrap_or(2);
    10_f64.powi(i32::try_from(places.min(9)).unwrap_or(2))
}

/// A flat bucket. Its name says its duration and its model.
fn flat(name: &str, bucket: &Value) -> Part {
    let (kind, scope) = classify(name);
    if scope
        .as_deref()
        .is_some_and(|scope| OTHER_PROGRAMS.contains(&scope))
    {
        return Part::Nothing;
    }
    let gates_all = kind != Kind::Other && scope.is_none();
    let known = kind != Kind::Other;
    let utilization = match bucket {
        Value::Null => return Part::Nothing,
        Value::Object(fields) => fields.get("utilization"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    };
    match utilization {
        // The answer may tell other things than windows.
        None if !known => return Part::Nothing,
        Some(Value::Null) if !gates_all && bucket["resets_at"].is_null() => return Part::Nothing,
        _ => {}
    }
    match utilization.and_then(remaining_of_used) {
        Some(remaining_percent) => Part::Window(Window {
            id: name.to_owned(),
            kind,
            scope,
            remaining_percent,
            resets_at: instant(&bucket["resets_at"]),
        }),
        None => Part::Misread(nothing_left(name, kind, scope)),
    }
}

/// Kind and model scope of a flat bucket.
pub(crate) fn classify(name: &str) -> (Kind, Option<String>) {
    if name == "five_hour" {
        return (Kind::Session, None);
    }
    match name.strip_prefix("seven_day") {
        Some("") => (Kind::Weekly, None),
        Some(rest) => (Kind::Weekly, rest.strip_prefix('_').map(str::to_owned)),
        None => (Kind::Other, None),
    }
}

/// One row of the `limits` list.
fn row(limit: &Value) -> Part {
    if limit.is_null() {
        return Part::Nothing;
    }
    let kind = match limit["group"].as_str() {
        Some("session") => Kind::Session,
        Some("weekly") => Kind::Weekly,
        Some("monthly") => Kind::Monthly,
        _ => Kind::Other,
    };
    let model = &limit["scope"]["model"];
    let scope = text(&model["display_name"])
        .or_else(|| text(&model["id"]))
        .map(|name| name.to_ascii_lowercase());
    let id = match (kind, &scope) {
        (Kind::Session, None) => "five_hour".to_owned(),
        (Kind::Weekly, None) => "seven_day".to_owned(),
        (Kind::Weekly, Some(scope)) => format!("seven_day_{}", scope.replace(' ', "_")),
        _ => text(&limit["kind"]).unwrap_or_else(|| "limit".to_owned()),
    };
    match remaining_of_used(&limit["percent"]) {
        Some(remaining_percent) => Part::Window(Window {
            id,
            kind,
            scope,
            remaining_percent,
            resets_at: instant(&limit["resets_at"]),
        }),
        None => Part::Misread(nothing_left(id, kind, scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::provider::FetchError;
    use crate::quota::window::Kind;
    use serde_json::{Value, json};

    fn fixture() -> Value {
        serde_json::from_str(include_str!("../../../fixtures/provider/claude/usage.json")).unwrap()
    }

    #[test]
    fn flat_buckets_and_the_list_make_one_set_of_windows() {
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
                ("five_hour", Kind::Session, None, 62.5),
                ("seven_day", Kind::Weekly, None, 40.0),
                ("seven_day_opus", Kind::Weekly, Some("opus"), 5.0),
                ("seven_day_sonnet", Kind::Weekly, Some("sonnet"), 100.0),
            ],
            "the list's tighter opus row counts, other programs' buckets do not"
        );
        assert_eq!(
            usage.windows[0].resets_at,
            "2026-11-30T11:00:00Z".parse().ok()
        );
        assert_eq!(usage.overage_enabled, Some(false));
    }

    fn left(answer: &Value, id: &str) -> Option<f64> {
        let usage = parse(answer).unwrap();
        let window = usage.windows.iter().find(|window| window.id == id)?;
        Some(window.remaining_percent)
    }

    #[test]
    fn a_bucket_that_makes_no_sense_has_nothing_left_and_hides_no_other() {
        for bad in [json!("97"), json!(null), json!(-1), json!([1]), json!({})] {
            let mut answer = fixture();
            answer["five_hour"]["utilization"] = bad.clone();
            assert_eq!(left(&answer, "five_hour"), Some(0.0), "{bad}");
            assert_eq!(left(&answer, "seven_day"), Some(40.0), "{bad}");
            assert!(parse(&answer).unwrap().misread, "{bad}");
        }
        for (path, value) in [
            ("/limits/0/percent", json!("10")),
            ("/limits/0", json!("session")),
            ("/limits", json!({"five_hour": 10})),
            ("/seven_day", json!("40")),
            ("/seven_day_opus/utilization", json!("80")),
        ] {
            let mut answer = fixture();
            *answer.pointer_mut(path).unwrap() = value;
            let windows = parse(&answer).unwrap().windows;
            let least = windows.iter().map(|window| window.remaining_percent);
            assert!(least.fold(100.0, f64::min) <= 0.0, "{path}");
        }
        for empty in [
            json!(null),
            json!([]),
            json!({}),
            json!({"five_hour": null}),
            json!({"five_hour": {"utilization": "5"}}),
        ] {
            assert_eq!(parse(&empty), Err(FetchError::Shape), "{empty}");
        }
    }

    #[test]
    fn what_is_null_or_no_window_is_absent() {
        let mut answer = fixture();
        answer["seven_day_opus"] = json!({"utilization": null, "resets_at": null});
        answer["limits"] = json!(null);
        answer["plan"] = json!({"name": "max"});
        answer["note"] = json!("hello");
        let usage = parse(&answer).unwrap();
        let ids: Vec<_> = usage
            .windows
            .iter()
            .map(|window| window.id.as_str())
            .collect();
        assert_eq!(ids, ["five_hour", "seven_day", "seven_day_sonnet"]);
        assert!(!usage.misread);
    }

    #[test]
    fn overage_is_on_when_it_says_anything_but_off_and_its_cost_comes_along() {
        let mut answer = fixture();
        answer["extra_usage"] =
            json!({"is_enabled": true, "monthly_limit": 5000, "used_credits": 1250});
        let usage = parse(&answer).unwrap();
        assert_eq!(usage.overage_enabled, Some(true));
        let spend = usage.spend.unwrap();
        assert_eq!((spend.used, spend.limit), (Some(12.5), Some(50.0)));
        answer["extra_usage"]["decimal_places"] = json!(0);
        assert_eq!(parse(&answer).unwrap().spend.unwrap().used, Some(1250.0));
        for (said, enabled) in [
            (json!({"is_enabled": "yes"}), Some(true)),
            (json!({"is_enabled": null}), None),
            (json!(null), None),
            (json!("x"), None),
        ] {
            answer["extra_usage"] = said.clone();
            assert_eq!(parse(&answer).unwrap().overage_enabled, enabled, "{said}");
        }
    }

    #[test]
    fn over_a_hundred_percent_leaves_nothing_and_unknown_buckets_gate() {
        let mut answer = fixture();
        answer["five_hour"]["utilization"] = json!(105);
        answer["three_day_surprise"] = json!({"utilization": 90, "resets_at": null});
        let windows = parse(&answer).unwrap().windows;
        assert!(windows[0].remaining_percent <= 0.0);
        let surprise = windows
            .iter()
            .find(|window| window.id == "three_day_surprise")
            .unwrap();
        assert_eq!((surprise.kind, &surprise.scope), (Kind::Other, &None));
    }
}
