//! Text lines that carry their own checksum.

/// Prefixes a line with the CRC-32 of its bytes: `xxxxxxxx text`.
pub fn line(text: &str) -> String {
    format!("{:08x} {text}", crc32fast::hash(text.as_bytes()))
}

/// The text of a sealed line, or `None` when the checksum does not hold.
pub fn open(line: &str) -> Option<&str> {
    let (sum, text) = line
        .split_at_checked(8)
        .and_then(|(sum, rest)| Some((sum, rest.strip_prefix(' ')?)))?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == crc32fast::hash(text.as_bytes())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{line, open};

    #[test]
    fn any_changed_byte_breaks_the_seal() {
        let sealed = line("{\"a\":1}");
        assert_eq!(open(&sealed), Some("{\"a\":1}"));
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(text) = String::from_utf8(bytes) {
                assert_eq!(open(&text), None, "byte {at}");
            }
        }
        assert_eq!(open("é"), None);
    }
}
