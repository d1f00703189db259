//! Facts of a profile that must survive: `state/profiles/<profile>.json`, one file per profile.
//!
//! A write is in force for good once the call returns. Fields that this version does not know survive a
//! rewrite; a file that cannot be parsed is never overwritten and blocks its own profile alone. Each pin is
//! also kept in `state/profiles/<provider>.pins`, written before the profile's own file: that is how a
//! profile whose file was lost is told from one that was never enrolled.
//!
//! Files are written only by `snapshot::provider::update`, under the provider's snapshot lock.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::profile::{Durable, Pinned};
use super::provider;
use crate::clock::Deadline;
use crate::crash_point;
use crate::env::Context;
use crate::error::{Code, Error, Refusal, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::store::replace::{self, Durability};
use crate::store::{directory, read, seal};
use crate::sys::shell;

/// Version of the file's format.
const VERSION: u64 = 1;

/// Why the durable facts of a profile are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// There is a file, but nobody can read it.
    #[error(
        "the record `{path}` of profile `{profile}` cannot be read, so it is left alone: {reason}"
    )]
    Unreadable {
        /// Whose.
        profile: String,
        /// The file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is a file in a format that this version does not know.
    #[error("the record `{path}` of profile `{profile}` was made by a newer agent-fleet")]
    Newer {
        /// Whose.
        profile: String,
        /// The file.
        path: Utf8PathBuf,
    },
    /// The profile was pinned to an account, but its file is gone.
    #[error("the record `{path}` of profile `{profile}` is gone, so its account is unproven")]
    Lost {
        /// Whose.
        profile: String,
        /// Where the file was.
        path: Utf8PathBuf,
    },
}

impl Damage {
    /// Whether there is a record that may not be written over; one that is gone can be brought back.
    pub fn is_unreadable(&self) -> bool {
        !matches!(self, Self::Lost { .. })
    }
}

impl Refusal for Damage {
    fn code(&self) -> Code {
        match self {
            Self::Unreadable { .. } => code::RECORD_DAMAGED,
            Self::Newer { .. } => code::NEWER_FORMAT,
            Self::Lost { .. } => code::IDENTITY_UNPROVEN,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { profile, path, .. } => {
                let path = shell::quote(path.as_str());
                format!("mv {path} {path}.damaged && agent-fleet profile verify {profile}")
            }
            Self::Newer { .. } => "agent-fleet version".to_owned(),
            Self::Lost { profile, .. } => format!("agent-fleet profile verify {profile}"),
        })
    }
    fn details(&self) -> Map<String, Value> {
        let (Self::Unreadable { profile, path, .. }
        | Self::Newer { profile, path }
        | Self::Lost { profile, path }) = self;
        let mut details = Map::new();
        details.insert("path".to_owned(), path.as_str().into());
        details.insert("profile".to_owned(), profile.as_str().into());
        details
    }
}

/// A profile's file as it stands on disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Which provider wrote it.
    pub(super) provider: Option<ProviderKind>,
    /// What we know of it.
    pub(super) durable: Durable,
    /// Every field, known or not.
    fields: Map<String, Value>,
}

/// The directory of the durable files.
pub(super) fn folder(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("profiles")
}

/// The durable file of a profile.
pub fn path(context: &Context, profile: &str) -> Utf8PathBuf {
    folder(context).join(format!("{profile}.json"))
}

/// Whether a profile's file can be read now, if there is one: an edit in place is noticed here at once.
pub fn inspect(context: &Context, profile: &ProfileId) -> Result<(), Damage> {
    read(&path(context, profile.as_str()), profile.as_str()).map(drop)
}

/// Reads a profile's file; `None` when there is none.
pub(super) fn read(path: &Utf8Path, profile: &str) -> Result<Option<Record>, Damage> {
    let unreadable = |reason: String| Damage::Unreadable {
        profile: profile.to_owned(),
        path: path.to_owned(),
        reason,
    };
    let malformed = |error: serde_json::Error| unreadable(error.to_string());
    let Some(bytes) = read::optional(path).map_err(|error| unreadable(error.message))? else {
        return Ok(None);
    };
    let fields: Map<String, Value> = serde_json::from_slice(&bytes).map_err(malformed)?;
    match fields.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(version) if version > VERSION => {
            return Err(Damage::Newer {
                profile: profile.to_owned(),
                path: path.to_owned(),
            });
        }
        _ => return Err(unreadable("it names no format version".to_owned())),
    }
    let durable = Durable::deserialize(Value::Object(fields.clone())).map_err(malformed)?;
    let provider = fields
        .get("provider")
        .and_then(Value::as_str)
        .and_then(|name| name.parse().ok());
    Ok(Some(Record {
        provider,
        durable,
        fields,
    }))
}

