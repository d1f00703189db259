//! Facts about files and the file systems under them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

/// What changes when a file's bytes do: cheap to compare, 50,000 times cheaper than a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified: i128,
    /// Status-change time, nanoseconds since 1970; `utimes` cannot set it.
    pub changed: i128,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The name of the file system under an open file when `flock` cannot be trusted there, or else `None`.
///
/// With the feature `test-fakes`, `AGENT_FLEET_TEST_FILESYSTEM` names the kind instead: no test can mount
/// all of them.
#[cfg(target_os = "linux")]
pub fn untrusted_kind(file: &std::fs::File) -> Option<&'static str> {
    #[cfg(feature = "test-fakes")]
    if let Some(kind) = pretended() {
        return Some(kind);
    }
    // The type is a signed word on some machines; its bits are what counts.
    let kind = rustix::fs::fstatfs(file).ok()?.f_type.cast_unsigned() & 0xffff_ffff;
    KINDS
        .iter()
        .find(|(magic, _)| *magic == kind)
        .map(|(_, name)| *name)
}

/// Magic numbers of `statfs(2)`.
#[cfg(target_os = "linux")]
const KINDS: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "CIFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
];

#[cfg(all(target_os = "linux", feature = "test-fakes"))]
#[expect(
    clippy::disallowed_methods,
    reason = "a test switch far below the captured environment"
)]
fn pretended() -> Option<&'static str> {
    let wanted = std::env::var("AGENT_FLEET_TEST_FILESYSTEM").ok()?;
    KINDS
        .iter()
        .map(|(_, name)| *name)
        .find(|name| *name == wanted)
}

/// Not implemented off Linux: every file system is taken as trusted.
#[cfg(not(target_os = "linux"))]
pub fn untrusted_kind(_: &std::fs::File) -> Option<&'static str> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::untrusted_kind;

    #[test]
    fn a_local_directory_is_trusted() {
        assert_eq!(untrusted_kind(&tempfile::tempfile().unwrap()), None);
    }
}
