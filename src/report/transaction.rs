//! Changes of a login that were begun and not finished, for people: what stands where, by name and digest.

use camino::Utf8PathBuf;

use crate::contract::transaction::{
    BesideFile, InForce, RecoveryOutcome, Transaction, TransactionRecovered, TransactionState,
};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::provider::conveyance;
use crate::registry::schema::Registry;
use crate::store::files::{Disk, Files as _};
use crate::store::lock::{Locks, Name};
use crate::sys::shell;
use crate::transaction::beside::{self, Holds};
use crate::transaction::journal::{Digest, Entry};
use crate::transaction::pending::{self, Damage, Pending};

/// Every transaction, sorted by name; those that were set aside last.
pub fn all(context: &Context) -> Result<Vec<Transaction>> {
    let registry = crate::snapshot::registry::load(context).ok();
    let pending = pending::list(context)?.into_iter();
    let mut all: Vec<Transaction> = pending
        .map(|one| shown(context, registry.as_ref(), &one, state(context, &one)))
        .collect();
    let aside = pending::aside(context)?.into_iter();
    all.extend(aside.map(|one| {
        let state = TransactionState::SetAside;
        shown(context, registry.as_ref(), &one, state)
    }));
    Ok(all)
}

/// One transaction.
pub fn one(context: &Context, id: &str) -> Result<Transaction> {
    let found = all(context)?.into_iter().find(|one| one.id == id);
    found.ok_or_else(|| missing(id))
}

/// The entry of that name.
pub fn entry(context: &Context, id: &str) -> Result<Pending> {
    let mut pending = pending::list(context)?.into_iter();
    pending.find(|one| one.id == id).ok_or_else(|| missing(id))
}

fn missing(id: &str) -> Error {
    let message = format!("there is no transaction `{id}`");
    Error::new(code::NOT_FOUND, message).hint("agent-fleet transaction list")
}

fn state(context: &Context, pending: &Pending) -> TransactionState {
    match (&pending.entry, pending.provider) {
        (Err(Damage::Newer), _) => TransactionState::Newer,
        (Err(Damage::Broken | Damage::Unreadable(_)), _) => TransactionState::Damaged,
        (Ok(_), Some(kind)) => {
            let locks = Locks::of(context);
            match locks.holder(&Name::Provider(kind)) {
                Some(_) => TransactionState::UnderWay,
                None => TransactionState::Pending,
            }
        }
        (Ok(_), None) => TransactionState::Pending,
    }
}

fn shown(
    context: &Context,
    registry: Option<&Registry>,
    pending: &Pending,
    state: TransactionState,
) -> Transaction {
    let entry = pending.entry.as_ref().ok();
    let id = &pending.id;
    let profile = pending.profile.clone();
    let next = match (state, &profile) {
        (TransactionState::Pending, _) => format!("agent-fleet transaction recover {id}"),
        (TransactionState::UnderWay, _) => format!("agent-fleet transaction show {id}"),
        (TransactionState::Damaged, _) if pending.provider.is_some() => {
            format!("agent-fleet transaction recover {id} --set-aside")
        }
        (TransactionState::Newer, _) => "agent-fleet version".to_owned(),
        (TransactionState::SetAside, Some(profile)) => {
            format!("agent-fleet profile verify {profile}")
        }
        (TransactionState::Damaged | TransactionState::SetAside, _) => {
            format!("ls -l {}", shell::quote(pending.path.as_str()))
        }
    };
    Transaction {
        id: id.clone(),
        state,
        provider: pending.provider,
        profile,
        path: pending.path.clone(),
        credential: credential(context, registry, pending),
        in_force: entry.map(in_force),
        at: entry.map(|entry| entry.at),
        beside: beside(context, registry, pending),
        next,
    }
}

/// The credential file: what the entry says, else that of the profile in its name.
fn credential(
    context: &Context,
    registry: Option<&Registry>,
    pending: &Pending,
) -> Option<Utf8PathBuf> {
    if let Ok(entry) = &pending.entry {
        return Some(entry.target.clone());
    }
    let profile = registry?.profile(pending.profile.as_ref()?).ok()?;
    Some(conveyance::file(context, profile))
}

fn in_force(entry: &Entry) -> InForce {
    match Disk.read(&entry.target) {
        Ok(None) => InForce::Missing,
        Ok(Some(bytes)) => match Digest::of(&bytes) {
            digest if digest == entry.new => InForce::New,
            digest if Some(&digest) == entry.old.as_ref() => InForce::Old,
            _ => InForce::Other,
        },
        Err(_) => InForce::Unreadable,
    }
}

