//! Whether one profile could take a task. Pure.

use jiff::Timestamp;

use super::overage::pays;
use crate::error::{Code, Error, Result, code};
use crate::id::{PoolId, ProfileId, ProviderKind};
use crate::quota::headroom::{Status, Worth};
use crate::quota::model::Model;
use crate::reason;
use crate::registry::schema::{
    Credential, Profile, Registry, SafetyPolicy, Settings, StaleReadings, Unmeasured,
};
use crate::snapshot::profile::ProfileState;

/// What the caller asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The pool; with an explicit profile any pool will do.
    pub pool: PoolId,
    /// Only this provider.
    pub provider: Option<ProviderKind>,
    /// Only this profile.
    pub profile: Option<ProfileId>,
    /// The model that will be used; `None` when nobody said, and then every window gates.
    pub model: Option<Model>,
    /// What the reserve means here.
    pub reserve: Reserve,
}

impl Asked {
    /// A profile that the caller names, in the pool it names or else the profile's first.
    pub fn explicit(
        registry: &Registry,
        profile: &ProfileId,
        pool: Option<PoolId>,
    ) -> Result<Self> {
        let entry = registry.profile(profile)?;
        let Some(pool) = pool.or_else(|| entry.pools.first().cloned()) else {
            let message = format!("profile `{profile}` is in no pool");
            return Err(Error::new(code::POLICY, message).hint(format!(
                "agent-fleet profile policy {profile} --pool {}-crew",
                entry.provider
            )));
        };
        Ok(Self {
            pool,
            provider: None,
            profile: Some(profile.clone()),
            model: None,
            reserve: Reserve::Keep,
        })
    }
}

/// Whether headroom must stay above the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// For new work.
    Keep,
    /// For going on with what was begun.
    Ignore,
}

/// What is known of the account behind a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Proved, and no other profile or anchor holds the same account.
    Proven,
    /// In the way, with the code that names it.
    Refused(Code),
}

/// Everything that decides about one profile.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The registry's entry.
    pub profile: &'a Profile,
    /// Drain, cooldown, billing.
    pub state: &'a ProfileState,
    /// The account behind it.
    pub identity: Identity,
    /// What its reading is worth for the model that was asked for.
    pub worth: &'a Worth,
    /// Whether the workspace is registered for its provider.
    pub trusted: bool,
    /// Found wanting when it was about to be granted.
    pub rejected: Option<Code>,
}

/// What routing makes of a profile.
#[derive(Clone, Debug, PartialEq)]
pub enum Eligibility {
    /// It can take the task.
    Eligible {
        /// Least remaining percent; `None` when unmeasured.
        headroom: Option<f64>,
        /// `fresh`, or why the selection is degraded.
        basis: Basis,
    },
    /// It cannot.
    Refused {
        /// Stable code, whose name is the reason word.
        code: Code,
        /// When that may have passed, never in the past; `None` when no time alone helps.
        retry_at: Option<Timestamp>,
    },
}

/// What an eligible profile's headroom rests on. Better ones sort first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// A fresh reading.
    Fresh,
    /// A presumed reading, with its reason.
    Presumed(String),
    /// No reading at all.
    Unmeasured,
    /// Nothing left of the subscription; the account pays for more, which its profile allows.
    Overage,
}

impl Basis {
    /// The reason word of an eligible profile.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fresh => reason::FRESH,
            Self::Presumed(_) => reason::PRESUMED,
            Self::Unmeasured => reason::UNMEASURED,
            Self::Overage => reason::OVERAGE,
        }
    }

    /// Why a selection on it is degraded, if it is.
    pub fn degraded(self) -> Option<String> {
        match self {
            Self::Fresh => None,
            Self::Presumed(reason) => Some(reason),
            Self::Unmeasured => Some(reason::UNMEASURED.to_owned()),
            Self::Overage => Some(reason::OVERAGE.to_owned()),
        }
    }
}

fn refused(code: Code) -> Eligibility {
    Eligibility::Refused {
        code,
        retry_at: None,
    }
}

/// Decides about one profile without looking at its slots, which only the lease table knows.
///
/// The first reason that holds is the answer, ordered so that the one a person must act on comes first.
pub fn eligibility(
    facts: &Facts<'_>,
    asked: &Asked,
    settings: &Settings,
    now: Timestamp,
) -> Eligibility {
    let profile = facts.profile;
    if !profile.enabled {
        return refused(code::PROFILE_DISABLED);
    }
    eligibility_if_enabled(facts, asked, settings, now)
}

