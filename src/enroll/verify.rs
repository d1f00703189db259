//! Whether a login may become a profile's. [`judge`] is pure; [`staged`], [`in_force`] and [`ask`] find its facts.

use camino::Utf8Path;

use super::refusal::Unfit;
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::identity::conflict::{self, Anchors, Conflict, Holder, Overlap};
use crate::identity::credential::{self, Look, Seen};
use crate::identity::fingerprint::{Account, Fingerprint};
use crate::provider::{self, FetchError, Fetched, Login, LoginKind, Want, account, conveyance};
use crate::quota::external::{self, Subject};
use crate::registry::install;
use crate::registry::schema::{Credential, Profile, ProviderSettings, QuotaReader, Registry};

/// Whose a login is, as the server says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    /// Opaque.
    pub(super) fingerprint: Fingerprint,
    /// Who said so.
    pub(super) source: String,
}

/// The login that a person made in a staged home, if it is whole and of the kind that the profile may have.
pub(super) fn staged(
    context: &Context,
    profile: &Profile,
    home: &Utf8Path,
) -> Result<Box<Look>, Unfit> {
    fit(
        profile,
        credential::look(profile.provider, home, None, context.clock),
    )
}

/// The same of the credential in force.
pub(super) fn in_force(context: &Context, profile: &Profile) -> Result<Box<Look>, Unfit> {
    fit(profile, credential::of(context, profile, None))
}

fn fit(profile: &Profile, seen: Seen) -> Result<Box<Look>, Unfit> {
    let word = match seen {
        Seen::Read(look) => match (look.login.kind, profile.credential) {
            (LoginKind::Subscription, Credential::Home | Credential::SetupToken)
            | (LoginKind::ApiKey, Credential::ApiKey) => return Ok(look),
            (LoginKind::ApiKey, Credential::Home | Credential::SetupToken) => {
                return Err(Unfit::paid(profile));
            }
            (LoginKind::Subscription, Credential::ApiKey) => "no_key",
            (LoginKind::Blank, _) => "logged_out",
        },
        Seen::Missing => "no_login",
        Seen::Linked => "credential_link",
        Seen::Unreadable => "credential_unreadable",
        Seen::Unparsable | Seen::Unchanged => "credential_unparsable",
    };
    Err(Unfit::no_login(profile, word))
}

/// A login of which it is not known yet whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'a> {
    /// The home that it is, or will be, used in.
    pub(super) home: &'a Utf8Path,
    /// What is shown to the server.
    pub(super) login: &'a Login,
    /// The text of its file, for the hints in it.
    pub(super) text: &'a str,
}

impl<'a> New<'a> {
    /// One that was read from a home.
    pub(super) fn of(home: &'a Utf8Path, look: &'a Look) -> Self {
        Self {
            home,
            login: &look.login,
            text: look.text.expose(),
        }
    }
}

/// Asks the server, read-only and with this very login, whose it is.
pub(super) fn ask(
    context: &Context,
    settings: &ProviderSettings,
    profile: &Profile,
    new: &New<'_>,
) -> Result<Named> {
    named(context, settings, profile, new)?.map_err(|error| Unfit::unproved(profile, &error).into())
}

/// The same, with what the server said when it did not name the account.
pub(super) fn named(
    context: &Context,
    settings: &ProviderSettings,
    profile: &Profile,
    new: &New<'_>,
) -> Result<Result<Named, FetchError>> {
    let (account, source) = match asked(context, settings, profile, new)? {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    let hints = account::hints(profile.provider, new.home, new.text.as_bytes());
    if hints.iter().any(|hint| hint.contradicts(&account)) {
        return Err(Unfit::contradicted(profile).into());
    }
    let key = install::key(context)?;
    Ok(Ok(Named {
        fingerprint: key.fingerprint(profile.provider, &account),
        source: source.to_owned(),
    }))
}

type Answer = Result<(Account, &'static str), FetchError>;

fn asked(
    context: &Context,
    settings: &ProviderSettings,
    profile: &Profile,
    new: &New<'_>,
) -> Result<Answer> {
    let deadline = context.clock.deadline(ROUTINE);
    if let QuotaReader::External(program) = conveyance::reader(profile, settings) {
        let subject = Subject {
            profile: profile.id.as_str(),
            provider: profile.provider,
            home: new.home,
        };
        let answer = external::read(context, program, subject, &deadline)?;
        return Ok(answer.map(|answer| (answer.account, "quota-account")));
    }
    let want = Want {
        identity: true,
        usage: false,
    };
    let provider = provider::of(profile.provider);
    let Fetched { identity, .. } = provider.fetch(context, settings, new.login, want, &deadline);
    let source = account::identity_source(profile.provider);
    Ok(identity
        .unwrap_or(Err(FetchError::Shape))
        .map(|account| (account, source)))
}

/// What a login is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others<'a> {
    /// The account that the profile is, if it was ever proved.
    pub(super) pinned: Option<&'a Fingerprint>,
    /// The accounts of the provider's other profiles.
    pub(super) siblings: &'a [Holder<'a>],
    /// The logins that no worker may share.
    pub(super) anchors: &'a Anchors,
}

/// What is wrong with a login of a known account.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wrong {
    /// It is not the account that the profile is.
    Account(Fingerprint),
    /// Someone else has the account, or may have it.
    Shared(Overlap),
}

/// What a login that may be taken means for the account that the profile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// It is the same, or the first.
    Keep,
    /// It is another one: the one before is somebody else's here, so the profile could never use it again.
    Anew,
}

