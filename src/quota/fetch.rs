//! One fetch: is it needed, may it be made, what did it bring.
//!
//! One fetch per profile and machine: the fetch lock spans the GET and the writing of its result, so who
//! waited for it finds the result and asks nothing. The fetch is written down before it is made: what cannot
//! be remembered is not asked, and a process that dies on the way has had its turn. No token is ever
//! refreshed; an expired one is shown to nobody, and the profile says so. A login that changed while it was
//! asked about proves nothing.

use std::time::Duration;

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};

use super::external::{self, Subject};
use super::headroom::{self, Question, Status};
use super::poll;
use super::refresh::{Ask, Asker, Outcome, Target};
use super::window::Reading;
use crate::clock::Deadline;
use crate::crash_point;
use crate::env::Context;
use crate::error::Result;
use crate::id::{ProfileId, ProviderKind};
use crate::identity::credential::{self, Look, Seen};
use crate::identity::fingerprint::Key;
use crate::identity::proof::{Unproven, is_usable};
use crate::provider::{
    self as services, FetchError, Fetched, LoginKind, Want, account, conveyance,
};
use crate::reason::TOKEN_EXPIRED;
use crate::registry::schema::{
    Anchor, Credential, Profile, ProviderSettings, QuotaReader, Registry, SafetyPolicy,
};
use crate::snapshot::merge::{self, Extent, Proved};
use crate::snapshot::profile::{ASSERTED, BASE, Binding, Poll, ProfileState, Proof};
use crate::snapshot::provider;
use crate::store::lock::{Locks, Mode, Name};

/// How long a contradiction is left alone: a login that is half-way in needs no longer.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);

/// How long a server or a reader may take; what is left of a routine verb's time is for keeping the answer.
const LONGEST: Duration = Duration::from_secs(6);
/// How long anyone waits for a fetch of another process.
const PATIENCE: Duration = Duration::from_millis(6500);

/// A fetch that is to be made, if it is needed.
#[derive(Debug)]
pub(super) struct Fetch<'a> {
    context: &'a Context,
    settings: &'a ProviderSettings,
    key: &'a Key,
    name: String,
    /// `None` for the base login.
    profile: Option<&'a Profile>,
    home: &'a Utf8Path,
    lock: ProfileId,
    reader: &'a QuotaReader,
    want: Want,
    asker: Asker,
    fresh_seconds: u64,
    began: Timestamp,
    deadline: &'a Deadline,
}

/// What is still to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing(Outcome),
    Ask(Want),
}

/// What was brought home, before anybody checked that it still fits the home.
struct Brought {
    fetched: Fetched,
    source: &'static str,
    reader: &'static str,
    at: Timestamp,
}

