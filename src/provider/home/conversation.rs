//! What transcripts of all providers have in common: an id that names a file, and lines of JSON.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use camino::{Utf8Component, Utf8Path};
use jiff::Timestamp;
use serde_json::Value;

use crate::provider::answer::instant;
use crate::store::read;
use crate::sys::filesystem::Identity;

/// Longest first line that is read, in bytes: Codex puts instructions into it.
const LINE_LIMIT: u64 = 4 << 20;

/// How much of a transcript's end is read, in bytes: the record of a failed turn is small and stands last.
const TAIL: u64 = 256 << 10;

/// Whether a conversation id can stand in a file name.
pub fn is_id(session: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&session.len()) && session.bytes().all(plain)
}

/// Whether a transcript that somebody named lies in a home: only such a one speaks for its account. A path that
/// climbs out of it again does not.
pub fn lies_in(transcript: &Utf8Path, home: &Utf8Path) -> bool {
    let climbs = |part: Utf8Component<'_>| part == Utf8Component::ParentDir;
    transcript.starts_with(home) && !transcript.components().any(climbs)
}

/// The first line of a transcript, when it is JSON.
pub fn first_line(transcript: &Path) -> Option<Value> {
    let mut line = Vec::new();
    BufReader::new(read::open(transcript).ok()?.take(LINE_LIMIT))
        .read_until(b'\n', &mut line)
        .ok()?;
    serde_json::from_slice(&line).ok()
}

/// The end of a transcript.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The file as it was when it was read.
    pub file: Identity,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads the end of a transcript.
    pub fn read(transcript: &Path) -> io::Result<Self> {
        let mut file = read::open(transcript)?;
        let metadata = file.metadata()?;
        file.seek(SeekFrom::Start(metadata.len().saturating_sub(TAIL)))?;
        Ok(Self {
            file: Identity::from(&metadata),
            bytes: read::to_end(&file, TAIL)?,
        })
    }

    /// The lines that contain one of these words, newest first; what is cut off or is no JSON is left out.
    ///
    /// A word only saves the parsing of other lines: it may stand in a line by accident.
    pub fn newest<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = Value> + 'a {
        self.bytes
            .rsplit(|byte| *byte == b'\n')
            .filter_map(|line| std::str::from_utf8(line).ok())
            .filter(|line| words.iter().any(|word| line.contains(word)))
            .filter_map(|line| serde_json::from_str(line).ok())
    }

    /// When a line was written: its own `timestamp`, or else when the file was written last.
    pub fn time(&self, line: &Value) -> Option<Timestamp> {
        instant(&line["timestamp"]).or_else(|| Timestamp::from_nanosecond(self.file.modified).ok())
    }
}

#[cfg(test)]
impl Tail {
    /// The end of a transcript with these lines.
    pub(crate) fn of(lines: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        crate::store::replace::create(&path, (lines.join("\n") + "\n").as_bytes()).unwrap();
        Self::read(&path).unwrap()
    }

    /// The end of what a CLI wrote in the lab, as it was after its first lines: for each line that followed, and at last
    /// whole.
    pub(crate) fn grown(fixture: &str) -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz");
        let text = std::fs::read_to_string(root.join(fixture)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let counts = 1..=lines.len();
        counts.map(|count| Self::of(&lines[..count])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::lies_in;

    #[test]
    fn a_path_that_climbs_out_of_the_home_does_not_lie_in_it() {
        let lies = |path: &str| lies_in(path.into(), "/homes/a".into());
        assert!(lies("/homes/a/projects/p/x.jsonl"));
        assert!(!lies("/homes/a/../b/projects/p/x.jsonl"));
        assert!(!lies("/homes/ab/x.jsonl"));
        assert!(!lies("x.jsonl"));
    }
}
