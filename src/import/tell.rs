//! Telling of accounts and places without naming a person.

use camino::Utf8Path;

use crate::env::Context;
use crate::id::{ProfileId, ProviderKind, is_id};
use crate::registry::path::resolved;

/// A path for people: the home directory as `~`, and no e-mail address.
pub fn path(context: &Context, path: &Utf8Path) -> String {
    let home = &context.roots.home;
    let below = [home.clone(), resolved(home)]
        .iter()
        .find_map(|home| Some(format!("~/{}", path.strip_prefix(home).ok()?)));
    let text = below.unwrap_or_else(|| path.to_string());
    let parts = text
        .split('/')
        .map(|part| if part.contains('@') { "…" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// A provider's name in a sentence.
pub(super) fn provider(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Claude => "Claude",
        ProviderKind::Codex => "Codex",
        ProviderKind::Scripted => "scripted",
    }
}

/// A label of another tool, if it names no person.
pub(super) fn label(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| is_id(text))
}

/// The id of a profile for an account of this provider that another tool calls so.
pub(super) fn id(kind: ProviderKind, label: &str) -> Option<ProfileId> {
    let label = label.trim_start_matches(['.', '-', '_']);
    let bare = [format!("{kind}-"), format!("{kind}_"), format!("{kind}.")]
        .iter()
        .find_map(|start| label.strip_prefix(start.as_str()))
        .unwrap_or(label);
    if bare.contains('@') {
        return None;
    }
    let clean: String = bare
        .chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => letter,
            _ => '-',
        })
        .collect();
    let clean = clean.trim_matches(['-', '.', '_']);
    let name = if clean.is_empty() { "1" } else { clean };
    format!("{kind}-{name}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{id, label};
    use crate::id::ProviderKind::{Claude, Codex};

    #[test]
    fn an_id_is_made_of_any_label_but_an_address() {
        let made = |kind, text: &str| id(kind, text).map(|id| id.to_string());
        for (kind, text, wanted) in [
            (Claude, "work", "claude-work"),
            (Claude, ".claude-Work", "claude-Work"),
            (Codex, "codex_two", "codex-two"),
            (Claude, "2", "claude-2"),
            (Claude, "my account/ü", "claude-my-account"),
            (Codex, "...", "codex-1"),
        ] {
            assert_eq!(made(kind, text).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(made(Claude, "a@b.invalid"), None);
        assert_eq!(made(Claude, &"x".repeat(200)), None);
        assert_eq!(label(Some(" work ")), Some("work"));
        assert_eq!(label(Some("a@b.invalid")), None);
        assert_eq!(label(Some("two words")), None);
    }
}
