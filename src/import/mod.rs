//! Finding the accounts that a person has already, and making profiles of them.
//!
//! # Guarantees
//! - Local files only, and read only: no process, no network, nothing written outside our own roots.
//! - No token leaves its file. A home that holds a login of its own is taken where it is; every other account gets an
//!   empty home, and its login is made by `profile enroll`: refresh tokens work once, so a copied login and its
//!   original end each other.
//! - Profiles are added disabled. Doing it twice adds nothing twice.
//! - Nothing of what is told names a person: lists are keyed by e-mail addresses, which are left out.
//!
//! # Limits
//! Accounts are recognised by their home, or by the profile's id where the list knows no home. Whether two of them
//! are one account is found when they log in.

pub mod list;
mod survey;
pub mod tell;

use camino::Utf8PathBuf;

use crate::clock::ROUTINE;
use crate::contract::import::{ImportOutcome, Imported, ImportedAccount, Surveyed};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::identity::credential::{self, Seen};
use crate::provider::LoginKind;
use crate::registry::file;
use crate::registry::init::{self, Counts};
use crate::registry::path::resolved;
use crate::registry::profiles::{self, Addition, Home, Wanted};
use crate::registry::schema::{Anchor, Profile, Registry};
use crate::snapshot::durable;
use crate::store::read;
use crate::sys::shell;

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An account to make a profile of.
    Account(Account),
    /// Something that is left alone.
    Other {
        /// What it is, and where.
        told: String,
        /// Its provider, if it is one that is known.
        provider: Option<ProviderKind>,
        /// What becomes of it.
        outcome: ImportOutcome,
        /// Why.
        reason: String,
    },
}

impl Entry {
    fn left_out(told: String, provider: Option<ProviderKind>, reason: impl Into<String>) -> Self {
        Self::Other {
            told,
            provider,
            outcome: ImportOutcome::LeftOut,
            reason: reason.into(),
        }
    }
}

/// An account to make a profile of.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// What it is, and where.
    pub told: String,
    /// Its provider.
    pub provider: ProviderKind,
    /// The id that its profile wants.
    pub id: ProfileId,
    /// Its own directory, which may hold a login; `None` when it needs a new one.
    pub home: Option<Utf8PathBuf>,
    /// Whether the other tool says that the everyday login is this account now.
    pub everyday: bool,
    /// What the list says about it.
    pub wanted: Wanted,
}

/// Makes a registry where there is none, looks for accounts, and adds a profile for each.
///
/// Fails as [`init::init`] does where profiles are counted although there is a registry, and with the codes of
/// reading the registry.
pub fn survey(context: &Context, counts: &Counts) -> Result<Surveyed> {
    let exists = std::fs::symlink_metadata(&context.roots.config).is_ok();
    let written = !exists || counts.0.values().any(|count| *count > 0);
    if written {
        init::init(context, counts)?;
    }
    registry(context)?;
    let accounts = add_all(context, survey::look(context));
    Ok(Surveyed {
        registry: context.roots.config.clone(),
        written,
        next: next(context, &accounts)?,
        accounts,
    })
}

/// Adds a profile for each account of another tool's list.
///
/// Fails with `not_found` when there is no file, with `usage` when its format is not known, and with the codes of
/// reading the registry.
pub fn import(context: &Context, path: Utf8PathBuf) -> Result<Imported> {
    registry(context)?;
    let Some(bytes) = read::optional(&path)? else {
        let message = format!("there is no file `{}`", tell::path(context, &path));
        let folder = path.parent().map_or("/", |folder| folder.as_str());
        let hint = format!("ls -la {}", shell::quote(folder));
        return Err(Error::new(code::NOT_FOUND, message).hint(hint));
    };
    let list = list::parse(context, &path, &bytes)?;
    let accounts = add_all(context, list.entries);
    Ok(Imported {
        file: path,
        format: list.format.to_owned(),
        next: next(context, &accounts)?,
        accounts,
    })
}

fn registry(context: &Context) -> Result<Registry> {
    let source = file::read(context)?;
    Ok(file::parse(context, &source.text)?.registry)
}

fn add_all(context: &Context, entries: Vec<Entry>) -> Vec<ImportedAccount> {
    entries
        .into_iter()
        .map(|entry| match entry {
            Entry::Account(account) => add(context, &account),
            Entry::Other {
                told,
                provider,
                outcome,
                reason,
            } => ImportedAccount {
                account: told,
                provider,
                outcome,
                profile: None,
                reason: Some(reason),
                hint: None,
            },
        })
        .collect()
}

fn add(context: &Context, account: &Account) -> ImportedAccount {
    let row = |outcome, profile, reason, hint| ImportedAccount {
        account: account.told.clone(),
        provider: Some(account.provider),
        outcome,
        profile,
        reason,
        hint,
    };
    match added(context, account) {
        Ok(Added::New(id)) => row(ImportOutcome::Added, Some(id), None, None),
        Ok(Added::Present(id)) => row(ImportOutcome::Present, Some(id), None, None),
        Ok(Added::Everyday) => row(ImportOutcome::Kept, None, Some(EVERYDAY.to_owned()), None),
        Err(error) => row(
            ImportOutcome::LeftOut,
            None,
            Some(error.message),
            error.hint,
        ),
    }
}

