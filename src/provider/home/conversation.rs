//! What transcripts of all providers have in common: an id that names a file, and lines of JSON.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::store::read;

/// Longest first line that is read, in bytes: Codex puts instructions into it.
const LINE_LIMIT: u64 = 4 << 20;

/// How much of a transcript's end is read, in bytes: the record of a failed turn is small and stands last.
const TAIL: u64 = 256 << 10;

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

/// The last lines of a transcript, oldest first; what is cut off or is no JSON is left out.
pub fn last_lines(transcript: &Path) -> Vec<Value> {
    let read = || {
        let mut file = read::open(transcript)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        read::to_end(&file, TAIL)
    };
    read()
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
