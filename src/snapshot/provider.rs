//! The snapshot of one provider, `state/snapshot/<provider>`: everything that choosing needs to know.
//!
//! A sealed header, then one sealed JSON line per profile. The file is replaced whole and never synced: it
//! can be rebuilt from the durable files and the readers. A line that does not hold affects its own profile
//! alone, which is rebuilt from its durable file. The header names the stat identity of `state/profiles`,
//! so that a durable file that was replaced, lost or brought back since is noticed with one `stat`, and
//! read again; the snapshot only mirrors it.
//!
//! Limits: a durable file edited in place by hand is noticed at the next durable write of any profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use super::durable::{self, Damage};
use super::profile::{Durable, ProfileState};
use crate::audit::{self, Mark};
use crate::clock::Deadline;
use crate::contract::audit::AuditEvent;
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::store::lock::{Locks, Mode, Name};
use crate::store::replace::{self, Durability};
use crate::store::{directory, read, seal};
use crate::sys::filesystem::Identity;

/// Version of the file's format.
const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Header {
    version: u32,
    #[serde(default)]
    evidence_offset: u64,
    /// `state/profiles` when its files were last mirrored; `None` while one of them is damaged.
    #[serde(default)]
    pub(crate) profiles: Option<Identity>,
}

/// One provider's profiles, and how far its evidence was folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Bytes of the evidence file that are folded in.
    pub evidence_offset: u64,
    /// What is known, by profile id, and of the base login under [`super::profile::BASE`].
    pub states: BTreeMap<String, ProfileState>,
    /// Profiles whose durable facts are not known; they take no work.
    pub damaged: BTreeMap<String, Damage>,
    /// Lost records that a person's command settled in this update.
    restored: BTreeSet<String>,
}

impl Snapshot {
    /// What is known of a profile, to be changed; a profile that is new starts empty.
    pub fn entry(&mut self, name: &str) -> &mut ProfileState {
        self.states
            .entry(name.to_owned())
            .or_insert_with(|| ProfileState::named(name))
    }

    /// Lets the next write bring back the record of a profile that was lost. For commands in which a
    /// person names the profile; a record that is there but unreadable stays untouched.
    pub fn restore(&mut self, name: &str) {
        if matches!(self.damaged.get(name), Some(Damage::Lost { .. })) {
            self.damaged.remove(name);
            self.restored.insert(name.to_owned());
        }
    }
}

/// The snapshot file of a provider.
pub fn path(context: &Context, provider: ProviderKind) -> Utf8PathBuf {
    context.roots.state.join("snapshot").join(provider.name())
}

/// The stat identity of the durable files' directory, or `None` when there is none.
fn profiles_identity(context: &Context) -> Option<Identity> {
    fs::metadata(durable::folder(context))
        .ok()
        .map(|metadata| Identity::from(&metadata))
}

/// Loads the snapshot of a provider; a missing one is rebuilt from the durable files alone.
///
/// Takes no lock and writes nothing. Fails with `newer_format` when a newer version wrote it.
pub fn load(context: &Context, provider: ProviderKind) -> Result<Snapshot> {
    let path = path(context, provider);
    let bytes = read::optional(&path)?;
    Ok(complete(context, provider, parse(bytes.as_deref(), &path)?)?.0)
}

/// What a snapshot file says, and whether it is whole.
pub(crate) struct Parsed {
    pub(crate) snapshot: Snapshot,
    pub(crate) whole: bool,
    pub(crate) profiles: Option<Identity>,
}

