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

/// The name of a file system on which `flock` cannot be trusted, or `None` when it can.
#[cfg(target_os = "linux")]
pub fn untrusted_kind(path: &std::path::Path) -> Option<&'static str> {
    let kind = u32::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()?;
    match kind {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("CIFS"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9p"),
        _ => None,
    }
}

/// Not implemented off Linux: every file system is taken as trusted.
#[cfg(not(target_os = "linux"))]
pub fn untrusted_kind(_: &std::path::Path) -> Option<&'static str> {
    None
}
