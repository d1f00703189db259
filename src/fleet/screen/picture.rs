//! What a terminal shows, and drawing it for a viewer whose terminal has another size. Pure.
//!
//! A viewer gets rows that are different from those it has, each whole and from a known place, so what it skipped
//! does not matter. Drawn are letters, their styles and the cursor; for one who types also how keys are to be sent.
//!
//! Guarantees: any bytes can be shown; nothing that is drawn makes a terminal answer, or act on anything but itself.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vt100::{Cell, Color, Parser};

use crate::sys::pty::Size;

/// Keys are sent as by a terminal to which nothing was said.
const PLAIN_KEYS: &str =
    "\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[0 q";
/// Fewest rows of a viewer that has a line at its end to tell how to leave.
const FEWEST_ROWS: u16 = 4;

/// A terminal that keeps what it shows.
pub struct Screen {
    parser: Parser,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Screen")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// An empty one.
    pub fn new(size: Size) -> Self {
        Self {
            parser: parser(size),
        }
    }

    /// Its size.
    pub fn size(&self) -> Size {
        let (rows, columns) = self.parser.screen().size();
        Size {
            rows: rows.get(),
            columns: columns.get(),
        }
    }

    /// Shows what a program wrote.
    pub fn feed(&mut self, bytes: &[u8]) {
        // A mistake in the emulator costs what was on the screen, and never the worker behind it.
        let fed = catch_unwind(AssertUnwindSafe(|| self.parser.process(bytes)));
        if fed.is_err() {
            self.parser = parser(self.size());
        }
    }

    /// Takes another size.
    pub fn resize(&mut self, size: Size) {
        let (rows, columns) = non_zero(size);
        let resized = catch_unwind(AssertUnwindSafe(|| self.parser.set_size(rows, columns)));
        if resized.is_err() {
            self.parser = parser(size);
        }
    }

    /// Its rows as text, without the empty ones at the end.
    pub fn text(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let rows = screen.rows(0, self.size().columns);
        let mut rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// One row, as far as it fits, from its begin and with no style before and after it.
    fn row(&self, row: u16, columns: u16) -> String {
        let screen = self.parser.screen();
        let cell = |column| screen.cell(row, column);
        let empty = Style::default();
        let is_blank = |cell: &Cell| {
            Style::of(cell) == empty
                && matches!(cell.contents(), "" | " ")
                && !cell.is_wide_continuation()
        };
        let end = (0..columns.min(self.size().columns))
            .rev()
            .find(|column| cell(*column).is_some_and(|cell| !is_blank(cell)))
            .map_or(0, |last| last + 1);
        let mut text = String::new();
        let mut style = empty;
        for column in 0..end {
            let Some(cell) = cell(column) else { break };
            if cell.is_wide_continuation() {
                continue;
            }
            let own = Style::of(cell);
            if own != style {
                text.push_str(&own.sequence());
                style = own;
            }
            let is_cut = cell.is_wide() && column + 1 >= columns;
            if cell.has_contents() && !is_cut {
                text.push_str(cell.contents());
            } else {
                text.push(' ');
            }
        }
        if style != empty {
            text.push_str("\x1b[m");
        }
        text
    }
}

fn parser(size: Size) -> Parser {
    let (rows, columns) = non_zero(size);
    Parser::new(rows, columns, 0)
}

fn non_zero(size: Size) -> (NonZeroU16, NonZeroU16) {
    let some = |count| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
    (some(size.rows), some(size.columns))
}

/// How a letter is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    ink: Color,
    paper: Color,
    /// Bold, faint, italic, underlined, inverse: the numbers that switch them on, or zero.
    marks: [u8; 5],
}

impl Style {
    fn of(cell: &Cell) -> Self {
        let mark = |is_on: bool, number: u8| if is_on { number } else { 0 };
        Self {
            ink: cell.fgcolor(),
            paper: cell.bgcolor(),
            marks: [
                mark(cell.bold(), 1),
                mark(cell.dim(), 2),
                mark(cell.italic(), 3),
                mark(cell.underline(), 4),
                mark(cell.inverse(), 7),
            ],
        }
    }

