//! A page drawn in place on a terminal.
//!
//! Nothing has to be put back at the end: neither another screen nor a hidden cursor is used, so a watch that
//! ends by a signal leaves its last page and a usable terminal.

use anstream::adapter::strip_str;
use rustix::termios::{isatty, tcgetwinsize};

use super::output::{Told, is_styled, tell_raw};
use crate::env::Variables;
use crate::error::Result;

/// A terminal whose cursor can be moved.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// The terminal at standard output, if there is one that can be drawn on.
    pub(super) fn of_stdout(variables: &Variables) -> Option<Self> {
        let able = variables.text("TERM").is_some_and(|kind| kind != "dumb");
        (able && isatty(rustix::stdio::stdout())).then_some(Self)
    }

    /// Shows a page in place of the one before, cut to what the terminal can show now.
    #[expect(
        clippy::unused_self,
        reason = "only where there is a screen can be drawn"
    )]
    pub(super) fn draw(&self, text: &str) -> Result<Told> {
        let (rows, columns) =
            tcgetwinsize(rustix::stdio::stdout()).map_or((0, 0), |size| (size.ws_row, size.ws_col));
        let text = if is_styled() {
            text.to_owned()
        } else {
            strip_str(text).to_string()
        };
        tell_raw(&frame(&text, rows.into(), columns.into()))
    }
}

/// The page with what puts it in place of the last one: from the top, each line cleared to its end, then the
/// rest of the screen. Lines that do not fit are counted on the last row; a terminal without a size is
/// taken as endless.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let height = |line: &str| match columns {
        0 => 1,
        _ => strip_str(line)
            .to_string()
            .chars()
            .count()
            .div_ceil(columns)
            .max(1),
    };
    // The cursor stands below the page.
    let room = if rows == 0 { usize::MAX } else { rows - 1 };
    let all: usize = lines.iter().map(|line| height(line)).sum();
    let mut shown = lines.len();
    if all > room {
        let mut used = 1;
        shown = lines
            .iter()
            .take_while(|line| {
                used += height(line);
                used <= room
            })
            .count();
    }
    let mut drawn = String::from("\u{1b}[H");
    let mut add = |line: &str| {
        drawn.push_str(line);
        drawn.push_str("\u{1b}[K\n");
    };
    for line in lines.iter().take(shown) {
        add(line);
    }
    if shown < lines.len() {
        add(&format!("… {} more lines", lines.len() - shown));
    }
    drawn.push_str("\u{1b}[J");
    drawn
}

#[cfg(test)]
mod tests {
    use super::frame;

    fn plain(text: &str, rows: usize, columns: usize) -> Vec<String> {
        let drawn = frame(text, rows, columns);
        assert!(drawn.starts_with("\u{1b}[H") && drawn.ends_with("\u{1b}[J"));
        let lines = drawn.trim_start_matches("\u{1b}[H").lines();
        lines
            .filter_map(|line| line.strip_suffix("\u{1b}[K"))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_page_that_fits_is_shown_whole_and_a_longer_one_says_what_is_missing() {
        let page = "a\nb\nc\n";
        assert_eq!(plain(page, 4, 80), ["a", "b", "c"]);
        assert_eq!(plain(page, 0, 0), ["a", "b", "c"]);
        assert_eq!(plain(page, 3, 80), ["a", "… 2 more lines"]);
        assert_eq!(plain(page, 1, 80), ["… 3 more lines"]);
    }

    #[test]
    fn a_line_that_wraps_counts_for_the_rows_it_takes_and_styles_count_for_nothing() {
        let wide = "aaaaaa\nb\n";
        assert_eq!(plain(wide, 4, 3), ["aaaaaa", "b"]);
        assert_eq!(plain(wide, 3, 3), ["… 2 more lines"]);
        let styled = "\u{1b}[1maaa\u{1b}[0m\nb\n";
        assert_eq!(plain(styled, 3, 3).len(), 2);
    }
}
