//! Why a profile was not chosen, in rows for programs and one sentence for people. Pure.

use jiff::Timestamp;
use serde_json::json;

use super::candidate::{Asked, Eligibility};
use crate::contract::selection::Explanation;
use crate::error::{Class, Code, Error, code};
use crate::id::{PoolId, ProfileId};
use crate::sys::shell;

/// One profile's outcome in a selection.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which profile.
    pub profile: ProfileId,
    /// What routing made of it before its slots were looked at.
    pub eligibility: Eligibility,
    /// Live leases on it.
    pub live: u32,
    /// Slots.
    pub slots: u32,
    /// Least remaining percent over the windows that gate, where it is known.
    pub headroom: Option<f64>,
    /// What it was ranked by, when it was eligible.
    pub score: Option<f64>,
    /// Age of its reading in seconds.
    pub reading_age: Option<u64>,
    /// The reason in full, where more is known than its code says.
    pub said: Option<Error>,
}

impl Outcome {
    /// The reason with a full profile counted as refused.
    pub(super) fn refusal(&self) -> Option<(Code, Option<Timestamp>)> {
        match &self.eligibility {
            Eligibility::Refused { code, retry_at } => Some((*code, *retry_at)),
            Eligibility::Eligible { .. } if self.live >= self.slots => Some((code::CAPACITY, None)),
            Eligibility::Eligible { .. } => None,
        }
    }

    /// Whether the profile could take the task now.
    pub(super) fn is_free(&self) -> bool {
        self.refusal().is_none()
    }

    /// The row for `--explain`.
    pub fn row(&self) -> Explanation {
        let refusal = self.refusal();
        let word = match &self.eligibility {
            Eligibility::Eligible { basis, .. } => basis.word(),
            Eligibility::Refused { code, .. } => code.name,
        };
        Explanation {
            profile: self.profile.clone(),
            eligible: refusal.is_none(),
            reason: refusal.map_or(word, |(code, _)| code.name).to_owned(),
            headroom_percent: self.headroom,
            active_leases: self.live,
            score: self.score,
            reading_age_seconds: self.reading_age,
            retry_at: refusal.and_then(|(_, retry_at)| retry_at),
        }
    }
}

/// What stands in the way, as the end of "profile `x` …".
fn phrase(code: Code) -> &'static str {
    match code.name {
        "profile_disabled" => "is disabled",
        "policy" => "is not for workers",
        "not_provisioned" => "has a home that is not set up for workers",
        "workspace_untrusted" => {
            "may not work there: the workspace is not a registered project of its provider"
        }
        "identity_changed" => {
            "is quarantined: its home holds another account than before (identity_changed)"
        }
        "login_expired" => "has a login that is past its life",
        "auth_broken" => "has a login that no longer works",
        "identity_unproven" => {
            "is not proved: nobody could ask the server which account its home holds"
        }
        "duplicate_provider_identity" => {
            "holds the same account as another profile (duplicate_provider_identity)"
        }
        "base_identity" => {
            "holds the account of the base CLI login (duplicate_provider_identity: base_identity)"
        }
        "base_identity_unverified" => {
            "cannot be told from the base CLI login, which cannot be proved (base_identity_unverified)"
        }
        "desktop_identity" => {
            "holds the account of the Desktop app (duplicate_provider_identity: desktop_identity)"
        }
        "desktop_identity_unverified" => {
            "cannot be told from the Desktop login, which cannot be read (duplicate_provider_identity: desktop_identity_unverified)"
        }
        "auth_override" => "has settings that would replace its login",
        "exposed" => "has a home that others could change",
        "money_guard" => "would spend money outside its subscription",
        "draining" => "is draining",
        "cooldown" => "waits for a limit to reset",
        "capacity" => "has no free slot",
        "transaction_pending" => "is of a provider of which a login's change was cut short",
        "quota_reserve" => "is at or below its reserve",
        "quota_unavailable" => "has no quota reading to route by",
        _ => "cannot take it",
    }
}

/// One profile's reason as a sentence, and the command that gets rid of it.
pub(super) fn told(
    profile: &ProfileId,
    code: Code,
    said: Option<&Error>,
    workspace: &str,
) -> (String, String) {
    let said = said.filter(|error| error.code == code);
    let sentence = said.map_or_else(
        || format!("profile `{profile}` {}", phrase(code)),
        |error| error.message.clone(),
    );
    let cure = said
        .and_then(|error| error.hint.clone())
        .unwrap_or_else(|| cure(code, profile, workspace));
    (sentence, cure)
}

