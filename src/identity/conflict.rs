//! Accounts that more than one place holds. Pure.
//!
//! Two profiles of one account, a worker equal to the base CLI login or to the Desktop login, and an anchor
//! that is configured but cannot be read: each fails closed and is named. Unknown components match
//! anything, so what cannot be told apart overlaps.
//!
//! One pair is no conflict: a profile with a long-lived token, and one of the same account that is given no work,
//! since it is disabled or not for workers. Two logins of one account may be copies that log each other out, so they
//! are refused whether or not they are used; a token rotates nothing. What remains is that one account must not be
//! counted twice, and for that it is enough that only one of the two is given work. Each profile is judged as if it
//! were: so the token is kept from work while the login is at it, and enabling the login is refused while the token
//! is. An anchor stays an anchor: a token may not use up what the person's everyday login lives on either.

use std::collections::{BTreeMap, BTreeSet};

use super::fingerprint::Fingerprint;
use super::refusal;
use crate::error::{Code, Refusal, code};
use crate::id::ProviderKind;
use crate::provider;
use crate::registry::schema::{Anchor, Credential, Profile, Registry, SafetyPolicy};

/// What is known of an anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorIdentity {
    /// Out of play: nobody, or nobody who could share an account.
    Nobody,
    /// The account that no worker may share.
    Account(Fingerprint),
    /// Configured, but missing or unreadable, with the reason word.
    Unverified(&'static str),
}

/// The anchors of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchors {
    /// The base CLI login.
    pub base: AnchorIdentity,
    /// The Desktop app's login.
    pub desktop: AnchorIdentity,
}

/// A profile with the account that it holds.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Its id.
    pub profile: &'a str,
    /// Whose.
    pub account: &'a Fingerprint,
    /// What it holds the account by.
    pub credential: Credential,
    /// Whether it is given work.
    pub routed: bool,
}

impl<'a> Holder<'a> {
    /// A profile as the registry has it.
    pub fn of(profile: &'a Profile, account: &'a Fingerprint) -> Self {
        Self {
            profile: profile.id.as_str(),
            account,
            credential: profile.credential,
            routed: profile.enabled && profile.safety_policy == SafetyPolicy::Worker,
        }
    }

    /// Whether `other` keeps this one from work.
    fn shares_with(&self, other: &Self) -> bool {
        let lasting = |one: &Self| one.credential == Credential::SetupToken;
        let spared = (lasting(self) || lasting(other)) && !other.routed;
        !spared && self.account.overlaps(other.account)
    }
}

/// Why a proved profile may not be used all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// These profiles hold the same account.
    Duplicate(Vec<String>),
    /// The base CLI login holds the same account.
    Base,
    /// The base CLI login cannot be proved, for this reason.
    BaseUnverified(&'static str),
    /// The Desktop app holds the same account.
    Desktop,
    /// The Desktop login cannot be read, for this reason.
    DesktopUnverified(&'static str),
}

impl Overlap {
    /// The error code that names it.
    pub fn code(&self) -> Code {
        match self {
            Self::Duplicate(_) => code::DUPLICATE_PROVIDER_IDENTITY,
            Self::Base => code::BASE_IDENTITY,
            Self::BaseUnverified(_) => code::BASE_IDENTITY_UNVERIFIED,
            Self::Desktop => code::DESKTOP_IDENTITY,
            Self::DesktopUnverified(_) => code::DESKTOP_IDENTITY_UNVERIFIED,
        }
    }
}

/// A profile in conflict, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(.profile, *.provider, .overlap))]
pub struct Conflict {
    /// Which profile.
    pub profile: String,
    /// Its provider.
    pub provider: ProviderKind,
    /// With whom.
    pub overlap: Overlap,
    /// The command by which a person logs in to its home.
    pub login: String,
    /// The command by which a person refreshes the base login.
    pub renew_base: String,
    /// The command by which a person makes the base login anew.
    pub login_base: String,
}

impl Conflict {
    /// The conflict of a profile.
    pub fn of(registry: &Registry, profile: &Profile, overlap: Overlap) -> Self {
        let provider = provider::of(profile.provider);
        let base = match registry
            .provider(profile.provider)
            .map(|settings| &settings.base_home)
        {
            Ok(Anchor::At(home)) if !home.ends_with(provider.default_home()) => {
                Some(home.as_path())
            }
            Ok(Anchor::At(_) | Anchor::Off) | Err(_) => None,
        };
        Self {
            profile: profile.id.to_string(),
            provider: profile.provider,
            login: idle_one(registry, profile, &overlap).map_or_else(
                || refusal::log_in(profile),
                |other| format!("agent-fleet profile disable {other}"),
            ),
            renew_base: provider.renew_command(base),
            login_base: provider.base_login_command(base),
            overlap,
        }
    }
}

/// The other of a login and a token of one account, of which one may be given work.
fn idle_one<'a>(
    registry: &Registry,
    profile: &Profile,
    overlap: &'a Overlap,
) -> Option<&'a String> {
    let Overlap::Duplicate(others) = overlap else {
        return None;
    };
    let lasting = |id: &&String| {
        let mut profiles = registry.of(profile.provider);
        profiles.any(|one| one.id.as_str() == *id && one.credential == Credential::SetupToken)
    };
    if profile.credential == Credential::SetupToken {
        others.first()
    } else {
        others.iter().find(lasting)
    }
}