/// Decides whether the account may be the profile's. Pure.
pub(super) fn judge(
    profile: &Profile,
    fingerprint: &Fingerprint,
    others: &Others<'_>,
) -> Result<Pin, Wrong> {
    let id = profile.id.as_str();
    let overlap = |account: &Fingerprint| {
        let mut all = vec![Holder::of(profile, account)];
        all.extend(others.siblings.iter().filter(|other| other.profile != id));
        conflict::find(&all, others.anchors).remove(id)
    };
    let before = others.pinned.filter(|pinned| !pinned.overlaps(fingerprint));
    // Whose account it is says more than that it is not this profile's.
    match (overlap(fingerprint), before) {
        (Some(known), _) if is_known(&known) => Err(Wrong::Shared(known)),
        (unknown, Some(pinned)) => match (overlap(pinned), unknown) {
            (Some(taken), None) if is_known(&taken) => Ok(Pin::Anew),
            _ => Err(Wrong::Account(pinned.clone())),
        },
        (Some(unknown), None) => Err(Wrong::Shared(unknown)),
        (None, None) => Ok(Pin::Keep),
    }
}

/// Whether somebody is known to hold the account, rather than perhaps.
fn is_known(overlap: &Overlap) -> bool {
    match overlap {
        Overlap::Duplicate(_) | Overlap::Base | Overlap::Desktop => true,
        Overlap::BaseUnverified(_) | Overlap::DesktopUnverified(_) => false,
    }
}

/// The refusal of a wrong login.
pub(super) fn refused(
    registry: &Registry,
    profile: &Profile,
    fingerprint: &Fingerprint,
    wrong: Wrong,
) -> Error {
    match wrong {
        Wrong::Account(pinned) => Unfit::another(profile, &pinned, fingerprint).into(),
        Wrong::Shared(overlap) => shared(registry, profile, overlap),
    }
}

/// The refusal of a login that someone else has, or may have.
pub(super) fn shared(registry: &Registry, profile: &Profile, overlap: Overlap) -> Error {
    let known = is_known(&overlap);
    let mut error = Error::from(Conflict::of(registry, profile, overlap));
    if known {
        let message = error.message.replace("holds", "would hold");
        error.message = format!("{message}: the new login was not kept, nothing was changed");
    }
    error
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Holder, Others, Pin, Wrong, judge};
    use crate::id::ProviderKind::Codex;
    use crate::identity::conflict::{AnchorIdentity, Anchors, Overlap};
    use crate::identity::fingerprint::{Account, Fingerprint, Key};
    use crate::registry::schema::{Credential, Profile, SafetyPolicy};

    pub(in crate::enroll) fn profile() -> Profile {
        Profile {
            id: "codex-1".parse().unwrap(),
            provider: Codex,
            home: "/homes/codex-1".into(),
            pools: Vec::new(),
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 1,
            reserve_percent: 0.0,
            weight: 1,
            safety_policy: SafetyPolicy::Worker,
            allow_overage: false,
        }
    }

    fn fingerprint(account: &str) -> Fingerprint {
        let account = Account {
            account: Some(account.to_owned()),
            ..Account::default()
        };
        Key::new([1; 32]).fingerprint(Codex, &account)
    }

    fn anchors(base: AnchorIdentity) -> Anchors {
        Anchors {
            base,
            desktop: AnchorIdentity::Nobody,
        }
    }

    #[test]
    fn an_account_is_taken_once_and_only_by_its_own_profile() {
        let (mine, other) = (fingerprint("mine"), fingerprint("other"));
        let profile = profile();
        let sibling = Profile {
            id: "codex-2".parse().unwrap(),
            ..profile.clone()
        };
        let siblings = [Holder::of(&profile, &mine), Holder::of(&sibling, &other)];
        let decide = |new: &Fingerprint, pinned: Option<&Fingerprint>, base| {
            let anchors = anchors(base);
            let others = Others {
                pinned,
                siblings: &siblings,
                anchors: &anchors,
            };
            judge(&profile, new, &others)
        };
        let nobody = || AnchorIdentity::Nobody;
        assert_eq!(decide(&mine, Some(&mine), nobody()), Ok(Pin::Keep));
        assert_eq!(decide(&fingerprint("new"), None, nobody()), Ok(Pin::Keep));
        // Whose account is a sibling's or the person's own may become somebody else, and only then.
        for (pinned, base, decided) in [
            (&other, nobody(), Ok(Pin::Anew)),
            (&mine, AnchorIdentity::Account(mine.clone()), Ok(Pin::Anew)),
            (
                &mine,
                AnchorIdentity::Unverified("no_login"),
                Err(Wrong::Account(mine.clone())),
            ),
        ] {
            assert_eq!(decide(&fingerprint("new"), Some(pinned), base), decided);
        }
        assert_eq!(
            decide(&fingerprint("new"), Some(&mine), nobody()),
            Err(Wrong::Account(mine.clone()))
        );
        let duplicate = Overlap::Duplicate(vec!["codex-2".to_owned()]);
        for pinned in [None, Some(&mine)] {
            assert_eq!(
                decide(&other, pinned, nobody()),
                Err(Wrong::Shared(duplicate.clone()))
            );
        }
        assert_eq!(
            decide(&mine, Some(&mine), AnchorIdentity::Account(mine.clone())),
            Err(Wrong::Shared(Overlap::Base))
        );
        assert_eq!(
            decide(&mine, Some(&mine), AnchorIdentity::Unverified("no_login")),
            Err(Wrong::Shared(Overlap::BaseUnverified("no_login")))
        );
    }
}
