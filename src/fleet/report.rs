//! What a report says of itself: a worker's status, a reviewer's verdict. Pure.
//!
//! Reports are prose by a model. One line of each is read, leniently in its dress and strictly in its word; whatever
//! stands in a fenced block is quoted, and says nothing. A line that cannot be read is a question for the lead, never
//! an approval.

use std::ops::Range;

/// What a worker says of its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, to be checked.
    NeedsVerification,
    /// Something has to be decided.
    Blocked,
    /// Checked and accepted; only ever written by us.
    Verified,
    /// Another word, as it stands.
    Other(String),
}

/// What a reviewer says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be used as it is.
    Approve,
    /// Something has to change first.
    ChangesRequested,
}

/// A verdict and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The word.
    pub verdict: Verdict,
    /// What follows it.
    pub findings: String,
}

/// The value of a line `name: value`, in whatever dress: bullets, numbers, headings, quotes, emphasis.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let dress = |letter: char| letter.is_whitespace() || "*_`#>-+".contains(letter);
    let mut rest = line.trim_start_matches(dress);
    let digits = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if digits.len() < rest.len()
        && let Some(after) = digits.strip_prefix(['.', ')'])
    {
        rest = after.trim_start_matches(dress);
    }
    let word = rest.get(..name.len())?;
    if !word.eq_ignore_ascii_case(name) {
        return None;
    }
    let emphasis = |letter: char| letter.is_whitespace() || "*_`".contains(letter);
    let rest = rest.get(name.len()..)?.trim_start_matches(emphasis);
    let value = rest.strip_prefix(':')?;
    Some(value.trim_matches(emphasis).trim_end_matches('.'))
}

/// A value in the form in which words are compared.
fn plain(value: &str) -> String {
    let joined: Vec<&str> = value
        .split(|letter: char| letter.is_whitespace() || matches!(letter, '_' | '-'))
        .filter(|part| !part.is_empty())
        .collect();
    joined.join("-").to_ascii_lowercase()
}

/// Whether a value is a word, alone or with more said after it. Two words offered at once are none.
fn says(value: &str, word: &str) -> bool {
    !value.contains(['|', '/'])
        && value.strip_prefix(word).is_some_and(|rest| {
            rest.chars()
                .next()
                .is_none_or(|next| !next.is_alphanumeric())
        })
}

/// The lines outside fenced blocks, each with its place in the text.
fn lines(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut start = 0;
    for piece in text.split_inclusive('\n') {
        let line = piece.trim_end_matches(['\n', '\r']);
        let range = start..start + line.len();
        start += piece.len();
        let inner = line.trim_start();
        let mark = inner
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'));
        let length = inner
            .chars()
            .take_while(|letter| Some(*letter) == mark)
            .count();
        let rest = inner.get(length..).unwrap_or_default();
        match (fence, mark) {
            (None, Some(mark)) if length >= 3 && !(mark == '`' && rest.contains('`')) => {
                fence = Some((mark, length));
            }
            (Some((opened, least)), Some(mark))
                if mark == opened && length >= least && rest.trim().is_empty() =>
            {
                fence = None;
            }
            (Some(_), _) => {}
            (None, _) => found.push((range, line)),
        }
    }
    found
}

/// The first status line.
fn status_line(text: &str) -> Option<(Range<usize>, &str)> {
    lines(text)
        .into_iter()
        .find_map(|(range, line)| value(line, "status").map(|value| (range, value)))
}

/// What a report says; `None` without a status line. The first line counts.
pub fn status(text: &str) -> Option<Status> {
    let (_, value) = status_line(text)?;
    let word = plain(value);
    Some(if says(&word, "needs-verification") {
        Status::NeedsVerification
    } else if says(&word, "blocked") {
        Status::Blocked
    } else if says(&word, "verified") {
        Status::Verified
    } else {
        Status::Other(value.chars().take(80).collect())
    })
}

/// What a review says; `None` when that needs a decision: no verdict, another word, or two that differ.
pub fn verdict(text: &str) -> Option<Review> {
    let mut said: Option<(Verdict, usize)> = None;
    for (range, line) in lines(text) {
        let Some(value) = value(line, "verdict") else {
            continue;
        };
        let word = plain(value);
        let verdict = if says(&word, "approve") || says(&word, "approved") {
            Verdict::Approve
        } else if says(&word, "changes-requested") {
            Verdict::ChangesRequested
        } else {
            return None;
        };
        match said {
            Some((before, _)) if before != verdict => return None,
            Some(_) => {}
            None => said = Some((verdict, range.end)),
        }
    }
    let (verdict, end) = said?;
    Some(Review {
        verdict,
        findings: text.get(end..).unwrap_or_default().trim().to_owned(),
    })
}

