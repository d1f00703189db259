//! What a viewer says to the host: one byte for what it is, two for the length of the rest, the rest. Pure.
//!
//! The other way there are no frames: what the host sends is drawn as it is, and its end is the end.

use crate::sys::pty::Size;

/// Longest rest, in bytes.
pub const LONGEST: usize = 4096;
/// The largest screen that is drawn.
const LARGEST: Size = Size {
    rows: 300,
    columns: 500,
};

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// First: it looks on, at a terminal of this size.
    Look(Size),
    /// First: a person types, at a terminal of this size.
    Type(Size),
    /// First: the text of the screen, once.
    Peek,
    /// The terminal has another size now.
    Resized(Size),
    /// Keys, of one who types.
    Keys(Vec<u8>),
}

impl Frame {
    /// Its bytes. Keys beyond [`LONGEST`] are cut off.
    pub fn bytes(&self) -> Vec<u8> {
        let (kind, rest) = match self {
            Self::Look(size) => (b'L', size_bytes(*size)),
            Self::Type(size) => (b'T', size_bytes(*size)),
            Self::Peek => (b'P', Vec::new()),
            Self::Resized(size) => (b'S', size_bytes(*size)),
            Self::Keys(keys) => (b'K', keys.iter().take(LONGEST).copied().collect()),
        };
        let length = u16::try_from(rest.len()).unwrap_or(0);
        let mut bytes = vec![kind];
        bytes.extend(length.to_be_bytes());
        bytes.extend(rest);
        bytes
    }
}

fn size_bytes(size: Size) -> Vec<u8> {
    [size.rows.to_be_bytes(), size.columns.to_be_bytes()].concat()
}

/// Something was said that is none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

/// Reads frames from bytes as they come.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Takes what came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` when more has to come.
    pub fn take(&mut self) -> Result<Option<Frame>, Garbled> {
        let Some((&[kind, high, low], rest)) = self.bytes.split_first_chunk::<3>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > LONGEST {
            return Err(Garbled);
        }
        let Some(rest) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = match (kind, rest) {
            (b'L', rest) => Frame::Look(size(rest)?),
            (b'T', rest) => Frame::Type(size(rest)?),
            (b'S', rest) => Frame::Resized(size(rest)?),
            (b'P', []) => Frame::Peek,
            (b'K', keys) => Frame::Keys(keys.to_vec()),
            _ => return Err(Garbled),
        };
        self.bytes.drain(..length + 3);
        Ok(Some(frame))
    }
}

/// A size that can be drawn: a terminal has a row and a column at least, and no more than is ever needed.
fn size(rest: &[u8]) -> Result<Size, Garbled> {
    let &[a, b, c, d] = rest else {
        return Err(Garbled);
    };
    Ok(Size {
        rows: u16::from_be_bytes([a, b]).clamp(1, LARGEST.rows),
        columns: u16::from_be_bytes([c, d]).clamp(1, LARGEST.columns),
    })
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames, Garbled, LONGEST};
    use crate::sys::pty::Size;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_arrives_however_it_is_cut() {
        let size = Size {
            rows: 40,
            columns: 120,
        };
        let said = [
            Frame::Type(size),
            Frame::Keys(b"\x1b[A".to_vec()),
            Frame::Keys(Vec::new()),
            Frame::Resized(size),
            Frame::Look(size),
            Frame::Peek,
        ];
        let bytes: Vec<u8> = said.iter().flat_map(Frame::bytes).collect();
        for piece in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut heard = Vec::new();
            for chunk in bytes.chunks(piece) {
                frames.feed(chunk);
                while let Some(frame) = frames.take().unwrap() {
                    heard.push(frame);
                }
            }
            assert_eq!(heard, said, "in pieces of {piece}");
        }
    }

    #[test]
    fn sizes_that_no_terminal_has_are_made_ones_that_can_be_drawn() {
        let mut frames = Frames::default();
        for (rows, columns) in [(0, 0), (u16::MAX, u16::MAX)] {
            frames.feed(&Frame::Look(Size { rows, columns }).bytes());
        }
        let mut next = || frames.take().unwrap().unwrap();
        let sized = |rows, columns| Frame::Look(Size { rows, columns });
        assert_eq!([next(), next()], [sized(1, 1), sized(300, 500)]);
        let long = Frame::Keys(vec![b'x'; LONGEST + 1]).bytes();
        assert_eq!(long.len(), LONGEST + 3);
        frames.feed(b"L\0\x05.....");
        assert_eq!(frames.take(), Err(Garbled));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in any::<Vec<u8>>()) {
            let mut frames = Frames::default();
            frames.feed(&bytes);
            while let Ok(Some(_)) = frames.take() {}
        }
    }
}
