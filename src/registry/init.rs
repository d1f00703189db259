//! The first registry: what is installed here, pinned, and empty profiles to log in to.

use std::collections::BTreeMap;
use std::fs;

use camino::Utf8PathBuf;

use super::binary::find;
use super::schema::{self, SafetyPolicy};
use super::validate::{self, DEFAULT_RESERVE, Invalid, default_slots};
use super::{file, install, path, profiles};
use crate::contract::profile::Profile;
use crate::contract::registry::Initialised;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{ProfileId, ProviderKind};
use crate::store::{directory, replace};

/// How many profiles of each provider.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<ProviderKind, u32>);

/// Writes a registry where there is none.
///
/// Fails with `already_exists` when there is one, readable or not, and with `provider_missing` when profiles
/// are wanted of a provider whose CLI is not installed. Nothing is written then.
pub fn init(context: &Context, counts: &Counts) -> Result<Initialised> {
    let target = &context.roots.config;
    let exists = || {
        Error::new(
            code::ALREADY_EXISTS,
            format!("there is a registry at `{target}` already"),
        )
        .hint(addition(context, counts).unwrap_or_else(|| "agent-fleet config list".to_owned()))
    };
    if fs::symlink_metadata(target).is_ok() {
        // A link that leads nowhere, a directory: each has a sentence of its own.
        file::identity(&context.roots)?;
        return Err(exists());
    }
    let binaries = binaries(context, counts)?;
    if let Some(parent) = target.parent() {
        directory::establish(parent)?;
    }
    let id = install::ensure(context)?;
    let text = text(context, counts, &binaries, &id)?;
    let parsed = validate::parse(&text, &context.roots).map_err(|invalid| {
        let first = match invalid {
            Invalid::Problems(problems) => problems.into_iter().next(),
            Invalid::Newer(_) => None,
        };
        let message = first.map_or_else(String::new, |first| first.message);
        Error::new(
            code::USAGE,
            format!("no registry can be written with these roots: {message}"),
        )
        .hint("agent-fleet --help")
    })?;
    if !replace::establish(target, text.as_bytes())? {
        return Err(exists());
    }
    let profiles: Vec<Profile> = parsed.registry.profiles.iter().map(Profile::from).collect();
    Ok(Initialised {
        registry: target.clone(),
        next: next(&profiles, &binaries),
        binaries,
        profiles,
        enabled: 0,
    })
}

/// The command that adds the first profile that is wanted to the registry that is there.
fn addition(context: &Context, counts: &Counts) -> Option<String> {
    let (kind, _) = counts.0.iter().find(|(_, count)| **count > 0)?;
    let source = file::read(context).ok()?;
    let registry = file::parse(context, &source.text).ok()?.registry;
    // One number more than there are profiles is free for certain.
    let free = (1..=registry.profiles.len() + 1)
        .map(|number| format!("{kind}-{number}"))
        .find(|name| {
            let taken = |profile: &schema::Profile| profile.id.as_str() == name;
            !registry.profiles.iter().any(taken)
        })?;
    Some(format!("agent-fleet profile add {free} --provider {kind}"))
}

/// The binary of each provider to configure; `None` for the one that is this program.
fn binaries(
    context: &Context,
    counts: &Counts,
) -> Result<BTreeMap<ProviderKind, Option<Utf8PathBuf>>> {
    let mut binaries = BTreeMap::new();
    for kind in ProviderKind::ALL {
        let wanted = counts.0.get(&kind).is_some_and(|count| *count > 0);
        match (kind, find::installed(context, kind)) {
            (ProviderKind::Scripted, _) => {
                if wanted {
                    binaries.insert(kind, None);
                }
            }
            (_, Some(path)) => {
                binaries.insert(kind, Some(path));
            }
            (_, None) if wanted => {
                return Err(Error::new(
                    code::PROVIDER_MISSING,
                    format!("the native binary of {kind} was found neither on PATH nor where its installers put it"),
                )
                .hint(find::install_command(kind)));
            }
            (_, None) => {}
        }
    }
    Ok(binaries)
}

