//! Reading other tools' lists of accounts: names and directories alone. Pure but for looking whether a directory is
//! there.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use super::{Account, Entry, tell};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProviderKind};
use crate::registry::profiles::Wanted;
use crate::registry::schema::SafetyPolicy;

/// A list that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Whose list it is.
    pub format: &'static str,
    /// One per account, in the order of the list.
    pub entries: Vec<Entry>,
}

/// Reads a list.
///
/// Fails with `usage` when it is in no format that is known, and says so when it is a login.
pub fn parse(context: &Context, path: &Utf8Path, bytes: &[u8]) -> Result<List> {
    let shown = tell::path(context, path);
    let unknown = || {
        let message = format!(
            "`{shown}` is no list of accounts in a known format: claude-swap's `sequence.json`, codex-auth's \
             `registry.json`, ccs's `profiles.json`, or an `accounts.toml`"
        );
        Error::new(code::USAGE, message).hint("agent-fleet init --import")
    };
    let text = std::str::from_utf8(bytes).map_err(|_| unknown())?;
    let Ok(file) = serde_json::from_str::<Value>(text) else {
        let table = text.parse::<toml::Table>().map_err(|_| unknown())?;
        let profiles = table.get("profiles").and_then(toml::Value::as_table);
        let entries = profiles.ok_or_else(unknown)?.iter();
        return Ok(List {
            format: "accounts.toml",
            entries: entries
                .map(|(name, one)| registry(context, name, one))
                .collect(),
        });
    };
    if !file["claudeAiOauth"].is_null() || !file["tokens"].is_null() {
        let message = format!(
            "`{shown}` is a login and no list of accounts: a login is never copied, since the copy and the original \
             would end each other"
        );
        return Err(Error::new(code::USAGE, message).hint("agent-fleet profile enroll --help"));
    }
    match (&file["accounts"], &file["profiles"]) {
        (Value::Object(accounts), _) => Ok(List {
            format: "claude-swap",
            entries: swap(accounts, &file["activeAccountNumber"]),
        }),
        (Value::Array(accounts), _) => Ok(List {
            format: "codex-auth",
            entries: auth(accounts, &file),
        }),
        (_, Value::Object(profiles)) if file["accounts"].is_null() => Ok(List {
            format: "ccs",
            entries: ccs(context, path, profiles),
        }),
        _ => Err(unknown()),
    }
}

const ODD: &str = "its record is not in the tool's format";

