//! How a scripted conversation ended: its last line says it in our own words. Pure.

use crate::provider::answer::{instant, text};
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

#[cfg(test)]
mod tests {
    use super::of;
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
}
