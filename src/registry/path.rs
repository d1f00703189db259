//! Paths written in the registry: absolute or `~/…`, in one spelling only.
//!
//! A provider home is passed on byte for byte the same for ever (the macOS keychain item of a login is
//! named by its hash), so a second spelling of the same directory would be a second, logged-out account.

use camino::{Utf8Path, Utf8PathBuf};
use unicode_normalization::UnicodeNormalization as _;

/// The absolute path that a registry text means, or why it is refused.
pub fn parse(text: &str, home: &Utf8Path) -> Result<Utf8PathBuf, String> {
    if text.chars().any(char::is_control) {
        return Err("must not hold control characters".to_owned());
    }
    let absolute = match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if text.starts_with('/') => Utf8PathBuf::from(text),
        None => {
            return Err(format!(
                "must be an absolute path or begin with `~/`, not `{text}`"
            ));
        }
    };
    if absolute.as_str().split('/').any(|part| part == "..") {
        return Err(format!("must not hold `..`: `{text}`"));
    }
    let canonical = spelling(&absolute);
    if canonical == absolute.as_str() {
        Ok(absolute)
    } else if absolute.as_str().nfc().eq(canonical.chars()) {
        // The two look the same on a screen.
        Err(format!(
            "holds letters that are put together from two characters: write `{canonical}` with composed ones (NFC)"
        ))
    } else {
        Err(format!(
            "has more than one spelling: write `{canonical}` instead of `{text}`"
        ))
    }
}

/// One spelling of an absolute path without `..`: no empty or `.` part, composed characters (NFC).
pub fn spelling(path: &Utf8Path) -> String {
    let parts: Vec<&str> = path
        .as_str()
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    format!("/{}", parts.join("/")).nfc().collect()
}

/// The one spelling of a directory that a person named: links resolved, characters composed.
///
/// On Linux the two forms of an accented letter are two names. A directory that is there under the other
/// form keeps its name, which the registry refuses: composing it would mean another directory.
pub fn canonical(path: &Utf8Path) -> Utf8PathBuf {
    let real = resolved(path);
    let composed = Utf8PathBuf::from(spelling(&real));
    if real.exists() && resolved(&composed) != real {
        real
    } else {
        composed
    }
}

/// The path with every link on the way resolved, as far as it exists.
pub fn resolved(path: &Utf8Path) -> Utf8PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize_utf8() {
            return match path.strip_prefix(ancestor) {
                // Joining an empty rest would add a slash.
                Ok(rest) if !rest.as_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_owned()
}

/// Whether one path is the other or lies below it. Both are spelt in the one way.
///
/// Compares text: every home is held against every other one, and taking paths apart would be ten times
/// slower.
pub fn overlap(one: &Utf8Path, other: &Utf8Path) -> bool {
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || outer == "/")
    };
    let (one, other) = (one.as_str(), other.as_str());
    within(one, other) || within(other, one)
}

#[cfg(test)]
mod tests {
    use super::{canonical, overlap, parse, resolved};
    use camino::Utf8Path;

    #[test]
    fn one_directory_has_one_spelling() {
        let home = Utf8Path::new("/h");
        assert_eq!(parse("~/a b/c", home).unwrap(), "/h/a b/c");
        assert_eq!(parse("/x/é", home).unwrap(), "/x/é");
        for bad in [
            "",
            "~",
            "a",
            "./a",
            "~x/a",
            "/a/",
            "/a//b",
            "/a/./b",
            "/a/../b",
            "/x/e\u{301}",
            "/a\nb",
            "/a\0",
        ] {
            assert!(parse(bad, home).is_err(), "accepted {bad:?}");
        }
        assert!(parse("/a//b/", home).unwrap_err().contains("write `/a/b`"));
        let decomposed = parse("/x/e\u{301}", home).unwrap_err();
        assert!(
            decomposed.contains("`/x/é` with composed ones"),
            "{decomposed}"
        );
    }

    #[test]
    fn a_directory_that_is_there_is_never_renamed_by_composing() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path())
            .unwrap()
            .canonicalize_utf8()
            .unwrap();
        let decomposed = root.join("cafe\u{301}");
        assert_eq!(canonical(&decomposed), root.join("café"));
        assert_eq!(canonical(&root.join("h/")), root.join("h"));
        std::fs::create_dir(&decomposed).unwrap();
        let kept = canonical(&decomposed);
        // Where the file system takes both forms for one name, the composed one is it.
        let same = root.join("café").exists();
        assert_eq!(kept, if same { root.join("café") } else { decomposed });
    }

    #[test]
    fn siblings_with_a_common_prefix_do_not_overlap() {
        assert!(overlap(Utf8Path::new("/a/b"), Utf8Path::new("/a")));
        assert!(overlap(Utf8Path::new("/a"), Utf8Path::new("/a")));
        assert!(overlap(Utf8Path::new("/"), Utf8Path::new("/a/b")));
        assert!(!overlap(Utf8Path::new("/a/b"), Utf8Path::new("/a/bc")));
    }

    #[test]
    fn links_are_resolved_as_far_as_the_path_exists() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path())
            .unwrap()
            .canonicalize_utf8()
            .unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        assert_eq!(resolved(&root.join("link/x/y")), root.join("real/x/y"));
        assert_eq!(resolved(&root.join("link")), root.join("real"));
    }
}