/// The same, as if the profile were enabled.
pub fn eligibility_if_enabled(
    facts: &Facts<'_>,
    asked: &Asked,
    settings: &Settings,
    now: Timestamp,
) -> Eligibility {
    let profile = facts.profile;
    let state = facts.state;
    if profile.safety_policy != SafetyPolicy::Worker {
        return refused(code::POLICY);
    }
    if !facts.trusted {
        return refused(code::WORKSPACE_UNTRUSTED);
    }
    if let Some(code) = facts.rejected {
        return refused(code);
    }
    if state.durable.quarantine.is_some() {
        return refused(code::IDENTITY_CHANGED);
    }
    if state.login_expires_at.is_some_and(|at| at <= now) {
        return refused(code::LOGIN_EXPIRED);
    }
    if state.auth_broken.is_some() {
        return refused(code::AUTH_BROKEN);
    }
    if let Identity::Refused(code) = facts.identity {
        return refused(code);
    }
    if state.durable.billing_block.is_some()
        || profile.credential == Credential::ApiKey && !profile.allow_overage
    {
        return refused(code::MONEY_GUARD);
    }
    if state.durable.drain.is_some() {
        return refused(code::DRAINING);
    }
    let quota = quota(facts, asked, settings, now);
    let Some(rest) = state.rest(now) else {
        return quota;
    };
    // It has to outlast the cooldown and what would stand in the way after it.
    let retry_at = match quota {
        Eligibility::Eligible { .. } => Some(rest.until),
        Eligibility::Refused { retry_at, .. } => retry_at.map(|at| at.max(rest.until)),
    };
    Eligibility::Refused {
        code: code::COOLDOWN,
        retry_at,
    }
}

fn quota(facts: &Facts<'_>, asked: &Asked, settings: &Settings, now: Timestamp) -> Eligibility {
    if facts.profile.credential == Credential::ApiKey {
        // There is nothing to measure: every token is paid for, which the profile allows.
        return Eligibility::Eligible {
            headroom: None,
            basis: Basis::Overage,
        };
    }
    let worth = facts.worth;
    let presume = settings.stale_readings == StaleReadings::Presume;
    let unreadable = || {
        let presumed_at = worth.presumed_at.filter(|_| presume);
        Eligibility::Refused {
            code: code::QUOTA_UNAVAILABLE,
            retry_at: worth
                .measured_at
                .into_iter()
                .chain(presumed_at)
                .min()
                .map(|at| at.max(now)),
        }
    };
    let over_reserve = |headroom: f64, basis: Basis| {
        let reserve = match asked.reserve {
            Reserve::Keep => facts.profile.reserve_percent,
            Reserve::Ignore => 0.0,
        };
        if headroom > reserve {
            Eligibility::Eligible {
                headroom: Some(headroom),
                basis,
            }
        } else if pays(facts.profile, facts.state) {
            Eligibility::Eligible {
                headroom: Some(headroom),
                basis: Basis::Overage,
            }
        } else {
            Eligibility::Refused {
                code: code::QUOTA_RESERVE,
                retry_at: worth.frees_at(reserve).map(|at| at.max(now)),
            }
        }
    };
    match (worth.status, worth.headroom) {
        (Status::Fresh, Some(headroom)) => over_reserve(headroom, Basis::Fresh),
        (Status::Presumed, Some(headroom)) if presume => over_reserve(
            headroom,
            Basis::Presumed(worth.reason.clone().unwrap_or_default()),
        ),
        (Status::Presumed | Status::Stale, Some(_)) => unreadable(),
        (Status::Unmeasured, _) | (_, None) => match (settings.unmeasured, asked.reserve) {
            (Unmeasured::Allow, _) | (Unmeasured::Refuse, Reserve::Ignore) => {
                Eligibility::Eligible {
                    headroom: None,
                    basis: Basis::Unmeasured,
                }
            }
            (Unmeasured::Refuse, Reserve::Keep) => unreadable(),
        },
    }
}

