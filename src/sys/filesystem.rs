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
        return (kind != OVERLAY).then_some(kind);
    }
    // The type is a signed word on some machines; its bits are what counts.
    let kind = rustix::fs::fstatfs(file).ok()?.f_type.cast_unsigned() & 0xffff_ffff;
    KINDS
        .iter()
        .find(|(magic, _)| *magic == kind)
        .map(|(_, name)| *name)
}

/// The same by path, and `overlay` where the path is on an overlay: locks hold there, but files that a
/// process has open may not be the ones that the next process opens. Nothing for a path that is not there.
#[cfg(target_os = "linux")]
pub fn kind(path: &std::path::Path) -> Option<&'static str> {
    #[cfg(feature = "test-fakes")]
    if let Some(kind) = pretended() {
        return Some(kind);
    }
    let kind = rustix::fs::statfs(path).ok()?.f_type.cast_unsigned() & 0xffff_ffff;
    let listed = KINDS.iter().find(|(magic, _)| *magic == kind);
    listed.map(|(_, name)| *name).or(match kind {
        OVERLAY_MAGIC => Some(OVERLAY),
        _ => None,
    })
}

/// The name of an overlay file system.
pub const OVERLAY: &str = "overlay";

#[cfg(target_os = "linux")]
const OVERLAY_MAGIC: u64 = 0x794c_7630;

/// What is left of a file system for a process without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes.
    pub bytes: u64,
    /// Files; `None` on a file system that makes room for them as it goes.
    pub files: Option<u64>,
}

/// What is left of the file system under a path.
pub fn space(path: &std::path::Path) -> std::io::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Space {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        files: (found.f_files > 0).then_some(found.f_favail),
    })
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
        .chain([OVERLAY])
        .find(|name| *name == wanted)
}

/// Not implemented off Linux: every file system is taken as trusted.
#[cfg(not(target_os = "linux"))]
pub fn untrusted_kind(_: &std::fs::File) -> Option<&'static str> {
    None
}

/// Not implemented off Linux.
#[cfg(not(target_os = "linux"))]
pub fn kind(_: &std::path::Path) -> Option<&'static str> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{kind, space, untrusted_kind};

    #[test]
    fn a_local_directory_is_trusted() {
        assert_eq!(untrusted_kind(&tempfile::tempfile().unwrap()), None);
    }

    #[test]
    fn what_is_not_there_has_no_kind_and_no_space() {
        let nowhere = std::path::Path::new("/proc/no/such/path");
        assert_eq!(kind(nowhere), None);
        assert!(space(nowhere).is_err());
        let here = tempfile::tempdir().unwrap();
        assert!(space(here.path()).unwrap().bytes > 0);
    }
}
