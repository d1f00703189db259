//! Sockets in the file system, between processes of one user on one machine.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Longest path of a socket everywhere, in bytes.
pub const LONGEST_PATH: usize = 103;

/// Listens at a path, where nothing may be yet; taking who comes waits for nobody.
pub fn listen(path: impl AsRef<Path>) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether the other end was made by a process of this user; one of which that cannot be told was not.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "who is at the other end has no safe interface that knows other pid namespaces"
)]
pub fn is_ours(stream: &UnixStream) -> bool {
    use std::os::fd::AsRawFd as _;
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let Ok(mut size) = libc::socklen_t::try_from(size_of::<libc::ucred>()) else {
        return false;
    };
    // SAFETY: `found` and `size` outlive the call, and `size` is that of `found`.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    status == 0 && found.uid == rustix::process::geteuid().as_raw()
}

/// Whether the other end was made by a process of this user; one of which that cannot be told was not.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "who is at the other end has no safe interface")]
pub fn is_ours(stream: &UnixStream) -> bool {
    use std::os::fd::AsRawFd as _;
    let (mut user, mut group) = (libc::uid_t::MAX, libc::gid_t::MAX);
    // SAFETY: both numbers outlive the call.
    let status = unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) };
    status == 0 && user == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::{is_ours, listen};
    use std::io::ErrorKind;
    use std::os::unix::net::UnixStream;

    #[test]
    fn nobody_is_waited_for_and_who_comes_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = listen(&path).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let near = UnixStream::connect(&path).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(is_ours(&near) && is_ours(&far));
        assert!(listen(&path).is_err(), "two listen at one path");
    }
}
