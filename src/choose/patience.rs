//! Whether waiting can help. Pure.

use super::explain::Outcome;
use crate::error::{Code, code};

/// What a refused selection can hope for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Some profile comes free by itself: a slot, a window, a cooldown; or a drain ends, which whoever drains
    /// means to end.
    Time,
    /// Only a person can change anything.
    Person,
}

/// Judges the outcomes of a selection in which nobody could take the task.
///
/// One profile that time frees is enough: what a person does meanwhile for the others helps too.
pub fn hope<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Hope {
    let mut refusals = outcomes.into_iter().map(Outcome::refusal);
    // Without a refusal the profile is free and only somebody else's turn came first.
    if refusals
        .any(|refusal| refusal.is_none_or(|(code, retry_at)| passes(code, retry_at.is_some())))
    {
        Hope::Time
    } else {
        Hope::Person
    }
}

/// Whether a reason goes away by itself. A reading that cannot be had has a time only where it may be had then.
fn passes(reason: Code, has_time: bool) -> bool {
    match reason {
        code::CAPACITY | code::COOLDOWN | code::DRAINING | code::QUOTA_RESERVE => true,
        code::QUOTA_UNAVAILABLE => has_time,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Hope, hope};
    use crate::choose::candidate::{Basis, Eligibility};
    use crate::choose::explain::Outcome;
    use crate::error::{Code, code};

    fn outcome(eligibility: Eligibility, live: u32) -> Outcome {
        Outcome {
            profile: "a".parse().unwrap(),
            eligibility,
            live,
            slots: 1,
            headroom: None,
            score: None,
            reading_age: None,
            said: None,
        }
    }

    fn refused(code: Code, retry_at: Option<&str>) -> Outcome {
        let retry_at = retry_at.map(|at| at.parse().unwrap());
        outcome(Eligibility::Refused { code, retry_at }, 0)
    }

    fn eligible(live: u32) -> Outcome {
        let basis = Basis::Fresh;
        let headroom = Some(50.0);
        outcome(Eligibility::Eligible { headroom, basis }, live)
    }

    #[test]
    fn what_frees_by_itself_is_worth_waiting_for_and_what_a_person_must_do_is_not() {
        let at = Some("2026-01-01T00:00:00Z");
        for passing in [
            eligible(1),
            eligible(0),
            refused(code::COOLDOWN, at),
            refused(code::QUOTA_RESERVE, None),
            refused(code::DRAINING, None),
            refused(code::QUOTA_UNAVAILABLE, at),
        ] {
            assert_eq!(hope([&passing]), Hope::Time, "{passing:?}");
            let beside = refused(code::AUTH_BROKEN, None);
            assert_eq!(hope([&beside, &passing]), Hope::Time, "{passing:?}");
        }
        for lasting in [
            code::PROFILE_DISABLED,
            code::POLICY,
            code::WORKSPACE_UNTRUSTED,
            code::IDENTITY_CHANGED,
            code::IDENTITY_UNPROVEN,
            code::AUTH_BROKEN,
            code::LOGIN_EXPIRED,
            code::AUTH_OVERRIDE,
            code::EXPOSED,
            code::NOT_PROVISIONED,
            code::MONEY_GUARD,
            code::QUOTA_UNAVAILABLE,
        ] {
            assert_eq!(hope([&refused(lasting, None)]), Hope::Person, "{lasting:?}");
        }
        assert_eq!(hope([]), Hope::Person, "no profile at all");
    }
}