fn beside(context: &Context, registry: Option<&Registry>, pending: &Pending) -> Vec<BesideFile> {
    let found = credential(context, registry, pending).and_then(|path| beside::find(&path).ok());
    let ours = found
        .into_iter()
        .flatten()
        .filter(|one| one.id == pending.id);
    ours.map(|one| BesideFile {
        holds: held(one.holds()),
        path: one.path,
    })
    .collect()
}

/// What a person should know of a transaction; `None` when nothing is to be done about it.
pub fn told(one: &Transaction) -> Option<String> {
    let whose = match &one.profile {
        Some(profile) => format!("the login of profile `{profile}`"),
        None => "a login".to_owned(),
    };
    let fences = match one.provider {
        Some(kind) => format!("no {kind} profile is given work until it is settled"),
        None => "its name begins with no provider that this version knows".to_owned(),
    };
    match one.state {
        TransactionState::Pending => Some(format!(
            "a change of {whose} was cut short: the next command that would take a profile of its provider takes it back"
        )),
        TransactionState::Damaged => Some(format!(
            "a change of {whose} was cut short and its record `{}` is damaged: {fences}",
            one.path
        )),
        TransactionState::Newer => Some(format!(
            "a change of {whose} was cut short and its record `{}` is of a newer agent-fleet: {fences}",
            one.path
        )),
        TransactionState::UnderWay | TransactionState::SetAside => None,
    }
}

/// What a file beside a credential holds, as callers see it.
fn held(holds: Holds) -> InForce {
    match holds {
        Holds::New => InForce::New,
        Holds::Old => InForce::Old,
        Holds::Other => InForce::Other,
        Holds::Unreadable => InForce::Unreadable,
    }
}

/// Whether an entry that cannot be recovered may be renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// It stays, and fences its provider.
    No,
    /// A person said so.
    Yes,
}

/// Recovers one transaction, or says why it cannot be; with [`Aside::Yes`] renames the record of one that cannot.
pub fn recover(context: &Context, pending: &Pending, aside: Aside) -> Result<TransactionRecovered> {
    let Some(kind) = pending.provider else {
        let message = format!(
            "the name of `{}` begins with no provider that this version knows, so it fences nobody and is left alone",
            pending.path
        );
        return Err(Error::new(code::NEWER_FORMAT, message).hint("agent-fleet version"));
    };
    let locks = Locks::of(context);
    let (_turnstile, guard) = locks.maintenance(kind, "transaction recover")?;
    let registry = crate::snapshot::registry::load(context).ok();
    let beside = || beside(context, registry.as_ref(), pending);
    let next = match &pending.profile {
        Some(profile) => format!("agent-fleet profile verify {profile}"),
        None => "agent-fleet doctor".to_owned(),
    };
    let (outcome, kept, path) = match (pending.recover(context, &guard), aside) {
        (Ok(recovered), _) => (RecoveryOutcome::TakenBack, recovered.kept, None),
        (Err(_), Aside::Yes) => {
            let path = pending.set_aside(context, &guard)?;
            (RecoveryOutcome::SetAside, None, Some(path))
        }
        (Err(error), Aside::No) => return Err(stuck(error, pending, &beside())),
    };
    Ok(TransactionRecovered {
        transaction: pending.id.clone(),
        profile: pending.profile.clone(),
        outcome,
        kept,
        path,
        beside: beside(),
        next,
    })
}

/// The refusal, with what a person should know before setting the record aside.
fn stuck(error: Error, pending: &Pending, beside: &[BesideFile]) -> Error {
    let id = &pending.id;
    let (message, hint) = match &pending.entry {
        Ok(_) => (error.message.clone(), "agent-fleet doctor".to_owned()),
        Err(Damage::Newer) => (error.message.clone(), "agent-fleet version".to_owned()),
        Err(Damage::Broken | Damage::Unreadable(_)) => {
            let files: Vec<_> = beside.iter().map(|one| format!("`{}`", one.path)).collect();
            let files = match &files[..] {
                [] => "nothing lies beside the login in force".to_owned(),
                files => format!("beside the login in force lies {}", files.join(" and ")),
            };
            (
                format!("{}; {files}", error.message),
                format!("agent-fleet transaction recover {id} --set-aside"),
            )
        }
    };
    let rows = beside
        .iter()
        .filter_map(|one| serde_json::to_value(one).ok());
    let rows: Vec<_> = rows.collect();
    Error {
        message,
        ..error.hint(hint).detail("beside", rows)
    }
}
