use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::event::End::{Completed, Failed, Interrupted};
use super::judge::{Ended, ExitFacts, FailedBy, judge};
use super::{NO_CONVERSATION, Turn, UNNAMED};
use crate::id::ProviderKind::{self, Claude, Codex};
use crate::provider::home::tests::World;
use crate::quota::limit::{Ending, Limit, Reset};

/// What a real CLI wrote in the lab.
pub(super) fn output(provider: ProviderKind, name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fleet/turns");
    std::fs::read(root.join(format!("{provider}/{name}.jsonl"))).unwrap()
}

fn said() -> Timestamp {
    "2026-11-30T19:02:00Z".parse().unwrap()
}

fn of(provider: ProviderKind, bytes: &[u8]) -> Turn {
    Turn::of(provider, bytes, said(), &TimeZone::UTC)
}

fn turn(provider: ProviderKind, name: &str) -> Turn {
    of(provider, &output(provider, name))
}

const OVER: ExitFacts = ExitFacts::Status(0);

#[test]
fn a_turn_that_ended_well_has_its_answer_whole() {
    for provider in [Claude, Codex] {
        for name in ["success", "tool"] {
            let turn = turn(provider, name);
            assert_eq!(turn.end, Some(Completed), "{provider} {name}");
            assert_eq!(turn.answer.as_deref(), Some("First line\nsecond line"));
            assert_eq!(turn.failure, None);
            assert!(turn.session.is_some() && turn.denied.is_empty());
            assert_eq!(judge(OVER, &turn, None, false), Ended::Succeeded);
        }
        assert_eq!(
            turn(provider, "resume").session,
            turn(provider, "success").session
        );
    }
}

#[test]
fn a_denied_tool_makes_no_success_of_status_0() {
    let denied = turn(Claude, "denial");
    assert_eq!(
        (denied.end, &denied.denied[..]),
        (Some(Completed), &["Bash".to_owned()][..])
    );
    let tools = vec!["Bash".to_owned()];
    assert_eq!(
        judge(OVER, &denied, Some("Status: done"), false),
        Ended::Denied { tools }
    );
    let odd = String::from_utf8(output(Claude, "denial")).unwrap();
    let odd = of(
        Claude,
        odd.replace("\"Bash\"", "\"a tool of odd name\"").as_bytes(),
    );
    assert_eq!(
        odd.denied,
        ["tool"],
        "a denial counts whatever its tool is called"
    );
    // The line of its own counts where the last one was never written.
    let bytes = output(Claude, "denial");
    let last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    let torn = of(Claude, &bytes[..last]);
    assert_eq!((torn.end, torn.denied.len()), (None, 1));
}

#[test]
fn a_limit_has_its_kind_and_its_reset() {
    for (name, at) in [("limit", 1_796_072_523), ("limit-weekly", 1_796_265_326)] {
        let turn = turn(Claude, name);
        let reset = turn.failure.as_ref().unwrap().reset.unwrap();
        assert_eq!(
            (turn.limit(), reset.at.as_second(), reset.guessed),
            (Some(Limit::Quota), at, false)
        );
        assert_eq!((turn.answer.as_deref(), turn.end), (None, Some(Failed)));
        let ended = judge(ExitFacts::Status(1), &turn, Some("Status: done"), true);
        assert_eq!(ended.held_until(), Some(reset.at));
        assert_eq!(turn.windows.len(), 2);
        let used_up = turn
            .windows
            .iter()
            .filter(|window| window.remaining_percent <= 0.0);
        assert_eq!(used_up.count(), 1, "{:?}", turn.windows);
    }
    let mut codex = turn(Codex, "limit");
    let failure = codex.failure.clone().unwrap();
    assert_eq!(
        (failure.limit, failure.word.as_str()),
        (Some(Limit::Quota), UNNAMED)
    );
    assert!(failure.reset.is_some_and(|reset| reset.at > said()));
    // The rollout alone has it exactly.
    let exact = Reset {
        at: said() + jiff::SignedDuration::from_secs(7211),
        guessed: false,
    };
    let ending = |at| Ending {
        limit: Some(Limit::Quota),
        at: Some(at),
        reset: Some(exact),
        ..Ending::default()
    };
    codex.refine(
        &ending(said() - jiff::SignedDuration::from_secs(60)),
        said(),
    );
    assert_eq!(
        codex.failure.as_ref(),
        Some(&failure),
        "a record of an earlier turn"
    );
    codex.refine(&ending(said()), said());
    assert_eq!(
        judge(ExitFacts::Status(1), &codex, None, false).held_until(),
        Some(exact.at)
    );
}

