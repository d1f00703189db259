//! Looking at the machine and at the providers: local files only, nothing started, nothing written but new
//! evidence that is taken in on the way.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Access, access};

use super::machine::{BinaryFacts, MachineFacts, Program, ProviderFacts};
use super::storage::{Entry, Folder};
use crate::choose::routeability::Look;
use crate::contract::lease::{DamagedLease, Lease};
use crate::contract::profile::OverrideScope;
use crate::enroll::stage;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::home::program;
use crate::id::ProviderKind;
use crate::identity::anchor;
use crate::identity::conflict::{AnchorIdentity, Anchors};
use crate::lease::{LeaseStore as _, Listing, TableStore};
use crate::provider::codex::trust;
use crate::provider::{self, overrides};
use crate::registry::schema::{Anchor, ProviderSettings, Registry};
use crate::registry::{binary, file, install};
use crate::report::transaction;
use crate::snapshot::provider::Snapshot;
use crate::snapshot::{self, fold};
use crate::store::{read, replace};
use crate::sys::filesystem::{self, Identity};
use crate::sys::process;

/// How long all waiting for locks may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Prefix of the throw-away Codex homes that are made in the state root.
const THROW_AWAY: &str = "codex-hooks-";

/// The registry as it lies there, with what is to be said of it.
pub(super) fn registry(context: &Context) -> Result<(Registry, Vec<String>)> {
    let source = file::read(context)?;
    let parsed = file::parse(context, &source.text)?;
    let notes = parsed
        .notes
        .iter()
        .map(|found| format!("{}:{}: {}", found.line, found.column, found.message));
    Ok((parsed.registry, notes.collect()))
}

/// Every lease with its verdict.
pub(super) fn leases(context: &Context) -> Result<Listing> {
    TableStore::open(context, context.clock.deadline(PATIENCE))?.list()
}

/// The machine, by what the registry and the lease table turned out to be.
pub(super) fn machine(
    context: &Context,
    registry: Result<(&Registry, &[String]), &Error>,
    leases: Result<&Listing, &Error>,
) -> MachineFacts {
    let known = registry.ok().map(|(registry, _)| registry);
    let install = match known {
        Some(registry) => install::check(context, registry).and_then(|()| install::id(context)),
        None => install::id(context),
    };
    MachineFacts {
        config: context.roots.config.clone(),
        registry: registry
            .map(|(_, notes)| notes.to_vec())
            .map_err(Clone::clone),
        install,
        program: (program::path(context), leads_to(context, known)),
        processes: process::proc_shows_us(),
        leases: leases
            .map(|listing| table(listing, known))
            .map_err(Clone::clone),
        transactions: transaction::all(context),
        projects: known.map(gone).unwrap_or_default(),
        variables: known
            .map(|registry| variables(context, registry))
            .unwrap_or_default(),
        litter: litter(context),
    }
}