impl<'a> Fetch<'a> {
    /// The fetch for a question, or the reason word why there is none to make.
    pub(super) fn plan(
        context: &'a Context,
        registry: &'a Registry,
        key: &'a Key,
        ask: &Ask<'a>,
        deadline: &'a Deadline,
    ) -> Result<Result<Self, &'static str>> {
        const BUILTIN: &QuotaReader = &QuotaReader::Builtin;
        let (provider, name) = ask.target.key();
        let settings = registry.provider(provider)?;
        let (profile, home, lock, reader): (_, &Utf8Path, _, _) = match ask.target {
            Target::Profile(profile) if profile.safety_policy != SafetyPolicy::Worker => {
                return Ok(Err("policy"));
            }
            // No server tells whose a key is, or how much is left of what is paid as it is used.
            Target::Profile(profile) if profile.credential == Credential::ApiKey => {
                return Ok(Err(Unproven::ApiKey.word()));
            }
            Target::Profile(profile) => {
                let reader = conveyance::reader(profile, settings);
                (Some(profile), &profile.home, profile.id.clone(), reader)
            }
            Target::Base(_) => match &settings.base_home {
                Anchor::Off => return Ok(Err("off")),
                // A profile of this name would only take turns with it.
                Anchor::At(home) => (
                    None,
                    home,
                    format!("base-login.{provider}").parse()?,
                    BUILTIN,
                ),
            },
        };
        Ok(Ok(Self {
            context,
            settings,
            key,
            name,
            profile,
            home,
            lock,
            reader,
            want: Want {
                identity: ask.want.identity,
                usage: ask.want.usage
                    && *reader != QuotaReader::None
                    && !matches!(ask.target, Target::Base(_)),
            },
            asker: ask.asker,
            fresh_seconds: registry.settings.quota_fresh_seconds,
            began: context.clock.now(),
            deadline,
        }))
    }

    fn provider(&self) -> ProviderKind {
        self.settings.kind
    }

    /// Where the CLI keeps its own settings: beside its default home, within any other.
    fn settings_home(&self) -> &Utf8Path {
        let person = &self.context.roots.home;
        let default = person.join(services::of(self.provider()).default_home());
        if self.name == BASE && self.home == default {
            person
        } else {
            self.home
        }
    }

    fn is_external(&self) -> bool {
        matches!(self.reader, QuotaReader::External(_))
    }

    fn state(&self) -> Result<ProfileState> {
        let mut snapshot = provider::load(self.context, self.provider())?;
        let known = snapshot.states.remove(&self.name);
        Ok(known.unwrap_or_else(|| ProfileState::named(&self.name)))
    }

    /// Asks, if it is needed and may be done.
    pub(super) fn run(&self) -> Result<Outcome> {
        // Without the lock first: most questions need no answer.
        let look = match self.look() {
            Ok(look) => look,
            Err(reason) => return Ok(Outcome::Left(reason)),
        };
        let state = self.state()?;
        if let Need::Nothing(outcome) = self.need(&state, look.as_deref()) {
            let answer_may_come = outcome != Outcome::Known
                && poll::is_under_way(&state.poll, self.context.clock.now());
            if !answer_may_come {
                return self.nothing(look.as_deref(), outcome);
            }
        }
        let locks = Locks::of(self.context);
        let _fetching = locks.take(
            &Name::Fetch(self.lock.clone()),
            Mode::Exclusive,
            &self.deadline.within(PATIENCE),
        )?;
        let look = match self.look() {
            Ok(look) => look,
            Err(reason) => return Ok(Outcome::Left(reason)),
        };
        let state = self.state()?;
        let want = match self.need(&state, look.as_deref()) {
            Need::Nothing(outcome) => return self.nothing(look.as_deref(), outcome),
            Need::Ask(want) => want,
        };
        self.begin(look.as_deref())?;
        crash_point!("fetch.begun");
        let brought = self.ask(look.as_deref(), want)?;
        self.keep(look.as_deref(), &brought, &state.poll)
    }

    /// Writes down that the fetch is made.
    fn begin(&self, look: Option<&Look>) -> Result<()> {
        let digest = look.map(|look| look.login.digest.as_str());
        let now = self.context.clock.now();
        provider::update(self.context, self.provider(), self.deadline, |snapshot| {
            let state = snapshot.entry(&self.name);
            state.poll = poll::begin(&state.poll, digest, now);
            Ok(())
        })
    }

    /// The login in the home now; `None` when it holds no credential and an external reader may know more.
    fn look(&self) -> Result<Option<Box<Look>>, &'static str> {
        let seen = match self.profile {
            Some(profile) => credential::of(self.context, profile, None),
            None => credential::look(self.provider(), self.home, None, self.context.clock),
        };
        let unproven = match seen {
            Seen::Missing if self.is_external() => return Ok(None),
            Seen::Missing if self.profile.is_some_and(conveyance::is_ours) => Unproven::NotEnrolled,
            Seen::Read(look) => match look.login.kind {
                LoginKind::Subscription => return Ok(Some(look)),
                LoginKind::Blank => Unproven::LoggedOut,
                LoginKind::ApiKey => Unproven::ApiKey,
            },
            Seen::Missing => Unproven::NoLogin,
            Seen::Linked => Unproven::CredentialLink,
            Seen::Unreadable => Unproven::CredentialUnreadable,
            Seen::Unparsable | Seen::Unchanged => Unproven::CredentialUnparsable,
        };
        Err(unproven.word())
    }

    /// What must still be asked, by what is known and by what the poll budget allows.
    fn need(&self, state: &ProfileState, look: Option<&Look>) -> Need {
        let now = self.context.clock.now();
        let digest = look.map(|look| look.login.digest.as_str());
        let proof = state
            .proof
            .as_ref()
            .filter(|proof| proof.binding == binding(digest));
        let by_person = self.asker == Asker::Person;
        let identity = match proof {
            None => self.want.identity || self.want.usage,
            // Once a day at most: a token that may not say whose it is never will, and each try counts against it.
            Some(proof) if proof.source == ASSERTED => {
                by_person && self.want.identity && poll::next_at(&state.poll, now).is_none()
            }
            Some(proof) => {
                let older = proof.at < self.began || poll::is_ahead(proof.at, self.began);
                by_person && self.want.identity && older
            }
        };
        let worth = headroom::worth(state, &self.question(now));
        // While another login is not proved to be the same account, its reading is not known to be too old.
        let is_fresh = worth.status == Status::Fresh;
        let usage = self.want.usage && (by_person || !is_fresh);
        let identity = identity && poll::may_prove(&state.poll, digest, self.asker, now);
        let want = Want {
            identity,
            usage: usage
                && (proof.is_some() || identity)
                && poll::may_measure(&state.poll, digest, now),
        };
        if want.identity || want.usage {
            let usable = look.is_none_or(|look| is_usable(&look.login, now));
            return if usable || self.is_external() {
                Need::Ask(want)
            } else {
                Need::Nothing(Outcome::Left(TOKEN_EXPIRED))
            };
        }
        let settled = proof.is_some() && (!self.want.usage || is_fresh);
        Need::Nothing(if settled {
            Outcome::Known
        } else {
            Outcome::Left(poll::reason_word(&state.poll))
        })
    }

    fn question(&self, now: Timestamp) -> Question<'static> {
        Question {
            model: None,
            fresh_seconds: self.fresh_seconds,
            last_used: None,
            readable: true,
            now,
        }
    }

    /// Remembers that the token is expired, so that nobody takes the reading for renewable.
    fn nothing(&self, look: Option<&Look>, outcome: Outcome) -> Result<Outcome> {
        if outcome == Outcome::Left(TOKEN_EXPIRED)
            && self.state()?.poll.reason.as_deref() != Some(TOKEN_EXPIRED)
        {
            provider::update(self.context, self.provider(), self.deadline, |snapshot| {
                let state = snapshot.entry(&self.name);
                state.poll.reason = Some(TOKEN_EXPIRED.to_owned());
                state.login_expires_at = look.and_then(|look| look.login.login_expires_at);
                Ok(())
            })?;
        }
        Ok(outcome)
    }

    fn ask(&self, look: Option<&Look>, want: Want) -> Result<Brought> {
        let deadline = self.deadline.within(LONGEST);
        if let QuotaReader::External(program) = self.reader {
            let subject = Subject {
                profile: &self.name,
                provider: self.provider(),
                home: self.home,
            };
            let answer = external::read(self.context, program, subject, &deadline)?;
            let now = self.context.clock.now();
            let at = answer.as_ref().ok().and_then(|answer| answer.at);
            let fetched = match answer {
                Ok(answer) => Fetched {
                    identity: Some(Ok(answer.account)),
                    usage: Some(Ok(answer.usage)),
                },
                Err(error) => Fetched::failed(
                    Want {
                        identity: true,
                        usage: true,
                    },
                    &error,
                ),
            };
            return Ok(Brought {
                fetched,
                source: "quota-account",
                reader: "external",
                at: at.unwrap_or(now).min(now),
            });
        }
        let fetched = match look {
            Some(look) => services::of(self.provider()).fetch(
                self.context,
                self.settings,
                &look.login,
                want,
                &deadline,
            ),
            None => Fetched::failed(want, &FetchError::Unauthorized),
        };
        Ok(Brought {
            fetched,
            source: account::identity_source(self.provider()),
            reader: "builtin",
            at: self.context.clock.now(),
        })
    }

    /// Writes down what was brought, if the home still holds the login it was brought with. `before` is what
    /// was known of earlier fetches.
    fn keep(&self, asked: Option<&Look>, brought: &Brought, before: &Poll) -> Result<Outcome> {
        let digest = asked.map(|look| look.login.digest.as_str());
        let look = match self.look() {
            Ok(look) if look.as_ref().map(|look| look.login.digest.as_str()) == digest => look,
            Ok(_) | Err(_) => {
                let now = self.context.clock.now();
                return provider::update(
                    self.context,
                    self.provider(),
                    self.deadline,
                    |snapshot| {
                        let state = snapshot.entry(&self.name);
                        state.poll = poll_after(before, &state.poll, &brought.fetched, now);
                        Ok(Outcome::Left("login_changed"))
                    },
                );
            }
        };
        let now = self.context.clock.now();
        let hints = look
            .as_ref()
            .map(|look| {
                let settings = self.settings_home();
                account::hints(self.provider(), settings, look.text.expose().as_bytes())
            })
            .unwrap_or_default();
        let look = look.as_deref();
        provider::update(self.context, self.provider(), self.deadline, |snapshot| {
            let found = brought
                .fetched
                .identity
                .as_ref()
                .and_then(|found| found.as_ref().ok());
            let fingerprint = found.map(|account| self.key.fingerprint(self.provider(), account));
            if self.asker == Asker::Person && fingerprint.is_some() {
                snapshot.restore(&self.name);
            }
            let state = snapshot.entry(&self.name);
            state.poll = poll_after(before, &state.poll, &brought.fetched, now);
            if let Some(look) = look {
                state.login_expires_at = look.login.login_expires_at;
            }
            if let (Some(account), Some(fingerprint)) = (found, fingerprint) {
                let contradicted = hints.iter().any(|hint| hint.contradicts(account));
                if contradicted && state.may_be(&fingerprint) {
                    state.proof = None;
                    state.poll.reason = Some(poll::HINT_DISAGREES.to_owned());
                    state.poll.next_at = now.checked_add(SETTLING).ok();
                    return Ok(Outcome::Failed(poll::HINT_DISAGREES));
                }
                let proof = Proof {
                    fingerprint,
                    source: brought.source.to_owned(),
                    at: now,
                    binding: binding(digest),
                    file: look.map(|look| look.file),
                    digested_at: look.map_or(0, |look| look.at),
                };
                if self.name == BASE {
                    merge::prove_anchor(state, proof);
                } else if merge::prove(state, proof) == Proved::Changed {
                    return Ok(Outcome::Changed);
                } else if self.asker == Asker::Person {
                    // The person put the right login back and had it proved.
                    state.durable.quarantine = None;
                }
            }
            if let (Some(Ok(usage)), Some(proof)) = (&brought.fetched.usage, &state.proof)
                && *self.reader != QuotaReader::None
            {
                let reading = Reading {
                    at: brought.at,
                    fingerprint: proof.fingerprint.whole.clone(),
                    source: brought.reader.to_owned(),
                    windows: usage.windows.clone(),
                    overage_enabled: usage.overage_enabled,
                    spend: usage.spend,
                };
                merge::read(state, reading, Extent::Whole);
                if usage.misread {
                    state.poll.reason = Some(poll::MISREAD.to_owned());
                }
                // The server takes the login after all. What a worker said of it stands.
                if state
                    .auth_broken
                    .take_if(|note| note.reason == poll::REFUSED)
                    .is_some()
                {
                    state.refused_login = None;
                }
            }
            match first_error(&brought.fetched) {
                None => Ok(Outcome::Known),
                Some(error) => {
                    // An external reader may mean an expired token, which is no broken login.
                    if *error == FetchError::Unauthorized && !self.is_external() {
                        merge::refused(state, digest, now);
                    }
                    let identity = matches!(&brought.fetched.identity, Some(Err(_)));
                    Ok(Outcome::Failed(poll::reason(error, identity)))
                }
            }
        })
    }
}

/// What to remember of this fetch for the next.
fn poll_after(before: &Poll, begun: &Poll, fetched: &Fetched, now: Timestamp) -> Poll {
    let outcome = first_error(fetched).map_or(Ok(()), Err);
    if fetched.usage.is_none() && outcome.is_ok() {
        return poll::proved(before, begun, now);
    }
    let identity_failed = matches!(&fetched.identity, Some(Err(_)));
    poll::after(begun, outcome, identity_failed, now)
}

fn binding(digest: Option<&str>) -> Binding {
    digest.map_or(Binding::NoCredential, |digest| {
        Binding::Tokens(digest.to_owned())
    })
}

fn first_error(fetched: &Fetched) -> Option<&FetchError> {
    let identity = fetched
        .identity
        .as_ref()
        .and_then(|found| found.as_ref().err());
    let usage = fetched
        .usage
        .as_ref()
        .and_then(|found| found.as_ref().err());
    identity.or(usage)
}
