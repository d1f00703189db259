//! What is left, as `GET /api/oauth/usage` tells it. Pure.
//!
//! The answer has flat buckets (`five_hour`, `seven_day`, `seven_day_opus`, …) and a newer `limits` list
//! that may repeat them and scope them to a model. A bucket that is null is absent. One that is there but
//! whose numbers make no sense spoils the whole answer: the others alone would promise too much.

use serde_json::Value;

use crate::provider::answer::{add, instant, remaining_of_used, text};
use crate::provider::{FetchError, Usage};
use crate::quota::window::{Kind, Window};

/// Parts of the answer that are no windows.
const NOT_WINDOWS: [&str; 2] = ["extra_usage", "limits"];
/// Weekly buckets of other programs that use the same account; they do not gate Claude Code.
const OTHER_PROGRAMS: [&str; 2] = ["oauth_apps", "cowork"];

/// The windows in the usage endpoint's answer.
pub(crate) fn parse(answer: &Value) -> Result<Usage, FetchError> {
    let buckets = answer.as_object().ok_or(FetchError::Shape)?;
    let mut windows = Vec::new();
    for (name, bucket) in buckets {
        if NOT_WINDOWS.contains(&name.as_str()) || !bucket.is_object() {
            continue;
        }
        let (kind, scope) = classify(name);
        if scope
            .as_deref()
            .is_some_and(|scope| OTHER_PROGRAMS.contains(&scope))
        {
            continue;
        }
        let remaining = remaining_of_used(&bucket["utilization"]).ok_or(FetchError::Shape)?;
        windows.push(Window {
            id: name.clone(),
            kind,
            scope,
            remaining_percent: remaining,
            resets_at: instant(&bucket["resets_at"]),
        });
    }
    for limit in answer["limits"].as_array().into_iter().flatten() {
        add(&mut windows, row(limit)?);
    }
    if windows.is_empty() {
        return Err(FetchError::Shape);
    }
    windows.sort_by(|one, other| {
        (one.kind, &one.scope, &one.id).cmp(&(other.kind, &other.scope, &other.id))
    });
    Ok(Usage {
        windows,
        overage_enabled: answer["extra_usage"]["is_enabled"].as_bool(),
    })
}

/// Kind and model scope of a flat bucket, by its name: that is where it says its duration.
pub(super) fn classify(name: &str) -> (Kind, Option<String>) {
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
fn row(limit: &Value) -> Result<Window, FetchError> {
    let remaining = remaining_of_used(&limit["percent"]).ok_or(FetchError::Shape)?;
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
    Ok(Window {
        id,
        kind,
        scope,
        remaining_percent: remaining,
        resets_at: instant(&limit["resets_at"]),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::provider::FetchError;
    use crate::quota::window::Kind;
    use proptest::prelude::*;
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

    #[test]
    fn a_bucket_that_makes_no_sense_spoils_the_answer() {
        for bad in [json!("97"), json!(null), json!(-1), json!([1]), json!({})] {
            let mut answer = fixture();
            answer["five_hour"]["utilization"] = bad.clone();
            assert_eq!(parse(&answer), Err(FetchError::Shape), "{bad}");
        }
        let mut answer = fixture();
        answer["limits"][0]["percent"] = json!("10");
        assert_eq!(parse(&answer), Err(FetchError::Shape));
        for empty in [
            json!(null),
            json!([]),
            json!({}),
            json!({"five_hour": null}),
        ] {
            assert_eq!(parse(&empty), Err(FetchError::Shape), "{empty}");
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

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let key = prop_oneof![
                Just("utilization".to_owned()),
                Just("percent".to_owned()),
                Just("resets_at".to_owned()),
                Just("five_hour".to_owned()),
                Just("limits".to_owned()),
                Just("scope".to_owned()),
                "[a-z_]{1,8}",
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_answer_makes_a_panic_or_more_than_a_percentage(part in anything(), whole in anything()) {
            let mut answer = fixture();
            answer["seven_day"] = part.clone();
            answer["limits"] = json!([part]);
            for answer in [answer, whole] {
                for window in parse(&answer).map(|usage| usage.windows).unwrap_or_default() {
                    prop_assert!((0.0..=100.0).contains(&window.remaining_percent));
                }
            }
        }
    }
}
