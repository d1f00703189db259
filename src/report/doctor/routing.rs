//! The last check of a profile: whatever is in its way must have been named. Pure.

use super::Told;
use super::finding::Finding;
use super::machine::of_error;
use super::profile::ProfileFacts;
use crate::contract::doctor::Level;
use crate::error::Class;

/// As docs/doctor.md tells of it.
pub(super) const TOLD: Told = (
    "routing",
    "what choosing would say of the profile, when none of the checks above already says why not",
    "what the sentence ends with",
);

/// Says what choosing would say, given the worst of the other checks.
pub(super) fn check(facts: &ProfileFacts, others: Level) -> Finding {
    let id = &facts.profile.id;
    let (routeability, refusal) = match &facts.routing {
        Ok((routeability, refusal)) => (routeability, refusal),
        Err(error) => return of_error(error, &format!("agent-fleet profile status {id}")),
    };
    if routeability.eligible {
        return Finding::ok(format!("it could be chosen ({})", routeability.reason));
    }
    if others != Level::Ok {
        return Finding::ok(format!("not chosen ({}): see above", routeability.reason));
    }
    let until = routeability
        .retry_at
        .map_or_else(String::new, |at| format!(", until {at}"));
    let said = refusal.as_ref().map_or_else(
        || routeability.reason.clone(),
        |error| error.message.clone(),
    );
    let fix = refusal
        .as_ref()
        .and_then(|error| error.hint.clone())
        .unwrap_or_else(|| format!("agent-fleet profile status {id}"));
    let patient = refusal
        .as_ref()
        .is_some_and(|error| error.code.class == Class::Capacity);
    if patient {
        Finding::warn(format!("{said}{until}"), fix)
    } else {
        Finding::fail(format!("{said}{until}"), fix)
    }
}