fn sentence(profile: &str, provider: ProviderKind, overlap: &Overlap) -> String {
    // Supervisors written to contract 1 look for this word in every sentence about a shared account.
    const PHRASE: &str = "duplicate_provider_identity";
    match overlap {
        Overlap::Duplicate(others) => format!(
            "profile `{profile}` holds the same {provider} account as `{}` ({PHRASE})",
            others.join("`, `")
        ),
        Overlap::Base => format!(
            "profile `{profile}` holds the account of the base {provider} login ({PHRASE}: base_identity)"
        ),
        Overlap::BaseUnverified(reason) => format!(
            "the base {provider} login cannot be proved ({reason}), so profile `{profile}` may share its \
             account ({PHRASE}: base_identity_unverified)"
        ),
        Overlap::Desktop => format!(
            "profile `{profile}` holds the account of the Desktop app ({PHRASE}: desktop_identity)"
        ),
        Overlap::DesktopUnverified(reason) => format!(
            "the Desktop app's login cannot be read ({reason}), so profile `{profile}` may share its \
             account ({PHRASE}: desktop_identity_unverified)"
        ),
    }
}

impl Refusal for Conflict {
    fn code(&self) -> Code {
        self.overlap.code()
    }
    fn hint(&self) -> Option<String> {
        let Self {
            profile, provider, ..
        } = self;
        Some(match &self.overlap {
            // Each home wants an account of its own.
            Overlap::Duplicate(_) | Overlap::Base | Overlap::Desktop => self.login.clone(),
            Overlap::BaseUnverified("unproven") => format!("agent-fleet profile verify {profile}"),
            Overlap::BaseUnverified("token_expired") => self.renew_base.clone(),
            Overlap::BaseUnverified("hint_disagrees") => self.login_base.clone(),
            Overlap::BaseUnverified(_) => {
                format!("agent-fleet config set providers.{provider}.base_home false")
            }
            Overlap::DesktopUnverified(_) => {
                format!("agent-fleet config set providers.{provider}.desktop_identity_file false")
            }
        })
    }
}