/// The report once its step is accepted: the status line says so, the evidence stands at the end. `None` without a
/// status line.
pub fn verified(text: &str, evidence: &str) -> Option<String> {
    let (range, _) = status_line(text)?;
    let before = text.get(..range.start)?;
    let after = text.get(range.end..)?.trim_end();
    Some(format!(
        "{before}Status: verified{after}\n\n## Verification\n\n{}\n",
        evidence.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::{Status, Verdict, status, verdict, verified};
    use proptest::prelude::*;

    #[test]
    fn a_status_is_read_in_any_dress() {
        for text in [
            "Status: needs-verification",
            "**Status:** needs-verification",
            "**Status**: `needs-verification`",
            "# Report\n\n- Status: Needs-Verification\n",
            "* **Status: NEEDS VERIFICATION**",
            "1. status : needs_verification.",
            "## Status: needs-verification — two files",
            "> _Status_: needs-verification\r\nStatus: blocked",
        ] {
            assert_eq!(status(text), Some(Status::NeedsVerification), "{text}");
        }
        assert_eq!(
            status("Status: blocked: which port?"),
            Some(Status::Blocked)
        );
        assert_eq!(status("Status: verified"), Some(Status::Verified));
    }

    #[test]
    fn the_first_status_outside_of_quotes_counts() {
        let text = "```\nStatus: blocked\n```\n~~~~ text\nStatus: blocked\n~~~\n~~~~\nStatus: needs-verification\nStatus: blocked\n";
        assert_eq!(status(text), Some(Status::NeedsVerification));
        assert_eq!(status("````\n```\nStatus: blocked\n"), None);
    }

    #[test]
    fn what_is_no_status_is_none() {
        for text in [
            "",
            "The status: fine",
            "Status blocked",
            "Statuses: blocked",
            "no",
        ] {
            assert_eq!(status(text), None, "{text}");
        }
        for text in [
            "Status: needs-verification|blocked",
            "Status: blockedish",
            "Status: done",
            "Status:",
        ] {
            assert!(matches!(status(text), Some(Status::Other(_))), "{text}");
        }
    }

    #[test]
    fn a_verdict_that_cannot_be_read_approves_nothing() {
        let review =
            verdict("I read it.\n\n**Verdict:** Changes requested\n\n- a.rs:3: off by one\n");
        let review = review.unwrap();
        assert_eq!(review.verdict, Verdict::ChangesRequested);
        assert_eq!(review.findings, "- a.rs:3: off by one");
        for text in [
            "Verdict: approve",
            "- verdict: APPROVED.",
            "Verdict: approve\n\nVerdict: approve",
        ] {
            assert_eq!(verdict(text).unwrap().verdict, Verdict::Approve, "{text}");
        }
        for text in [
            "",
            "I approve",
            "Verdict: approve|changes-requested",
            "Verdict: approve or changes-requested?\nVerdict: no",
            "Verdict: approve\n\nVerdict: changes-requested",
            "Verdict: disapprove",
            "Verdict: not approve",
            "```\nVerdict: approve\n```",
        ] {
            assert_eq!(verdict(text), None, "{text}");
        }
    }

    #[test]
    fn an_accepted_report_says_so_and_keeps_the_rest() {
        let text = "# Report\n\n- **Status:** Needs-Verification\n\nStatus: blocked\nDone.\n\n";
        let written = verified(text, "cargo test: exit 0\n").unwrap();
        assert_eq!(
            written,
            "# Report\n\nStatus: verified\n\nStatus: blocked\nDone.\n\n## Verification\n\ncargo test: exit 0\n"
        );
        assert_eq!(status(&written), Some(Status::Verified));
        assert_eq!(verified("nothing", "x"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_an_accepted_one_says_so(text in "(?s).{0,80}(\n[-*# ]{0,3}Status: [a-z-]{0,20})?(\n.{0,20}|\n```){0,4}") {
            drop(verdict(&text));
            if status(&text).is_some() {
                let written = verified(&text, "evidence").unwrap();
                prop_assert_eq!(status(&written), Some(Status::Verified));
            }
        }
    }
}
