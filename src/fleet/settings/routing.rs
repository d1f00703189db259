//! The words that say which providers a run may use: `auto`, `single:PROVIDER` or `agents=PROVIDER[:MODEL],…`. Pure.

use std::fmt;
use std::str::FromStr;

use crate::id::ProviderKind;
use crate::registry::shape::is_name;

/// Which providers and models a run may use, for work and for reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Whatever the tiers list.
    Auto,
    /// One provider.
    Single(ProviderKind),
    /// These, each with its only model where one is named.
    Agents(Vec<Agent>),
}

/// One of the providers of a routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Which service.
    pub provider: ProviderKind,
    /// The only model that may be used of it.
    pub model: Option<String>,
}

/// A routing that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be `auto`, `single:PROVIDER` or `agents=PROVIDER[:MODEL],…`, with the providers claude, codex and scripted"
)]
pub struct InvalidRouting;

impl FromStr for Routing {
    type Err = InvalidRouting;

    fn from_str(text: &str) -> Result<Self, InvalidRouting> {
        let provider = |name: &str| name.trim().parse().map_err(|_| InvalidRouting);
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(name) = text.strip_prefix("single:") {
            return provider(name).map(Self::Single);
        }
        let listed = text.strip_prefix("agents=").ok_or(InvalidRouting)?;
        let mut agents: Vec<Agent> = Vec::new();
        for item in listed.split(',') {
            let (name, model) = match item.split_once(':') {
                Some((name, model)) if is_name(model.trim()) => {
                    (name, Some(model.trim().to_owned()))
                }
                Some(_) => return Err(InvalidRouting),
                None => (item, None),
            };
            let agent = Agent {
                provider: provider(name)?,
                model,
            };
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        Ok(Self::Agents(agents))
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Single(provider) => write!(formatter, "single:{provider}"),
            Self::Agents(agents) => {
                for (at, agent) in agents.iter().enumerate() {
                    formatter.write_str(if at == 0 { "agents=" } else { "," })?;
                    write!(formatter, "{}", agent.provider)?;
                    if let Some(model) = &agent.model {
                        write!(formatter, ":{model}")?;
                    }
                }
                Ok(())
            }
        }
    }
}