/// The conflicts among the proved profiles of one provider and its anchors, by profile.
///
/// The first that holds is told: what another profile or anchor is known to hold, before what is unknown.
pub fn find(profiles: &[Holder<'_>], anchors: &Anchors) -> BTreeMap<String, Overlap> {
    let shared = sharers(profiles);
    profiles
        .iter()
        .enumerate()
        .filter_map(|(index, holder)| {
            let account = holder.account;
            let others: BTreeSet<usize> = components(account)
                .filter_map(|component| shared.get(&component))
                .flatten()
                .copied()
                .filter(|other| *other != index && holder.shares_with(&profiles[*other]))
                .collect();
            let others: Vec<String> = others
                .into_iter()
                .map(|other| profiles[other].profile.to_owned())
                .collect();
            // A key is billed by itself, whoever else it might be: no login can be the same account.
            let is_key = holder.credential == Credential::ApiKey;
            let holds = |anchor: &AnchorIdentity| {
                matches!(anchor, AnchorIdentity::Account(theirs) if account.overlaps(theirs))
            };
            let overlap = if !others.is_empty() {
                Overlap::Duplicate(others)
            } else if holds(&anchors.base) {
                Overlap::Base
            } else if holds(&anchors.desktop) {
                Overlap::Desktop
            } else if is_key {
                return None;
            } else if let AnchorIdentity::Unverified(reason) = anchors.base {
                Overlap::BaseUnverified(reason)
            } else if let AnchorIdentity::Unverified(reason) = anchors.desktop {
                Overlap::DesktopUnverified(reason)
            } else {
                return None;
            };
            Some((holder.profile.to_owned(), overlap))
        })
        .collect()
}

/// The known components of an account, each with its kind.
fn components(account: &Fingerprint) -> impl Iterator<Item = (u8, &str)> {
    let all = [&account.user, &account.account, &account.organization];
    (0..)
        .zip(all)
        .filter_map(|(kind, known)| Some((kind, known.as_deref()?)))
}

/// Which profiles have a component in common: only those can overlap, so that many profiles need not be
/// compared each with each.
fn sharers<'a>(profiles: &[Holder<'a>]) -> BTreeMap<(u8, &'a str), Vec<usize>> {
    let mut shared: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, holder) in profiles.iter().enumerate() {
        for component in components(holder.account) {
            shared.entry(component).or_default().push(index);
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::{AnchorIdentity, Anchors, Conflict, Holder, Overlap, find};
    use crate::error::{Error, Refusal as _};
    use crate::id::ProviderKind::Claude;
    use crate::identity::fingerprint::{Account, Fingerprint, Key};
    use crate::registry::schema::Credential;

    fn login<'a>(profile: &'a str, account: &'a Fingerprint) -> Holder<'a> {
        Holder {
            profile,
            account,
            credential: Credential::Home,
            routed: true,
        }
    }

    fn token<'a>(profile: &'a str, account: &'a Fingerprint) -> Holder<'a> {
        Holder {
            credential: Credential::SetupToken,
            ..login(profile, account)
        }
    }

    fn person(user: &str, account: &str, organization: &str) -> Fingerprint {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let account = Account {
            user: known(user),
            account: known(account),
            organization: known(organization),
        };
        Key::new([1; 32]).fingerprint(Claude, &account)
    }

    fn nobody() -> Anchors {
        Anchors {
            base: AnchorIdentity::Nobody,
            desktop: AnchorIdentity::Nobody,
        }
    }

    #[test]
    fn both_profiles_of_one_account_are_refused_and_the_third_goes_on() {
        let (one, two) = (person("", "a1", "o1"), person("", "a2", "o1"));
        let found = find(
            &[login("x", &one), login("y", &two), login("z", &one)],
            &nobody(),
        );
        assert_eq!(
            found.keys().map(String::as_str).collect::<Vec<_>>(),
            ["x", "z"]
        );
        assert_eq!(found["x"], Overlap::Duplicate(vec!["z".to_owned()]));
    }

    #[test]
    fn two_people_in_one_workspace_and_one_person_in_two_are_four_accounts() {
        let all = [
            person("u1", "a1", "o1"),
            person("u2", "a1", "o1"),
            person("u1", "a1", "o2"),
        ];
        let names = ["x", "y", "z"].into_iter().zip(&all);
        let named: Vec<_> = names.map(|(name, account)| login(name, account)).collect();
        assert!(find(&named, &nobody()).is_empty());
    }

    #[test]
    fn of_a_token_and_a_login_of_one_account_one_may_work() {
        let account = person("", "a1", "o1");
        let idle = |holder: Holder<'static>| Holder {
            routed: false,
            ..holder
        };
        let account: &'static Fingerprint = Box::leak(Box::new(account));
        let (held, token) = (login("login", account), token("token", account));
        let refused = |profiles: &[Holder<'_>]| -> Vec<String> {
            find(profiles, &nobody()).into_keys().collect()
        };
        assert_eq!(refused(&[held, token]), ["login", "token"]);
        assert_eq!(
            refused(&[idle(held), token]),
            ["login"],
            "enabling the login is refused while the token works"
        );
        assert_eq!(refused(&[held, idle(token)]), ["token"]);
        assert_eq!(refused(&[idle(held), idle(token)]), [""; 0]);
        assert_eq!(
            refused(&[
                idle(held),
                Holder {
                    profile: "other",
                    ..held
                }
            ]),
            ["login", "other"],
            "two logins may log each other out, used or not"
        );
        let anchors = Anchors {
            base: AnchorIdentity::Account(account.clone()),
            ..nobody()
        };
        assert_eq!(find(&[token], &anchors)["token"], Overlap::Base);
    }

    #[test]
    fn a_key_is_an_account_of_its_own() {
        let (key, other) = (person("", "key", ""), person("", "a1", "o1"));
        let key = Holder {
            credential: Credential::ApiKey,
            ..login("key", &key)
        };
        let anchors = Anchors {
            base: AnchorIdentity::Unverified("missing"),
            ..nobody()
        };
        let found = find(&[key, login("x", &other)], &anchors);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["x"]);
        let twice = [
            key,
            Holder {
                profile: "again",
                ..key
            },
        ];
        assert_eq!(find(&twice, &nobody()).len(), 2);
    }

    #[test]
    fn anchors_overlap_by_what_they_know_and_fail_closed() {
        let (one, two) = (person("", "a1", "o1"), person("", "a2", "o2"));
        let profiles = [login("x", &one), login("y", &two)];
        let mut anchors = nobody();
        anchors.desktop = AnchorIdentity::Account(person("", "a1", ""));
        let found = find(&profiles, &anchors);
        assert_eq!((found.len(), &found["x"]), (1, &Overlap::Desktop));
        anchors.desktop = AnchorIdentity::Unverified("missing");
        assert_eq!(
            find(&profiles, &anchors)["y"],
            Overlap::DesktopUnverified("missing")
        );
        anchors.base = AnchorIdentity::Account(person("", "a2", "o2"));
        assert_eq!(find(&profiles, &anchors)["y"], Overlap::Base);
        anchors.base = AnchorIdentity::Unverified("missing");
        assert_eq!(
            find(&profiles, &anchors)["x"],
            Overlap::BaseUnverified("missing")
        );
    }

    #[test]
    fn every_sentence_has_the_word_that_supervisors_look_for() {
        for overlap in [
            Overlap::Duplicate(vec!["y".to_owned()]),
            Overlap::Base,
            Overlap::BaseUnverified("missing"),
            Overlap::Desktop,
            Overlap::DesktopUnverified("missing"),
        ] {
            let name = overlap.code().name;
            let error = Error::from(conflict(overlap));
            assert!(
                error.message.contains("duplicate_provider_identity"),
                "{error}"
            );
            assert!(error.message.contains(name), "{error} does not say {name}");
            assert!(error.hint.is_some());
        }
    }

    fn conflict(overlap: Overlap) -> Conflict {
        Conflict {
            profile: "x".to_owned(),
            provider: Claude,
            overlap,
            login: "the login command".to_owned(),
            renew_base: "the base command".to_owned(),
            login_base: "the base login".to_owned(),
        }
    }

    #[test]
    fn a_protection_is_switched_off_only_where_nothing_else_helps() {
        let hint = |overlap| conflict(overlap).hint().unwrap();
        assert_eq!(hint(Overlap::Base), "the login command");
        assert_eq!(
            hint(Overlap::BaseUnverified("token_expired")),
            "the base command"
        );
        assert_eq!(
            hint(Overlap::BaseUnverified("hint_disagrees")),
            "the base login"
        );
        assert!(hint(Overlap::BaseUnverified("unproven")).contains("profile verify x"));
        assert!(hint(Overlap::BaseUnverified("no_login")).ends_with("base_home false"));
    }
}
