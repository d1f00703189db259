//! Registering projects and taking them off again.

use std::path::Path;

use camino::Utf8PathBuf;

use super::{absolute, root};
use crate::contract::registry::{ProjectList, Projects};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::registry::edit::{self, Changed};
use crate::registry::path::{parse, resolved};
use crate::registry::schema::Registry;
use crate::sys::shell;

/// The roots on which workers may run, of one provider or of every configured one.
pub fn list(registry: &Registry, provider: Option<ProviderKind>) -> ProjectList {
    let shown = |kind: &ProviderKind| match provider {
        Some(only) => *kind == only,
        None => registry.provider(*kind).is_ok() || !registry.trusted(*kind).is_empty(),
    };
    ProjectList::All {
        providers: ProviderKind::ALL
            .into_iter()
            .filter(shown)
            .map(|kind| of(registry, kind))
            .collect(),
    }
}

fn of(registry: &Registry, provider: ProviderKind) -> Projects {
    Projects {
        provider,
        trusted_projects: registry
            .trusted(provider)
            .into_iter()
            .map(Utf8PathBuf::from)
            .collect(),
    }
}

/// Lets workers of one provider, or of all, run in the worktree whose root is `path`.
///
/// One that is registered already is left as it is. Fails with `workspace_invalid` and the codes of
/// [`edit::change`].
pub fn register(
    context: &Context,
    provider: Option<ProviderKind>,
    path: &Path,
) -> Result<Changed<ProjectList>> {
    let (root, _) = root(context, path)?;
    let maintenance = maintain(context, provider, "project register")?;
    let changed = edit::change(context, &maintenance, |registry, document| {
        let known = match provider {
            Some(provider) => registry.trusts(provider, &root),
            None => registry
                .projects
                .iter()
                .any(|project| project.provider.is_none() && project.path == root),
        };
        if !known {
            match provider {
                Some(provider) => {
                    document.push(&["projects", provider.name()], "trusted", root.as_str())?;
                }
                None => document.push(&["projects"], "trusted", root.as_str())?,
            }
        }
        Ok(())
    })?;
    Ok(answer(changed, provider))
}

/// Stops new workers of one provider, or of all, from running in a worktree. It need not exist any more.
///
/// Fails with `not_found` when it is not registered, and with `policy` when it is registered for every
/// provider but should go for one alone.
pub fn remove(
    context: &Context,
    provider: Option<ProviderKind>,
    path: &Path,
) -> Result<Changed<ProjectList>> {
    let written = absolute(context, path)?;
    let real = resolved(&written);
    let home = context.roots.home.clone();
    let meant = |item: &str| {
        parse(item, &home)
            .is_ok_and(|item| item == written || item == real || resolved(&item) == real)
    };
    let maintenance = maintain(context, provider, "project remove")?;
    let changed = edit::change(context, &maintenance, |_, document| {
        let everywhere = ["projects"];
        let removed = match provider {
            Some(provider) => {
                let removed = document.pull(&["projects", provider.name()], "trusted", meant);
                if !removed && document.clone().pull(&everywhere, "trusted", meant) {
                    let message = format!(
                        "`{real}` is registered for every provider, not for {provider} alone"
                    );
                    return Err(Error::new(code::POLICY, message).hint(format!(
                        "agent-fleet project remove {}",
                        shell::quote(real.as_str())
                    )));
                }
                removed
            }
            None => ProviderKind::ALL.into_iter().fold(
                document.pull(&everywhere, "trusted", meant),
                |removed, kind| {
                    document.pull(&["projects", kind.name()], "trusted", meant) || removed
                },
            ),
        };
        if removed {
            Ok(())
        } else {
            let message = format!("`{real}` is not a registered project");
            Err(Error::new(code::NOT_FOUND, message).hint("agent-fleet project list"))
        }
    })?;
    Ok(answer(changed, provider))
}

fn maintain(
    context: &Context,
    provider: Option<ProviderKind>,
    purpose: &str,
) -> Result<edit::Maintenance> {
    let all = ProviderKind::ALL;
    let of = provider.as_ref().map_or(&all[..], std::slice::from_ref);
    edit::maintain(context, of, purpose)
}

fn answer(changed: Changed<()>, provider: Option<ProviderKind>) -> Changed<ProjectList> {
    Changed {
        answer: match provider {
            Some(provider) => ProjectList::One(of(&changed.registry, provider)),
            None => list(&changed.registry, None),
        },
        registry: changed.registry,
        notes: changed.notes,
    }
}
