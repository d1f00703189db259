//! Why something does not work, for `doctor`: one small pure check after the other over what was seen.
//!
//! Offline: local files and `/proc` only; no provider process is started and no server asked. Without
//! `--fix` nothing is changed but that new evidence of workers is taken in. A check says what was seen, how old
//! that is, and a command that can be typed.
//!
//! Limits: what only the server knows is as old as the last time it was asked; `profile verify` and
//! `quota refresh` ask it. A file that changes while it is looked at may be seen either way.

mod finding;
mod fix;
mod home;
mod leftover;
mod login;
mod look;
mod look_profile;
mod machine;
mod profile;
mod routing;
mod storage;

use crate::contract::doctor::{Check, Counts, Doctor, Fixed, Level, ProfileChecks};
use crate::env::Context;
use crate::error::Result;
use crate::lease::Listing;
use crate::provider::inhabitant::Host;
use crate::registry::schema::{Profile, Registry, SafetyPolicy};
use finding::Rule;
use profile::ProfileFacts;

/// Whether anything may be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Only look.
    Nothing,
    /// What is safe and provably ours.
    Safe,
}

/// A check as docs/doctor.md tells of it: id, what it looks at, what helps.
pub type Told = (&'static str, &'static str, &'static str);

/// Every check of the machine and of each provider, in the order of the answer.
pub fn machine_checks() -> Vec<Told> {
    let mut all: Vec<Told> = told(storage::RULES);
    all.extend(told(machine::MACHINE));
    all.extend(told(machine::PROVIDER));
    all
}

/// Every check of a profile, in the order of the answer.
pub fn profile_checks() -> Vec<Told> {
    let mut all = told(home::RULES);
    all.extend(told(login::RULES));
    all.push(routing::TOLD);
    all
}

fn told<F: ?Sized>(rules: &[Rule<F>]) -> Vec<Told> {
    rules
        .iter()
        .map(|rule| (rule.id, rule.looks_at, rule.cure))
        .collect()
}

/// What was seen of everything.
struct Seen {
    machine: Vec<Check>,
    profiles: Vec<(ProfileFacts, ProfileChecks)>,
}

/// Looks at everything; with [`Mend::Safe`] mends what is safe to mend first.
pub fn doctor(context: &Context, mend: Mend) -> Doctor {
    let mut fixed = Vec::new();
    if mend == Mend::Safe {
        let before = see(context);
        fixed = fix::mend(context, before.profiles.iter().map(|(facts, _)| facts));
    }
    put_together(context, see(context), fixed)
}

fn see(context: &Context) -> Seen {
    let registry = look::registry(context);
    let leases = look::leases(context);
    let facts = look::machine(
        context,
        registry
            .as_ref()
            .map(|(registry, notes)| (registry, notes.as_slice())),
        leases.as_ref(),
    );
    let folders = look::folders(context);
    let mut machine = decide(storage::RULES, folders.as_slice());
    machine.extend(decide(machine::MACHINE, &facts));
    let Ok((registry, _)) = &registry else {
        return Seen {
            machine,
            profiles: Vec::new(),
        };
    };
    let nothing = Listing::default();
    let listing = leases.as_ref().unwrap_or(&nothing);
    let mut profiles = Vec::new();
    let host = Host::look();
    for settings in &registry.providers {
        let (facts, known) = look::provider(context, registry, settings);
        let outcomes = decide(machine::PROVIDER, &facts).into_iter();
        machine.extend(outcomes.map(|check| Check {
            provider: Some(settings.kind),
            ..check
        }));
        for profile in registry.of(settings.kind) {
            let leases = (listing.leases.as_slice(), &host);
            let facts = look_profile::look(context, registry, profile, &known, leases);
            let outcome = checks(&facts);
            profiles.push((facts, outcome));
        }
    }
    profiles.sort_by(|one, other| one.1.profile.cmp(&other.1.profile));
    Seen { machine, profiles }
}

fn decide<F: ?Sized>(rules: &[Rule<F>], facts: &F) -> Vec<Check> {
    rules
        .iter()
        .map(|rule| (rule.decide)(facts).check(rule.id, None))
        .collect()
}

fn checks(facts: &ProfileFacts) -> ProfileChecks {
    let profile = &facts.profile;
    let mut checks = decide(home::RULES, facts);
    checks.extend(decide(login::RULES, facts));
    let level = worst(&checks);
    checks.push(routing::check(facts, level).check(routing::TOLD.0, None));
    ProfileChecks {
        profile: profile.id.clone(),
        provider: profile.provider,
        enabled: profile.enabled && profile.safety_policy == SafetyPolicy::Worker,
        level: worst(&checks),
        checks,
    }
}

fn worst(checks: &[Check]) -> Level {
    let levels = checks.iter().map(|check| check.level);
    levels.max().unwrap_or(Level::Ok)
}

fn put_together(context: &Context, seen: Seen, fixed: Vec<Fixed>) -> Doctor {
    let profiles: Vec<ProfileChecks> = seen
        .profiles
        .into_iter()
        .map(|(_, checks)| checks)
        .collect();
    let mut counts = Counts::default();
    for check in seen
        .machine
        .iter()
        .chain(profiles.iter().flat_map(|profile| &profile.checks))
    {
        match check.level {
            Level::Ok => counts.ok += 1,
            Level::Warn => counts.warn += 1,
            Level::Fail => counts.fail += 1,
        }
    }
    let none = !profiles.iter().any(|profile| profile.enabled);
    let mut counted = profiles.iter().filter(|profile| none || profile.enabled);
    let healthy =
        worst(&seen.machine) != Level::Fail && counted.all(|profile| profile.level != Level::Fail);
    Doctor {
        schema: 1,
        generated_at: context.clock.now(),
        healthy,
        counts,
        next: next(&seen.machine, &profiles),
        fixed,
        machine: seen.machine,
        profiles,
    }
}

/// The fix of the worst finding: the machine's before a routed profile's before another's.
fn next(machine: &[Check], profiles: &[ProfileChecks]) -> Option<String> {
    let of = |enabled: bool| {
        profiles
            .iter()
            .filter(move |profile| profile.enabled == enabled)
            .flat_map(|profile| &profile.checks)
    };
    let all = || machine.iter().chain(of(true)).chain(of(false));
    [Level::Fail, Level::Warn]
        .into_iter()
        .find_map(|level| all().find(|check| check.level == level)?.fix.clone())
}

/// What the registry says of a profile now; for a fix that comes after a look.
fn profile_of(context: &Context, facts: &ProfileFacts) -> Result<(Registry, Profile)> {
    let (registry, _) = look::registry(context)?;
    let profile = registry.profile(&facts.profile.id)?.clone();
    Ok((registry, profile))
}

#[cfg(test)]
mod tests;
