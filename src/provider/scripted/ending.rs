//! How a scripted conversation ended: its last line says it in our own words. Pure.

use jiff::Timestamp;

use crate::provider::answer::{instant, text};
use crate::provider::closing::{Closing, Command, Outcome};
use crate::provider::home::conversation::Tail;
use crate::quota::limit::{Ending, Limit, Reset};
use crate::quota::window::{Kind, Window};

/// How the last turn ended.
pub(super) fn of(tail: &Tail) -> Ending {
    let last = tail
        .newest(&["\"failure\"", "\"assistant\""])
        .find(|line| line["type"] == "failure" || line["type"] == "assistant");
    let Some(failure) = last.filter(|line| line["type"] == "failure") else {
        return Ending::default();
    };
    let limit = text(&failure["limit"]).and_then(|word| Limit::of_word(&word));
    let resets_at = instant(&failure["resets_at"]);
    let at = tail.time(&failure);
    let used_up = (limit == Some(Limit::Quota)).then(|| Window {
        id: "five_hour".to_owned(),
        kind: Kind::Session,
        scope: None,
        remaining_percent: 0.0,
        resets_at,
    });
    Ending {
        limit,
        at,
        reset: resets_at.map(|at| Reset { at, guessed: false }),
        windows_at: at.filter(|_| used_up.is_some()),
        windows: used_up.into_iter().collect(),
        overage_used: failure["overage_used"] == true,
    }
}

/// How the last turn stands.
pub(super) fn closing(tail: &Tail) -> Closing {
    let mut found = Closing::default();
    for line in tail.newest(&[
        "\"prompt\"",
        "\"assistant\"",
        "\"tool\"",
        "\"failure\"",
        "\"ended\"",
    ]) {
        let over = found.outcome.is_some();
        match line["type"].as_str() {
            Some("assistant") if over => {
                found.answer = text(&line["text"]);
                break;
            }
            Some("assistant" | "tool") if !over => {
                found.acted = tail.time(&line);
                break;
            }
            Some(kind @ ("failure" | "ended")) if !over => {
                found.at = tail.time(&line);
                found.is_stated = true;
                found.outcome = Some(if kind == "ended" {
                    Outcome::Completed
                } else {
                    Outcome::Failed {
                        word: text(&line["error"]),
                        text: text(&line["last_assistant_message"]).unwrap_or_default(),
                    }
                });
            }
            Some("prompt" | "failure" | "ended") => break,
            _ => {}
        }
    }
    found
}

/// The commands that ended at or after `from`.
pub(super) fn commands(tail: &Tail, from: Timestamp) -> Vec<Command> {
    let mut found: Vec<Command> = tail
        .newest(&["\"tool\""])
        .filter(|line| line["type"] == "tool")
        .take_while(|line| tail.time(line).is_some_and(|at| at >= from))
        .filter_map(|line| {
            let status = line["status"].as_i64();
            Some(Command {
                text: text(&line["command"])?,
                status,
                failed: status != Some(0),
            })
        })
        .collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::{closing, of};
    use crate::provider::closing::Outcome;
    use crate::provider::home::conversation::Tail;
    use crate::quota::limit::{Ending, Limit};

    #[test]
    fn the_last_line_decides_and_what_was_said_does_not() {
        let failure = r#"{"type":"failure","error":"rate_limit","limit":"quota","resets_at":"2030-01-02T00:00:00Z","timestamp":"2030-01-01T00:00:00Z"}"#;
        let said = r#"{"type":"assistant","text":"{\"type\":\"failure\",\"limit\":\"quota\"}"}"#;
        let ending = of(&Tail::of(&[said, failure]));
        assert_eq!(ending.limit, Some(Limit::Quota));
        assert_eq!(ending.at.unwrap().to_string(), "2030-01-01T00:00:00Z");
        let reset = ending.reset.unwrap();
        assert_eq!(reset.at.to_string(), "2030-01-02T00:00:00Z");
        assert_eq!(of(&Tail::of(&[failure, said])), Ending::default());
        assert_eq!(of(&Tail::of(&[])), Ending::default());
        let other = failure.replace("quota", "none");
        assert_eq!(of(&Tail::of(&[&other])).limit, None);
    }

    #[test]
    fn a_turn_is_over_when_its_last_line_says_so() {
        let prompt = r#"{"type":"prompt","text":"ended"}"#;
        let said = r#"{"type":"assistant","text":"done","timestamp":"2030-01-01T00:00:01Z"}"#;
        let ended = r#"{"type":"ended","timestamp":"2030-01-01T00:00:02Z"}"#;
        let failure = r#"{"type":"failure","error":"rate_limit","last_assistant_message":"no","timestamp":"2030-01-01T00:00:02Z"}"#;
        let of = |lines: &[&str]| closing(&Tail::of(lines));
        let open = of(&[prompt, ended, prompt, said]);
        assert_eq!(
            (open.outcome, open.acted),
            (None, "2030-01-01T00:00:01Z".parse().ok())
        );
        let over = of(&[prompt, said, ended]);
        assert_eq!(
            (over.outcome, over.answer.as_deref()),
            (Some(Outcome::Completed), Some("done"))
        );
        assert_eq!(of(&[prompt, said, ended, prompt, ended]).answer, None);
        let failed = of(&[prompt, said, failure]);
        let outcome = Outcome::Failed {
            word: Some("rate_limit".into()),
            text: "no".into(),
        };
        assert_eq!((failed.outcome, failed.is_stated), (Some(outcome), true));
        assert_eq!(of(&[prompt]).outcome, None);
    }
}
