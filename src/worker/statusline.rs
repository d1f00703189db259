//! `statusline`: what Claude's terminal shows below the prompt, and the only source of its quota windows
//! that costs no request.
//!
//! It prints one line (task, profile, headroom), records the windows that Claude shows it, and runs the
//! person's own status line with the same input. Guarantees: it exits 0, whatever happens; the person's
//! command gets descriptors 0 to 2 only and 300 ms, and one that leads back here ends at once. Windows are
//! recorded only for the lease's own process, and only when they changed or a minute has passed.

use std::time::Duration;

use camino::Utf8Path;
use serde_json::{Map, Value};

use super::hook::{Sources, holder};
use super::identity::Worker;
use crate::env::{self, Context};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::provider::answer::{instant, remaining_of_used};
use crate::provider::home::aside::Aside;
use crate::quota::window::{Kind as WindowKind, Window};
use crate::snapshot::evidence::{self, Event, Kind, word};
use crate::store::read;
use crate::store::replace::{Durability, replace};
use crate::sys::descriptor;
use crate::sys::spawn::{self, Program};

/// Most bytes read of Claude's input.
const INPUT_LIMIT: usize = 1 << 20;
/// What the person's own command may take.
const OWN_LIMIT: Duration = Duration::from_millis(300);
/// Unchanged windows are recorded again after this many seconds.
const REPEAT: i64 = 60;

/// Does everything that the verb does; `say` prints. Our line comes first: the person's command may be cut
/// off.
pub fn run(context: &Context, home: Option<&Utf8Path>, sources: &Sources<'_>, say: &dyn Fn(&str)) {
    if context.variables.raw(env::IN_STATUSLINE).is_some() {
        return;
    }
    let input = descriptor::read_input(INPUT_LIMIT, &context.clock.deadline(OWN_LIMIT));
    let status: Map<String, Value> = serde_json::from_slice(&input).unwrap_or_default();
    let windows = windows(&status);
    if let Some(worker) = Worker::of(&context.variables) {
        say(&(line(&worker, &windows) + "\n"));
        drop(remember(context, &worker, &status, windows, sources));
    }
    if let Some(command) = home.and_then(|home| Aside::load(home).ok()?.status_line) {
        say(&String::from_utf8_lossy(&own(context, &command, input)));
    }
}

fn line(worker: &Worker, windows: &[Window]) -> String {
    let mut parts = vec![worker.task.to_string(), worker.profile.to_string()];
    let least = windows
        .iter()
        .map(|window| window.remaining_percent)
        .min_by(f64::total_cmp);
    if let Some(least) = least {
        parts.push(format!("{least:.0}% left"));
    }
    parts.join(" · ")
}

/// The windows in Claude's status line input: `rate_limits.{five_hour,seven_day}.{used_percentage,
/// resets_at}`. Anything of another shape is left out; over 100 % used leaves nothing.
pub(crate) fn windows(status: &Map<String, Value>) -> Vec<Window> {
    let Some(limits) = status.get("rate_limits").and_then(Value::as_object) else {
        return Vec::new();
    };
    let found = limits.iter().filter_map(|(id, value)| {
        let remaining_percent = remaining_of_used(value.get("used_percentage")?)?;
        let kind = match id.as_str() {
            "five_hour" => WindowKind::Session,
            "seven_day" => WindowKind::Weekly,
            _ => return None,
        };
        Some(Window {
            id: id.clone(),
            kind,
            scope: None,
            remaining_percent,
            resets_at: value.get("resets_at").and_then(instant),
        })
    });
    found.collect()
}

/// Records the windows as evidence, unless they are the ones recorded less than a minute ago.
fn remember(
    context: &Context,
    worker: &Worker,
    status: &Map<String, Value>,
    windows: Vec<Window>,
    sources: &Sources<'_>,
) -> Result<()> {
    let Some((pid, start)) = holder(context, worker, sources).filter(|_| !windows.is_empty())
    else {
        return Ok(());
    };
    let event = Event {
        event: Kind::Windows,
        at: context.clock.now(),
        boot: context.clock.boot().0,
        key: worker.task.key().hex(),
        generation: worker.generation,
        profile: worker.profile.clone(),
        pid: Some(pid),
        start: Some(start),
        foreign: false,
        session: status
            .get("session_id")
            .and_then(Value::as_str)
            .and_then(word),
        reason: None,
        windows,
        resets_at: None,
        guessed: false,
        task: None,
        pool: None,
        workspace: None,
        transcript: None,
    };
    record_windows(context, worker.provider, &event)
}

/// Appends windows as evidence, unless they are the ones that were recorded for the profile less than a minute
/// ago.
pub fn record_windows(context: &Context, provider: ProviderKind, event: &Event) -> Result<()> {
    let state = &context.roots.state;
    let stamp = state
        .join("evidence")
        .join(format!("{}.windows", event.profile));
    let seen = serde_json::to_vec(&event.windows).unwrap_or_default();
    let recent = std::fs::metadata(&stamp).is_ok_and(|file| {
        use std::os::unix::fs::MetadataExt as _;
        context.clock.now().as_second().abs_diff(file.mtime()) < REPEAT.unsigned_abs()
    });
    if recent && read::optional(&stamp)?.is_some_and(|last| last == seen) {
        return Ok(());
    }
    evidence::append(state, provider, event)?;
    replace(&stamp, &seen, Durability::Volatile)
}

/// What the person's own command prints; nothing when it fails or takes too long.
fn own(context: &Context, command: &str, input: Vec<u8>) -> Vec<u8> {
    let mut environment: Vec<_> = context
        .variables
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    environment.push((env::IN_STATUSLINE.into(), "1".into()));
    let program = Program {
        path: "/bin/sh".into(),
        arguments: vec!["-c".into(), command.into()],
        environment,
        directory: context.directory.clone(),
        input,
    };
    spawn::run(&program, &context.clock.deadline(OWN_LIMIT))
        .map(|ended| ended.stdout)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::windows;
    use serde_json::{Value, json};

    fn parsed(limits: &Value) -> Vec<(String, f64, Option<i64>)> {
        let status = json!({ "rate_limits": limits });
        windows(status.as_object().unwrap())
            .into_iter()
            .map(|window| {
                let resets = window.resets_at.map(jiff::Timestamp::as_second);
                (window.id, window.remaining_percent, resets)
            })
            .collect()
    }

    #[test]
    fn windows_are_what_claude_shows() {
        let shown = json!({
            "five_hour": {"used_percentage": 12.5, "resets_at": 1_900_000_000},
            "seven_day": {"used_percentage": 40, "resets_at": "2030-03-17T17:46:40Z"},
        });
        assert_eq!(
            parsed(&shown),
            [
                ("five_hour".to_owned(), 87.5, Some(1_900_000_000)),
                ("seven_day".to_owned(), 60.0, Some(1_900_000_000)),
            ]
        );
    }

    #[test]
    fn numbers_that_cannot_be_are_left_out() {
        for bad in [json!(-1), json!("12"), json!(null), json!({})] {
            assert_eq!(parsed(&json!({"five_hour": {"used_percentage": bad}})), []);
        }
        for shape in [json!(null), json!([1]), json!({"five_hour": 3})] {
            assert_eq!(parsed(&shape), []);
        }
        let over = json!({"five_hour": {"used_percentage": 100.5}});
        assert_eq!(parsed(&over), [("five_hour".to_owned(), 0.0, None)]);
        let odd = json!({"five_hour": {"used_percentage": 1, "resets_at": 1e300}});
        assert_eq!(parsed(&odd), [("five_hour".to_owned(), 99.0, None)]);
    }
}
