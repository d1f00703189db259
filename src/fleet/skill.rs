//! The page that teaches a coding agent to lead a fleet, and where its CLIs look for such pages.
//!
//! It goes where the person's own CLI reads, never into a worker's home. A page that is not ours word for word may
//! hold the person's changes and is left alone.

use camino::{Utf8Path, Utf8PathBuf};

use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::registry::schema::{Anchor, Registry};
use crate::store::replace::{Durability, replace};
use crate::store::{directory, read};
use crate::sys::shell;

/// The page.
pub const TEXT: &str = include_str!("../../docs/skill/SKILL.md");
/// The directory that it is in, which is what the CLIs call it.
const NAME: &str = "agent-fleet";
const FILE: &str = "SKILL.md";

/// What is at a page's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// This program's page.
    Current,
    /// Something else: an older page, or one that was changed.
    Different,
}

/// The page below a directory of skills.
pub fn below(skills: &Utf8Path) -> Utf8PathBuf {
    skills.join(NAME).join(FILE)
}

/// Where the person's own CLIs read it: one place for each that the person has a home of.
pub fn places(context: &Context, registry: &Registry) -> Vec<(ProviderKind, Utf8PathBuf)> {
    let homes = [
        (ProviderKind::Claude, ".claude"),
        (ProviderKind::Codex, ".codex"),
    ];
    let found = homes.into_iter().filter_map(|(kind, name)| {
        let anchor = registry.provider(kind).ok().map(|one| &one.base_home);
        let home = match anchor {
            Some(Anchor::At(home)) => home.clone(),
            Some(Anchor::Off) | None => context.roots.home.join(name),
        };
        home.is_dir().then(|| (kind, below(&home.join("skills"))))
    });
    found.collect()
}

/// Looks at a place.
pub fn look(path: &Utf8Path) -> Result<Found> {
    Ok(match read::optional(path)? {
        None => Found::Missing,
        Some(bytes) if bytes == TEXT.as_bytes() => Found::Current,
        Some(_) => Found::Different,
    })
}

/// Writes the page, its directories made; what was there.
///
/// Refused with `already_exists`, and nothing touched, when another page is there and `replaces` is false.
pub fn install(path: &Utf8Path, replaces: bool) -> Result<Found> {
    let found = look(path)?;
    if found == Found::Different && !replaces {
        let message = format!("`{path}` is another page than this program's, and may be yours");
        return Err(Error::new(code::ALREADY_EXISTS, message).hint(format!(
            "agent-fleet fleet skill install --force  # replaces {}",
            shell::quote(path.as_str())
        )));
    }
    if found != Found::Current {
        if let Some(parent) = path.parent() {
            directory::ensure(parent)?;
        }
        replace(path, TEXT.as_bytes(), Durability::Durable)?;
    }
    Ok(found)
}
