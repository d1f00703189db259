//! Who this process runs as.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

/// The number of the user that this process acts as.
pub fn number() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The login name of the real user in `/etc/passwd`; `None` for users that only a directory service knows.
pub fn name() -> Option<OsString> {
    let uid = rustix::process::getuid().as_raw().to_string();
    named(&fs::read("/etc/passwd").ok()?, uid.as_bytes())
}

fn named(passwd: &[u8], uid: &[u8]) -> Option<OsString> {
    passwd.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| OsString::from_vec(name.to_vec()))
    })
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn the_user_is_found_by_number_and_not_by_name() {
        let passwd =
            b"root:x:0:0::/root:/bin/sh\n1000:x:7:7::/:/bin/sh\nann:x:1000:4::/home/ann:/bin/sh\n";
        assert_eq!(named(passwd, b"1000").unwrap(), "ann");
        assert_eq!(named(passwd, b"4"), None);
    }
}
