//! `agent-fleet quota …`.

use std::time::Duration;

use super::watch::{Row, Watched, watch};
use super::{App, Outcome};
use crate::clock::ROUTINE;
use crate::contract::quota::QuotaList;
use crate::error::Result;
use crate::id::ProfileId;
use crate::quota::report::{Renewal, rows};
use crate::registry::schema::{Profile, Registry};
use crate::snapshot;
use crate::transaction::pending;

#[derive(Debug, clap::Args)]
pub(super) struct QuotaArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Measure anew, as often as the providers allow, and show what is left
    Refresh(Which),
    /// Show what is left of each profile's quota, measuring what has aged
    Show(Which),
    /// The same and each change, until you stop it
    Watch(WatchArguments),
}

#[derive(Debug, clap::Args)]
struct WatchArguments {
    #[command(flatten)]
    which: Which,
    /// Seconds between two looks at what is known; the providers are asked no more often for it
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = interval)]
    interval: Duration,
}

/// A number of seconds between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it must be between 0.1 and 3600".to_owned())
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Only these profiles
    #[arg(value_name = "PROFILE", conflicts_with = "all")]
    profiles: Vec<ProfileId>,
    /// Every profile; the same as naming none
    #[arg(long)]
    all: bool,
}

impl Which {
    /// The profiles that are meant, sorted by id.
    pub(super) fn of<'a>(&self, registry: &'a Registry) -> Result<Vec<&'a Profile>> {
        let mut found = if self.profiles.is_empty() {
            registry.profiles.iter().collect()
        } else {
            let named = self.profiles.iter().map(|id| registry.profile(id));
            named.collect::<Result<Vec<_>, _>>()?
        };
        found.sort_by(|one, other| one.id.cmp(&other.id));
        found.dedup_by(|one, other| one.id == other.id);
        Ok(found)
    }
}

pub(super) fn run(app: &App, arguments: &QuotaArguments) -> Result<Outcome> {
    // A login that is to be taken back is nobody's to ask about.
    let (Verb::Refresh(which)
    | Verb::Show(which)
    | Verb::Watch(WatchArguments { which, interval: _ })) = &arguments.verb;
    if !pending::fenced(&app.context)?.is_empty() {
        let registry = snapshot::registry::load(&app.context)?;
        let profiles = which.of(&registry)?.into_iter();
        app.recover(&profiles.map(|profile| profile.provider).collect())?;
    }
    match &arguments.verb {
        Verb::Refresh(which) => app.view(&look(app, which, Renewal::Everything)?),
        Verb::Show(which) => app.view(&look(app, which, Renewal::Aged)?),
        Verb::Watch(arguments) => watch(app, arguments.interval, || {
            look(app, &arguments.which, Renewal::Aged)
        }),
    }
}

fn look(app: &App, which: &Which, renewal: Renewal) -> Result<QuotaList> {
    let context = &app.context;
    let registry = snapshot::registry::load(context)?;
    let profiles = which.of(&registry)?;
    let deadline = context.clock.deadline(ROUTINE);
    Ok(QuotaList {
        quota: rows(context, &registry, &profiles, renewal, &deadline)?,
    })
}

/// What differs at each look without anything having changed.
const VOLATILE: &[&str] = &["age_seconds", "verification_age_seconds"];

impl Watched for QuotaList {
    fn rows(&self) -> Result<Vec<Row>> {
        self.quota
            .iter()
            .map(|quota| Row::new("quota", quota.profile.as_str(), quota, VOLATILE))
            .collect()
    }
}
