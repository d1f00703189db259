//! Which provider, pool and model does a step, who may go on with it, and who reviews it. Pure.
//!
//! Everything is fixed when the plan is made, before the broker chooses an account: argv, model and family may not
//! depend on which one is free.

use super::layer::Entry;
use super::pools::{Found, Pools};
pub use super::routing::{Agent, Routing};
use super::{Settings, family, permission};
use crate::error::{Code, Refusal, code};
use crate::fleet::model::{Assignment, Role, Tier};
use crate::id::fleet::StepId;
use crate::id::{PoolId, ProviderKind};

/// What routing is decided from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What holds here.
    pub settings: &'a Settings,
    /// What the run may use.
    pub routing: &'a Routing,
    /// Where the accounts are.
    pub pools: &'a Pools,
}

/// What a step asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its name, for refusals.
    pub step: StepId,
    /// How hard it is.
    pub tier: Tier,
    /// Whose permissions it gets: a step that only reads has a reviewer's.
    pub role: Role,
    /// This provider and no other.
    pub provider: Option<ProviderKind>,
    /// This model and no other.
    pub model: Option<String>,
    /// This effort.
    pub effort: Option<String>,
    /// Who made its model.
    pub family: Option<String>,
}

/// Why nothing can be assigned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The step's provider is not among those of the routing.
    #[error(
        "step `{step}` asks for the provider `{provider}`, which the routing `{routing}` leaves out"
    )]
    Outside {
        /// Which step.
        step: StepId,
        /// What it asks for.
        provider: ProviderKind,
        /// What is allowed.
        routing: Routing,
    },
    /// The step's model is another than the routing's.
    #[error(
        "step `{step}` asks for the model `{model}`, and the routing `{routing}` names another"
    )]
    Pinned {
        /// Which step.
        step: StepId,
        /// What it asks for.
        model: String,
        /// What is allowed.
        routing: Routing,
    },
    /// Whose model it is cannot be told.
    #[error(
        "step `{step}` names the model `{model}`, which no entry of tier `{tier}` has: name its `provider` too"
    )]
    WhoseModel {
        /// Which step.
        step: StepId,
        /// What it asks for.
        model: String,
        /// Its tier.
        tier: Tier,
    },
    /// More than one pool would do.
    #[error(
        "step `{step}` could use any of the pools {pools} for {provider}: name one as `pool` under `[providers.{provider}]` of your own fleet.toml"
    )]
    Ambiguous {
        /// Which step.
        step: StepId,
        /// For which provider.
        provider: ProviderKind,
        /// Between which.
        pools: String,
    },
    /// A named pool that does not do.
    #[error(
        "step `{step}` is to use the pool `{pool}`, which has no enabled profile of {provider} for workers"
    )]
    EmptyPool {
        /// Which step.
        step: StepId,
        /// Of which provider.
        provider: ProviderKind,
        /// Named in the settings.
        pool: PoolId,
    },
    /// The settings leave nobody for the tier.
    #[error(
        "step `{step}` is of tier `{tier}`, for which the settings name no provider: put {known} into `prefer` or under `[[tiers.{tier}]]`"
    )]
    Unlisted {
        /// Which step.
        step: StepId,
        /// Its tier.
        tier: Tier,
        /// What could be named.
        known: String,
    },
    /// No provider of the tier has a pool.
    #[error(
        "step `{step}` needs {providers}, and no pool has an enabled profile of it for workers"
    )]
    Nobody {
        /// Which step.
        step: StepId,
        /// What was tried.
        providers: String,
    },
    /// A review is due, and whose model the author is cannot be told.
    #[error(
        "step `{step}` needs a review by another model family, and the family of its own model is not known: name its `family`"
    )]
    AuthorUnknown {
        /// Which step.
        step: StepId,
    },
    /// A review is due, and nobody may do it.
    #[error(
        "step `{step}` needs a review by another model family than {authors}, and tier `review` has none that is known: list one under `[[tiers.review]]`, or set `review = \"off\"`"
    )]
    NoReviewer {
        /// Which step.
        step: StepId,
        /// Families that worked on it.
        authors: String,
    },
}

impl Refusal for Refused {
    fn code(&self) -> Code {
        code::PLAN_INVALID
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Outside { .. } | Self::Pinned { .. } | Self::WhoseModel { .. } => {
                "agent-fleet fleet plan --help".to_owned()
            }
            Self::Ambiguous { .. }
            | Self::EmptyPool { .. }
            | Self::NoReviewer { .. }
            | Self::AuthorUnknown { .. } => "agent-fleet pool list".to_owned(),
            Self::Unlisted { .. } => "agent-fleet fleet providers".to_owned(),
            Self::Nobody { .. } => "agent-fleet profile list".to_owned(),
        })
    }
}