/// Why an everyday login is left alone.
const EVERYDAY: &str = "it stays yours: no worker uses the account of your everyday login";

enum Added {
    New(ProfileId),
    Present(ProfileId),
    Everyday,
}

fn added(context: &Context, account: &Account) -> Result<Added> {
    let registry = registry(context)?;
    let is_it = |profile: &&Profile| match &account.home {
        Some(home) => resolved(&profile.home) == resolved(home),
        None => profile.id == account.id,
    };
    match registry.profiles.iter().find(is_it) {
        Some(profile) if profile.provider == account.provider => {
            return Ok(Added::Present(profile.id.clone()));
        }
        Some(profile) => {
            let what = if account.home.is_some() { "home" } else { "id" };
            let reason = format!(
                "its {what} is that of profile `{}`, which is of {}",
                profile.id, profile.provider
            );
            return Err(Error::new(code::ALREADY_EXISTS, reason).hint("agent-fleet profile list"));
        }
        None => {}
    }
    if account
        .home
        .as_ref()
        .is_some_and(|home| home.as_str().contains('@'))
    {
        let reason = "its directory is named by an e-mail address, which would be shown everywhere: rename it first";
        return Err(Error::new(code::USAGE, reason));
    }
    let settings = registry.provider(account.provider);
    if account.everyday && settings.is_ok_and(|one| matches!(one.base_home, Anchor::At(_))) {
        return Ok(Added::Everyday);
    }
    let id = match &account.home {
        Some(_) => free(&registry, &account.id)?,
        None => account.id.clone(),
    };
    let addition = Addition {
        id,
        provider: account.provider,
        home: account.home.clone(),
        state: match account.home {
            Some(_) => Home::InPlace,
            None => Home::New,
        },
        wanted: account.wanted.clone(),
    };
    let forget = || {
        let deadline = context.clock.deadline(ROUTINE);
        durable::forget(context, addition.provider, &addition.id, &deadline)
    };
    let changed = profiles::add(context, &addition, forget)?;
    Ok(Added::New(changed.answer.id))
}

/// The id, or with a number behind it where another profile has it.
fn free(registry: &Registry, id: &ProfileId) -> Result<ProfileId> {
    let taken = |id: &str| registry.profiles.iter().any(|one| one.id.as_str() == id);
    if !taken(id.as_str()) {
        return Ok(id.clone());
    }
    // One number more than there are profiles is free for certain.
    let number = (2..=registry.profiles.len() + 2)
        .find(|number| !taken(&format!("{id}-{number}")))
        .unwrap_or(2);
    Ok(format!("{id}-{number}").parse()?)
}

/// What to type after this.
fn next(context: &Context, rows: &[ImportedAccount]) -> Result<Vec<String>> {
    let registry = registry(context)?;
    let mut next = Vec::new();
    let added: Vec<&Profile> = rows
        .iter()
        .filter(|row| row.outcome == ImportOutcome::Added)
        .filter_map(|row| registry.profile(row.profile.as_ref()?).ok())
        .collect();
    if let Some(first) = added.first() {
        if registry.projects.is_empty() {
            next.push("agent-fleet project register /path/to/your/repository".to_owned());
        }
        next.push("agent-fleet profile provision --all".to_owned());
        let (own, missing): (Vec<_>, Vec<_>) = added
            .iter()
            .partition(|profile| holds_login(context, profile));
        let adopt =
            |profile: &&&Profile| format!("agent-fleet profile enroll {} --adopt", profile.id);
        next.extend(own.iter().map(adopt));
        next.extend(match missing[..] {
            [] => None,
            [only] => Some(format!("agent-fleet profile enroll {}", only.id)),
            _ => Some("agent-fleet profile enroll --all-missing".to_owned()),
        });
        next.push(format!("agent-fleet profile enable {}", first.id));
    }
    let mut hints: Vec<String> = rows.iter().filter_map(|row| row.hint.clone()).collect();
    hints.dedup();
    next.extend(hints);
    if next.is_empty() {
        next.push(if registry.profiles.is_empty() {
            let kind = registry
                .providers
                .first()
                .map_or(ProviderKind::Claude, |one| one.kind);
            format!("agent-fleet profile add {kind}-1 --provider {kind}")
        } else {
            "agent-fleet status".to_owned()
        });
    }
    Ok(next)
}

fn holds_login(context: &Context, profile: &Profile) -> bool {
    match credential::look(profile.provider, &profile.home, None, context.clock) {
        Seen::Read(look) => look.login.kind == LoginKind::Subscription,
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            false
        }
    }
}