    /// What sets it, whatever was set before.
    fn sequence(&self) -> String {
        let mut words = vec!["0".to_owned()];
        let marks = self.marks.iter().filter(|mark| **mark > 0);
        words.extend(marks.map(u8::to_string));
        for (color, number) in [(self.ink, 38), (self.paper, 48)] {
            match color {
                Color::Default => {}
                Color::Idx(index) => words.push(format!("{number};5;{index}")),
                Color::Rgb(red, green, blue) => {
                    words.push(format!("{number};2;{red};{green};{blue}"));
                }
            }
        }
        format!("\x1b[{}m", words.join(";"))
    }
}

/// What somebody does who looks at a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Looks on.
    Look,
    /// Types.
    Type,
}

/// A viewer's terminal, and what is on it already.
#[derive(Debug)]
pub struct View {
    purpose: Purpose,
    size: Size,
    /// What stands in its last line.
    label: String,
    /// The rows that it has; none before the first drawing and after its size has changed.
    rows: Vec<String>,
    keys: String,
}

impl View {
    /// Nothing is on it yet.
    pub fn new(purpose: Purpose, size: Size, label: &str) -> Self {
        Self {
            purpose,
            size,
            label: label.to_owned(),
            rows: Vec::new(),
            keys: String::new(),
        }
    }

    /// What it is there for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Its terminal has another size now; all of it is drawn again.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
        self.rows.clear();
    }

    /// How much of a screen it can show.
    pub fn room(&self) -> Size {
        let line = u16::from(self.size.rows >= FEWEST_ROWS);
        Size {
            rows: self.size.rows - line,
            ..self.size
        }
    }

    /// What has to be drawn so that it shows the screen as it is now.
    pub fn draw(&mut self, screen: &Screen) -> String {
        let room = self.room();
        let terminal = screen.parser.screen();
        let (cursor_row, cursor_column) = terminal.cursor_position();
        // Where not all of it fits, the part with the cursor is shown.
        let beyond = screen.size().rows.saturating_sub(room.rows);
        let top = (cursor_row + 1).saturating_sub(room.rows).min(beyond);
        let mut drawn = String::from("\x1b[?25l");
        let is_new = self.rows.is_empty();
        let mut rows = Vec::with_capacity(room.rows.into());
        for line in 0..room.rows {
            let row = screen.row(top + line, room.columns);
            let before = self.rows.get(usize::from(line));
            if before != Some(&row) {
                drawn.push_str(&format_args!("\x1b[{};1H\x1b[m\x1b[K{row}", line + 1).to_string());
            }
            rows.push(row);
        }
        self.rows = rows;
        if is_new && room.rows < self.size.rows {
            let line = self.last_line();
            drawn.push_str(
                &format_args!("\x1b[{};1H\x1b[m\x1b[K{line}", self.size.rows).to_string(),
            );
        }
        if self.purpose == Purpose::Type {
            let keys = terminal.input_mode_formatted();
            if is_new || keys != self.keys {
                drawn.push_str(PLAIN_KEYS);
                drawn.push_str(&keys);
                self.keys = keys;
            }
        }
        let line = cursor_row.saturating_sub(top);
        let is_in_room = line < room.rows && cursor_column < room.columns;
        if is_in_room && !terminal.hide_cursor() {
            let at = format!("\x1b[{};{}H\x1b[?25h", line + 1, cursor_column + 1);
            drawn.push_str(&at);
        }
        drawn
    }

    fn last_line(&self) -> String {
        let keys = match self.purpose {
            Purpose::Look => "Ctrl-C leaves",
            Purpose::Type => "your keys go to it; Ctrl-\\ leaves",
        };
        let text = format!(" {}: {keys} ", self.label);
        let cut: String = text.chars().take(self.size.columns.into()).collect();
        format!("\x1b[7m{cut}\x1b[m")
    }
}

#[cfg(test)]
mod tests {
    use super::{Purpose, Screen, View};
    use crate::sys::pty::Size;
    use proptest::prelude::*;

    fn size(rows: u16, columns: u16) -> Size {
        Size { rows, columns }
    }

    fn look(rows: u16, columns: u16) -> View {
        View::new(Purpose::Look, size(rows, columns), "one")
    }

    /// A viewer's terminal.
    fn terminal(rows: u16, columns: u16) -> Screen {
        Screen::new(size(rows, columns))
    }

