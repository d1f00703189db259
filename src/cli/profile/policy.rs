//! `agent-fleet profile policy PROFILE …`.

use super::{App, Outcome, answer};
use crate::error::{Error, Result, code};
use crate::id::{PoolId, ProfileId};
use crate::registry::profiles::{self, Wanted};
use crate::registry::schema::{Credential, SafetyPolicy};

#[derive(Debug, clap::Args)]
pub(super) struct PolicyArguments {
    /// Which profile
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
    #[command(flatten)]
    wanted: WantedArguments,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct WantedArguments {
    /// Pool that it joins, instead of those it is in; may be repeated
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<PoolId>,
    /// Preference: each step above 1 is worth five points of headroom
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Most workers at once
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
    /// Percent of each window that routing leaves untouched
    #[arg(long, value_name = "PERCENT")]
    reserve_percent: Option<f64>,
    /// `home`: the CLI's own login in the home; `setup-token`: Claude's long-lived token; `api-key`: paid as it is used
    #[arg(long, value_name = "KIND", value_parser = credential)]
    credential: Option<Credential>,
    /// `worker`, `manual_only` or `desktop_shared`
    #[arg(long, value_name = "POLICY", value_parser = safety_policy)]
    safety_policy: Option<SafetyPolicy>,
    /// Whether usage beyond the subscription may be paid for
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    allow_overage: Option<bool>,
}

fn credential(word: &str) -> Result<Credential, String> {
    Credential::from_word(word)
        .ok_or_else(|| format!("must be one of {}", Credential::WORDS.join(", ")))
}

fn safety_policy(word: &str) -> Result<SafetyPolicy, String> {
    SafetyPolicy::from_word(word)
        .ok_or_else(|| format!("must be one of {}", SafetyPolicy::WORDS.join(", ")))
}

impl From<WantedArguments> for Wanted {
    fn from(arguments: WantedArguments) -> Self {
        Self {
            pools: Some(arguments.pools).filter(|pools| !pools.is_empty()),
            weight: arguments.weight,
            max_concurrent: arguments.max_concurrent,
            reserve_percent: arguments.reserve_percent,
            credential: arguments.credential,
            safety_policy: arguments.safety_policy,
            allow_overage: arguments.allow_overage,
        }
    }
}

pub(super) fn run(app: &App, arguments: PolicyArguments) -> Result<Outcome> {
    let wanted = Wanted::from(arguments.wanted);
    if wanted == Wanted::default() {
        return Err(Error::new(code::USAGE, "nothing was asked to be changed")
            .hint("agent-fleet profile policy --help"));
    }
    answer(
        app,
        &profiles::policy(&app.context, &arguments.id, &wanted)?,
    )
}
