//! Who holds a file's `flock`, as the kernel lists it.
//!
//! Limits: Linux only. A holder in a pid namespace that we cannot see into is not listed, nor is one on a file
//! system that shows other device numbers in `stat` than in `/proc/locks`, such as btrfs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// A process that holds an exclusive or shared `flock` on the file; the first that is listed.
pub fn holder(file: &Metadata) -> Option<u32> {
    Held::look().by(file)
}

/// Who held what at one moment: for questions about many files.
#[derive(Debug)]
pub struct Held(String);

impl Held {
    /// Reads the kernel's list; nobody holds anything where it cannot be read.
    pub fn look() -> Self {
        Self(std::fs::read_to_string("/proc/locks").unwrap_or_default())
    }

    /// A process that held an exclusive or shared `flock` on the file; the first that is listed.
    pub fn by(&self, file: &Metadata) -> Option<u32> {
        let device = file.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        find(&self.0, &format!("{major:02x}:{minor:02x}:{}", file.ino()))
    }
}

/// Looks for a file in the text of `/proc/locks`. A line that begins with `->` waits for the one above it.
fn find(text: &str, file: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, of, ..] if of == file => {
                pid.parse().ok().filter(|pid| *pid > 0)
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_holder_is_told_from_waiters_and_other_files() {
        let text = "1: POSIX  ADVISORY  WRITE 10 fd:01:77 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 11 fd:01:78 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE -1 fd:01:77 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 12 fd:01:77 0 EOF\n\
            4: -> FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF\n";
        assert_eq!(find(text, "fd:01:77"), Some(12));
        assert_eq!(find(text, "fd:01:79"), None);
        assert_eq!(find("nonsense\n\n1: FLOCK", "fd:01:77"), None);
    }
}