    #[test]
    fn a_viewer_that_comes_late_sees_all_of_it_and_later_only_what_changed() {
        let mut screen = terminal(5, 20);
        screen.feed(b"one\r\n\x1b[1;31mtwo\x1b[m\r\n  \xe4\xb8\xadthree\x1b[2;2H");
        let mut view = look(6, 20);
        let mut shown = terminal(6, 20);
        let first = view.draw(&screen);
        shown.feed(first.as_bytes());
        assert_eq!(
            shown.text(),
            ["one", "two", "  中three", "", "", " one: Ctrl-C leaves"]
        );
        assert_eq!(shown.parser.screen().cursor_position(), (1, 1));
        let red = shown.parser.screen().cell(1, 0).unwrap();
        assert!(red.bold() && red.fgcolor() == vt100::Color::Idx(1));
        screen.feed(b"\x1b[4;1Hfour\x1b[?25l");
        let second = view.draw(&screen);
        assert!(
            second.contains("four") && !second.contains("two"),
            "{second:?}"
        );
        shown.feed(second.as_bytes());
        assert_eq!(shown.text()[3], "four");
        assert!(shown.parser.screen().hide_cursor());
        view.resize(size(3, 3));
        let mut small = terminal(3, 3);
        small.feed(view.draw(&screen).as_bytes());
        // The part with the cursor, cut at the edge, and no line to tell how to leave.
        assert_eq!(small.text(), ["two", "  ", "fou"].map(str::trim_end));
    }

    #[test]
    fn nothing_that_a_worker_writes_reaches_another_terminal_but_letters() {
        let mut screen = terminal(5, 60);
        let writes = "\x1b]0;title\x07\x1b]52;c;c2VjcmV0\x07\x1b[6n\x1b[c\x1b[?u\x1b[>1u\x1bP+q544e\x1b\\\x07\x1b[?1003h\
             \x1b[?1049hpage\x1b[8;2;2t\x1b]8;;http://x.invalid\x07link\x1b]8;;\x07";
        screen.feed(writes.as_bytes());
        let drawn = look(6, 60).draw(&screen);
        assert!(drawn.contains("pagelink"), "{drawn:?}");
        let mut rest = drawn.as_str();
        while let Some((_, after)) = rest.split_once('\x1b') {
            let sequence = after
                .strip_prefix('[')
                .expect("no sequence of another kind");
            let end = sequence
                .find(|letter: char| letter.is_ascii_alphabetic())
                .unwrap();
            let (parameters, kind) = (&sequence[..end], &sequence[end..=end]);
            let is_known = match kind {
                "H" | "K" | "m" => !parameters.contains('?'),
                "l" | "h" => parameters == "?25",
                _ => false,
            };
            assert!(is_known, "{drawn:?}");
            rest = &sequence[end + 1..];
        }
        assert!(!drawn.contains('\x07'), "{drawn:?}");
    }

    #[test]
    fn who_types_sends_keys_as_the_program_wants_them() {
        let mut screen = terminal(5, 20);
        screen.feed(b"\x1b[?1h\x1b[?2004h");
        let mut view = View::new(Purpose::Type, size(5, 20), "one");
        let mut shown = terminal(5, 20);
        shown.feed(view.draw(&screen).as_bytes());
        let keys = |shown: &Screen| {
            let screen = shown.parser.screen();
            (screen.application_cursor(), screen.bracketed_paste())
        };
        assert_eq!(keys(&shown), (true, true));
        screen.feed(b"\x1b[?1l\x1b[?2004l");
        shown.feed(view.draw(&screen).as_bytes());
        assert_eq!(keys(&shown), (false, false));
        assert_eq!(view.room(), size(4, 20));
    }

    proptest! {
        #[test]
        fn whatever_is_written_a_viewer_shows_the_same_rows(
            pieces in proptest::collection::vec((any::<Vec<u8>>(), "[\\x1b\\[0-9;?A-Za-z\u{4e2d}\u{301} \r\n]{0,40}", 1_u16..9, 1_u16..9), 1..12),
        ) {
            let mut screen = terminal(6, 12);
            let mut view = View::new(Purpose::Type, size(6, 12), "one");
            let mut shown = terminal(6, 12);
            for (bytes, text, rows, columns) in pieces {
                screen.feed(&bytes);
                screen.feed(text.as_bytes());
                if rows == 8 {
                    screen.resize(size(columns, rows));
                }
                shown.feed(view.draw(&screen).as_bytes());
                let late = View::new(Purpose::Type, size(6, 12), "one").draw(&screen);
                let mut other = terminal(6, 12);
                other.feed(late.as_bytes());
                prop_assert_eq!(shown.text(), other.text());
            }
        }
    }
}
