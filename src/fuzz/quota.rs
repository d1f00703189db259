//! What servers and readers say is left.

use serde_json::Value;

use crate::id::ProviderKind;
use crate::provider::{Usage, claude, codex};
use crate::quota::external;
use crate::quota::model::{Model, gates};
use crate::quota::window::Window;
use crate::worker::statusline::windows;

/// Models that a window may gate or not; none is gated by every window.
const MODELS: [&str; 3] = ["opus", "sonnet", "gpt-6-sol"];

/// Claude's answer, and the windows that its status line is shown.
pub fn quota_claude(bytes: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    for window in answer.as_object().iter().flat_map(|status| windows(status)) {
        check(&window);
    }
    let windows = |answer: &Value| {
        claude::usage::parse(answer)
            .ok()
            .map(|usage| checked(&usage))
    };
    let mut places: Vec<String> = keys(&answer, "");
    places.extend(rows(&answer, "/limits"));
    no_part_hides_another(&answer, &places, windows);
}

/// Codex's answer, and the windows in its rollouts.
pub fn quota_codex(bytes: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    for window in codex::usage::rollout(&answer) {
        check(&window);
    }
    let windows = |answer: &Value| {
        codex::usage::parse(answer)
            .ok()
            .map(|usage| checked(&usage))
    };
    let mut places: Vec<String> = keys(&answer, "/rate_limit")
        .into_iter()
        .filter(|place| place.ends_with("_window"))
        .collect();
    places.extend(rows(&answer, "/additional_rate_limits"));
    places.push("/additional_rate_limits".to_owned());
    no_part_hides_another(&answer, &places, windows);
}

/// The answer of a reader that is no part of the program.
pub fn quota_external(bytes: &[u8]) {
    let parsed = |bytes: &[u8]| {
        let answer = external::parse(bytes, ProviderKind::Claude).ok()?;
        assert!(answer.account.account.is_some_and(|id| !id.is_empty()));
        Some(checked(&answer.usage))
    };
    parsed(bytes);
    let Ok(answer) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let mut places = Vec::new();
    for provider in rows(&answer, "/providers") {
        places.extend(rows(&answer, &format!("{provider}/windows")));
    }
    no_part_hides_another(&answer, &places, |answer| {
        parsed(answer.to_string().as_bytes())
    });
}

fn checked(usage: &Usage) -> Vec<Window> {
    assert!(!usage.windows.is_empty(), "usage without a window");
    for window in &usage.windows {
        check(window);
    }
    for amount in usage
        .spend
        .iter()
        .flat_map(|it| [it.used, it.limit, it.balance])
    {
        assert!(amount.is_none_or(f64::is_finite), "{usage:?}");
    }
    usage.windows.clone()
}

fn check(window: &Window) {
    let left = window.remaining_percent;
    assert!((0.0..=100.0).contains(&left), "{window:?}");
}

/// Taking one part out leaves every model at least as much as there was with it.
fn no_part_hides_another(
    answer: &Value,
    places: &[String],
    windows: impl Fn(&Value) -> Option<Vec<Window>>,
) {
    let Some(whole) = windows(answer) else {
        return;
    };
    for place in places.iter().take(16) {
        let mut without = answer.clone();
        let Some(part) = without.pointer_mut(place) else {
            continue;
        };
        *part = Value::Null;
        let Some(others) = windows(&without) else {
            continue;
        };
        let models = MODELS.map(|name| Some(name.parse::<Model>().expect("a model's name")));
        for model in models.iter().chain([&None]) {
            let least = |windows: &[Window]| {
                let gating = windows
                    .iter()
                    .filter(|window| gates(window, model.as_ref()));
                gating
                    .map(|window| window.remaining_percent)
                    .fold(100.0, f64::min)
            };
            assert!(
                least(&whole) <= least(&others),
                "{place} hides a window of {model:?}: {whole:?} with it, {others:?} without"
            );
        }
    }
}

fn keys(answer: &Value, place: &str) -> Vec<String> {
    let fields = answer.pointer(place).and_then(Value::as_object);
    let names = fields.into_iter().flat_map(|fields| fields.keys());
    names
        .map(|name| format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")))
        .collect()
}

fn rows(answer: &Value, place: &str) -> Vec<String> {
    let count = answer
        .pointer(place)
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    (0..count).map(|at| format!("{place}/{at}")).collect()
}
