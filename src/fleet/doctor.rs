//! Why a fleet does not work here, for `fleet doctor`: what a run needs, and what runs left behind.
//!
//! Offline: local files, `git --version`, and the broker's own doctor for the logins; nothing is changed. A check
//! says what was seen and a command that can be typed.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use super::board::Board;
use super::files::{FleetFiles, RunFiles};
use super::git::Git;
use super::locate::Place;
use super::model::{Assignment, ReviewMode, Role, StepState, Tier};
use super::settings::pools::Pools;
use super::settings::route::{self, Facts, Wish};
use super::settings::{self, Settings};
use super::skill::{self, Found};
use super::start::require_registered;
use super::tree::EXCHANGE;
use super::worktree::{self, Leftover};
use crate::contract::doctor::{Check, Counts, Level};
use crate::contract::fleet::lead::FleetDoctor;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::registry::schema::Registry;
use crate::report::doctor::{Mend, doctor as broker};
use crate::sys::shell;

/// Most worktrees that are named at once.
const NAMED: usize = 5;
/// The oldest git that merges with a HEAD that moved.
const MERGING_GIT: (u32, u32) = (2, 38);

/// Looks at everything that a fleet of this checkout needs; without one, at what is the same everywhere.
pub fn doctor(context: &Context, here: &Result<Place>) -> FleetDoctor {
    let registry = crate::snapshot::registry::load(context);
    let mut checks = vec![git(context), checkout(here)];
    match &registry {
        Ok(registry) => {
            if let Ok(place) = here {
                checks.extend(of_settings(context, registry, place));
            }
            checks.extend(skills(context, registry));
        }
        Err(error) => checks.push(failed("registry", error)),
    }
    checks.push(logins(context));
    checks.push(runs(context));
    checks.push(worktrees(context, here.as_ref().ok()));
    if let Ok(place) = here {
        checks.push(merges(&place.root));
    }
    let count = |level| {
        let found = checks.iter().filter(|check| check.level == level);
        u32::try_from(found.count()).unwrap_or(u32::MAX)
    };
    let counts = Counts {
        ok: count(Level::Ok),
        warn: count(Level::Warn),
        fail: count(Level::Fail),
    };
    let worst = checks.iter().max_by_key(|check| check.level);
    FleetDoctor {
        schema: 1,
        healthy: counts.fail == 0,
        counts,
        next: worst.and_then(|check| check.fix.clone()),
        checks,
    }
}

fn check(id: &str, level: Level, evidence: impl Into<String>, fix: Option<String>) -> Check {
    Check {
        id: id.to_owned(),
        provider: None,
        level,
        evidence: evidence.into(),
        age_seconds: None,
        fix,
    }
}

fn ok(id: &str, evidence: impl Into<String>) -> Check {
    check(id, Level::Ok, evidence, None)
}

fn failed(id: &str, error: &Error) -> Check {
    check(id, Level::Fail, error.message.clone(), error.hint.clone())
}

fn git(context: &Context) -> Check {
    let said = Git::find(&context.variables, context.clock)
        .and_then(|git| git.call(&context.roots.home, &["version"]).line());
    let said = match said {
        Ok(said) => said,
        Err(error) => return failed("git", &error),
    };
    match version(&said) {
        Some(version) if version >= MERGING_GIT => ok("git", said),
        Some(_) | None => {
            let (major, minor) = MERGING_GIT;
            let evidence = format!(
                "{said}: a worktree is merged into a checkout whose HEAD moved by {major}.{minor} or newer"
            );
            check(
                "git",
                Level::Warn,
                evidence,
                Some("git --version".to_owned()),
            )
        }
    }
}