fn next(
    profiles: &[Profile],
    binaries: &BTreeMap<ProviderKind, Option<Utf8PathBuf>>,
) -> Vec<String> {
    let mut next = Vec::new();
    match (profiles.first(), binaries.first_key_value()) {
        (Some(first), _) => {
            next.push("agent-fleet project register /path/to/your/repository".to_owned());
            next.push("agent-fleet profile provision --all".to_owned());
            next.push(match profiles {
                [only] => format!("agent-fleet profile enroll {}", only.id),
                _ => "agent-fleet profile enroll --all-missing".to_owned(),
            });
            next.push(format!("agent-fleet profile enable {}", first.id));
        }
        (None, Some((kind, _))) => {
            next.push(format!(
                "agent-fleet profile add {kind}-1 --provider {kind}"
            ));
        }
        (None, None) => {
            next.push(find::install_command(ProviderKind::Claude).to_owned());
            next.push("agent-fleet profile add demo-1 --provider scripted".to_owned());
        }
    }
    next
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn text(
    context: &Context,
    counts: &Counts,
    binaries: &BTreeMap<ProviderKind, Option<Utf8PathBuf>>,
    id: &str,
) -> Result<String> {
    let mut text = format!(
        "# Accounts of agent-fleet. Edit it, or use `agent-fleet profile|project|config`: comments survive both.\n\
         version = 1\n\
         install_id = {}  # ties this file to its state root\n\
         \n\
         [settings]  # `agent-fleet config list` shows every setting and its default\n",
        quoted(id)
    );
    for (kind, binary) in binaries {
        text.push_str(&provider(context, *kind, binary.as_ref()));
    }
    text.push_str(
        "\n[projects]  # worktree roots that may host workers; `[projects.codex]` for one provider alone\ntrusted = []\n",
    );
    for (kind, count) in &counts.0 {
        for number in 1..=*count {
            let id: ProfileId = format!("{kind}-{number}").parse()?;
            text.push_str(&profile(context, *kind, &id));
        }
    }
    Ok(text)
}

fn provider(context: &Context, kind: ProviderKind, binary: Option<&Utf8PathBuf>) -> String {
    let mut lines = vec![String::new(), format!("[providers.{kind}]")];
    if let Some(binary) = binary {
        lines.push(format!(
            "binary = {}  # the native binary, never a shim",
            quoted(binary.as_str())
        ));
        lines.push("binary_policy = \"pin\"  # `follow` resolves links at every launch".to_owned());
        lines.push(base_home(context, kind));
    }
    if kind == ProviderKind::Claude {
        lines.push(desktop(context));
    }
    lines.join("\n") + "\n"
}

/// The default login is an anchor where there is one; a machine without one has nothing to keep apart.
fn base_home(context: &Context, kind: ProviderKind) -> String {
    let (home, file) = match kind {
        ProviderKind::Claude => (".claude", ".credentials.json"),
        ProviderKind::Codex => (".codex", "auth.json"),
        ProviderKind::Scripted => return "base_home = false".to_owned(),
    };
    let directory = context.roots.home.join(home);
    // macOS keeps the login in the keychain, so the directory is all there is to see.
    let found = directory.join(file).exists() || (cfg!(target_os = "macos") && directory.exists());
    if found {
        format!("base_home = \"~/{home}\"  # your own login there is never used by workers")
    } else {
        format!(
            "base_home = false  # no login was found in ~/{home}; name it here if you log in there"
        )
    }
}

fn desktop(context: &Context) -> String {
    let file = "Library/Application Support/Claude/config.json";
    if cfg!(target_os = "macos") && context.roots.home.join(file).exists() {
        format!("desktop_identity_file = \"~/{file}\"")
    } else {
        "desktop_identity_file = false  # no Claude Desktop was found".to_owned()
    }
}

fn profile(context: &Context, kind: ProviderKind, id: &ProfileId) -> String {
    let home = path::spelling(&profiles::default_home(context, kind, id));
    let pools: Vec<String> = profiles::default_pools(kind, SafetyPolicy::Worker)
        .iter()
        .map(|pool| quoted(pool))
        .collect();
    format!(
        "\n[profiles.\"{id}\"]\n\
         provider = \"{kind}\"\n\
         home = {}\n\
         pools = [{}]\n\
         enabled = false\n\
         max_concurrent = {}\n\
         reserve_percent = {DEFAULT_RESERVE}\n",
        quoted(&home),
        pools.join(", "),
        default_slots(kind)
    )
}
