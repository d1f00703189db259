//! A long-lived token or an API key that the person gives us, by pasting it or through standard input.
//!
//! It is tried at the server before it takes the place of what was in force, by the same steps as a login. A token may
//! not be allowed to say whose it is; then a person vouches for it by naming a profile that was proved to be of the
//! same account, and everybody is told that it is `asserted`. A key is its own account: whoever has it pays.
//!
//! # Guarantees
//! - It is in no argument, variable, log, answer or error.
//! - The token in force stays until the new one was tried twice; a crash leaves the old or the new one, whole.
//!
//! # Limits
//! The server's answer is all that is asked for: whoever vouches for the wrong account is believed.

use std::io;

use super::refusal::Unfit;
use super::verify::{self, Named, Pin};
use super::{Done, New, Work, force};
use crate::choose::examine::overridden;
use crate::clock::ROUTINE;
use crate::contract::enrollment::{Enrolled, EnrollmentOutcome};
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::ProfileId;
use crate::identity::credential::{self, Seen};
use crate::identity::fingerprint::{Account, Fingerprint};
use crate::identity::proof::is_usable;
use crate::provider::answer::digest;
use crate::provider::{self, FetchError, Login, LoginKind, conveyance, overrides};
use crate::registry::install;
use crate::registry::schema::{Credential, Profile};
use crate::secret::Secret;
use crate::secret::kept::{self, Kept};
use crate::snapshot;
use crate::snapshot::profile::ASSERTED;
use crate::store::read;
use crate::sys::ask;

/// Most bytes of a token or key; real ones have some hundred.
const LIMIT: usize = 2048;
/// The source of a key's proof.
pub(super) const KEY: &str = "api-key";

/// What the person wants to give.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// A long-lived token or an API key.
    pub kind: Credential,
    /// The profile that is of the same account, as the person says.
    pub same_as: Option<ProfileId>,
    /// Other profiles of the provider may be at work; this one may not.
    pub beside_live: bool,
}

/// Takes a token or a key for a profile. `tell` says to the person what happens.
pub fn enroll(
    context: &Context,
    id: &ProfileId,
    wanted: &Wanted,
    tell: &dyn Fn(&str),
) -> Result<Enrolled> {
    let interrupts = super::watch()?;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let work = Work {
        context,
        registry: &registry,
        settings: registry.provider(profile.provider)?,
        profile,
        beside_live: wanted.beside_live,
        interrupts: &interrupts,
    };
    work.is_possible(wanted.kind)?;
    let pair = wanted.same_as.as_ref();
    let pair = pair.map(|pair| registry.profile(pair)).transpose()?;
    let vouched = pair.map(|pair| account_of(&work, pair)).transpose()?;
    force::may_begin(&work, tell)?;
    if let Some(second) = overrides::second_login(profile) {
        return Err(overridden(profile, second));
    }
    let secret = read_one(&work)?;
    let given = Given {
        login: login(profile, &secret, &work)?,
        secret,
        vouched,
    };
    let done = work.take(&given, tell)?;
    Ok(work.told(done, tell))
}

/// What was given.
#[derive(Debug)]
struct Given {
    secret: Secret,
    /// As it will be read back.
    login: Login,
    /// The account that a person vouches for.
    vouched: Option<Fingerprint>,
}

/// What it will be once it is in force.
fn login(profile: &Profile, secret: &Secret, work: &Work<'_>) -> Result<Login> {
    if conveyance::is_ours(profile) {
        let kept = Kept {
            secret: secret.clone(),
            since: work.context.clock.now(),
        };
        return Ok(credential::stored(profile.credential, kept));
    }
    let provider = provider::of(profile.provider);
    let file = provider.key_file(secret);
    let read = file.and_then(|file| provider.parse_login(file.expose().as_bytes()).ok());
    read.filter(|login| login.kind == LoginKind::ApiKey)
        .ok_or_else(|| Error::internal("a key does not read back from its own file"))
}

