use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::event::End;
use super::super::judge::{Ended, ExitFacts, judge};
use super::{HOOKS_PATIENCE, RECORD_PATIENCE, START_PATIENCE, Told, draw};
use crate::id::ProviderKind::{self, Claude, Codex, Scripted};
use crate::provider::home::conversation::Tail;
use crate::quota::limit::Limit;
use crate::snapshot::evidence::tests::event;
use crate::snapshot::evidence::{Event, Kind};

fn at(second: i64) -> Timestamp {
    let midnight: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    midnight + SignedDuration::from_secs(second)
}

fn hook(kind: Kind, second: i64) -> Event {
    Event {
        at: at(second),
        ..event("t", kind, 1, 1)
    }
}

/// What is told by these events and this transcript; the launch was written down at second 0.
fn told(provider: ProviderKind, events: &[Event], lines: &[Value]) -> Told {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let tail = Tail::of(&lines);
    let transcript = Some((provider, &tail));
    draw(events, transcript, Some(at(1)), at(0), &TimeZone::UTC)
}

fn claude(kind: &str, second: i64, content: &Value) -> Value {
    json!({"type": kind, "timestamp": at(second).to_string(), "message": {"content": content}})
}

fn said(second: i64, text: &str) -> Value {
    claude(
        "assistant",
        second,
        &json!([{"type": "text", "text": text}]),
    )
}

fn hooks_ran(second: i64) -> Value {
    json!({"type": "system", "subtype": "stop_hook_summary", "timestamp": at(second).to_string()})
}

fn codex(name: &str, second: i64, more: &Value) -> Value {
    let mut payload = more.clone();
    payload["type"] = name.into();
    json!({"type": "event_msg", "timestamp": at(second).to_string(), "payload": payload})
}

#[test]
fn a_claude_turn_is_over_once_the_hooks_of_its_end_have_run() {
    let begun = [hook(Kind::SessionStart, 2), hook(Kind::PromptSubmit, 3)];
    let open = told(Claude, &begun, &[said(4, "first I look")]);
    assert_eq!((open.began, open.turn.end, open.over), (true, None, None));
    let stopped = [&begun[..], &[hook(Kind::Stop, 6)]].concat();
    let looks = told(Claude, &stopped, &[said(5, "done")]);
    assert_eq!(looks.turn.end, Some(End::Completed));
    let patient = at(6) + SignedDuration::try_from(HOOKS_PATIENCE).unwrap();
    assert_eq!(looks.over, Some(patient));
    assert!(!looks.is_over(at(7)) && looks.is_over(patient));
    let over = told(Claude, &begun, &[said(5, "done"), hooks_ran(7)]);
    assert!(over.is_over(at(7)), "{over:?}");
    assert_eq!(over.turn.answer.as_deref(), Some("done"));
    let ended = judge(ExitFacts::Unknown, &over.turn, None, false);
    assert_eq!(ended, Ended::Succeeded);
}

#[test]
fn what_an_earlier_turn_of_the_conversation_came_to_is_not_this_ones() {
    let earlier = [said(1, "earlier"), hooks_ran(2)];
    let asked = [hook(Kind::SessionStart, 10), hook(Kind::PromptSubmit, 11)];
    assert_eq!(told(Claude, &asked, &earlier).turn.end, None);
    let rollout = [codex(
        "task_complete",
        5,
        &json!({"last_agent_message": "earlier"}),
    )];
    assert_eq!(told(Codex, &asked, &rollout).turn.end, None);
    // A person typed another prompt after the end of the first.
    let again = [
        &asked[..],
        &[hook(Kind::Stop, 13), hook(Kind::PromptSubmit, 15)],
    ]
    .concat();
    let lines = [said(12, "first"), hooks_ran(14)];
    assert_eq!(told(Claude, &again, &lines).turn.end, None);
    // Without an event of the prompt, the launch itself is the border.
    let silent = [codex("task_complete", -1, &json!({}))];
    assert_eq!(told(Codex, &[], &silent).turn.end, None);
}

#[test]
fn a_codex_turn_is_over_when_its_rollout_says_so_though_no_hook_does() {
    let begun = [hook(Kind::SessionStart, 2), hook(Kind::PromptSubmit, 3)];
    let error = json!({"message": "You’ve hit your usage limit.", "codex_error_info": "usage_limit_exceeded"});
    let windows = json!({"rate_limits": {"limit_id": "codex",
        "primary": {"used_percent": 100.0, "window_minutes": 300, "resets_at": at(3600).as_second()}}});
    let limit = told(
        Codex,
        &begun,
        &[
            codex("task_started", 3, &json!({})),
            codex("token_count", 4, &windows),
            codex("task_complete", 5, &json!({"error": error})),
        ],
    );
    assert!(limit.is_over(at(5)));
    let ended = judge(ExitFacts::Unknown, &limit.turn, None, false);
    assert_eq!(ended.held_until(), Some(at(3600)), "{ended:?}");
    let cut = told(Codex, &begun, &[codex("turn_aborted", 5, &json!({}))]);
    let ended = judge(ExitFacts::Unknown, &cut.turn, None, false);
    assert_eq!(ended, Ended::Interrupted);
}

