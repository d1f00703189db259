//! Words as a POSIX shell reads them.

/// The text as one shell word: bare when that is safe, else in single quotes.
pub fn quote(text: &str) -> String {
    let bare = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':' | b',')
    };
    if !text.is_empty() && text.bytes().all(bare) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An option with its value, as it can be typed: a value that begins with a dash needs the `=`.
pub fn option(name: &str, value: &str) -> String {
    let joint = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{joint}{}", quote(value))
}

#[cfg(test)]
mod tests {
    use super::{option, quote};
    use std::process::Command;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in ["", "plain/path", "a b", "it's", "$(x) `y` \\ \"z\" *", "~"] {
            #[expect(clippy::disallowed_methods, reason = "asks the real shell")]
            let output = Command::new("/bin/sh")
                .args(["-c", &format!("printf %s {}", quote(text))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
        assert_eq!(quote("/a/b"), "/a/b");
        assert_eq!(option("--task", "a b"), "--task 'a b'");
        assert_eq!(option("--task", "-x"), "--task=-x");
    }
}