/// The account that a profile was proved to be, by a server. A profile may vouch for itself with what it is.
fn account_of(work: &Work<'_>, pair: &Profile) -> Result<Fingerprint> {
    let Work {
        context, profile, ..
    } = work;
    let unproved = || Error::from(Unfit::unproved_pair(profile, pair));
    if pair.provider != profile.provider {
        return Err(unproved());
    }
    let known = snapshot::provider::load(context, pair.provider)?;
    if let Some(damage) = known.damaged.get(pair.id.as_str()) {
        return Err(damage.clone().into());
    }
    let durable = known
        .states
        .get(pair.id.as_str())
        .map(|state| &state.durable);
    durable
        .filter(|durable| durable.quarantine.is_none())
        .and_then(|durable| durable.pinned.as_ref())
        .filter(|pinned| pair.id == profile.id || pinned.source != ASSERTED)
        .map(|pinned| pinned.fingerprint.clone())
        .ok_or_else(unproved)
}

fn read_one(work: &Work<'_>) -> Result<Secret> {
    let profile = work.profile;
    let what = match profile.credential {
        Credential::Home | Credential::SetupToken => "the token that `claude setup-token` shows",
        Credential::ApiKey => "the API key",
    };
    let prompt = format!("{what}, for profile {} (nothing is shown): ", profile.id);
    let bytes = ask::secret(&prompt, LIMIT, work.interrupts).map_err(|error| {
        if error.kind() == io::ErrorKind::Interrupted {
            Error::from(Unfit::interrupted(profile))
        } else {
            Error::io("read", "standard input", &error)
        }
    })?;
    let text = one_line(&bytes).map_err(|why| Unfit::misshapen(profile, why))?;
    if provider::of(profile.provider).has_form(profile.credential, text) {
        return Ok(Secret::new(text));
    }
    let other = match profile.credential {
        Credential::Home | Credential::SetupToken => "is no token that `claude setup-token` makes",
        Credential::ApiKey => "is no API key of this provider",
    };
    Err(Unfit::misshapen(profile, other).into())
}

/// The one word in what was given.
pub(crate) fn one_line(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.len() > LIMIT {
        return Err("is too long");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "is no text")?.trim();
    if text.is_empty() {
        return Err("is empty");
    }
    if text.lines().nth(1).is_some() {
        return Err("has more than one line");
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text)
    } else {
        Err("has characters that no token has")
    }
}

