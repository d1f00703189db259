//! Which pools have profiles of which provider: what is found when no file names a pool. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{PoolId, ProviderKind};
use crate::registry::schema::{Registry, SafetyPolicy};

/// Pools by provider, as far as workers can be routed there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    found: BTreeMap<ProviderKind, BTreeSet<PoolId>>,
}

/// Which pool an entry means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// This one.
    One(&'a PoolId),
    /// The provider has no profile that takes workers.
    None,
    /// It could be any of these.
    Several(Vec<&'a PoolId>),
    /// The named pool has no profile of the provider that takes workers.
    Without,
}

impl Pools {
    /// Of a registry: profiles that are enabled and meant for workers.
    pub fn of(registry: &Registry) -> Self {
        let mut found: BTreeMap<ProviderKind, BTreeSet<PoolId>> = BTreeMap::new();
        for profile in &registry.profiles {
            if profile.enabled && profile.safety_policy == SafetyPolicy::Worker {
                let pools = found.entry(profile.provider).or_default();
                pools.extend(profile.pools.iter().cloned());
            }
        }
        Self { found }
    }

    /// The pool of a provider: the named one, else the only one.
    pub fn find<'a>(&'a self, provider: ProviderKind, named: Option<&'a PoolId>) -> Found<'a> {
        let pools = self.found.get(&provider);
        if let Some(named) = named {
            return if pools.is_some_and(|pools| pools.contains(named)) {
                Found::One(named)
            } else {
                Found::Without
            };
        }
        let pools: Vec<&PoolId> = pools.into_iter().flatten().collect();
        match pools.as_slice() {
            [] => Found::None,
            [one] => Found::One(one),
            _ => Found::Several(pools),
        }
    }
}