/// Writes a profile's facts over its file, unknown fields kept; refuses to touch what it cannot read.
pub(super) fn write(
    context: &Context,
    provider: ProviderKind,
    profile: &str,
    durable: &Durable,
) -> Result<()> {
    let path = path(context, profile);
    let before = read(&path, profile)?.unwrap_or_default();
    if let Some(pinned) = &durable.pinned
        && before.durable.pinned.as_ref() != Some(pinned)
    {
        remember(context, provider, profile, Some(pinned))?;
        crash_point!("durable.remembered");
    }
    let mut fields = before.fields;
    let failed = |error| Error::internal(format!("cannot serialise: {error}"));
    if let Value::Object(known) = serde_json::to_value(durable).map_err(failed)? {
        fields.extend(known);
    }
    fields.insert("version".to_owned(), VERSION.into());
    fields.insert("profile".to_owned(), profile.into());
    fields.insert("provider".to_owned(), provider.name().into());
    let bytes = serde_json::to_vec_pretty(&fields).map_err(failed)?;
    replace::sweep_of(&path);
    replace::replace(&path, &bytes, Durability::Durable)
}

/// One line of a provider's pins.
#[derive(Debug, Serialize, Deserialize)]
struct Pin {
    profile: String,
    pinned: Pinned,
}

fn pins_path(context: &Context, provider: ProviderKind) -> Utf8PathBuf {
    folder(context).join(format!("{provider}.pins"))
}

fn parse_pin(line: &str) -> Option<Pin> {
    serde_json::from_str(seal::open(line)?).ok()
}

/// The account each profile was last pinned to. A line that cannot be read is skipped.
pub(super) fn pins(context: &Context, provider: ProviderKind) -> Result<BTreeMap<String, Pinned>> {
    let bytes = read::optional(pins_path(context, provider))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .filter_map(parse_pin)
        .map(|pin| (pin.profile, pin.pinned))
        .collect())
}

/// Replaces a profile's line in the pins; lines that cannot be read stay as they are.
fn remember(
    context: &Context,
    provider: ProviderKind,
    profile: &str,
    pinned: Option<&Pinned>,
) -> Result<()> {
    let path = pins_path(context, provider);
    let bytes = read::optional(&path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| parse_pin(line).is_none_or(|pin| pin.profile != profile))
        .map(str::to_owned)
        .collect();
    if let Some(pinned) = pinned {
        let pin = Pin {
            profile: profile.to_owned(),
            pinned: pinned.clone(),
        };
        let json = serde_json::to_string(&pin)
            .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
        lines.push(seal::line(&json));
    }
    let text = lines.join("\n") + "\n";
    replace::sweep_of(&path);
    replace::replace(&path, text.as_bytes(), Durability::Durable)
}

/// The durable facts of a profile, straight from its file; empty when it has none.
pub fn load(context: &Context, profile: &ProfileId) -> Result<Durable> {
    let record = read(&path(context, profile.as_str()), profile.as_str())?;
    Ok(record.unwrap_or_default().durable)
}

/// Changes the durable facts of a profile: its file for good, and their mirror in the snapshot.
pub fn update<T>(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    deadline: &Deadline,
    change: impl FnOnce(&mut Durable) -> Result<T>,
) -> Result<T> {
    provider::update(context, provider, deadline, |snapshot| {
        change(&mut snapshot.entry(profile.as_str()).durable)
    })
}

/// Forgets a profile that was removed: its line, its pin and its file, so that its id may be used again.
///
/// The login in its home is not touched.
pub fn forget(
    context: &Context,
    provider: ProviderKind,
    profile: &ProfileId,
    deadline: &Deadline,
) -> Result<()> {
    provider::update(context, provider, deadline, |snapshot| {
        snapshot.states.remove(profile.as_str());
        snapshot.damaged.remove(profile.as_str());
        if pins(context, provider)?.contains_key(profile.as_str()) {
            remember(context, provider, profile.as_str(), None)?;
        }
        let file = path(context, profile.as_str());
        if !file.exists() {
            return Ok(());
        }
        directory::remove_file(file)?;
        // A record that came back after a power cut would pin a new profile of this id to the old account.
        replace::sync_directory(folder(context).as_std_path())
    })
}

