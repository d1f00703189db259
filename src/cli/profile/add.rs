//! `agent-fleet profile add PROFILE --provider P`.

use std::path::PathBuf;

use super::policy::WantedArguments;
use super::{App, Outcome, name, told};
use crate::clock::ROUTINE;
use crate::error::Result;
use crate::id::{ProfileId, ProviderKind};
use crate::registry::profiles::{self, Addition, Home};
use crate::registry::project;
use crate::registry::schema::SafetyPolicy;
use crate::render::page::Page;
use crate::render::words;
use crate::snapshot::durable;

#[derive(Debug, clap::Args)]
pub(super) struct AddArguments {
    /// Its id: letters, digits, `.`, `_` and `-`; never an e-mail address
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
    /// Its provider: claude, codex or scripted
    #[arg(long)]
    provider: ProviderKind,
    /// Its home; below the share root when absent
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Take a home that holds a login already; it stays where it is
    #[arg(long)]
    in_place: bool,
    #[command(flatten)]
    wanted: WantedArguments,
}

pub(super) fn run(app: &App, arguments: AddArguments) -> Result<Outcome> {
    let home = arguments
        .home
        .map(|home| project::absolute(&app.context, &home))
        .transpose()?;
    let addition = Addition {
        id: arguments.id,
        provider: arguments.provider,
        home,
        state: if arguments.in_place {
            Home::InPlace
        } else {
            Home::New
        },
        wanted: arguments.wanted.into(),
    };
    let forget = || {
        let deadline = app.context.clock.deadline(ROUTINE);
        durable::forget(&app.context, addition.provider, &addition.id, &deadline)
    };
    let changed = profiles::add(&app.context, &addition, forget)?;
    let profile = &changed.answer;
    let id = &profile.id;
    let next = match (addition.state, profile.safety_policy) {
        (Home::InPlace, SafetyPolicy::Worker) => format!("agent-fleet profile enroll {id} --adopt"),
        (Home::New, SafetyPolicy::Worker) => format!("agent-fleet profile enroll {id}"),
        (Home::InPlace | Home::New, SafetyPolicy::ManualOnly | SafetyPolicy::DesktopShared) => {
            format!("agent-fleet profile provision {id}")
        }
    };
    let page = Page::new()
        .line(format!(
            "added {}, disabled; its home is {}",
            name(&profile.id),
            words::plain(profile.home.as_str())
        ))
        .next(&next);
    told(app, &changed, page)
}