/// The command that gets rid of a reason.
fn cure(code: Code, profile: &ProfileId, workspace: &str) -> String {
    match code.name {
        "profile_disabled" => format!("agent-fleet profile enable {profile}"),
        "policy" => format!("agent-fleet profile policy {profile} --safety-policy worker"),
        "not_provisioned" => format!("agent-fleet profile provision {profile}"),
        "workspace_untrusted" => {
            format!("agent-fleet project register {}", shell::quote(workspace))
        }
        "draining" => format!("agent-fleet profile undrain {profile}"),
        "quota_unavailable" => format!("agent-fleet quota refresh {profile}"),
        "capacity" => "agent-fleet lease list".to_owned(),
        "identity_unproven" | "identity_changed" => {
            format!("agent-fleet profile verify {profile}")
        }
        "auth_broken"
        | "login_expired"
        | "duplicate_provider_identity"
        | "base_identity"
        | "desktop_identity" => format!("agent-fleet profile enroll {profile}"),
        "desktop_identity_unverified" => {
            "agent-fleet config set providers.claude.desktop_identity_file false".to_owned()
        }
        _ => format!("agent-fleet profile status {profile}"),
    }
}

/// The refusal of a selection in which nobody could take the task.
///
/// One profile's reason speaks for itself. Several speak together: by their common code, or as
/// `all_exhausted` when waiting helps any of them, or else by the first that a person must settle.
pub fn refusal(outcomes: &[Outcome], asked: &Asked, workspace: &str) -> Error {
    let reasons: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.refusal()?)))
        .collect();
    let Some((first, (first_code, _))) = reasons.first() else {
        return empty(&asked.pool, asked.profile.as_ref());
    };
    let retry_at = reasons.iter().filter_map(|(_, (_, at))| *at).min();
    let same = reasons.iter().all(|(_, (code, _))| code == first_code);
    let patient = reasons
        .iter()
        .find(|(_, (code, _))| code.class == Class::Capacity);
    let (speaker, code) = match patient {
        _ if same => (first, *first_code),
        Some((outcome, _)) => (outcome, code::ALL_EXHAUSTED),
        None => reasons
            .iter()
            .find(|(_, (code, _))| code.class == Class::Identity)
            .map_or((first, *first_code), |(outcome, (code, _))| {
                (outcome, *code)
            }),
    };
    let told = |outcome: &Outcome, code: Code| {
        told(&outcome.profile, code, outcome.said.as_ref(), workspace)
    };
    let message = if reasons.len() == 1 {
        told(first, *first_code).0
    } else {
        let each: Vec<_> = reasons
            .iter()
            .map(|(outcome, (code, _))| told(outcome, *code).0)
            .collect();
        format!(
            "no profile of pool `{}` can take the task: {}",
            asked.pool,
            each.join("; ")
        )
    };
    // What opens a slot soonest is in the pool's page, unless a person closed it.
    let cured = if code == code::ALL_EXHAUSTED && retry_at.is_some() {
        format!("agent-fleet pool status --pool {}", asked.pool)
    } else if code == code::ALL_EXHAUSTED {
        told(speaker, speaker.refusal().map_or(code, |(own, _)| own)).1
    } else {
        told(speaker, code).1
    };
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| json!(outcome.row()))
        .collect();
    let refused = Error::new(code, message)
        .hint(cured)
        .detail("explain", rows)
        .retry_at(retry_at);
    match &asked.model {
        Some(model) => refused.detail("model", model.as_str()),
        None => refused,
    }
}

/// The refusal of a task that would be moved a second time because of a limit per minute.
pub fn paced<'a>(
    outcomes: &[Outcome],
    asked: &Asked,
    resting: impl Iterator<Item = &'a ProfileId>,
    until: Timestamp,
) -> Error {
    let resting: Vec<_> = resting.map(|profile| format!("`{profile}`")).collect();
    let message = format!(
        "profiles {} rest from a limit per minute, and the task comes from one of them: a third would only \
         take the limit along",
        resting.join(" and ")
    );
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| json!(outcome.row()))
        .collect();
    Error::new(code::COOLDOWN, message)
        .hint(format!("agent-fleet pool status --pool {}", asked.pool))
        .detail("explain", rows)
        .retry_at(Some(until))
}

/// The refusal of a selection that could be served if others were not waiting for the same slots.
pub fn outwaited(outcomes: &[Outcome], asked: &Asked, ahead: usize) -> Error {
    let free: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.is_free())
        .map(|outcome| format!("`{}`", outcome.profile))
        .collect();
    let (wait, profiles) = match (ahead, free.len()) {
        (1, 1) => ("one that waits is", "profile"),
        (1, _) => ("one that waits is", "profiles"),
        (_, 1) => ("others that wait are", "profile"),
        (_, _) => ("others that wait are", "profiles"),
    };
    let message = format!(
        "every slot of pool `{}` is taken or spoken for: {wait} ahead for {profiles} {}",
        asked.pool,
        free.join(", ")
    );
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| json!(outcome.row()))
        .collect();
    Error::new(code::CAPACITY, message)
        .hint("agent-fleet lease list")
        .detail("explain", rows)
        .detail("waiting", ahead)
}