#[test]
fn a_rollout_in_the_home_has_the_exact_reset() {
    let world = World::new();
    let mut codex = turn(Codex, "limit");
    let session = codex.session.clone().unwrap();
    let event = |payload: serde_json::Value| json!({"timestamp": "2026-11-30T19:02:01Z", "type": "event_msg", "payload": payload});
    let window = json!({"used_percent": 100, "window_minutes": 300, "resets_at": 1_796_072_511});
    let told = event(
        json!({"type": "token_count", "rate_limits": {"limit_id": "codex", "primary": window}}),
    );
    let over = event(json!({"type": "task_complete", "error": {
        "message": "You've hit your usage limit.", "codex_error_info": "usage_limit_exceeded"}}));
    world.write(
        &format!("home/sessions/2026/11/30/rollout-2026-11-30T19-02-00-{session}.jsonl"),
        &format!("{told}\n{over}\n"),
    );
    let (home, work) = (world.path("home"), world.path("work"));
    codex.refine_by_transcript(Codex, &home, &work, None, said(), &TimeZone::UTC);
    let until = judge(ExitFacts::Status(1), &codex, None, false).held_until();
    assert_eq!(until.unwrap().as_second(), 1_796_072_511);
    assert_eq!((codex.windows.len(), codex.windows_at.is_some()), (1, true));
    let mut other = turn(Codex, "limit");
    other.refine_by_transcript(Codex, &work, &work, None, said(), &TimeZone::UTC);
    assert_eq!(other, turn(Codex, "limit"));
}

#[test]
fn a_lost_login_is_its_own_reason_and_other_failures_have_a_safe_word() {
    let by = |provider, name| {
        let turn = turn(provider, name);
        assert_eq!(
            (turn.end, turn.answer.as_deref()),
            (Some(Failed), None),
            "{provider} {name}"
        );
        let ended = judge(ExitFacts::Status(1), &turn, None, false);
        let Ended::Failed { by, detail } = ended else {
            panic!("{provider} {name}: {ended:?}");
        };
        (by, detail.unwrap())
    };
    let is = |by, word: &str| (by, word.to_owned());
    assert_eq!(
        by(Claude, "auth"),
        is(FailedBy::LoginLost, "authentication_failed")
    );
    assert_eq!(by(Codex, "auth"), is(FailedBy::LoginLost, UNNAMED));
    assert_eq!(by(Claude, "error"), is(FailedBy::Request, "http_400"));
    assert_eq!(by(Codex, "error"), is(FailedBy::Request, UNNAMED));
    assert_eq!(by(Codex, "overloaded"), is(FailedBy::Request, UNNAMED));
    assert_eq!(
        by(Claude, "no-conversation"),
        is(FailedBy::SessionLost, NO_CONVERSATION)
    );
}

#[test]
fn an_interrupted_turn_is_no_success_and_no_failure() {
    for name in ["sigint-tool", "sigint-stream"] {
        let claude = turn(Claude, name);
        assert_eq!(claude.end, Some(Interrupted), "{name}");
        assert_eq!(
            judge(OVER, &claude, Some("Status: done"), false),
            Ended::Interrupted
        );
        let codex = turn(Codex, name);
        assert_eq!(codex.end, None);
        assert_eq!(
            judge(ExitFacts::Status(1), &codex, None, true),
            Ended::Interrupted
        );
        let unasked = judge(ExitFacts::Status(1), &codex, None, false);
        let by = FailedBy::Unfinished;
        assert_eq!(
            unasked,
            Ended::Failed {
                by,
                detail: Some("status_1".to_owned())
            }
        );
    }
    let killed = |signal| Ended::Failed {
        by: FailedBy::Killed,
        detail: Some(signal),
    };
    for (provider, exit) in [
        (Claude, ExitFacts::Status(143)),
        (Codex, ExitFacts::Signal(15)),
    ] {
        let turn = turn(provider, "sigterm-tool");
        assert_eq!(turn.end, None);
        assert_eq!(judge(exit, &turn, None, true), Ended::Interrupted);
        assert_eq!(
            judge(exit, &turn, None, false),
            killed("signal_15".to_owned())
        );
    }
}

