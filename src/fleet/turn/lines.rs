//! Whole lines out of the bytes of an output file, however they arrive. Pure.
//!
//! A line that is longer than [`LONGEST`] is left out; no more than that of it is ever kept. What stands
//! after the last newline is a line only once the file is said to be over: until then it may be torn.

/// Longest line, in bytes: tools answer with images, and the last line of a turn has its whole answer.
pub const LONGEST: usize = 16 << 20;

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    overlong: bool,
}

impl Lines {
    /// Takes the next bytes of the file and gives every line that they end, without its newline.
    pub fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.begun.is_empty() && !self.overlong && head.len() <= LONGEST {
                line(head);
                continue;
            }
            self.keep(head);
            if !self.overlong {
                line(&self.begun);
            }
            self.begun.clear();
            self.overlong = false;
        }
        self.keep(bytes);
    }

    /// Says that the file is over: what is left is a line, if it was not cut off.
    pub fn finish(&mut self, line: impl FnOnce(&[u8])) {
        if !self.begun.is_empty() {
            line(&self.begun);
        }
        *self = Self::default();
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.overlong || self.begun.len() + bytes.len() > LONGEST {
            self.overlong = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Lines};

    fn cut(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut take = |line: &[u8]| found.push(String::from_utf8_lossy(line).into_owned());
        for piece in pieces {
            lines.feed(piece, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let whole = b"one\n\ntwo\nthree";
        let expected = ["one", "", "two", "three"];
        assert_eq!(cut(&[whole]), expected);
        for at in 0..whole.len() {
            let (head, tail) = whole.split_at(at);
            assert_eq!(cut(&[head, tail]), expected, "cut at {at}");
        }
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn a_line_beyond_all_measure_is_left_out_and_the_next_one_is_not() {
        let long = vec![b'x'; LONGEST + 1];
        for size in [4096, LONGEST, long.len()] {
            let mut pieces: Vec<&[u8]> = long.chunks(size).collect();
            pieces.push(b"\nafter\n");
            assert_eq!(cut(&pieces), ["after"], "in pieces of {size}");
        }
    }
}