fn empty(pool: &PoolId, profile: Option<&ProfileId>) -> Error {
    match profile {
        Some(profile) => Error::new(
            code::NOT_FOUND,
            format!("profile `{profile}` is not in the pool `{pool}`"),
        )
        .hint(format!(
            "agent-fleet profile policy {profile} --pool {pool}"
        )),
        None => Error::new(
            code::NOT_FOUND,
            format!("no profile is in the pool `{pool}`"),
        )
        .hint("agent-fleet pool list"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, outwaited, refusal};
    use crate::choose::candidate::tests::asked;
    use crate::choose::candidate::{Basis, Eligibility};
    use crate::error::{Code, code};

    fn outcome(id: &str, eligibility: Eligibility) -> Outcome {
        Outcome {
            profile: id.parse().unwrap(),
            eligibility,
            live: 0,
            slots: 1,
            headroom: None,
            score: None,
            reading_age: None,
            said: None,
        }
    }

    fn refused(code: Code, retry_at: Option<&str>) -> Eligibility {
        Eligibility::Refused {
            code,
            retry_at: retry_at.map(|at| at.parse().unwrap()),
        }
    }

    #[test]
    fn one_reason_speaks_for_itself_and_several_for_the_pool() {
        let one = refusal(
            &[outcome(
                "a",
                refused(code::COOLDOWN, Some("2026-01-01T05:00:00Z")),
            )],
            &asked(),
            "/w",
        );
        assert_eq!(one.code, code::COOLDOWN);
        assert_eq!(one.retry_at.unwrap().to_string(), "2026-01-01T05:00:00Z");
        let mixed = [
            outcome("a", refused(code::IDENTITY_CHANGED, None)),
            outcome(
                "b",
                refused(code::QUOTA_RESERVE, Some("2026-01-01T07:00:00Z")),
            ),
            outcome("c", refused(code::COOLDOWN, Some("2026-01-01T06:00:00Z"))),
        ];
        let error = refusal(&mixed, &asked(), "/w");
        assert_eq!(
            (error.code, error.retry_at.unwrap().to_string().as_str()),
            (code::ALL_EXHAUSTED, "2026-01-01T06:00:00Z")
        );
        assert_eq!(error.details["explain"].as_array().unwrap().len(), 3);
        let waiting = error.hint.unwrap();
        assert!(waiting.starts_with("agent-fleet pool status"), "{waiting}");
        let closed = [
            outcome("a", refused(code::PROFILE_DISABLED, None)),
            outcome("b", refused(code::DRAINING, None)),
        ];
        let error = refusal(&closed, &asked(), "/w");
        assert_eq!(error.code, code::ALL_EXHAUSTED);
        assert_eq!(
            error.hint.unwrap(),
            "agent-fleet profile undrain b",
            "waiting would not help"
        );
    }

    #[test]
    fn a_full_profile_is_capacity() {
        let full = Outcome {
            live: 1,
            ..outcome(
                "a",
                Eligibility::Eligible {
                    headroom: Some(50.0),
                    basis: Basis::Fresh,
                },
            )
        };
        let error = refusal(&[full], &asked(), "/w");
        assert_eq!(error.code, code::CAPACITY);
    }

    #[test]
    fn a_free_profile_that_others_wait_for_is_capacity_and_says_who_is_ahead() {
        let free = outcome(
            "a",
            Eligibility::Eligible {
                headroom: Some(50.0),
                basis: Basis::Fresh,
            },
        );
        let error = outwaited(&[free], &asked(), 2);
        assert_eq!(error.code, code::CAPACITY);
        assert_eq!(error.details["waiting"], 2);
        assert_eq!(
            error.message,
            "every slot of pool `crew` is taken or spoken for: others that wait are ahead for profile `a`"
        );
    }

    #[test]
    fn desktop_overlap_keeps_the_phrase_that_supervisors_match_on() {
        for code in [
            code::DESKTOP_IDENTITY,
            code::DESKTOP_IDENTITY_UNVERIFIED,
            code::BASE_IDENTITY,
        ] {
            let error = refusal(&[outcome("a", refused(code, None))], &asked(), "/w");
            assert!(
                error.message.contains("duplicate_provider_identity"),
                "{}",
                error.message
            );
        }
    }
}