#[test]
fn success_needs_a_word_of_its_own_and_no_other_status() {
    let good = turn(Claude, "success");
    let by = |exit| {
        let ended = judge(exit, &good, None, false);
        let Ended::Failed { by, .. } = ended else {
            assert_eq!(ended, Ended::Succeeded);
            return None;
        };
        Some(by)
    };
    assert_eq!(
        by(ExitFacts::Unknown),
        None,
        "nobody saw the status and the output says all"
    );
    assert_eq!(by(ExitFacts::Status(1)), Some(FailedBy::Status));
    assert_eq!(by(ExitFacts::Signal(9)), Some(FailedBy::Killed));
    assert_eq!(
        judge(ExitFacts::Status(143), &good, None, true),
        Ended::Succeeded
    );
    let silent = Turn {
        answer: None,
        ..good.clone()
    };
    let failed = Ended::Failed {
        by: FailedBy::Silent,
        detail: None,
    };
    assert_eq!(judge(OVER, &silent, Some(" \n"), false), failed);
    assert_eq!(
        judge(OVER, &silent, Some("Status: done"), false),
        Ended::Succeeded
    );
    let nothing = of(Codex, b"");
    assert_eq!(nothing, Turn::default());
    for exit in [OVER, ExitFacts::Unknown] {
        assert!(matches!(
            judge(exit, &nothing, Some("Status: done"), false),
            Ended::Failed {
                by: FailedBy::Unfinished,
                ..
            }
        ));
    }
}

#[test]
fn every_cut_of_every_output_is_read_and_promises_nothing_that_was_cut_off() {
    for provider in [Claude, Codex] {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/fleet/turns/{provider}"));
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let last = bytes[..bytes.len() - 1]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .unwrap_or(0);
            for cut in (0..bytes.len() - 2).step_by(97).chain([last, last + 1]) {
                let turn = of(provider, &bytes[..cut]);
                assert_eq!(turn.end.filter(|_| cut < last), None, "{turn:?}");
            }
        }
    }
}

#[test]
fn what_a_worker_or_a_tool_prints_is_no_record() {
    let prose = String::from_utf8(output(Claude, "limit")).unwrap();
    let codex = String::from_utf8(output(Codex, "limit")).unwrap();
    for line in [
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": prose}]}}),
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": prose}]}}),
        json!({"type": "user", "is_api_error_message": true, "error": "rate_limit"}),
        json!({"type": "assistant", "api_error": "usage_limit_reached", "message": {}}),
        json!({"type": "system", "subtype": "hook_response", "stdout": prose}),
    ] {
        let turn = of(Claude, line.to_string().as_bytes());
        assert_eq!(
            (turn.limit(), turn.end, turn.windows.len()),
            (None, None, 0),
            "{line}"
        );
    }
    for line in [
        json!({"type": "item.completed", "item": {"type": "agent_message", "text": codex}}),
        json!({"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": codex}}),
        json!({"type": "error", "message": "You've hit your usage limit. Try again at 8:59 PM."}),
    ] {
        let turn = of(Codex, line.to_string().as_bytes());
        assert_eq!((turn.limit(), turn.end), (None, None), "{line}");
    }
}

#[test]
fn foreign_lines_tell_nothing_and_a_broken_letter_does_not_hide_a_line() {
    let mut bytes =
        b"warning: not JSON\n[1]\n7\nnull\n{\"type\":7}\n{\"type\":\"user\",\"message\":\"x\"}\n"
            .to_vec();
    bytes.extend(b"{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\xffb\"}}\n");
    bytes.extend(b"{\"type\":\"turn.completed\"}");
    let turn = of(Codex, &bytes);
    assert_eq!(
        (turn.answer.as_deref(), turn.end),
        (Some("a\u{fffd}b"), Some(Completed))
    );
    assert_eq!(of(Claude, &bytes), Turn::default());
}

#[test]
fn windows_are_as_old_as_the_answer_that_they_came_with() {
    let tool = turn(Claude, "tool");
    let at = tool.windows_at.unwrap().to_string();
    assert_eq!(
        (tool.windows.len(), &at[..]),
        (2, "2026-11-30T19:47:52.986Z")
    );
    assert!((tool.windows[0].remaining_percent - 90.0).abs() < 1e-9);
    assert_eq!(
        turn(Claude, "limit").windows_at,
        None,
        "no line before it has a time"
    );
}

#[test]
fn requests_beyond_the_subscription_are_seen() {
    let paid = String::from_utf8(output(Claude, "success")).unwrap();
    assert!(!turn(Claude, "success").overage_used);
    let paid = paid.replace("\"isUsingOverage\":false", "\"isUsingOverage\":true");
    assert!(of(Claude, paid.as_bytes()).overage_used);
}
