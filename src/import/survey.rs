//! Looking where the providers' CLIs and other tools keep logins: read-only, and no deeper than one folder.

use std::collections::BTreeSet;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::{Account, EVERYDAY, Entry, list, tell};
use crate::contract::import::ImportOutcome;
use crate::env::Context;
use crate::id::ProviderKind;
use crate::identity::credential::{self, Look, Seen};
use crate::provider::{self, LoginKind, account};
use crate::registry::path::canonical;
use crate::registry::profiles::Wanted;
use crate::store::read;

/// The services whose logins are looked for.
const KINDS: [ProviderKind; 2] = [ProviderKind::Claude, ProviderKind::Codex];
/// Folders of other tools with one home each, below the person's home directory.
const FOLDERS: [&str; 2] = [".ccs/instances", ".aimux/profiles"];
/// Lists of other tools, below the person's home directory.
const LISTS: [&str; 4] = [
    ".local/share/claude-swap/sequence.json",
    ".claude-swap-backup/sequence.json",
    ".claude-switch-backup/sequence.json",
    ".codex/accounts/registry.json",
];

/// Everything that was found: the everyday logins, homes with a login of their own, and lists.
pub(super) fn look(context: &Context) -> Vec<Entry> {
    let mut found = Vec::new();
    // Two homes with the same login are one login that was copied.
    let mut known: BTreeSet<(ProviderKind, String)> = BTreeSet::new();
    for kind in KINDS {
        let home = context.roots.home.join(provider::of(kind).default_home());
        let everyday = |told, _: &Utf8Path| Entry::Other {
            told,
            provider: Some(kind),
            outcome: ImportOutcome::Kept,
            reason: EVERYDAY.to_owned(),
        };
        found.extend(login(context, kind, &home, &mut known, everyday));
    }
    for home in homes(context) {
        for kind in KINDS {
            let own = |told, home: &Utf8Path| own(kind, told, home);
            found.extend(login(context, kind, &home, &mut known, own));
        }
    }
    for path in LISTS.map(|list| context.roots.home.join(list)) {
        found.extend(listed(context, &path));
    }
    found
}

/// A home with a login of its own, as an account.
fn own(kind: ProviderKind, told: String, home: &Utf8Path) -> Entry {
    match home.file_name().and_then(|name| tell::id(kind, name)) {
        Some(id) => Entry::Account(Account {
            told,
            provider: kind,
            id,
            home: Some(home.to_owned()),
            everyday: false,
            wanted: Wanted::default(),
        }),
        None => Entry::left_out(told, Some(kind), "its name is none that a profile may have"),
    }
}

/// What the credential file of a home says; nothing where there is none.
fn login(
    context: &Context,
    kind: ProviderKind,
    home: &Utf8Path,
    known: &mut BTreeSet<(ProviderKind, String)>,
    entry: impl Fn(String, &Utf8Path) -> Entry,
) -> Option<Entry> {
    let place = tell::path(context, home);
    let name = tell::provider(kind);
    let odd = |why: &str| {
        let file = provider::of(kind).credential_file();
        let told = format!("a {name} login in {place}");
        Some(Entry::left_out(
            told,
            Some(kind),
            format!("its `{file}` {why}; it was left alone"),
        ))
    };
    let look: Box<Look> = match credential::look(kind, home, None, context.clock) {
        Seen::Missing => return None,
        Seen::Read(look) => look,
        Seen::Linked => return odd("is a link, so another home may share the login"),
        Seen::Unreadable => return odd("cannot be read"),
        Seen::Unparsable | Seen::Unchanged => return odd("is not in the CLI's format"),
    };
    match look.login.kind {
        LoginKind::Subscription => {}
        LoginKind::ApiKey => return odd("holds an API key, which is paid per token"),
        LoginKind::Blank => return odd("holds no login: it was logged out"),
    }
    let plan = account::plan(kind, look.text.expose().as_bytes());
    let told = match plan {
        Some(plan) => format!("a {name} login, plan {plan}, in {place}"),
        None => format!("a {name} login in {place}"),
    };
    if !known.insert((kind, look.login.digest.clone())) {
        let reason = "it is a copy of a login that was named above, and the two will end each other: it needs a login of its own";
        return Some(Entry::left_out(told, Some(kind), reason));
    }
    Some(entry(told, home))
}

/// Directories that may be homes: `~/.claude-*`, `~/.codex-*`, those of other tools, and those that this shell names.
fn homes(context: &Context) -> Vec<Utf8PathBuf> {
    let home = &context.roots.home;
    let is_named_so = |path: &Utf8PathBuf| {
        let name = path.file_name().unwrap_or_default();
        [".claude-", ".claude_", ".codex-", ".codex_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let mut all: Vec<Utf8PathBuf> = entries(home).into_iter().filter(is_named_so).collect();
    for folder in FOLDERS {
        all.extend(entries(&home.join(folder)));
    }
    for kind in KINDS {
        let named = context.variables.text(provider::of(kind).home_variable());
        all.extend(
            named
                .map(Utf8PathBuf::from)
                .filter(|path| path.is_absolute()),
        );
    }
    let usual: Vec<_> = KINDS
        .map(|kind| canonical(&home.join(provider::of(kind).default_home())))
        .into();
    let mut seen = BTreeSet::new();
    all.into_iter()
        .map(|path| canonical(&path))
        .filter(|path| !usual.contains(path) && path.is_dir() && seen.insert(path.clone()))
        .collect()
}

/// What lies in a folder, sorted; nothing when it cannot be read.
fn entries(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .collect();
    paths.sort_unstable();
    paths
}

/// The accounts of another tool's list, if it is there.
fn listed(context: &Context, path: &Utf8Path) -> Vec<Entry> {
    let odd = |reason: String| {
        let told = format!("a list of accounts in {}", tell::path(context, path));
        vec![Entry::left_out(told, None, reason)]
    };
    match read::optional(path) {
        Ok(None) => Vec::new(),
        Ok(Some(bytes)) => match list::parse(context, path, &bytes) {
            Ok(list) => list.entries,
            Err(error) => odd(error.message),
        },
        Err(error) => odd(error.message),
    }
}
