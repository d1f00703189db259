//! `agent-fleet fleet providers`, `doctor` and `skill install`: what is settled here, and whether it works.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{App, Ground, Outcome};
use crate::contract::fleet::lead::{
    FleetProvider, FleetSettings, SkillInstalled, SkillsInstalled, TierSettings, TierWorker,
};
use crate::error::{Error, Result, code};
use crate::fleet::doctor;
use crate::fleet::locate::Place;
use crate::fleet::model::{Assignment, Role, Tier};
use crate::fleet::settings::permission;
use crate::fleet::settings::pools::Pools;
use crate::fleet::skill::{self, Found};
use crate::id::ProviderKind;

#[derive(Debug, clap::Args)]
pub(super) struct SkillArguments {
    #[command(subcommand)]
    verb: SkillVerb,
}

#[derive(Debug, clap::Subcommand)]
enum SkillVerb {
    /// Put the page that teaches a coding agent to lead a fleet where your CLIs read such pages
    Install(SkillInstallArguments),
}

#[derive(Debug, clap::Args)]
struct SkillInstallArguments {
    /// Another directory of skills
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Replace a page that is not this program's
    #[arg(long)]
    force: bool,
}

pub(super) fn providers(app: &App) -> Result<Outcome> {
    let place = Place::here(&app.context)?;
    let Ground {
        registry, settings, ..
    } = Ground::of(app, &place)?;
    let pools = Pools::of(&registry);
    let tiers = Tier::ALL.iter().map(|tier| {
        let found = match doctor::tier_of(&settings, &pools, *tier) {
            Ok(workers) => TierSettings {
                workers: workers.into_iter().map(worker).collect(),
                problem: None,
            },
            Err(error) => TierSettings {
                workers: Vec::new(),
                problem: Some(error.message),
            },
        };
        (tier.word().to_owned(), found)
    });
    let tiers: BTreeMap<String, TierSettings> = tiers.collect();
    let permissions = |role, kind: ProviderKind| permission::arguments(&settings, role, kind);
    let providers = settings
        .providers
        .iter()
        .map(|(kind, rules)| FleetProvider {
            provider: *kind,
            family: rules.family.clone(),
            model_families: rules.model_families.clone(),
            max: rules.max,
            pool: rules.pool.clone(),
            implementation_permissions: permissions(Role::Implementation, *kind),
            review_permissions: permissions(Role::Review, *kind),
        });
    let options = &settings.options;
    app.view(&FleetSettings {
        schema: 1,
        max_parallel: options.max_parallel,
        review: options.review.word().to_owned(),
        accept: options.accept.word().to_owned(),
        on_failure: options.on_failure.word().to_owned(),
        max_attempts: options.max_attempts,
        r#continue: options.going.word().to_owned(),
        sticky_max_seconds: options.sticky_max_seconds,
        routing: settings.routing.to_string(),
        prefer: settings.prefer.clone(),
        tiers,
        providers: providers.collect(),
        on_event: settings.on_event.clone(),
    })
}

fn worker(assignment: Assignment) -> TierWorker {
    TierWorker {
        provider: assignment.provider,
        pool: assignment.pool,
        model: assignment.model,
        effort: assignment.effort,
        family: assignment.family,
    }
}

pub(super) fn doctor(app: &App) -> Result<Outcome> {
    let here = Place::here(&app.context);
    app.view(&doctor::doctor(&app.context, &here))
}

pub(super) fn skill(app: &App, arguments: &SkillArguments) -> Result<Outcome> {
    let SkillVerb::Install(arguments) = &arguments.verb;
    let context = &app.context;
    let places: Vec<(Option<ProviderKind>, _)> = if let Some(directory) = &arguments.dir {
        let directory = crate::registry::project::absolute(context, directory)?;
        vec![(None, skill::below(&directory))]
    } else {
        let registry = crate::snapshot::registry::load(context)?;
        let places = skill::places(context, &registry).into_iter();
        places.map(|(kind, path)| (Some(kind), path)).collect()
    };
    if places.is_empty() {
        let message = "neither Claude Code nor Codex has a home of yours here";
        return Err(Error::new(code::NOT_FOUND, message)
            .hint("agent-fleet fleet skill install --dir DIRECTORY"));
    }
    // All or nothing, as far as it can be known before.
    for (_, path) in &places {
        if !arguments.force && skill::look(path)? == Found::Different {
            skill::install(path, false)?;
        }
    }
    let mut skills = Vec::new();
    for (provider, path) in places {
        let outcome = match skill::install(&path, arguments.force)? {
            Found::Missing => "written",
            Found::Current => "unchanged",
            Found::Different => "replaced",
        };
        skills.push(SkillInstalled {
            provider,
            path,
            outcome: outcome.to_owned(),
        });
    }
    app.view(&SkillsInstalled { schema: 1, skills })
}
