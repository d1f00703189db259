//! What holds for any answer about usage: no panic, percentages only, and no part that makes no sense raises
//! what is left or hides a window beside it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FetchError, Usage, claude, codex};

type Parse = fn(&Value) -> Result<Usage, FetchError>;

/// A parser, an answer it understands, and the places of single windows in that answer.
fn subjects() -> [(Parse, Value, Vec<&'static str>); 2] {
    let read = |text: &str| serde_json::from_str(text).unwrap();
    [
        (
            claude::usage::parse,
            read(include_str!("../../fixtures/provider/claude/usage.json")),
            vec![
                "/five_hour",
                "/seven_day",
                "/seven_day_opus",
                "/seven_day_sonnet",
                "/limits",
            ],
        ),
        (
            codex::usage::parse,
            read(include_str!("../../fixtures/provider/codex/usage.json")),
            vec![
                "/rate_limit/primary_window",
                "/rate_limit/secondary_window",
                "/additional_rate_limits",
            ],
        ),
    ]
}

/// Every place in a value.
fn places(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                places(inner, &format!("{here}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                places(inner, &format!("{here}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn least(usage: &Usage) -> f64 {
    let left = usage.windows.iter().map(|window| window.remaining_percent);
    left.fold(100.0, f64::min)
}

fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just("NaN"), Just("97"), Just("-Infinity"), Just("soon")].prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        let key = prop_oneof![
            Just("utilization".to_owned()),
            Just("percent".to_owned()),
            Just("used_percent".to_owned()),
            Just("resets_at".to_owned()),
            Just("primary_window".to_owned()),
            "[a-z_]{1,8}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn junk_anywhere_makes_no_panic_and_only_percentages(at in any::<prop::sample::Index>(), junk in junk()) {
        for (parse, answer, _) in subjects() {
            let mut found = Vec::new();
            places(&answer, "", &mut found);
            let mut changed = answer;
            *changed.pointer_mut(at.get(&found).as_str()).unwrap() = junk.clone();
            for window in parse(&changed).map(|usage| usage.windows).unwrap_or_default() {
                prop_assert!((0.0..=100.0).contains(&window.remaining_percent), "{window:?}");
            }
        }
    }

    #[test]
    fn junk_in_one_window_hides_no_other_and_promises_no_more(at in any::<prop::sample::Index>(), junk in junk()) {
        for (parse, answer, windows) in subjects() {
            let place = *at.get(&windows);
            let mut without = answer.clone();
            *without.pointer_mut(place).unwrap() = Value::Null;
            let others = parse(&without).unwrap();
            let mut changed = answer;
            *changed.pointer_mut(place).unwrap() = junk.clone();
            let Ok(usage) = parse(&changed) else { continue };
            for other in &others.windows {
                let same = usage.windows.iter().find(|window| window.id == other.id);
                let left = same.map(|window| window.remaining_percent);
                prop_assert!(left.is_some_and(|left| left <= other.remaining_percent), "{place} hid {other:?}");
            }
        }
    }

    #[test]
    fn a_gauge_that_is_no_number_leaves_nothing(at in any::<prop::sample::Index>(), junk in junk()) {
        prop_assume!(!junk.is_number());
        let gauges = [
            ["/five_hour/utilization", "/seven_day/utilization", "/limits/2/percent"].as_slice(),
            ["/rate_limit/primary_window/used_percent", "/rate_limit/secondary_window/used_percent"].as_slice(),
        ];
        for ((parse, answer, _), gauges) in subjects().into_iter().zip(gauges) {
            let mut changed = answer;
            *changed.pointer_mut(at.get::<&str>(gauges)).unwrap() = junk.clone();
            prop_assert!(parse(&changed).is_ok_and(|usage| usage.misread && least(&usage) <= 0.0));
        }
    }

    #[test]
    fn a_used_percentage_is_never_more_left_than_it_says(used in any::<f64>()) {
        for (parse, answer, _) in subjects() {
            let mut changed = answer;
            let gauge = if changed.get("five_hour").is_some() {
                &mut changed["five_hour"]["utilization"]
            } else {
                &mut changed["rate_limit"]["primary_window"]["used_percent"]
            };
            *gauge = json!(used);
            let usage = parse(&changed).unwrap();
            let left = usage.windows.iter().find(|window| window.id == "five_hour").unwrap();
            let allowed = if used.is_finite() && used >= 0.0 { (100.0 - used).max(0.0) } else { 0.0 };
            prop_assert!(left.remaining_percent <= allowed);
        }
    }
}