/// An entry, and whether the routing fixed its model.
#[derive(Clone, Debug)]
struct Candidate {
    entry: Entry,
    pinned: bool,
}

impl Candidate {
    fn free(entry: Entry) -> Self {
        Self {
            entry,
            pinned: false,
        }
    }

    /// With the routing's model, if it has one.
    fn with(mut entry: Entry, model: Option<&str>) -> Self {
        if let Some(model) = model
            && entry.model.as_deref() != Some(model)
        {
            entry.model = Some(model.to_owned());
            // It was said of another model.
            entry.family = None;
        }
        Self {
            entry,
            pinned: model.is_some(),
        }
    }
}

impl Facts<'_> {
    fn listed(&self, tier: Tier) -> bool {
        self.settings.tiers.contains_key(&tier)
    }

    /// What a tier offers under the routing, in order of preference.
    fn candidates(&self, tier: Tier) -> Vec<Candidate> {
        let base: Vec<Entry> = match self.settings.tiers.get(&tier) {
            Some(entries) => entries.clone(),
            None => self
                .settings
                .prefer
                .iter()
                .copied()
                .map(Entry::plain)
                .collect(),
        };
        let agents: Vec<Agent> = match self.routing {
            Routing::Auto => return base.into_iter().map(Candidate::free).collect(),
            Routing::Single(provider) => vec![Agent {
                provider: *provider,
                model: None,
            }],
            Routing::Agents(agents) => agents.clone(),
        };
        let rank = |provider: ProviderKind| {
            let at = base.iter().position(|entry| entry.provider == provider);
            at.unwrap_or(base.len())
        };
        let mut found: Vec<Candidate> = Vec::new();
        for agent in &agents {
            let model = agent.model.as_deref();
            let mut own: Vec<&Entry> = base
                .iter()
                .filter(|entry| entry.provider == agent.provider)
                .collect();
            if model.is_some() {
                let same = own.iter().position(|entry| entry.model.as_deref() == model);
                own = own.get(same.unwrap_or(0)).copied().into_iter().collect();
            }
            if own.is_empty() {
                found.push(Candidate::with(Entry::plain(agent.provider), model));
            }
            found.extend(
                own.into_iter()
                    .map(|entry| Candidate::with(entry.clone(), model)),
            );
        }
        found.sort_by_key(|candidate| rank(candidate.entry.provider));
        found
    }

    /// The assignment of an entry; `None` when its provider has no pool here.
    fn resolve(
        &self,
        step: &StepId,
        role: Role,
        entry: &Entry,
        family: Option<&str>,
        tier: Option<(Option<&str>, &str)>,
    ) -> Result<Option<Assignment>, Refused> {
        let provider = entry.provider;
        let rules = self.settings.provider(provider);
        let named = entry.pool.as_ref().or(rules.pool.as_ref());
        let pool = match self.pools.find(provider, named) {
            Found::One(pool) => pool.clone(),
            Found::None => return Ok(None),
            Found::Several(pools) => {
                let pools: Vec<String> = pools.iter().map(|pool| format!("`{pool}`")).collect();
                return Err(Refused::Ambiguous {
                    step: step.clone(),
                    provider,
                    pools: pools.join(", "),
                });
            }
            Found::Without => {
                return Err(Refused::EmptyPool {
                    step: step.clone(),
                    provider,
                    pool: named.expect("only a named pool can be without").clone(),
                });
            }
        };
        Ok(Some(Assignment {
            provider,
            pool,
            model: entry.model.clone(),
            effort: entry.effort.clone(),
            family: family::resolve(family, entry.model.as_deref(), tier, rules),
            permissions: permission::arguments(self.settings, role, provider),
        }))
    }

    fn entry(
        &self,
        step: &StepId,
        role: Role,
        entry: &Entry,
    ) -> Result<Option<Assignment>, Refused> {
        let tier = entry
            .family
            .as_deref()
            .map(|family| (entry.model.as_deref(), family));
        self.resolve(step, role, entry, None, tier)
    }
}

