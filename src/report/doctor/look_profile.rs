//! Looking at one profile: its home, its credential file, who lives there, what is known of its account.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};

use super::leftover;
use super::look::entry;
use super::profile::{
    CredentialFacts, CredentialFile, HomeFacts, LoginFacts, ProfileFacts, Reached,
};
use crate::choose::routeability::{Look, report_on};
use crate::contract::lease::{Lease, Verdict};
use crate::env::Context;
use crate::error::{Error, Refusal as _, Result};
use crate::home;
use crate::identity::credential::{self, Seen};
use crate::identity::{proof, refusal};
use crate::provider::home::link;
use crate::provider::inhabitant::Host;
use crate::provider::{conveyance, overrides};
use crate::quota::report::row;
use crate::registry::schema::{Profile, Registry};
use crate::report::log_in::AtWork;
use crate::report::{inhabitants, refresh_lock};
use crate::snapshot::durable;
use crate::snapshot::profile::ProfileState;
use crate::store::read;
use crate::sys::filesystem;

/// Everything that the checks of a profile look at.
pub(super) fn look(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    known: &Result<Look>,
    (leases, host): (&[Lease], &Host),
) -> ProfileFacts {
    let state = known
        .as_ref()
        .ok()
        .and_then(|look| look.snapshot().states.get(profile.id.as_str()).cloned())
        .unwrap_or_else(|| ProfileState::new(&profile.id));
    let report = match known {
        Ok(look) => report_on(context, registry, profile, look),
        Err(error) => Err(error.clone()),
    };
    let standing = match registry.provider(profile.provider) {
        Ok(settings) => {
            let standing = proof::check(context, profile, settings, &state);
            let refusal = standing.refusal(profile).map(Error::from);
            (standing.word().to_owned(), refusal)
        }
        Err(missing) => (missing.code().name.to_owned(), Some(missing.into())),
    };
    let inhabitants = inhabitants::home(registry, profile, leases, host);
    let live = |lease: &&Lease| lease.verdict != Verdict::Dead;
    let at_work = AtWork(leases.iter().filter(live).map(|one| one.provider).collect());
    let beside = |mut error: Error| {
        error.hint = error.hint.map(|hint| at_work.beside(hint, profile));
        error
    };
    let leases: Vec<Lease> = leases
        .iter()
        .filter(|lease| lease.profile == profile.id)
        .cloned()
        .collect();
    let empty = inhabitants.empty && leases.iter().all(|lease| lease.verdict == Verdict::Dead);
    ProfileFacts {
        now: context.clock.now(),
        login_command: at_work.beside(refusal::log_in(profile), profile),
        home: home_facts(&profile.home),
        not_ready: home::readiness(context, registry, profile).err(),
        credential: credential_facts(context, profile),
        login: login_facts(context, profile),
        record: match known {
            Ok(look) => damage(context, look, profile),
            Err(error) => Some(error.clone()),
        },
        standing: (standing.0, standing.1.map(beside)),
        conflict: report
            .as_ref()
            .ok()
            .and_then(|report| report.conflict.clone())
            .map(beside),
        overrides: overrides::found(context, registry, profile, None)
            .into_iter()
            .map(Into::into)
            .collect(),
        quota: match known {
            Ok(look) => row(context, registry, profile, look.snapshot()),
            Err(error) => Err(error.clone()),
        },
        unmeasured: registry.settings.unmeasured,
        leases,
        unleased: inhabitants.unleased,
        unreadable: inhabitants.unreadable,
        locks: (refresh_lock::find(profile, context.clock), empty),
        leftovers: leftover::find(context, profile),
        databases: databases(&profile.home),
        routing: report.map(|report| {
            let refusal = report.refusal(profile).map(beside);
            (report.routeability, refusal)
        }),
        profile: profile.clone(),
        state,
    }
}

/// Why the record of a profile cannot be read.
fn damage(context: &Context, look: &Look, profile: &Profile) -> Option<Error> {
    let noticed = look.snapshot().damaged.get(profile.id.as_str()).cloned();
    let damage = noticed.or_else(|| durable::inspect(context, &profile.id).err())?;
    Some(damage.into())
}

fn home_facts(home: &Utf8Path) -> HomeFacts {
    let is_link = fs::symlink_metadata(home).is_ok_and(|found| found.is_symlink());
    HomeFacts {
        entry: entry(home),
        reached: match home.canonicalize_utf8() {
            Ok(real) if is_link => Reached::Link(real),
            Ok(real) if real != home => Reached::Over(real),
            Ok(_) | Err(_) => Reached::Directly,
        },
        kind: filesystem::kind(home.as_std_path()),
    }
}

fn credential_facts(context: &Context, profile: &Profile) -> CredentialFacts {
    let path = conveyance::file(context, profile);
    let file = match (fs::symlink_metadata(&path), link::linked(&path)) {
        (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => CredentialFile::Missing,
        (Err(error), _) => CredentialFile::Unreadable(error.to_string()),
        (Ok(_), Err(error)) => CredentialFile::Unreadable(error.message),
        (Ok(_), Ok(Some(how))) => CredentialFile::Linked(how),
        (Ok(found), Ok(None)) if !found.is_file() => {
            CredentialFile::Unreadable("it is no file".to_owned())
        }
        (Ok(found), Ok(None)) => {
            let age = context
                .clock
                .now()
                .as_second()
                .saturating_sub(found.mtime());
            CredentialFile::File {
                mode: found.permissions().mode() & 0o777,
                ours: found.uid() == rustix::process::geteuid().as_raw(),
                age: u64::try_from(age).unwrap_or(0),
            }
        }
    };
    let file = match (file, read::open(&path)) {
        (CredentialFile::File { .. }, Err(error)) => CredentialFile::Unreadable(error.to_string()),
        (file, _) => file,
    };
    CredentialFacts { path, file }
}

fn login_facts(context: &Context, profile: &Profile) -> Option<LoginFacts> {
    match credential::of(context, profile, None) {
        Seen::Read(look) => Some(LoginFacts {
            kind: look.login.kind,
            access_expires_at: look.login.access_expires_at,
            refreshable: look.login.refreshable,
            login_expires_at: look.login.login_expires_at,
        }),
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            None
        }
    }
}

/// Databases in the home that are links or have a second name.
fn databases(home: &Utf8Path) -> Vec<(Utf8PathBuf, String)> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let mut found: Vec<(Utf8PathBuf, String)> = entries
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.contains(".sqlite"))
        })
        .filter_map(|path| Some((link::linked(&path).ok()??, path)))
        .map(|(how, path)| (path, how))
        .collect();
    found.sort_unstable();
    found
}