/// Accounts by number, each with an e-mail address, and some with an alias.
fn swap(accounts: &Map<String, Value>, active: &Value) -> Vec<Entry> {
    let mut numbered: Vec<_> = accounts.iter().collect();
    numbered.sort_by_key(|(number, _)| (number.parse::<u64>().unwrap_or(u64::MAX), *number));
    let active = match active {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let row = |(at, (number, record)): (usize, (&String, &Value))| {
        let place = tell::label(Some(number)).map_or_else(|| (at + 1).to_string(), str::to_owned);
        let told = |kind: &str| format!("{kind} account {place} of claude-swap");
        if !record.is_object() {
            return Entry::left_out(told("an"), None, ODD);
        }
        let named = record.get("provider").filter(|named| !named.is_null());
        let provider = match named.map(|named| named.as_str().map(str::parse)) {
            None => ProviderKind::Claude,
            Some(Some(Ok(kind @ (ProviderKind::Claude | ProviderKind::Codex)))) => kind,
            Some(_) => {
                return Entry::left_out(told("an"), None, "its provider is none that is known");
            }
        };
        let name = tell::label(record["alias"].as_str()).unwrap_or(&place);
        account(
            told(tell::provider(provider)),
            provider,
            name,
            None,
            active.as_ref() == Some(number),
        )
    };
    numbered.into_iter().enumerate().map(row).collect()
}

/// Accounts with a key, an e-mail address, and some with an alias.
fn auth(accounts: &[Value], file: &Value) -> Vec<Entry> {
    let is_active = |record: &Value| {
        [
            ("active_account_key", "account_key"),
            ("active_account_id", "account_id"),
            ("active_email", "email"),
        ]
        .iter()
        .any(|(active, own)| !record[*own].is_null() && file[*active] == record[*own])
    };
    let row = |(at, record): (usize, &Value)| {
        let place = (at + 1).to_string();
        let provider = ProviderKind::Codex;
        let told = format!("{} account {place} of codex-auth", tell::provider(provider));
        if !record.is_object() {
            return Entry::left_out(told, Some(provider), ODD);
        }
        let name = tell::label(record["alias"].as_str()).unwrap_or(&place);
        account(told, provider, name, None, is_active(record))
    };
    accounts.iter().enumerate().map(row).collect()
}

/// Profiles by name; those that are accounts have a directory beside the list.
fn ccs(context: &Context, path: &Utf8Path, profiles: &Map<String, Value>) -> Vec<Entry> {
    let row = |(at, (name, record)): (usize, (&String, &Value))| {
        let place = tell::label(Some(name)).map_or_else(|| format!("{}", at + 1), str::to_owned);
        let told = format!("profile {place} of ccs");
        let provider = ProviderKind::Claude;
        if !record.is_object() {
            return Entry::left_out(told, Some(provider), ODD);
        }
        if record["type"] != "account" {
            return Entry::left_out(
                told,
                Some(provider),
                "it is no account with a login of its own",
            );
        }
        let lower = name.to_ascii_lowercase();
        let folder = path
            .parent()
            .unwrap_or(&context.roots.home)
            .join("instances");
        let home = [name.as_str(), &lower]
            .into_iter()
            .filter(|name| tell::label(Some(name)).is_some())
            .map(|name| folder.join(name))
            .find(|home| home.is_dir());
        account(told, provider, &place, home, false)
    };
    profiles.iter().enumerate().map(row).collect()
}

/// A profile of a registry such as ours, of this machine or another.
fn registry(context: &Context, name: &str, record: &toml::Value) -> Entry {
    let told = match tell::label(Some(name)) {
        Some(name) => format!("profile {name} of the registry"),
        None => "a profile of the registry".to_owned(),
    };
    let text = |key: &str| record.get(key).and_then(toml::Value::as_str);
    let whole = |key: &str| {
        let number = record.get(key).and_then(toml::Value::as_integer);
        number.and_then(|number| u32::try_from(number).ok())
    };
    let Some(Ok(provider)) = text("provider").map(str::parse::<ProviderKind>) else {
        return Entry::left_out(told, None, "its provider is none that is known");
    };
    let Ok(id) = name.parse() else {
        return Entry::left_out(
            told,
            Some(provider),
            "its id is none that a profile may have",
        );
    };
    if text("credential").is_some_and(|word| word != "home") {
        let reason = "its credential is not kept in its home, and a list does not carry it";
        return Entry::left_out(told, Some(provider), reason);
    }
    let policy = match text("safety_policy").map(SafetyPolicy::from_word) {
        Some(None) => {
            return Entry::left_out(
                told,
                Some(provider),
                "its safety policy is none that is known",
            );
        }
        Some(Some(policy)) => Some(policy),
        None => None,
    };
    let home = text("home").map(|home| match home.strip_prefix("~/") {
        Some(rest) => context.roots.home.join(rest),
        None => Utf8PathBuf::from(home),
    });
    let pools = record.get("pools").and_then(toml::Value::as_array);
    let pools = pools.map(|pools| {
        let names = pools.iter().filter_map(toml::Value::as_str);
        names
            .filter_map(|name| name.parse::<PoolId>().ok())
            .collect()
    });
    let reserve = record.get("reserve_percent");
    Entry::Account(Account {
        told,
        provider,
        id,
        home: home.filter(|home| home.is_absolute() && home.is_dir()),
        everyday: false,
        wanted: Wanted {
            pools: pools.filter(|pools: &Vec<PoolId>| !pools.is_empty()),
            weight: whole("weight"),
            max_concurrent: whole("max_concurrent"),
            reserve_percent: reserve.and_then(|share| {
                let whole = || {
                    share
                        .as_integer()
                        .and_then(|share| i32::try_from(share).ok())
                };
                share.as_float().or_else(|| whole().map(f64::from))
            }),
            safety_policy: policy,
            // A token or a key is given anew as well; a login is what the next command makes.
            credential: None,
            // What may cost money is decided anew.
            allow_overage: None,
        },
    })
}

fn account(
    told: String,
    provider: ProviderKind,
    name: &str,
    home: Option<Utf8PathBuf>,
    everyday: bool,
) -> Entry {
    match tell::id(provider, name) {
        Some(id) => Entry::Account(Account {
            told,
            provider,
            id,
            home,
            everyday,
            wanted: Wanted::default(),
        }),
        None => Entry::left_out(
            told,
            Some(provider),
            "its name is none that a profile may have",
        ),
    }
}
