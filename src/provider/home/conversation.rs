//! What transcripts of all providers have in common: an id that names a file, and a first line of JSON.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::Value;

use crate::store::read;

/// Longest first line that is read, in bytes: Codex puts instructions into it.
const LINE_LIMIT: u64 = 4 << 20;

/// Whether a conversation id can stand in a file name.
pub fn is_id(session: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&session.len()) && session.bytes().all(plain)
}

/// The first line of a transcript, when it is JSON.
pub fn first_line(transcript: &Path) -> Option<Value> {
    let mut line = Vec::new();
    BufReader::new(read::open(transcript).ok()?.take(LINE_LIMIT))
        .read_until(b'\n', &mut line)
        .ok()?;
    serde_json::from_slice(&line).ok()
}