/// Whether a profile is asked for at all.
pub fn is_asked(profile: &Profile, asked: &Asked) -> bool {
    let named = asked.profile.as_ref().is_none_or(|id| *id == profile.id);
    let kind = asked.provider.is_none_or(|kind| kind == profile.provider);
    named && kind && profile.pools.contains(&asked.pool)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Asked, Basis, Eligibility, Facts, Identity, Reserve, eligibility};
    use crate::error::code;
    use crate::id::ProviderKind;
    use crate::quota::headroom::{Status, Worth};
    use crate::quota::window::Cooldown;
    use crate::registry::schema::{
        Credential, Profile, SafetyPolicy, Settings, StaleReadings, Unmeasured,
    };
    use crate::snapshot::profile::{Note, ProfileState};
    use jiff::Timestamp;

    pub(in crate::choose) fn profile(id: &str) -> Profile {
        Profile {
            id: id.parse().unwrap(),
            provider: ProviderKind::Scripted,
            home: format!("/homes/{id}").into(),
            pools: vec!["crew".parse().unwrap()],
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 2,
            reserve_percent: 15.0,
            weight: 1,
            safety_policy: SafetyPolicy::Worker,
            allow_overage: false,
        }
    }

    pub(in crate::choose) fn asked() -> Asked {
        Asked {
            pool: "crew".parse().unwrap(),
            provider: None,
            profile: None,
            model: None,
            reserve: Reserve::Keep,
        }
    }

    pub(in crate::choose) fn facts<'a>(
        profile: &'a Profile,
        state: &'a ProfileState,
        worth: &'a Worth,
    ) -> Facts<'a> {
        Facts {
            profile,
            state,
            identity: Identity::Proven,
            worth,
            trusted: true,
            rejected: None,
        }
    }

    pub(in crate::choose) fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    pub(in crate::choose) fn decide(
        change: impl FnOnce(&mut Profile, &mut ProfileState),
        worth: &Worth,
        settings: &Settings,
    ) -> Eligibility {
        let mut profile = profile("a");
        let mut state = ProfileState::new(&profile.id);
        change(&mut profile, &mut state);
        eligibility(&facts(&profile, &state, worth), &asked(), settings, now())
    }

    #[test]
    fn headroom_must_be_strictly_above_the_reserve() {
        let at = |headroom| decide(|_, _| {}, &Worth::fresh(headroom), &Settings::default());
        assert_eq!(
            at(15.1),
            Eligibility::Eligible {
                headroom: Some(15.1),
                basis: Basis::Fresh
            }
        );
        assert_eq!(
            at(15.0),
            Eligibility::Refused {
                code: code::QUOTA_RESERVE,
                retry_at: None
            }
        );
    }

    #[test]
    fn a_resumed_task_may_use_the_reserve_but_not_an_empty_window() {
        let profile = profile("a");
        let state = ProfileState::new(&profile.id);
        let resume = Asked {
            reserve: Reserve::Ignore,
            ..asked()
        };
        let at = |headroom| {
            eligibility(
                &facts(&profile, &state, &Worth::fresh(headroom)),
                &resume,
                &Settings::default(),
                now(),
            )
        };
        assert!(matches!(at(1.0), Eligibility::Eligible { .. }));
        assert!(matches!(
            at(0.0),
            Eligibility::Refused {
                code: code::QUOTA_RESERVE,
                ..
            }
        ));
    }

    #[test]
    fn a_cooldown_ends_by_itself() {
        let set = |until: &str| {
            let until: Timestamp = until.parse().unwrap();
            decide(
                |_, state| {
                    state.cooldown = Some(Cooldown {
                        reason: "quota".into(),
                        until,
                        since: now(),
                        guessed: false,
                    });
                },
                &Worth::fresh(90.0),
                &Settings::default(),
            )
        };
        assert!(matches!(
            set("2026-01-01T00:00:01Z"),
            Eligibility::Refused {
                code: code::COOLDOWN,
                retry_at: Some(_)
            }
        ));
        assert!(matches!(
            set("2026-01-01T00:00:00Z"),
            Eligibility::Eligible { .. }
        ));
    }

    #[test]
    fn what_a_person_must_settle_is_named_before_what_time_settles() {
        let note = || {
            Some(Note {
                reason: "x".into(),
                at: now(),
            })
        };
        let both = decide(
            |_, state| {
                state.durable.quarantine = note();
                state.durable.drain = note();
            },
            &Worth::fresh(1.0),
            &Settings::default(),
        );
        assert!(matches!(
            both,
            Eligibility::Refused {
                code: code::IDENTITY_CHANGED,
                ..
            }
        ));
    }

    #[test]
    fn presumed_and_unmeasured_follow_the_settings() {
        let presumed = Worth {
            status: Status::Presumed,
            reason: Some("token_expired".into()),
            ..Worth::fresh(100.0)
        };
        let refuse = Settings {
            stale_readings: StaleReadings::Refuse,
            ..Settings::default()
        };
        assert!(matches!(
            decide(|_, _| {}, &presumed, &Settings::default()),
            Eligibility::Eligible {
                basis: Basis::Presumed(_),
                ..
            }
        ));
        assert!(matches!(
            decide(|_, _| {}, &presumed, &refuse),
            Eligibility::Refused { .. }
        ));
        let unmeasured = Worth {
            status: Status::Unmeasured,
            headroom: None,
            ..Worth::fresh(0.0)
        };
        let allow = Settings {
            unmeasured: Unmeasured::Allow,
            ..Settings::default()
        };
        assert!(matches!(
            decide(|_, _| {}, &unmeasured, &allow),
            Eligibility::Eligible { headroom: None, .. }
        ));
        assert!(matches!(
            decide(|_, _| {}, &unmeasured, &Settings::default()),
            Eligibility::Refused { .. }
        ));
    }
}