impl Work<'_> {
    fn take(&self, given: &Given, tell: &dyn Fn(&str)) -> Result<Done> {
        let Self {
            context, profile, ..
        } = self;
        let named = self.name(given, tell)?;
        let digest = &given.login.digest;
        let _: Pin = force::check(self, &named.fingerprint, digest)?;
        let same = |seen| match seen {
            Seen::Read(look) => {
                let look: Box<credential::Look> = look;
                look.login.digest == *digest
                    && (look.login.kind == LoginKind::ApiKey
                        || is_usable(&look.login, context.clock.now()))
            }
            Seen::Missing
            | Seen::Linked
            | Seen::Unreadable
            | Seen::Unparsable
            | Seen::Unchanged => false,
        };
        if same(credential::of(context, profile, None)) {
            force::take_as_it_is(self, digest, &named, &super::again(profile), tell)?;
            tell("this very one is in force already: it stays as it is");
            return Ok(self.done(EnrollmentOutcome::Unchanged, named, None));
        }
        let named = self.prove_again(&named, tell, &|| self.name(given, &|_| {}))?;
        let path = conveyance::file(context, profile);
        let before = read::optional(&path)?.unwrap_or_default();
        let text = self.text(given)?;
        let new = New {
            digest,
            text: &text,
        };
        let kept = force::put(self, None, new, &named, tell)?;
        // The one before is named by nothing any more.
        kept::discard(&before);
        tell(&format!(
            "it is in force, and kept in `{path}`{}",
            if conveyance::is_ours(profile) {
                kept::WHERE
            } else {
                ", readable by you alone"
            }
        ));
        Ok(self.done(EnrollmentOutcome::Promoted, named, kept))
    }

    /// What its file is to hold.
    fn text(&self, given: &Given) -> Result<Secret> {
        let Self {
            context, profile, ..
        } = self;
        let secret = given.secret.clone();
        if conveyance::is_ours(profile) {
            let since = context.clock.now();
            return kept::text(&profile.id, &Kept { secret, since });
        }
        let file = provider::of(profile.provider).key_file(&secret);
        file.ok_or_else(|| Error::internal("a key has no file"))
    }

    /// Tries it at the server, and finds out whose it is.
    fn name(&self, given: &Given, tell: &dyn Fn(&str)) -> Result<Named> {
        let profile = self.profile;
        if profile.credential == Credential::ApiKey {
            return self.name_key(given, tell);
        }
        let new = verify::New {
            home: &profile.home,
            login: &given.login,
            text: "",
        };
        match verify::named(self.context, self.settings, profile, &new)? {
            Ok(named) => {
                let short = named.fingerprint.short();
                tell(&format!(
                    "the server says that this token is of account {short}"
                ));
                match &given.vouched {
                    Some(vouched) if !vouched.overlaps(&named.fingerprint) => {
                        Err(Unfit::another(profile, vouched, &named.fingerprint).into())
                    }
                    Some(_) | None => Ok(named),
                }
            }
            Err(FetchError::Forbidden) => match &given.vouched {
                None => Err(Unfit::unnamed(profile, &self.pair()?).into()),
                Some(vouched) => {
                    tell(&format!(
                        "the server takes the token and may not say whose it is: it counts as account {}, because you say so",
                        vouched.short()
                    ));
                    Ok(Named {
                        fingerprint: vouched.clone(),
                        source: ASSERTED.to_owned(),
                    })
                }
            },
            Err(error) => Err(Unfit::unproved(profile, &error).into()),
        }
    }

    /// The profile that could vouch: itself, when it was proved before.
    fn pair(&self) -> Result<String> {
        let known = snapshot::provider::load(self.context, self.profile.provider)?;
        let state = known.states.get(self.profile.id.as_str());
        let pinned = state.is_some_and(|state| state.durable.pinned.is_some());
        Ok(if pinned {
            self.profile.id.to_string()
        } else {
            "PROFILE".to_owned()
        })
    }

    fn name_key(&self, given: &Given, tell: &dyn Fn(&str)) -> Result<Named> {
        let Self {
            context, profile, ..
        } = self;
        let deadline = context.clock.deadline(ROUTINE);
        let provider = provider::of(profile.provider);
        match provider.try_key(context, &given.secret, &deadline) {
            Ok(()) => tell("the server takes the key"),
            Err(FetchError::Forbidden) => {
                tell(
                    "the server knows the key and does not let it list models: a worker will show what it is good for",
                );
            }
            Err(error) => return Err(Unfit::unproved(profile, &error).into()),
        }
        let account = Account {
            account: Some(format!("{KEY}:{}", digest(&[Some(given.secret.expose())]))),
            ..Account::default()
        };
        let key = install::key(context)?;
        Ok(Named {
            fingerprint: key.fingerprint(profile.provider, &account),
            source: KEY.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, one_line};

    #[test]
    fn one_word_on_one_line_is_taken_and_nothing_else() {
        for good in ["token", "token\n", "  token\r\n", "\ntoken\n\n"] {
            assert_eq!(one_line(good.as_bytes()), Ok("token"), "{good:?}");
        }
        for bad in ["", " \n", "a\nb", "a b", "a\u{7}", "a\u{e4}"] {
            assert!(one_line(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(one_line(b"\xff").is_err());
        assert!(one_line(&vec![b'a'; LIMIT + 1]).is_err());
    }
}