/// Who does a step, and who else of its tier may go on with it after a limit.
pub fn assign(facts: Facts<'_>, wish: &Wish) -> Result<(Assignment, Vec<Assignment>), Refused> {
    let mut candidates = facts.candidates(wish.tier);
    if candidates.is_empty() && wish.provider.is_none() {
        let known: Vec<String> = ProviderKind::ALL
            .iter()
            .map(|kind| format!("`{kind}`"))
            .collect();
        return Err(Refused::Unlisted {
            step: wish.step.clone(),
            tier: wish.tier,
            known: known.join(" or "),
        });
    }
    if let Some(provider) = wish.provider {
        candidates.retain(|candidate| candidate.entry.provider == provider);
        if candidates.is_empty() {
            if *facts.routing != Routing::Auto {
                return Err(Refused::Outside {
                    step: wish.step.clone(),
                    provider,
                    routing: facts.routing.clone(),
                });
            }
            candidates.push(Candidate::free(Entry::plain(provider)));
        }
    }
    if let Some(model) = &wish.model {
        candidates = of_model(facts, wish, model, candidates)?;
    }
    let mut found: Vec<Assignment> = Vec::new();
    for candidate in &candidates {
        let mut entry = candidate.entry.clone();
        // An effort is a word of one provider.
        let same = found
            .first()
            .is_none_or(|first| first.provider == entry.provider);
        if same && wish.effort.is_some() {
            entry.effort.clone_from(&wish.effort);
        }
        let tier = entry
            .family
            .as_deref()
            .map(|family| (candidate.entry.model.as_deref(), family));
        let own = wish.family.as_deref().filter(|_| found.is_empty());
        let assignment = facts.resolve(&wish.step, wish.role, &entry, own, tier)?;
        found.extend(assignment.filter(|assignment| !found.contains(assignment)));
        if !found.is_empty() && !facts.listed(wish.tier) {
            break;
        }
    }
    let mut found = found.into_iter();
    if let Some(first) = found.next() {
        return Ok((first, found.collect()));
    }
    let mut providers: Vec<String> = Vec::new();
    for candidate in &candidates {
        let name = candidate.entry.provider.to_string();
        if !providers.contains(&name) {
            providers.push(name);
        }
    }
    Err(Refused::Nobody {
        step: wish.step.clone(),
        providers: providers.join(" or "),
    })
}

/// The candidates that may be started with a model.
fn of_model(
    facts: Facts<'_>,
    wish: &Wish,
    model: &str,
    candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, Refused> {
    let has = |candidate: &Candidate| candidate.entry.model.as_deref() == Some(model);
    if candidates.iter().any(has) {
        return Ok(candidates.into_iter().filter(has).collect());
    }
    let mut free = candidates.into_iter().filter(|candidate| !candidate.pinned);
    let Some(first) = free.next() else {
        return Err(Refused::Pinned {
            step: wish.step.clone(),
            model: model.to_owned(),
            routing: facts.routing.clone(),
        });
    };
    if free.any(|other| other.entry.provider != first.entry.provider) {
        return Err(Refused::WhoseModel {
            step: wish.step.clone(),
            model: model.to_owned(),
            tier: wish.tier,
        });
    }
    Ok(vec![Candidate::with(first.entry, Some(model))])
}

/// Who may review a step on which models of these families worked, in order of preference; never empty.
pub fn reviewers(
    facts: Facts<'_>,
    step: &StepId,
    authors: &[Option<String>],
) -> Result<Vec<Assignment>, Refused> {
    let Some(authors) = authors.iter().cloned().collect::<Option<Vec<String>>>() else {
        return Err(Refused::AuthorUnknown { step: step.clone() });
    };
    let mut found: Vec<Assignment> = Vec::new();
    let mut ambiguous = None;
    for candidate in facts.candidates(Tier::Review) {
        match facts.entry(step, Role::Review, &candidate.entry) {
            Ok(assignment) => found.extend(assignment.filter(|assignment| {
                let family = assignment.family.as_ref();
                family.is_some_and(|family| !authors.contains(family))
                    && !found.contains(assignment)
            })),
            // Nobody listed it, so it is in the way only where nobody else is left.
            Err(refused) if !facts.listed(Tier::Review) => ambiguous = ambiguous.or(Some(refused)),
            Err(refused) => return Err(refused),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    Err(ambiguous.unwrap_or_else(|| {
        let authors: Vec<String> = authors.iter().map(|family| format!("`{family}`")).collect();
        Refused::NoReviewer {
            step: step.clone(),
            authors: authors.join(" and "),
        }
    }))
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
