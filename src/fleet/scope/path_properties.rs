//! What holds of owned paths, whatever a plan says.

use camino::{Utf8Component, Utf8Path};
use proptest::prelude::*;

use super::path::{Case, check, overlap};

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z.é]{1,4}",
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        Just(".git".to_owned()),
        Just(".Fleet".to_owned()),
        Just(".env.x".to_owned()),
        Just("[id]".to_owned()),
        "[\\x00-\\x7f]{0,3}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(part(), 0..5).prop_map(|parts| parts.join("/"))
}

proptest! {
    #[test]
    fn what_is_accepted_is_one_plain_path_below_the_checkout(text in text()) {
        if let Ok(path) = check(&text) {
            prop_assert_eq!(path.as_str(), &text);
            let names: Vec<_> = path.components().collect();
            prop_assert!(!names.is_empty());
            let all_plain = names.iter().all(|name| matches!(name, Utf8Component::Normal(_)));
            prop_assert!(all_plain, "{:?}", names);
            // Put together again it is the same text, so there is no second spelling of it.
            let again: Vec<&str> = names.iter().map(Utf8Component::as_str).collect();
            prop_assert_eq!(again.join("/"), text);
            let own = |name: &str| matches!(name.to_lowercase().as_str(), ".git" | ".fleet");
            prop_assert!(!again.iter().any(|name| own(name)));
            prop_assert!(Utf8Path::new("/root").join(&path).starts_with("/root"));
        }
    }

    #[test]
    fn being_in_the_way_is_mutual_and_reaches_down(one in text(), other in text(), below in "[a-z]{1,3}") {
        let (one, other) = (Utf8Path::new(&one), Utf8Path::new(&other));
        for case in [Case::Sensitive, Case::Insensitive] {
            prop_assert_eq!(overlap(one, other, case), overlap(other, one, case));
            prop_assert!(overlap(one, one, case));
            if check(one.as_str()).is_ok() {
                prop_assert!(overlap(one, &one.join(&below), case));
            }
        }
        if overlap(one, other, Case::Sensitive) {
            prop_assert!(overlap(one, other, Case::Insensitive));
        }
    }
}