/// Forgets whose every profile of a provider is, because the key of their fingerprints is lost: under a new one none
/// would ever be recognised. Each is proved again when it is wanted; drains, blocks and quarantines stay.
pub fn forget_accounts(
    context: &Context,
    provider: ProviderKind,
    deadline: &Deadline,
) -> Result<()> {
    provider::update(context, provider, deadline, |snapshot| {
        let names: Vec<String> = snapshot.states.keys().cloned().collect();
        for name in names {
            snapshot.restore(&name);
            if snapshot.damaged.contains_key(&name) {
                continue;
            }
            let state = snapshot.entry(&name);
            state.durable.pinned = None;
            state.proof = None;
            // What is left is measured with the proof.
            state.reading = None;
            state.poll.next_at = None;
        }
        let pins = pins_path(context, provider);
        if pins.exists() {
            directory::remove_file(pins)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::{Damage, forget, load, path, read};
    use crate::error::code;
    use crate::id::{ProfileId, ProviderKind::Claude};
    use crate::snapshot::hold::{drain, undrain};
    use crate::snapshot::provider::tests::{World, pinned};
    use crate::snapshot::{durable, provider};

    fn id() -> ProfileId {
        "claude-1".parse().unwrap()
    }

    #[test]
    fn unknown_fields_survive_a_rewrite() {
        let world = World::new();
        drain(&world.context, Claude, &id(), "moving", &world.deadline()).unwrap();
        let file = path(&world.context, "claude-1");
        let text = std::fs::read_to_string(&file).unwrap();
        world.write(&file, &text.replacen('{', "{\"transactions\":[7],", 1));
        assert!(undrain(&world.context, Claude, &id(), &world.deadline()).unwrap());
        assert!(!undrain(&world.context, Claude, &id(), &world.deadline()).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("transactions") && text.contains('7'),
            "{text}"
        );
        assert_eq!(load(&world.context, &id()).unwrap().drain, None);
    }

    #[test]
    fn an_unparsable_file_blocks_its_profile_alone_and_is_never_overwritten() {
        let world = World::new();
        drain(&world.context, Claude, &id(), "x", &world.deadline()).unwrap();
        let file = path(&world.context, "claude-1");
        world.replace(&file, "{\"version\":1,");
        let error = drain(&world.context, Claude, &id(), "y", &world.deadline()).unwrap_err();
        assert_eq!(error.code, code::RECORD_DAMAGED);
        assert!(error.hint.unwrap().contains("claude-1.json.damaged"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"version\":1,");
        let other = "claude-2".parse().unwrap();
        drain(&world.context, Claude, &other, "z", &world.deadline()).unwrap();
        let snapshot = provider::load(&world.context, Claude).unwrap();
        assert!(snapshot.damaged.contains_key("claude-1"));
        assert!(!snapshot.damaged.contains_key("claude-2"));
    }

    #[test]
    fn a_newer_format_is_refused_and_not_downgraded() {
        let world = World::new();
        let file = path(&world.context, "claude-1");
        world.write(&file, "{\"version\":2,\"drain\":17}");
        let damage = read(&file, "claude-1").unwrap_err();
        assert!(matches!(damage, Damage::Newer { .. }), "{damage:?}");
        let error = drain(&world.context, Claude, &id(), "y", &world.deadline()).unwrap_err();
        assert_eq!(error.code, code::NEWER_FORMAT);
    }

    #[test]
    fn a_lost_file_of_a_pinned_profile_is_unproven_with_and_without_its_snapshot() {
        let world = World::new();
        durable::update(
            &world.context,
            Claude,
            &id(),
            &world.deadline(),
            |durable| {
                durable.pinned = Some(pinned("a1"));
                Ok(())
            },
        )
        .unwrap();
        std::fs::remove_file(path(&world.context, "claude-1")).unwrap();
        for _ in 0..2 {
            let snapshot = provider::load(&world.context, Claude).unwrap();
            let damage = snapshot.damaged.get("claude-1");
            assert!(matches!(damage, Some(Damage::Lost { .. })), "{damage:?}");
            assert_eq!(
                snapshot.states["claude-1"].durable.pinned,
                Some(pinned("a1")),
                "the last pin is still known, to be compared with"
            );
            let error = durable::update(
                &world.context,
                Claude,
                &id(),
                &world.deadline(),
                |durable| {
                    durable.pinned = Some(pinned("a2"));
                    Ok(())
                },
            )
            .unwrap_err();
            assert_eq!(error.code, code::IDENTITY_UNPROVEN, "pinned anew by itself");
            drop(std::fs::remove_file(provider::path(&world.context, Claude)));
        }
    }

    #[test]
    fn a_removed_profile_leaves_no_pin_behind() {
        let world = World::new();
        durable::update(
            &world.context,
            Claude,
            &id(),
            &world.deadline(),
            |durable| {
                durable.pinned = Some(pinned("a1"));
                Ok(())
            },
        )
        .unwrap();
        forget(&world.context, Claude, &id(), &world.deadline()).unwrap();
        let snapshot = provider::load(&world.context, Claude).unwrap();
        assert!(snapshot.states.is_empty() && snapshot.damaged.is_empty());
        assert!(!path(&world.context, "claude-1").exists());
    }
}