fn leads_to(context: &Context, registry: Option<&Registry>) -> Program {
    let path = program::path(context);
    match fs::read_link(&path) {
        Ok(target) if Some(&target) == context.executable.as_ref() => Program::Ours,
        Ok(target) if is_program(&target) => Program::Other(
            Utf8PathBuf::from_path_buf(target)
                .unwrap_or_else(|path| path.to_string_lossy().as_ref().into()),
        ),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && !registry.is_some_and(|registry| {
                    registry.profiles.iter().any(|profile| profile.enabled)
                }) =>
        {
            Program::NotNeeded
        }
        Ok(_) | Err(_) => Program::Nowhere,
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn table(
    listing: &Listing,
    registry: Option<&Registry>,
) -> (Vec<DamagedLease>, Vec<crate::id::ProfileId>) {
    let stranger =
        |lease: &&Lease| registry.is_some_and(|registry| registry.profile(&lease.profile).is_err());
    let mut strangers: Vec<_> = listing
        .leases
        .iter()
        .filter(stranger)
        .map(|lease| lease.profile.clone())
        .collect();
    strangers.dedup();
    (listing.damaged.clone(), strangers)
}

fn gone(registry: &Registry) -> Vec<Utf8PathBuf> {
    let paths = registry.projects.iter().map(|project| &project.path);
    paths
        .filter(|path| !path.join(".git").exists())
        .cloned()
        .collect()
}

fn variables(context: &Context, registry: &Registry) -> Vec<(String, String)> {
    // Inside a worker, whoever asks, its own home is no stranger's.
    let is_ours = |name: &str| {
        let value = context.variables.raw(name).map(Path::new);
        let mut homes = registry.profiles.iter().map(|profile| &profile.home);
        value.is_some_and(|value| homes.any(|home| value.starts_with(home)))
    };
    let found: BTreeMap<String, String> = registry
        .profiles
        .iter()
        .flat_map(|profile| overrides::found(context, registry, profile, None))
        .filter(|found| found.scope == OverrideScope::Environment)
        .filter_map(|found| {
            let name = found.source.strip_prefix("environment: ")?;
            (!is_ours(name)).then(|| (name.to_owned(), found.effect.to_owned()))
        })
        .collect();
    found.into_iter().collect()
}

/// Directories of our own in which our temporary files are made. Homes are left out: what lies there may be the
/// provider's.
fn littered(context: &Context) -> Vec<Utf8PathBuf> {
    let roots = &context.roots;
    let mut folders = vec![
        roots.state.clone(),
        roots.share.join("hooks"),
        roots.share.join("bin"),
    ];
    folders.extend(roots.config.parent().map(Utf8Path::to_owned));
    folders.extend(directories(&roots.state));
    folders
}

/// What killed commands left, with its age in seconds.
pub(super) fn litter(context: &Context) -> Vec<(Utf8PathBuf, u64)> {
    let mut found: Vec<(Utf8PathBuf, u64)> = littered(context)
        .iter()
        .flat_map(|folder| replace::litter(folder.as_std_path(), &context.clock))
        .filter_map(|(path, age)| Some((Utf8PathBuf::from_path_buf(path).ok()?, age)))
        .collect();
    let now = context.clock.now().as_second();
    let homes = directories(&context.roots.state)
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.starts_with(THROW_AWAY))
        });
    found.extend(homes.filter_map(|path| {
        let age = now.saturating_sub(fs::symlink_metadata(&path).ok()?.mtime());
        let age = u64::try_from(age).ok()?;
        (age > 3600).then_some((path, age))
    }));
    found.extend(stage::left_behind(context));
    found
}

/// The directories in a directory, links left out.
fn directories(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .collect();
    found.sort_unstable();
    found
}

/// Our directories.
pub(super) fn folders(context: &Context) -> Vec<Folder> {
    let roots = &context.roots;
    let config = roots.config.parent().unwrap_or(&roots.config);
    [
        ("config", config),
        ("state", &*roots.state),
        ("share", &*roots.share),
    ]
    .into_iter()
    .map(|(name, path)| folder(name, path))
    .collect()
}

fn folder(name: &'static str, path: &Utf8Path) -> Folder {
    let device = |path: &Utf8Path| fs::metadata(path).ok().map(|found| found.dev());
    let below = if name == "config" {
        Vec::new()
    } else {
        directories(path)
    };
    let kind = filesystem::kind(path.as_std_path()).or_else(|| {
        let mut kinds = below
            .iter()
            .filter_map(|path| filesystem::kind(path.as_std_path()));
        kinds.next_back()
    });
    let own = device(path);
    Folder {
        name,
        path: path.to_owned(),
        entry: entry(path),
        kind,
        mounts: below
            .into_iter()
            .filter(|path| device(path) != own)
            .collect(),
        space: filesystem::space(path.as_std_path()).ok(),
    }
}