pub(crate) fn parse(bytes: Option<&[u8]>, path: &Utf8PathBuf) -> Result<Parsed> {
    let mut parsed = Parsed {
        snapshot: Snapshot::default(),
        whole: false,
        profiles: None,
    };
    let Some(bytes) = bytes else {
        return Ok(parsed);
    };
    // Bytes that are no text break the seal of their line, and are looked for one by one only where there are any.
    let text = std::str::from_utf8(bytes).map_or_else(
        |_| String::from_utf8_lossy(bytes),
        std::borrow::Cow::Borrowed,
    );
    let mut lines = text.split('\n');
    let header = lines
        .next()
        .and_then(seal::open)
        .and_then(|text| serde_json::from_str::<Header>(text).ok());
    if let Some(header) = header {
        if header.version > VERSION {
            let message = format!("the snapshot `{path}` was made by a newer agent-fleet");
            return Err(Error::new(code::NEWER_FORMAT, message).hint("agent-fleet version"));
        }
        parsed.snapshot.evidence_offset = header.evidence_offset;
        parsed.profiles = header.profiles;
        parsed.whole = true;
    }
    for line in lines.filter(|line| !line.is_empty()) {
        match seal::open(line).and_then(|text| serde_json::from_str::<ProfileState>(text).ok()) {
            Some(state) => {
                parsed.snapshot.states.insert(state.profile.clone(), state);
            }
            None => parsed.whole = false,
        }
    }
    Ok(parsed)
}

/// Brings the mirror of the durable files up to date where it may not be, and says as of when it is.
fn complete(
    context: &Context,
    provider: ProviderKind,
    parsed: Parsed,
) -> Result<(Snapshot, Option<Identity>)> {
    let mut snapshot = parsed.snapshot;
    let now = profiles_identity(context);
    if parsed.whole && now == parsed.profiles {
        return Ok((snapshot, now));
    }
    let mut found = BTreeSet::new();
    for name in names(context)? {
        match durable::read(&durable::path(context, &name), &name) {
            Ok(Some(record)) if record.provider.is_none_or(|kind| kind == provider) => {
                snapshot.entry(&name).durable = record.durable;
                found.insert(name);
            }
            Ok(_) => {}
            Err(damage) => {
                snapshot.damaged.insert(name.clone(), damage);
                found.insert(name);
            }
        }
    }
    for (name, pinned) in durable::pins(context, provider)? {
        let state = snapshot.entry(&name);
        if state.durable.pinned.is_none() {
            state.durable.pinned = Some(pinned);
        }
    }
    for (name, state) in &snapshot.states {
        if state.durable.pinned.is_some() && !found.contains(name) {
            let damage = Damage::Lost {
                profile: name.clone(),
                path: durable::path(context, name),
            };
            snapshot.damaged.insert(name.clone(), damage);
        }
    }
    Ok((snapshot, now))
}

/// The profiles that have a durable file, of any provider.
fn names(context: &Context) -> Result<BTreeSet<String>> {
    let folder = durable::folder(context);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(Error::io("list", &folder, &error)),
    };
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect())
}

/// Changes the snapshot of a provider under its lock: what `change` sees is what is there now.
///
/// Durable facts that `change` altered are written to the profiles' own files first, for good. Nothing is
/// written when `change` fails or changes nothing. Fails with the profile's damage when it alters durable
/// facts that cannot be read or were lost.
pub fn update<T>(
    context: &Context,
    provider: ProviderKind,
    deadline: &Deadline,
    change: impl FnOnce(&mut Snapshot) -> Result<T>,
) -> Result<T> {
    let locks = Locks::of(context);
    let _guard = locks.take(&Name::Snapshot(provider), Mode::Exclusive, deadline)?;
    let path = path(context, provider);
    let bytes = read::optional(&path)?;
    let parsed = parse(bytes.as_deref(), &path)?;
    let (mut snapshot, mut profiles) = complete(context, provider, parsed)?;
    let before: BTreeMap<String, Mark> = snapshot
        .states
        .iter()
        .map(|(name, state)| (name.clone(), Mark::of(state)))
        .collect();
    let answer = change(&mut snapshot)?;
    let changed: Vec<(&String, &Durable)> = snapshot
        .states
        .iter()
        .map(|(name, state)| (name, &state.durable))
        .filter(|(name, durable)| {
            let known = before.get(*name);
            known.map_or_else(
                || **durable != Durable::default(),
                |old| old.durable != **durable,
            ) || snapshot.restored.contains(*name)
        })
        .collect();
    if let Some(damage) = changed
        .iter()
        .find_map(|(name, _)| snapshot.damaged.get(*name))
    {
        return Err(damage.clone().into());
    }
    if !changed.is_empty() {
        directory::establish(durable::folder(context))?;
    }
    for (name, durable) in &changed {
        durable::write(context, provider, name, durable)?;
        crash_point!("snapshot.durable_written");
    }
    if !changed.is_empty() {
        profiles = profiles_identity(context);
    }
    if !snapshot.damaged.is_empty() {
        profiles = None;
    }
    let text = serialize(&snapshot, profiles)?;
    if bytes.as_deref() != Some(text.as_bytes()) {
        if let Some(directory) = path.parent() {
            directory::ensure(directory)?;
        }
        replace::sweep_of(&path);
        replace::replace(&path, text.as_bytes(), Durability::Volatile)?;
        note(context, provider, &before, &snapshot);
    }
    Ok(answer)
}

