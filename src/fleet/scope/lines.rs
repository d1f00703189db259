//! A unified diff of two texts, the same bytes for the same texts on every machine. Pure.

use std::fmt::Write as _;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Most differing lines of both sides that are matched with each other. Matching takes the product of both in the
/// worst case; above this the whole stretch is taken out and put in again, which is longer and just as true.
const MATCHED: usize = 20_000;

/// The hunks; empty when the texts are equal. A line ends with a newline only: a carriage return is content.
pub fn unified(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut text = String::new();
    for group in group_diff_ops(operations(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let before = first.old_range().start..last.old_range().end;
        let after = first.new_range().start..last.new_range().end;
        let (before, after) = (range(&before), range(&after));
        put(&mut text, format_args!("@@ -{before} +{after} @@\n"));
        for operation in group {
            let (tag, gone, come) = operation.as_tag_tuple();
            if tag == similar::DiffTag::Equal {
                lines(&mut text, ' ', &old, gone);
            } else {
                lines(&mut text, '-', &old, gone);
                lines(&mut text, '+', &new, come);
            }
        }
    }
    text
}

fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let pairs = old.iter().zip(new);
    let head = pairs.take_while(|(old, new)| old == new).count();
    let pairs = old.iter().skip(head).rev().zip(new.iter().skip(head).rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    let (gone, come) = (old.len() - head - tail, new.len() - head - tail);
    if gone + come <= MATCHED {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    let equal = |old_index, new_index, len| DiffOp::Equal {
        old_index,
        new_index,
        len,
    };
    [
        equal(0, 0, head),
        DiffOp::Replace {
            old_index: head,
            old_len: gone,
            new_index: head,
            new_len: come,
        },
        equal(head + gone, head + come, tail),
    ]
    .into_iter()
    .filter(|operation| !(operation.old_range().is_empty() && operation.new_range().is_empty()))
    .collect()
}

/// As in a hunk's header: lines count from 1, and an empty range stands after the line that it names.
fn range(lines: &std::ops::Range<usize>) -> String {
    let count = lines.len();
    let first = if count == 0 {
        lines.start
    } else {
        lines.start + 1
    };
    format!("{first},{count}")
}

fn lines(text: &mut String, mark: char, all: &[&str], which: std::ops::Range<usize>) {
    for line in all.get(which).unwrap_or_default() {
        put(text, format_args!("{mark}{line}"));
        if !line.ends_with('\n') {
            put(text, format_args!("\n\\ No newline at end of file\n"));
        }
    }
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::{MATCHED, unified};

    #[test]
    fn hunks_are_those_of_a_unified_diff() {
        assert_eq!(unified("a\n", "a\n"), "");
        assert_eq!(unified("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(unified(old, new), expected);
    }

    #[test]
    fn ends_of_lines_are_content() {
        assert_eq!(
            unified("a", "a\n"),
            "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
        );
        assert_eq!(unified("a\r\n", "a\n"), "@@ -1,1 +1,1 @@\n-a\r\n+a\n");
        assert_eq!(
            unified("a\rb\n", "a\rc\n"),
            "@@ -1,1 +1,1 @@\n-a\rb\n+a\rc\n"
        );
    }

    #[test]
    fn a_stretch_too_long_to_match_is_replaced_as_a_whole() {
        let number = |from: usize| -> String {
            let lines: Vec<String> = (from..from + MATCHED).map(|n| format!("{n}\n")).collect();
            format!("head\n{}tail\n", lines.concat())
        };
        let text = unified(&number(0), &number(1));
        let count = MATCHED + 2;
        assert!(text.starts_with(&format!("@@ -1,{count} +1,{count} @@\n head\n-0\n")));
        assert!(
            text.ends_with("+20000\n tail\n"),
            "{}",
            &text[text.len() - 40..]
        );
    }
}