/// The first two numbers of `git version 2.39.2 …`.
fn version(said: &str) -> Option<(u32, u32)> {
    let number = said.split_whitespace().nth(2)?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn checkout(here: &Result<Place>) -> Check {
    match here {
        Ok(place) => ok("checkout", place.root.as_str()),
        Err(error) => failed("checkout", error),
    }
}

fn of_settings(context: &Context, registry: &Registry, place: &Place) -> Vec<Check> {
    let settings = match settings::load(context, registry, &place.root) {
        Ok(settings) => settings,
        Err(error) => return vec![failed("settings", &error)],
    };
    let mut checks = vec![ok("settings", "they can be read")];
    if let Err(error) = super::prompt::Templates::load(context, &place.root) {
        checks.push(failed("templates", &error));
    }
    let pools = Pools::of(registry);
    let mut providers = BTreeSet::new();
    let mut families = BTreeSet::new();
    for tier in Tier::ALL {
        let id = format!("tier_{tier}");
        match tier_of(&settings, &pools, *tier) {
            Ok(workers) => {
                providers.extend(workers.iter().map(|worker| worker.provider));
                families.extend(workers.iter().filter_map(|worker| worker.family.clone()));
                let named: Vec<String> = workers
                    .iter()
                    .map(|worker| format!("{} from `{}`", worker.provider, worker.pool))
                    .collect();
                checks.push(ok(&id, named.join(", ")));
            }
            Err(error) => checks.push(failed(&id, &error)),
        }
    }
    checks.push(reviews(&settings, &families));
    checks.push(registered(context, place, &providers));
    checks
}

/// Whether workers of these providers may work in the checkout.
fn registered(context: &Context, place: &Place, providers: &BTreeSet<ProviderKind>) -> Check {
    let refused: Vec<Error> = providers
        .iter()
        .filter_map(|kind| require_registered(context, &place.root, *kind).err())
        .collect();
    let Some(first) = refused.first() else {
        return ok("project", "its workers may work here");
    };
    let level = if refused.len() == providers.len() {
        Level::Fail
    } else {
        Level::Warn
    };
    let told: Vec<&str> = refused.iter().map(|error| error.message.as_str()).collect();
    check("project", level, told.join("; "), first.hint.clone())
}

/// Who works on a tier here, in order of preference.
pub fn tier_of(settings: &Settings, pools: &Pools, tier: Tier) -> Result<Vec<Assignment>> {
    let facts = Facts {
        settings,
        routing: &settings.routing,
        pools,
    };
    let wish = Wish {
        step: tier.word().parse()?,
        tier,
        role: match tier {
            Tier::Review => Role::Review,
            Tier::Heavy | Tier::Standard | Tier::Light => Role::Implementation,
        },
        provider: None,
        model: None,
        effort: None,
        family: None,
    };
    let (first, more) = route::assign(facts, &wish)?;
    Ok(std::iter::once(first).chain(more).collect())
}

fn reviews(settings: &Settings, families: &BTreeSet<String>) -> Check {
    let named: Vec<&str> = families.iter().map(String::as_str).collect();
    if families.len() > 1 {
        return ok("families", named.join(", "));
    }
    let evidence = match families.first() {
        Some(only) => format!("every tier has models of `{only}` alone: nobody could review them"),
        None => "no model's family is known: nobody could review them".to_owned(),
    };
    let level = match settings.options.review {
        ReviewMode::Off => Level::Warn,
        ReviewMode::CrossHeavy | ReviewMode::CrossAll => Level::Fail,
    };
    let fix = Some("agent-fleet fleet providers".to_owned());
    check("families", level, evidence, fix)
}

fn skills(context: &Context, registry: &Registry) -> Vec<Check> {
    let install = || Some("agent-fleet fleet skill install".to_owned());
    let places = skill::places(context, registry);
    let checks = places.into_iter().map(|(provider, path)| {
        let found = match skill::look(&path) {
            Ok(Found::Current) => ok("skill", path.as_str()),
            Ok(Found::Missing) => check(
                "skill",
                Level::Warn,
                format!("`{path}` is not there"),
                install(),
            ),
            Ok(Found::Different) => {
                let evidence = format!("`{path}` is another page than this program's");
                check(
                    "skill",
                    Level::Warn,
                    evidence,
                    install().map(|line| line + " --force"),
                )
            }
            Err(error) => failed("skill", &error),
        };
        Check {
            provider: Some(provider),
            ..found
        }
    });
    checks.collect()
}

/// The broker's own doctor, about the profiles that take workers.
fn logins(context: &Context) -> Check {
    let report = broker(context, Mend::Nothing);
    let routed: Vec<_> = report.profiles.iter().filter(|one| one.enabled).collect();
    let bad: Vec<String> = routed
        .iter()
        .filter(|one| one.level == Level::Fail)
        .map(|one| one.profile.to_string())
        .collect();
    let fix = Some("agent-fleet doctor".to_owned());
    if routed.is_empty() {
        return check("accounts", Level::Fail, "no account takes workers", fix);
    }
    let evidence = format!(
        "{} of {} accounts that take workers are well",
        routed.len() - bad.len(),
        routed.len()
    );
    if bad.is_empty() {
        return ok("accounts", evidence);
    }
    let level = if bad.len() == routed.len() {
        Level::Fail
    } else {
        Level::Warn
    };
    check(
        "accounts",
        level,
        format!("{evidence}; not {}", bad.join(", ")),
        fix,
    )
}

/// Runs whose records cannot be read.
fn runs(context: &Context) -> Check {
    let all = match FleetFiles::new(context).runs() {
        Ok(all) => all,
        Err(error) => return failed("runs", &error),
    };
    let mut bad = Vec::new();
    let mut fix = None;
    for files in &all {
        match Board::look(files) {
            Ok(board) if board.damaged.is_empty() && board.ledger.corrupt == 0 => {}
            Ok(board) => {
                let what = board.damaged.keys().next();
                let what = what.map_or_else(
                    || "its ledger".to_owned(),
                    |name| format!("worker `{name}`"),
                );
                bad.push(format!(
                    "run `{}` of {}: {what}",
                    files.id, board.run.repository
                ));
            }
            // Made by a command that was cut short before its record was there.
            Err(error) if error.code == code::NOT_FOUND => {}
            Err(error) => {
                bad.push(error.message);
                fix = fix.or(error.hint);
            }
        }
    }
    if bad.is_empty() {
        return ok("runs", format!("{} can be read", all.len()));
    }
    let first = all.first().and_then(|files| files.directory.parent());
    let show = first.map(|runs| format!("ls -l {}", shell::quote(runs.as_str())));
    check("runs", Level::Fail, bad.join("; "), fix.or(show))
}

/// Worktrees of steps that nobody works on any more.
fn worktrees(context: &Context, here: Option<&Place>) -> Check {
    let below = context.roots.share.join("worktrees");
    let left: Vec<Leftover> = worktree::leftovers(&below)
        .into_iter()
        .filter(|leftover| !is_in_use(context, leftover))
        .collect();
    let Some(first) = left.first() else {
        return ok("worktrees", "none is left behind");
    };
    let named: Vec<String> = left
        .iter()
        .take(NAMED)
        .map(|leftover| format!("`{}`", leftover.root))
        .collect();
    let mut evidence = format!("left behind: {}", named.join(", "));
    if let Some(more) = left.len().checked_sub(NAMED).filter(|more| *more > 0) {
        evidence = format!("{evidence}, and {more} more");
    }
    let fix = if let (Some(run), Some(step)) = (run_of(context, first), first.root.file_name()) {
        let run = run.id;
        let drop = format!("agent-fleet fleet drop {step} --run {run} --reason TEXT --discard");
        match first.record.as_ref().map(|record| &record.repository) {
            Ok(root) if here.is_none_or(|here| here.root != *root) => {
                format!("cd {} && {drop}", shell::quote(root.as_str()))
            }
            _ => drop,
        }
    } else {
        evidence += &unclaimed(first);
        format!("git -C {} status", shell::quote(first.root.as_str()))
    };
    check("worktrees", Level::Warn, evidence, Some(fix))
}

/// How a worktree is removed of which no run knows.
fn unclaimed(leftover: &Leftover) -> String {
    let root = shell::quote(leftover.root.as_str());
    let record = shell::quote(&format!("{}.json", leftover.root));
    let remove = match &leftover.record {
        Ok(known) => {
            let repository = shell::quote(known.repository.as_str());
            format!("git -C {repository} worktree remove --force --force {root}")
        }
        Err(_) => format!("rm -r {root}"),
    };
    format!("; no run knows the first: `{remove}; rm {record}` removes it with what is in it")
}

/// The run whose worktree it is, if there is one.
fn run_of(context: &Context, leftover: &Leftover) -> Option<RunFiles> {
    let name = leftover.root.parent().and_then(Utf8Path::file_name);
    let runs = FleetFiles::new(context).runs().unwrap_or_default();
    runs.into_iter()
        .find(|files| files.directory.file_name() == name)
}

/// Whether the run of a worktree goes on, or its result can still be merged.
fn is_in_use(context: &Context, leftover: &Leftover) -> bool {
    let Some(step) = leftover.root.file_name() else {
        return false;
    };
    let Some(Ok(board)) = run_of(context, leftover).as_ref().map(Board::look) else {
        return false;
    };
    let state = board
        .progress
        .iter()
        .find(|(id, _)| id.as_str() == step)
        .map(|(_, progress)| progress.state);
    match state {
        Some(StepState::Dropped) | None => false,
        Some(StepState::Verified) => true,
        Some(_) => !board.run.state.is_final(),
    }
}

/// What a merge that was cut short left in the exchange.
fn merges(root: &Utf8Path) -> Check {
    let exchange: Utf8PathBuf = root.join(EXCHANGE);
    let entries = exchange.read_dir_utf8().into_iter().flatten().flatten();
    let left: Vec<String> = entries
        .filter(|entry| entry.file_name().starts_with(".merge-"))
        .map(|entry| entry.path().to_string())
        .collect();
    match left.first() {
        None => ok("merges", "none was cut short"),
        Some(first) => {
            let evidence = format!(
                "`{first}` is what a merge left that was cut short: your files may be in it"
            );
            let fix = format!("ls -lR {}", shell::quote(first));
            check("merges", Level::Warn, evidence, Some(fix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn gits_version_is_read_with_whatever_follows_it() {
        assert_eq!(version("git version 2.39.2"), Some((2, 39)));
        assert_eq!(version("git version 2.50.1 (Apple Git-155)"), Some((2, 50)));
        assert_eq!(version("git version"), None);
        assert!(version("git version 3.0-rc1").is_none_or(|found| found >= (3, 0)));
    }
}