/// Writes down what an update amounts to.
fn note(
    context: &Context,
    provider: ProviderKind,
    before: &BTreeMap<String, Mark>,
    after: &Snapshot,
) {
    let unknown = Mark::default();
    let now = context.clock.now();
    for (name, state) in &after.states {
        let start = |word: &str| AuditEvent {
            provider: Some(provider.to_string()),
            profile: Some(name.clone()),
            ..audit::event(context, word)
        };
        let before = before.get(name).unwrap_or(&unknown);
        if before.still_holds(state) {
            continue;
        }
        for event in audit::changes(before, &Mark::of(state), now, start) {
            audit::write(context, &event);
        }
    }
}

pub(crate) fn serialize(snapshot: &Snapshot, profiles: Option<Identity>) -> Result<String> {
    let failed = |error| Error::internal(format!("cannot serialise: {error}"));
    let header = Header {
        version: VERSION,
        evidence_offset: snapshot.evidence_offset,
        profiles,
    };
    let mut text = seal::line(&serde_json::to_string(&header).map_err(failed)?);
    for state in snapshot.states.values() {
        text.push('\n');
        text.push_str(&seal::line(&serde_json::to_string(state).map_err(failed)?));
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{load, path, update};
    use crate::clock::Deadline;
    use crate::env::{Context, Variables, World as Outside};
    use crate::error::{Error, code};
    use crate::id::ProviderKind::{Claude, Codex};
    use crate::identity::fingerprint::{Account, Key};
    use crate::snapshot::durable;
    use crate::snapshot::profile::{Note, Pinned};
    use crate::store::seal;
    use std::path::Path;
    use std::time::Duration;

    /// A private state root.
    pub(crate) struct World {
        pub(crate) context: Context,
        pub(crate) directory: tempfile::TempDir,
    }

    impl World {
        pub(crate) fn new() -> Self {
            Self::with(&[])
        }

        pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().to_str().unwrap();
            let mut pairs = vec![("HOME", root)];
            pairs.extend_from_slice(variables);
            let outside = Outside {
                arguments: Vec::new(),
                variables: pairs.into_iter().collect::<Variables>(),
                directory: None,
                executable: None,
            };
            let context = Context::resolve(&outside, None).unwrap();
            Self { context, directory }
        }

        pub(crate) fn deadline(&self) -> Deadline {
            self.context.clock.deadline(Duration::from_secs(5))
        }

        /// Edits a file in place, as an editor might.
        #[expect(clippy::unused_self, reason = "it is the world that is edited")]
        #[expect(clippy::disallowed_methods, reason = "test data")]
        pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) {
            std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Puts another file in its place.
        pub(crate) fn replace(&self, path: impl AsRef<Path>, text: &str) {
            drop(std::fs::remove_file(path.as_ref()));
            self.write(path, text);
        }
    }

    pub(crate) fn pinned(account: &str) -> Pinned {
        let account = Account {
            account: Some(account.to_owned()),
            ..Account::default()
        };
        Pinned {
            fingerprint: Key::new([7; 32]).fingerprint(Claude, &account),
            source: "oauth-profile".to_owned(),
            at: "2030-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    fn note(reason: &str) -> Note {
        Note {
            reason: reason.to_owned(),
            at: "2030-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    fn quarantine(world: &World, profile: &str) {
        update(&world.context, Claude, &world.deadline(), |snapshot| {
            snapshot.evidence_offset = 9;
            let state = snapshot.entry(profile);
            state.auth_broken = Some(note("seen"));
            state.durable.quarantine = Some(note("identity_changed"));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn what_was_written_is_loaded_and_a_missing_snapshot_is_rebuilt_from_durable_files() {
        let world = World::new();
        assert!(load(&world.context, Claude).unwrap().states.is_empty());
        quarantine(&world, "claude-1");
        let whole = load(&world.context, Claude).unwrap();
        assert_eq!(whole.evidence_offset, 9);
        assert_eq!(whole.states["claude-1"].auth_broken, Some(note("seen")));
        std::fs::remove_file(path(&world.context, Claude)).unwrap();
        let rebuilt = load(&world.context, Claude).unwrap();
        assert_eq!(
            rebuilt.states["claude-1"].durable.quarantine,
            Some(note("identity_changed")),
            "deleting the snapshot lifted a quarantine"
        );
        assert_eq!(rebuilt.states["claude-1"].auth_broken, None);
        assert!(load(&world.context, Codex).unwrap().states.is_empty());
    }

    #[test]
    fn a_bad_line_affects_only_its_own_profile() {
        let world = World::new();
        quarantine(&world, "claude-1");
        quarantine(&world, "claude-2");
        let file = path(&world.context, Claude);
        let text = std::fs::read_to_string(&file).unwrap();
        for at in 1..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(damaged) = String::from_utf8(bytes) else {
                continue;
            };
            if at % 7 != 0 {
                continue;
            }
            world.replace(&file, &damaged);
            let snapshot = load(&world.context, Claude).unwrap();
            let seen = snapshot
                .states
                .values()
                .filter(|state| state.auth_broken.is_some())
                .count();
            assert!(seen >= 1, "byte {at} took both lines");
            for name in ["claude-1", "claude-2"] {
                let state = &snapshot.states[name];
                assert!(
                    state.durable.quarantine.is_some(),
                    "byte {at} lifted {name}"
                );
            }
        }
    }

    #[test]
    fn a_durable_write_whose_mirror_was_lost_is_seen_all_the_same() {
        let world = World::new();
        quarantine(&world, "claude-1");
        let file = path(&world.context, Claude);
        let old = std::fs::read_to_string(&file).unwrap();
        quarantine(&world, "claude-2");
        world.replace(&file, &old);
        let snapshot = load(&world.context, Claude).unwrap();
        assert!(snapshot.states["claude-2"].durable.quarantine.is_some());
    }

    #[test]
    fn a_failing_change_writes_nothing() {
        let world = World::new();
        let error = update(&world.context, Claude, &world.deadline(), |snapshot| {
            snapshot.entry("claude-1").durable.drain = Some(note("x"));
            Err::<(), _>(Error::internal("no"))
        });
        assert!(error.is_err());
        assert!(load(&world.context, Claude).unwrap().states.is_empty());
        assert!(!durable::path(&world.context, "claude-1").exists());
    }

    #[test]
    fn a_newer_snapshot_is_refused_and_kept() {
        let world = World::new();
        let file = path(&world.context, Claude);
        let line = seal::line("{\"version\":2,\"x\":1}");
        world.write(&file, &line);
        assert_eq!(
            load(&world.context, Claude).unwrap_err().code,
            code::NEWER_FORMAT
        );
        let deadline = world.deadline();
        let error = update(&world.context, Claude, &deadline, |_| Ok(())).unwrap_err();
        assert_eq!(error.code, code::NEWER_FORMAT);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), line);
    }
}
