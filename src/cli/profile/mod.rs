//! `agent-fleet profile …`: one file per verb.

mod add;
mod auth_status;
mod cooldown;
mod drain;
mod enable;
mod enroll;
mod identity;
mod import;
mod list;
mod policy;
mod provision;
mod remove;
mod status;
mod verify;

use super::{App, Outcome};
use crate::contract::profile::Profile;
use crate::error::Result;
use crate::id::ProfileId;
use crate::registry::edit::Changed;
use crate::registry::schema;
use crate::render::View;
use crate::render::page::{Page, Role, paint};

#[derive(Debug, clap::Args)]
pub(super) struct ProfileArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Add a profile, disabled
    Add(add::AddArguments),
    /// Show what the credential files say, without asking or starting anybody
    AuthStatus(auth_status::AuthStatusArguments),
    /// Let a profile rest: no new leases until it ends by itself
    Cooldown(cooldown::CooldownArguments),
    /// End what a limit left: a cooldown, or a block after a failed payment
    CooldownClear(Which),
    /// Take a profile out of routing; work that runs goes on
    Disable(Which),
    /// Take no new leases on a profile, keeping it enabled
    Drain(drain::DrainArguments),
    /// Put a profile into routing, or say what is in the way
    Enable(Which),
    /// Whose account a profile holds
    Identity(identity::IdentityArguments),
    /// Log in: give a profile its own login, proved before it takes the place of the old one
    #[command(visible_alias = "login")]
    Enroll(enroll::EnrollArguments),
    /// Add profiles for the accounts of another tool's list, disabled; no login is copied
    Import(import::ImportArguments),
    /// List the profiles
    List,
    /// Change what a profile may be used for, and how much
    Policy(policy::PolicyArguments),
    /// Make or repair the home: hooks, links, inherited settings; never a login
    Provision(OneOrAll),
    /// Take a profile out of the registry; its login is never deleted
    Remove(remove::RemoveArguments),
    /// Show everything about a profile: login, quota, leases, and whether it would be chosen
    Status(status::StatusArguments),
    /// End a drain
    Undrain(Which),
    /// Prove whose login is in the home, by asking the provider once
    Verify(verify::VerifyArguments),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Which profile
    #[arg(value_name = "PROFILE")]
    id: ProfileId,
}

#[derive(Debug, clap::Args)]
struct OneOrAll {
    /// Which profile
    #[arg(
        value_name = "PROFILE",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    id: Option<ProfileId>,
    /// Every profile
    #[arg(long)]
    all: bool,
}

impl OneOrAll {
    /// The profiles that are meant, sorted by id.
    fn of<'a>(&self, registry: &'a schema::Registry) -> Result<Vec<&'a schema::Profile>> {
        let mut profiles = match &self.id {
            Some(id) => vec![registry.profile(id)?],
            None => registry.profiles.iter().collect(),
        };
        profiles.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(profiles)
    }
}

pub(super) fn run(app: &App, arguments: ProfileArguments) -> Result<Outcome> {
    match arguments.verb {
        Verb::Add(arguments) => add::run(app, arguments),
        Verb::AuthStatus(arguments) => auth_status::run(app, &arguments),
        Verb::Cooldown(arguments) => cooldown::set(app, &arguments),
        Verb::CooldownClear(which) => cooldown::clear(app, &which.id),
        Verb::Disable(which) => enable::disable(app, &which.id),
        Verb::Drain(arguments) => drain::drain(app, &arguments),
        Verb::Enable(which) => enable::enable(app, &which.id),
        Verb::Identity(arguments) => identity::run(app, &arguments),
        Verb::Enroll(arguments) => enroll::run(app, &arguments),
        Verb::Import(arguments) => import::run(app, &arguments),
        Verb::List => list::run(app),
        Verb::Policy(arguments) => policy::run(app, arguments),
        Verb::Provision(arguments) => provision::run(app, &arguments),
        Verb::Remove(arguments) => remove::run(app, &arguments),
        Verb::Status(arguments) => status::run(app, &arguments),
        Verb::Undrain(which) => drain::undrain(app, &which.id),
        Verb::Verify(arguments) => verify::run(app, &arguments),
    }
}

/// A profile's name on a page.
fn name(id: &ProfileId) -> String {
    paint(Role::Literal, id.as_str())
}

/// The answer of a command that changed one profile: people get the page, programs the profile.
fn told(app: &App, changed: &Changed<schema::Profile>, page: Page) -> Result<Outcome> {
    app.notes(&changed.notes);
    let profile = Profile::from(&changed.answer);
    Ok(Outcome::View(View::with_page(
        &profile,
        || page,
        app.format,
    )?))
}

/// The answer of a command that changed one profile, with all its fields.
fn answer(app: &App, changed: &Changed<schema::Profile>) -> Result<Outcome> {
    app.notes(&changed.notes);
    app.view(&Profile::from(&changed.answer))
}
