//! What a person means by `agent-fleet run`: this worktree, a pool, and a task named for them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProviderKind, Task};
use crate::registry::schema::Registry;

/// The terms of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// A fresh name.
    pub task: Task,
    /// The pool to choose from.
    pub pool: PoolId,
    /// Only this provider.
    pub provider: Option<ProviderKind>,
    /// The worktree that the working directory is in.
    pub workspace: PathBuf,
}

/// Finds the terms from the working directory and an optional provider or pool.
pub fn here(context: &Context, registry: &Registry, target: Option<&str>) -> Result<Here> {
    let workspace = worktree(context)?;
    let (pool, provider) = pool(registry, target)?;
    let name = workspace
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(64)
        .collect();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let task = format!("run/{name}/{}", unique.get(..8).unwrap_or(&unique)).parse()?;
    Ok(Here {
        task,
        pool,
        provider,
        workspace,
    })
}

fn worktree(context: &Context) -> Result<PathBuf> {
    let directory = context.directory.as_ref().ok_or_else(|| {
        Error::new(
            code::WORKSPACE_INVALID,
            "the working directory no longer exists",
        )
        .hint("cd /path/to/a/project")
    })?;
    let found = directory
        .ancestors()
        .find(|path| path.join(".git").exists());
    found.map(std::path::Path::to_path_buf).ok_or_else(|| {
        let message = format!("`{}` is not inside a git worktree", directory.display());
        Error::new(code::WORKSPACE_INVALID, message).hint("git init")
    })
}

/// A target is a pool's name, a provider's name, or nothing when only one pool has enabled profiles.
fn pool(registry: &Registry, target: Option<&str>) -> Result<(PoolId, Option<ProviderKind>)> {
    let kind: Option<ProviderKind> = target.and_then(|word| word.parse().ok());
    let named: Option<PoolId> = target
        .filter(|_| kind.is_none())
        .map(str::parse)
        .transpose()?;
    let joined = |profile: &crate::registry::schema::Profile| {
        profile.enabled && kind.is_none_or(|kind| kind == profile.provider)
    };
    let pools: BTreeSet<PoolId> = registry
        .profiles
        .iter()
        .filter(|profile| joined(profile))
        .flat_map(|profile| profile.pools.clone())
        .collect();
    if let Some(pool) = named {
        return if pools.contains(&pool) {
            Ok((pool, None))
        } else {
            Err(none(registry, &pools, target))
        };
    }
    let crew = kind.and_then(|kind| {
        pools
            .iter()
            .find(|pool| pool.as_str() == format!("{kind}-crew"))
    });
    let mut all = pools.iter();
    match (crew, all.next(), all.next()) {
        (Some(pool), _, _) | (None, Some(pool), None) => Ok((pool.clone(), kind)),
        _ => Err(none(registry, &pools, target)),
    }
}

fn none(registry: &Registry, pools: &BTreeSet<PoolId>, target: Option<&str>) -> Error {
    if pools.is_empty() && !registry.profiles.iter().any(|profile| profile.enabled) {
        let message = "no profile is enabled";
        return Error::new(code::PROFILE_DISABLED, message).hint(match registry.profiles.first() {
            Some(profile) => format!("agent-fleet profile enable {}", profile.id),
            None => "agent-fleet profile add claude-1 --provider claude".to_owned(),
        });
    }
    let names: Vec<_> = pools.iter().map(|pool| format!("`{pool}`")).collect();
    let asked = target.map_or_else(
        || "which pool is meant is not clear".to_owned(),
        |word| format!("`{word}` names no pool with an enabled profile"),
    );
    let choice = if names.is_empty() {
        "no other is enabled".to_owned()
    } else {
        format!("pools: {}", names.join(", "))
    };
    let hint = match pools.first() {
        Some(pool) => format!("agent-fleet run {pool}"),
        None => "agent-fleet profile list".to_owned(),
    };
    Error::new(code::NOT_FOUND, format!("{asked}; {choice}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::pool;
    use crate::id::ProviderKind;
    use crate::registry::schema::{Credential, Profile, Registry, SafetyPolicy};

    fn registry(profiles: &[(&str, ProviderKind, &str)]) -> Registry {
        let profiles = profiles
            .iter()
            .map(|(id, provider, pool)| Profile {
                id: id.parse().unwrap(),
                provider: *provider,
                home: format!("/h/{id}").into(),
                pools: vec![pool.parse().unwrap()],
                enabled: true,
                credential: Credential::Home,
                max_concurrent: 1,
                reserve_percent: 0.0,
                weight: 1,
                safety_policy: SafetyPolicy::Worker,
                allow_overage: false,
            })
            .collect();
        Registry {
            profiles,
            ..Registry::default()
        }
    }

    #[test]
    fn a_provider_means_its_crew_and_nothing_means_the_only_pool() {
        use ProviderKind::{Claude, Codex};
        let both = registry(&[
            ("a", Claude, "claude-crew"),
            ("b", Codex, "codex-crew"),
            ("c", Claude, "night"),
        ]);
        assert_eq!(
            pool(&both, Some("claude")).unwrap().0.as_str(),
            "claude-crew"
        );
        assert_eq!(
            pool(&both, Some("night")).unwrap(),
            ("night".parse().unwrap(), None)
        );
        assert!(
            pool(&both, None)
                .unwrap_err()
                .message
                .contains("`codex-crew`")
        );
        assert!(pool(&both, Some("day")).is_err());
        let mut off = registry(&[("a", Claude, "night")]);
        for profile in &mut off.profiles {
            profile.enabled = false;
        }
        let refused = pool(&off, Some("night")).unwrap_err();
        assert_eq!(refused.code, crate::error::code::PROFILE_DISABLED);
        assert_eq!(
            refused.hint.as_deref(),
            Some("agent-fleet profile enable a")
        );
        let one = registry(&[("a", Claude, "night")]);
        assert_eq!(pool(&one, None).unwrap().0.as_str(), "night");
        assert_eq!(
            pool(&one, Some("claude")).unwrap(),
            ("night".parse().unwrap(), Some(Claude))
        );
    }
}