#[test]
fn a_failed_claude_turn_waits_a_little_for_its_record_and_is_exact_with_it() {
    let failed = Event {
        reason: Some("rate_limit".to_owned()),
        ..hook(Kind::StopFailure, 6)
    };
    let events = [hook(Kind::PromptSubmit, 3), failed];
    let early = told(Claude, &events, &[claude("user", 3, &json!("go"))]);
    assert_eq!(early.turn.limit(), Some(Limit::Rate));
    let patient = at(6) + SignedDuration::try_from(RECORD_PATIENCE).unwrap();
    assert_eq!(early.over, Some(patient));
    let mut record = said(6, "You've hit your 5-hour limit");
    record["isApiErrorMessage"] = true.into();
    record["error"] = "rate_limit".into();
    record["quotaLimits"] = json!({"status": "rejected", "resetsAt": at(3600).as_second()});
    // Without the event it may try something else.
    let alone = told(Claude, &events[..1], &[record.clone()]);
    assert_eq!(alone.turn.end, Some(End::Failed));
    assert!(!alone.is_over(at(60)));
    let exact = told(Claude, &events, &[record]);
    assert_eq!(
        (exact.turn.limit(), exact.over),
        (Some(Limit::Quota), Some(at(3)))
    );
    let ended = judge(ExitFacts::Unknown, &exact.turn, None, false);
    assert_eq!(ended.held_until(), Some(at(3600)));
}

#[test]
fn a_cli_that_does_not_begin_is_told_of_after_its_time_and_not_before_the_broker_let_it() {
    let silent = draw(&[], None, None, at(0), &TimeZone::UTC);
    assert!(!silent.is_start_blocked(at(3600)), "the broker is at work");
    let blocked = told(Claude, &[hook(Kind::Notification, 2)], &[]);
    let patience = SignedDuration::try_from(START_PATIENCE).unwrap();
    assert!(!blocked.is_start_blocked(at(1) + patience - SignedDuration::from_secs(1)));
    assert!(blocked.is_start_blocked(at(1) + patience));
    let begun = told(Claude, &[hook(Kind::SessionStart, 30)], &[]);
    assert!(!begun.is_start_blocked(at(3600)));
}

#[test]
fn a_permission_is_asked_for_until_the_worker_goes_on() {
    let ask = |second| hook(Kind::PermissionRequest, second);
    let begun = [hook(Kind::PromptSubmit, 3)];
    let asks = claude(
        "assistant",
        4,
        &json!([{"type": "tool_use", "name": "Write"}]),
    );
    let gave = |second| {
        claude(
            "user",
            second,
            &json!([{"type": "tool_result", "content": "ok"}]),
        )
    };
    let first = [&begun[..], &[ask(5)]].concat();
    assert_eq!(
        told(Claude, &begun, std::slice::from_ref(&asks)).asked,
        None
    );
    assert_eq!(
        told(Claude, &first, std::slice::from_ref(&asks)).asked,
        Some(1)
    );
    let reminded = [&first[..], &[hook(Kind::Notification, 11)]].concat();
    assert_eq!(
        told(Claude, &reminded, std::slice::from_ref(&asks)).asked,
        Some(1)
    );
    let answered = [asks.clone(), gave(12)];
    assert_eq!(told(Claude, &reminded, &answered).asked, None);
    let second = [&reminded[..], &[ask(13)]].concat();
    assert_eq!(told(Claude, &second, &answered).asked, Some(2));
    let over = [asks, gave(14), said(15, "done"), hooks_ran(16)];
    assert_eq!(told(Claude, &second, &over).asked, None);
    let item = json!({"type": "response_item", "timestamp": at(7).to_string(),
        "payload": {"type": "function_call_output", "output": "ok"}});
    let counted = codex("token_count", 6, &json!({}));
    assert_eq!(
        told(Codex, &first, std::slice::from_ref(&counted)).asked,
        Some(1)
    );
    assert_eq!(told(Codex, &first, &[counted, item]).asked, None);
}

#[test]
fn a_scripted_turn_reads_like_the_others() {
    let events = [hook(Kind::SessionStart, 1), hook(Kind::PromptSubmit, 2)];
    let line = |kind: &str, second: i64| json!({"type": kind, "text": "x", "timestamp": at(second).to_string()});
    let open = [line("prompt", 2), line("assistant", 3)];
    assert_eq!(told(Scripted, &events, &open).turn.end, None);
    let over = told(
        Scripted,
        &events,
        &[&open[..], &[line("ended", 4)]].concat(),
    );
    assert_eq!(
        (over.turn.end, over.over),
        (Some(End::Completed), Some(at(2)))
    );
    assert_eq!(over.turn.answer.as_deref(), Some("x"));
    assert_eq!(over.turn.session.as_deref(), Some("0199-session"));
}