/// What a path is; links are followed.
pub(super) fn entry(path: &Utf8Path) -> Entry {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Entry::Directory {
            mode: found.permissions().mode() & 0o777,
            ours: found.uid() == rustix::process::geteuid().as_raw(),
            writable: access(path.as_std_path(), Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        },
        Ok(_) => Entry::Unusable("is no directory".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Entry::Missing,
        Err(error) => Entry::Unusable(format!("cannot be looked at: {error}")),
    }
}

/// A provider, with what is known of its accounts.
pub(super) fn provider(
    context: &Context,
    registry: &Registry,
    settings: &ProviderSettings,
) -> (ProviderFacts, Result<Look>) {
    let kind = settings.kind;
    let (snapshot, trouble) = snapshot(context, kind);
    let anchors = snapshot
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|snapshot| anchor::look(context, settings, snapshot));
    let trouble = trouble.or_else(|| anchors.as_ref().err().cloned());
    let anchors = anchors.map_or(nobody(), |standing| standing.anchors);
    let renewed = match &settings.base_home {
        Anchor::At(home) if !home.ends_with(provider::of(kind).default_home()) => Some(&**home),
        Anchor::At(_) | Anchor::Off => None,
    };
    let facts = ProviderFacts {
        kind,
        needed: registry.of(kind).any(|profile| profile.enabled),
        binary: found(context, settings),
        base: anchors.base,
        renew_base: provider::of(kind).renew_command(renewed),
        desktop: anchors.desktop,
        snapshot: trouble,
    };
    let look = snapshot.and_then(|snapshot| Look::of_snapshot(context, registry, kind, snapshot));
    (facts, look)
}

fn nobody() -> Anchors {
    Anchors {
        base: AnchorIdentity::Nobody,
        desktop: AnchorIdentity::Nobody,
    }
}

/// The snapshot with new evidence; without it, and why, where that cannot be taken in.
fn snapshot(context: &Context, kind: ProviderKind) -> (Result<Snapshot>, Option<Error>) {
    match fold::load(context, kind, &context.clock.deadline(PATIENCE)) {
        Ok(snapshot) => (Ok(snapshot), None),
        Err(error) => (snapshot::provider::load(context, kind), Some(error)),
    }
}

fn found(context: &Context, settings: &ProviderSettings) -> Result<BinaryFacts> {
    let path = binary::resolve(context, settings)?;
    let file = fs::metadata(&path).map_err(|error| Error::io("look at", &path, &error))?;
    let trusted = match settings.kind {
        ProviderKind::Codex => trust::stored(context, &program::path(context)),
        ProviderKind::Claude | ProviderKind::Scripted => None,
    };
    let age = context.clock.now().as_second().saturating_sub(file.mtime());
    Ok(BinaryFacts {
        version: version(&path),
        age: u64::try_from(age).ok(),
        hooks_of_another: trusted.is_some_and(|trusted| trusted.binary != Identity::from(&file)),
        path,
    })
}

/// The version of a program by its path, or by the package that it lies in: it is never started.
fn version(path: &Utf8Path) -> Option<String> {
    let named = path.components().rev().find_map(|part| {
        let part = part.as_str();
        let begins = part.split(['-', '_']).next()?;
        let numbers: Vec<&str> = begins.split('.').collect();
        let is_version =
            numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok());
        is_version.then(|| begins.to_owned())
    });
    let packaged = || {
        let packages = path.ancestors().skip(1).take(4);
        packages
            .filter_map(|folder| read::optional(folder.join("package.json")).ok()?)
            .find_map(|bytes| {
                let package: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
                package["version"].as_str().map(str::to_owned)
            })
    };
    named.or_else(packaged)
}

#[cfg(test)]
mod tests {
    use super::version;
    use camino::Utf8Path;

    #[test]
    fn a_version_is_read_off_the_path_or_the_package() {
        let directory = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(directory.path()).unwrap();
        let path = root.join("node_modules/x/vendor/linux/bin/codex");
        assert_eq!(version(&path), None);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "test data")]
        std::fs::write(
            root.join("node_modules/x/package.json"),
            r#"{"version":"0.171.0"}"#,
        )
        .unwrap();
        assert_eq!(version(&path).as_deref(), Some("0.171.0"));
        for (path, wanted) in [
            ("/share/claude/versions/2.1.332", Some("2.1.332")),
            (
                "/releases/0.171.0-x86_64-unknown/bin/codex",
                Some("0.171.0"),
            ),
            ("/a/1.2/b", None),
        ] {
            assert_eq!(version(Utf8Path::new(path)).as_deref(), wanted, "{path}");
        }
    }
}
