//! What only shows when profiles are seen together: homes that overlap, pools that must not be shared.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use super::ProfileSpans;
use super::table::Walker;
use crate::env::Roots;
use crate::id::{PoolId, ProviderKind};
use crate::registry::path::{overlap, resolved};
use crate::registry::schema::{Anchor, Profile, Registry, SafetyPolicy};

/// Adds the problems of profiles among each other; `spans` stand in the order of the profiles.
pub(super) fn check(
    walker: &mut Walker<'_>,
    registry: &Registry,
    spans: &[ProfileSpans],
    roots: &Roots,
) {
    homes(walker, registry, spans, roots);
    pools(walker, registry, spans);
}

fn homes(walker: &mut Walker<'_>, registry: &Registry, spans: &[ProfileSpans], roots: &Roots) {
    let reserved = reserved(registry, roots);
    let homes: Vec<Utf8PathBuf> = registry
        .profiles
        .iter()
        .map(|profile| resolved(&profile.home))
        .collect();
    for (index, (profile, span)) in registry.profiles.iter().zip(spans).enumerate() {
        let clashes = |path: &Utf8PathBuf, real: &Utf8PathBuf| {
            overlap(&profile.home, path) || overlap(&homes[index], real)
        };
        for (path, real, what) in &reserved {
            if clashes(path, real) {
                let message = format!(
                    "profile `{}`: home `{}` overlaps {what} `{path}`",
                    profile.id, profile.home
                );
                walker.problem(span.home, message);
                break;
            }
        }
        let earlier = registry.profiles.iter().zip(&homes).take(index);
        for (other, real) in earlier {
            if clashes(&other.home, real) {
                let message = format!(
                    "profile `{}`: home `{}` overlaps the home `{}` of profile `{}`",
                    profile.id, profile.home, other.home, other.id
                );
                walker.problem(span.home, message);
            }
        }
    }
}

/// Places that no home may be, hold or lie in: as written, with links resolved, and what they are.
fn reserved(registry: &Registry, roots: &Roots) -> Vec<(Utf8PathBuf, Utf8PathBuf, &'static str)> {
    let mut places: Vec<(Utf8PathBuf, &'static str)> = vec![
        (roots.home.join(".claude"), "Claude's default home"),
        (roots.home.join(".codex"), "Codex's default home"),
        (roots.state.clone(), "the state root"),
        (roots.config.clone(), "the registry"),
        (roots.share.join("bin"), "the share root's programs"),
    ];
    for settings in &registry.providers {
        for (anchor, what) in [
            (&settings.base_home, "the base home"),
            (&settings.desktop_identity_file, "the Desktop file"),
        ] {
            if let Anchor::At(path) = anchor {
                places.push((path.clone(), what));
            }
        }
        if let Some(service) = &settings.service {
            places.push((service.clone(), "the scripted service"));
        }
    }
    places
        .into_iter()
        .map(|(path, what)| {
            let real = resolved(&path);
            (path, real, what)
        })
        .collect()
}

/// Non-worker profiles never join a worker pool, and scripted profiles no pool of a real provider.
fn pools(walker: &mut Walker<'_>, registry: &Registry, spans: &[ProfileSpans]) {
    let mut members: BTreeMap<&PoolId, Vec<(&Profile, &ProfileSpans)>> = BTreeMap::new();
    for (profile, span) in registry.profiles.iter().zip(spans) {
        for pool in &profile.pools {
            members.entry(pool).or_default().push((profile, span));
        }
    }
    for (pool, members) in members {
        let real = members
            .iter()
            .find(|(profile, _)| profile.provider != ProviderKind::Scripted);
        for (profile, span) in &members {
            if profile.safety_policy != SafetyPolicy::Worker && is_worker_pool(pool, &members) {
                let message = format!(
                    "profile `{}` is `{}` and must not join the worker pool `{pool}`",
                    profile.id,
                    profile.safety_policy.word()
                );
                walker.problem(span.pools, message);
            }
            if profile.provider == ProviderKind::Scripted
                && let Some((other, _)) = real
            {
                let message = format!(
                    "scripted profile `{}` must not share the pool `{pool}` with `{}`, a {} profile",
                    profile.id, other.id, other.provider
                );
                walker.problem(span.pools, message);
            }
        }
    }
}

/// A pool that routes to workers: named `…-crew`, or with a worker profile in it. Pools named `…-manual` are
/// for choosing by hand, and both kinds of profile may be in them.
fn is_worker_pool(pool: &PoolId, members: &[(&Profile, &ProfileSpans)]) -> bool {
    pool.as_str().ends_with("-crew")
        || (!pool.as_str().ends_with("-manual")
            && members
                .iter()
                .any(|(profile, _)| profile.safety_policy == SafetyPolicy::Worker))
}
