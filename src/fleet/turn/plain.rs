//! Text of workers and tools, made safe to show and short enough to read. Pure.
//!
//! Guarantees: what comes out has no control character but newline and tab, no escape sequence, and none of
//! the marks that turn the direction of writing; nothing that looks like a token, a key or an address.

use std::borrow::Cow;

use crate::withheld::withhold;

/// A text without what a terminal would act on, and without secrets.
pub fn harmless(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                Some('[') => {
                    // Parameters end with the first letter of the final range.
                    while letters
                        .next_if(|next| !('\u{40}'..='\u{7e}').contains(next) && *next != '\n')
                        .is_some()
                    {}
                    letters.next_if(|next| *next != '\n');
                }
                Some(']' | 'P' | '_' | '^' | 'X') => {
                    while letters
                        .next_if(|next| !matches!(next, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n'))
                        .is_some()
                    {}
                    letters.next_if(|next| matches!(next, '\u{7}' | '\u{9c}'));
                }
                Some('\n') => plain.push('\n'),
                Some(_) | None => {}
            },
            '\n' | '\t' => plain.push(letter),
            '\r' => {}
            _ if letter.is_control() || turns(letter) => plain.extend(letter.escape_default()),
            _ => plain.push(letter),
        }
    }
    match withhold(&plain) {
        Cow::Borrowed(_) => plain,
        Cow::Owned(kept) => kept,
    }
}

/// Whether a mark turns the direction of writing, or hides.
fn turns(letter: char) -> bool {
    matches!(letter,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// One harmless line: newlines become spaces, and what is beyond `most` characters is cut off.
pub fn line(text: &str, most: usize) -> String {
    // What cannot reach the line is not looked at.
    let bound = most.saturating_mul(8);
    let head = text
        .get(..text.floor_char_boundary(bound))
        .unwrap_or_default();
    let harmless = harmless(head);
    let words: Vec<&str> = harmless.split_whitespace().collect();
    let joined = words.join(" ");
    let cut: String = joined.chars().take(most).collect();
    if cut.len() < joined.len() || head.len() < text.len() {
        cut + "…"
    } else {
        cut
    }
}

/// The first lines of a text, harmless, each after `margin` and cut off at `longest` characters; says how many
/// it leaves out.
pub fn first_lines(text: &str, margin: &str, most: usize, longest: usize) -> String {
    let text = harmless(text.trim_end());
    let count = text.lines().count();
    let mut shown = String::new();
    for one in text.lines().take(most) {
        push(&mut shown, margin, one, longest);
    }
    if count > most {
        push(
            &mut shown,
            margin,
            &format!("[{} more lines]", count - most),
            longest,
        );
    }
    shown
}

/// The same of the last lines.
pub fn last_lines(text: &str, margin: &str, most: usize, longest: usize) -> String {
    let text = harmless(text.trim_end());
    let left_out = text.lines().count().saturating_sub(most);
    let mut shown = String::new();
    if left_out > 0 {
        push(
            &mut shown,
            margin,
            &format!("[{left_out} lines before]"),
            longest,
        );
    }
    for one in text.lines().skip(left_out) {
        push(&mut shown, margin, one, longest);
    }
    shown
}

fn push(shown: &mut String, margin: &str, line: &str, longest: usize) {
    let cut = line.char_indices().nth(longest).map(|(at, _)| at);
    let text = format!(
        "{margin}{}",
        line.get(..cut.unwrap_or(line.len())).unwrap_or_default()
    );
    shown.push_str(text.trim_end());
    if cut.is_some() {
        shown.push('…');
    }
    shown.push('\n');
}

#[cfg(test)]
mod tests {
    use super::{first_lines, harmless, last_lines, line};
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_act_on_is_gone() {
        for (text, plain) in [
            ("a\x1b[31mred\x1b[0m b", "ared b"),
            ("\x1b]0;title\x07x\x1b]8;;http://y\x1b\\z", "xz"),
            ("\x1b[", ""),
            ("\x1b]never ended\nnext", "\nnext"),
            ("one\r\ntwo\tthree", "one\ntwo\tthree"),
            ("\x07\x08\u{9b}2J", "\\u{7}\\u{8}\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("key sk-ant-REDACTED", "key [withheld]"),
            // Escapes cannot hide a secret from the one who looks for it.
            ("sk-ant-\x1b[mapi03-abcdefghijklmnop", "[withheld]"),
        ] {
            assert_eq!(harmless(text), plain, "{text:?}");
        }
    }

    #[test]
    fn long_texts_say_what_is_left_out() {
        assert_eq!(
            first_lines("a\nb\nc\n", "  ", 2, 90),
            "  a\n  b\n  [1 more lines]\n"
        );
        assert_eq!(
            last_lines("a\nb\nc\n", "  ", 2, 90),
            "  [1 lines before]\n  b\n  c\n"
        );
        assert_eq!(line("a\n  b\x1b[2J", 10), "a b");
        assert_eq!(line(&"é".repeat(100), 3), "ééé…");
        let long = first_lines(&"x".repeat(5000), "", 1, 400);
        assert!(long.len() < 500 && long.ends_with("…\n"));
    }

    proptest! {
        #[test]
        fn nothing_acts_on_a_terminal(text in any::<String>(), bytes in any::<Vec<u8>>()) {
            for text in [text, String::from_utf8_lossy(&bytes).into_owned()] {
                for shown in [harmless(&text), line(&text, 20), last_lines(&text, "  ", 3, 9)] {
                    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                    prop_assert!(!shown.chars().any(acts), "{shown:?}");
                }
            }
        }
    }
}
