//! Promotions that were begun and not finished: who finds one takes it back, or lets nobody pass.
//!
//! # Guarantees
//! - An entry fences the provider that its file's name begins with, and no other, even when nobody can read it.
//! - What is recovered is recovered under the provider's exclusive lock: a promotion that is under way is left
//!   alone.
//! - An entry that cannot be read is never removed: a person sets it aside, under another name.
//!
//! # Limits
//! A home that is not there, as on a mount that is missing, is not taken for one that is gone: its entry stays.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use camino::Utf8PathBuf;

use super::journal::{Entry, Parsed};
use super::recover::{Recovered, recover};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::store::files::{Disk, Files as _};
use crate::store::lock::{Guard, Locks, Mode, Name};
use crate::store::read;

/// End of an entry's file name.
const ENTRY: &str = ".json";
/// End of the name of an entry that a person set aside.
const ASIDE: &str = ".set-aside";

/// An entry of `state/transactions`, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its name: `<provider>-<profile>-<time>-<process>`.
    pub id: String,
    /// Its file.
    pub path: Utf8PathBuf,
    /// The provider it fences; `None` when its name begins with no provider that this version knows.
    pub provider: Option<ProviderKind>,
    /// Whose home, by its name.
    pub profile: Option<ProfileId>,
    /// What it says.
    pub entry: Result<Entry, Damage>,
}

/// Why an entry cannot be gone by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its seal is broken, or it is not what its name says.
    #[error("it is damaged")]
    Broken,
    /// Its format is of a later version.
    #[error("it was made by a newer agent-fleet")]
    Newer,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// The directory of the entries.
pub fn folder(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("transactions")
}

/// Every entry, sorted by name. A directory that is not there holds none.
pub fn list(context: &Context) -> Result<Vec<Pending>> {
    let names = names(context)?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(ENTRY));
    Ok(ids.map(|id| look(context, id, ENTRY)).collect())
}

/// The entries that fence a provider. Costs one look at a directory when there is none.
pub fn of(context: &Context, kind: ProviderKind) -> Result<Vec<Pending>> {
    let names = names(context)?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(ENTRY));
    let ids = ids.filter(|id| provider_of(id) == Some(kind));
    Ok(ids.map(|id| look(context, id, ENTRY)).collect())
}

/// The providers that entries fence: one look at a directory.
pub fn fenced(context: &Context) -> Result<BTreeSet<ProviderKind>> {
    let names = names(context)?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(ENTRY));
    Ok(ids.filter_map(provider_of).collect())
}

/// The entries that people set aside: they fence no one, but what lies beside their credential is still theirs.
pub fn aside(context: &Context) -> Result<Vec<Pending>> {
    let names = names(context)?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(ASIDE));
    Ok(ids.map(|id| look(context, id, ASIDE)).collect())
}

