//! Usage beyond the subscription, which is paid for. Pure.
//!
//! Limits: the switch is the account's own, at the provider. A worker that is running when the subscription
//! runs out goes on there, whatever the profile says; only new work can be kept away.

use crate::registry::schema::Profile;
use crate::snapshot::profile::ProfileState;

/// Whether work beyond the subscription is paid for: the account has it on, and the profile allows it.
pub fn pays(profile: &Profile, state: &ProfileState) -> bool {
    let on = state
        .reading
        .as_ref()
        .and_then(|reading| reading.overage_enabled);
    profile.allow_overage && on == Some(true)
}

#[cfg(test)]
mod tests {
    use crate::choose::candidate::tests::{decide, now};
    use crate::choose::candidate::{Basis, Eligibility};
    use crate::error::code;
    use crate::quota::headroom::Worth;
    use crate::quota::window::Reading;
    use crate::registry::schema::{Credential, Settings};

    fn at_its_end(allowed: bool, enabled: Option<bool>) -> Eligibility {
        decide(
            |profile, state| {
                profile.allow_overage = allowed;
                state.reading = Some(Reading {
                    at: now(),
                    fingerprint: String::new(),
                    source: "builtin".into(),
                    windows: Vec::new(),
                    overage_enabled: enabled,
                    spend: None,
                });
            },
            &Worth::fresh(0.0),
            &Settings::default(),
        )
    }

    #[test]
    fn a_key_is_used_after_everything_else_and_only_where_it_may_be_paid_for() {
        let on_a_key = |allowed| {
            decide(
                |profile, _| {
                    profile.credential = Credential::ApiKey;
                    profile.allow_overage = allowed;
                },
                &Worth::fresh(90.0),
                &Settings::default(),
            )
        };
        let paid = Eligibility::Eligible {
            headroom: None,
            basis: Basis::Overage,
        };
        assert_eq!(on_a_key(true), paid);
        let refused = Eligibility::Refused {
            code: code::MONEY_GUARD,
            retry_at: None,
        };
        assert_eq!(on_a_key(false), refused);
    }

    #[test]
    fn money_is_spent_only_where_both_the_account_and_the_profile_say_so() {
        for (allowed, enabled) in [
            (false, Some(true)),
            (false, None),
            (true, Some(false)),
            (true, None),
        ] {
            let refused = Eligibility::Refused {
                code: code::QUOTA_RESERVE,
                retry_at: None,
            };
            let got = at_its_end(allowed, enabled);
            assert_eq!(got, refused, "{allowed} {enabled:?}");
        }
        let paid = Eligibility::Eligible {
            headroom: Some(0.0),
            basis: Basis::Overage,
        };
        assert_eq!(at_its_end(true, Some(true)), paid);
    }
}