fn names(context: &Context) -> Result<Vec<String>> {
    let folder = folder(context);
    let failed = |error: io::Error| Error::io("list", &folder, &error);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // What is being written down is not in force yet.
        if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn provider_of(id: &str) -> Option<ProviderKind> {
    id.split('-').next()?.parse().ok()
}

/// The profile in a name: what stands between the provider, and time and process.
fn profile_of(id: &str) -> Option<ProfileId> {
    let (_, rest) = id.split_once('-')?;
    let (rest, _process) = rest.rsplit_once('-')?;
    rest.rsplit_once('-')?.0.parse().ok()
}

fn look(context: &Context, id: &str, end: &str) -> Pending {
    let path = folder(context).join(format!("{id}{end}"));
    let provider = provider_of(id);
    let entry = match read::optional(&path) {
        Ok(bytes) => match Entry::parse(&bytes.unwrap_or_default()) {
            Parsed::Whole(entry) if entry.id == id && Some(entry.provider) == provider => Ok(entry),
            Parsed::Whole(_) | Parsed::Broken => Err(Damage::Broken),
            Parsed::Newer => Err(Damage::Newer),
        },
        Err(error) => Err(Damage::Unreadable(error.message)),
    };
    Pending {
        profile: profile_of(id),
        id: id.to_owned(),
        path,
        provider,
        entry,
    }
}

/// Lets pass when nothing of a provider is pending, after recovering what can be. Call it with no lock held.
///
/// Refuses with `maintenance_busy` while a promotion is under way, else with `transaction_pending`, which names
/// the transaction and the next command.
pub fn fence(context: &Context, kind: ProviderKind) -> Result<Vec<Recovered>> {
    let Some(first) = of(context, kind)?.into_iter().next() else {
        return Ok(Vec::new());
    };
    let locks = Locks::of(context);
    let (_turnstile, guard) = locks
        .maintenance(kind, "transaction recover")
        .map_err(|error| match error.code {
            code::MAINTENANCE_BUSY => error,
            _ => first.refusal(Some(&error)),
        })?;
    settle(context, kind, &guard)
}

/// Recovers everything of a provider that can be, under its lock held exclusively; refuses with the first that
/// cannot.
pub fn settle(context: &Context, kind: ProviderKind, guard: &Guard) -> Result<Vec<Recovered>> {
    let (mut recovered, mut refusal) = (Vec::new(), None);
    for pending in of(context, kind)? {
        match pending.recover(context, guard) {
            Ok(done) => recovered.push(done),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    refusal.map_or(Ok(recovered), Err)
}

impl Pending {
    pub(super) fn of(entry: &Entry, path: Utf8PathBuf) -> Self {
        Self {
            id: entry.id.clone(),
            path,
            provider: Some(entry.provider),
            profile: Some(entry.profile.clone()),
            entry: Ok(entry.clone()),
        }
    }

    /// Takes the new login back and closes the entry, under the provider's lock held exclusively.
    pub fn recover(&self, context: &Context, guard: &Guard) -> Result<Recovered> {
        self.may(guard)?;
        let Ok(entry) = &self.entry else {
            return Err(self.refusal(None));
        };
        recover(&Disk, &folder(context), entry).map_err(|error| {
            let cause = Error::io("take the login back in", entry.home(), &error);
            self.refusal(Some(&cause))
        })
    }

    /// Takes the entry out of the way, under another name in its directory, and returns that. What lies beside
    /// the credential is left as it is.
    pub fn set_aside(&self, context: &Context, guard: &Guard) -> Result<Utf8PathBuf> {
        self.may(guard)?;
        let folder = folder(context);
        let aside = folder.join(format!("{}{ASIDE}", self.id));
        let moved = Disk
            .rename(&self.path, &aside)
            .and_then(|()| Disk.sync_directory(&folder));
        moved.map_err(|error| Error::io("set aside", &self.path, &error))?;
        Ok(aside)
    }

    /// Why nothing of the provider may pass; `cause` is what kept it from being recovered.
    pub fn refusal(&self, cause: Option<&Error>) -> Error {
        let id = &self.id;
        let whose = match &self.profile {
            Some(profile) => format!("profile `{profile}`"),
            None => "a profile".to_owned(),
        };
        let message = match (&self.entry, cause) {
            (Err(damage), _) => format!(
                "the change of the login of {whose} was cut short, and nobody can tell how far it came: its record `{}` cannot be gone by, {damage}",
                self.path
            ),
            (Ok(_), Some(cause)) => format!(
                "the change of the login of {whose} was cut short and could not be taken back (transaction `{id}`): {}",
                cause.message
            ),
            (Ok(_), None) => format!(
                "the change of the login of {whose} was cut short and has to be taken back first (transaction `{id}`)"
            ),
        };
        let verb = if self.entry.is_ok() {
            "recover"
        } else {
            "show"
        };
        let error = Error::new(code::TRANSACTION_PENDING, message)
            .hint(format!("agent-fleet transaction {verb} {id}"))
            .detail("transaction", id.as_str());
        match cause {
            Some(cause) => error.detail("cause", cause.code.name),
            None => error,
        }
    }

    fn may(&self, guard: &Guard) -> Result<()> {
        let held = (self.provider.map(Name::Provider), Mode::Exclusive);
        if held == (Some(guard.name().clone()), guard.mode()) {
            return Ok(());
        }
        let message = format!("transaction `{}` was touched without its lock", self.id);
        Err(Error::internal(message))
    }
}

#[cfg(test)]
#[path = "pending_tests.rs"]
pub(super) mod tests;
