//! Giving a profile its login, so that nothing that was good before is lost on the way.
//!
//! The person logs in with the provider's own CLI in a private home that nobody uses yet. What comes out of it is
//! proved at the server, held against every other account here, and proved again a little later. Only then, and only
//! if no worker is in the way, it takes the place of what was in the profile's home: by [`crate::transaction`], in
//! one step that a crash cannot halve. The provider is locked for that step alone, never for the minutes of a login.
//!
//! # Guarantees
//! - A refusal, an interrupt, a full or read-only disk: the login that was in the home is still there, the same file,
//!   and nothing of the new one is left.
//! - A login in force that is good and of the same account stays, byte for byte.
//! - No provider is started on a live home, and no login is ended anywhere.
//!
//! # Limits
//! A login that was not kept still exists at the provider until it ends there. On macOS the CLIs keep logins in a
//! keychain, which this does not read. A CLI that a person started in the home without a lease is not waited for;
//! what it writes in the very moment is kept and reported.

mod force;
pub mod given;
mod login;
mod refusal;
pub mod stage;
mod verify;

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use jiff::{SignedDuration, Timestamp};

use crate::choose::routeability;
use crate::clock::ROUTINE;
use crate::contract::enrollment::{Enrolled, Enrollment, EnrollmentList, EnrollmentOutcome};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::home;
use crate::id::ProfileId;
use crate::identity::credential::{self, Look, Seen};
use crate::identity::proof::is_usable;
use crate::identity::refusal::log_in;
use crate::provider::conveyance::Conveyance;
use crate::provider::enrollment::Method;
use crate::provider::{self, LoginKind, Want};
use crate::quota::refresh::{Ask, Asker, Target, refresh};
use crate::registry::schema::{Credential, Profile, ProviderSettings, Registry, SafetyPolicy};
use crate::secret::Secret;
use crate::snapshot;
use crate::sys::attend::is_at_terminal;
use crate::sys::interrupt::Interrupts;
use refusal::Unfit;
use stage::Stage;
use verify::{Named, Pin};

/// How long a new login has to stay good before it counts.
const SECOND_PROOF: Duration = Duration::from_secs(20);
/// A login in force that ends sooner gives way to one that lasts longer.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Time between two looks for an interrupt.
const POLL: Duration = Duration::from_millis(50);

/// What the person asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Where the login comes from.
    pub source: Source,
    /// Other profiles of the provider may be at work; this one may not.
    pub beside_live: bool,
}

/// Where the login comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the provider's own login, now.
    Login(Method),
    /// It is in the profile's home already.
    Home,
}

/// One enrollment under way.
#[derive(Clone, Copy, Debug)]
struct Work<'a> {
    context: &'a Context,
    registry: &'a Registry,
    settings: &'a ProviderSettings,
    profile: &'a Profile,
    /// Other profiles of the provider may be at work.
    beside_live: bool,
    interrupts: &'a Interrupts,
}

/// A credential that is to be put in force.
#[derive(Clone, Copy, Debug)]
struct New<'a> {
    /// Of its tokens.
    digest: &'a str,
    /// What its file holds.
    text: &'a Secret,
}

/// The command that tries again.
fn again(profile: &Profile) -> String {
    log_in(profile)
}

/// Gives one profile its login. `tell` says to the person what happens.
pub fn enroll(
    context: &Context,
    id: &ProfileId,
    how: How,
    tell: &dyn Fn(&str),
) -> Result<Enrolled> {
    let interrupts = watch()?;
    one(context, id, how, &interrupts, tell)
}

/// Gives every worker profile without a usable login its own, one after another; one that is refused keeps no other
/// from its turn, unless the person interrupts.
pub fn enroll_missing(
    context: &Context,
    how: How,
    tell: &dyn Fn(&str),
) -> Result<(EnrollmentList, Option<Error>)> {
    let interrupts = watch()?;
    let registry = snapshot::registry::load(context)?;
    let mut list = EnrollmentList {
        enrollments: Vec::new(),
    };
    let mut refusal = None;
    let missing: Vec<&Profile> = registry
        .profiles
        .iter()
        .filter(|profile| is_missing(context, profile))
        .collect();
    for (at, profile) in missing.iter().enumerate() {
        let enrolled = if interrupts.came() {
            Err(Unfit::not_begun(profile).into())
        } else {
            let of = missing.len();
            tell(&format!("profile {} ({} of {of}):", profile.id, at + 1));
            let enrolled = one(context, &profile.id, how, &interrupts, tell);
            if let Err(error) = &enrolled {
                tell(&error.message);
            }
            enrolled
        };
        let (enrolled, error) = match enrolled {
            Ok(enrolled) => (Some(enrolled), None),
            Err(error) => (None, Some(error)),
        };
        list.enrollments.push(Enrollment {
            profile: profile.id.clone(),
            provider: profile.provider,
            enrolled,
            code: error.as_ref().map(|error| error.code.name.to_owned()),
            error: error.as_ref().map(|error| error.message.clone()),
        });
        refusal = refusal.or(error);
    }
    Ok((list, refusal))
}

fn watch() -> Result<Interrupts> {
    Interrupts::watch().map_err(|error| Error::internal(format!("cannot watch signals: {error}")))
}

/// Whether a profile that is for workers holds no login at all.
fn is_missing(context: &Context, profile: &Profile) -> bool {
    profile.safety_policy == SafetyPolicy::Worker
        && profile.credential == Credential::Home
        && match credential::look(profile.provider, &profile.home, None, context.clock) {
            Seen::Missing => true,
            Seen::Read(look) => look.login.kind == LoginKind::Blank,
            Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => false,
        }
}

fn one(
    context: &Context,
    id: &ProfileId,
    how: How,
    interrupts: &Interrupts,
    tell: &dyn Fn(&str),
) -> Result<Enrolled> {
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let work = Work {
        context,
        registry: &registry,
        settings: registry.provider(profile.provider)?,
        profile,
        beside_live: how.beside_live,
        interrupts,
    };
    work.is_possible(Credential::Home)?;
    home::is_own(profile)?;
    force::may_begin(&work, tell)?;
    let done = match how.source {
        Source::Login(method) => work.log_in(method, tell)?,
        Source::Home => work.adopt(tell)?,
    };
    Ok(work.told(done, tell))
}

/// What was done.
#[derive(Debug)]
struct Done {
    outcome: EnrollmentOutcome,
    named: Named,
    at: Timestamp,
    kept: Option<Utf8PathBuf>,
}

impl Work<'_> {
    /// Refuses what no login could change; `wanted` is the kind of credential that the person has.
    fn is_possible(&self, wanted: Credential) -> Result<()> {
        let Profile {
            id,
            provider,
            safety_policy,
            credential,
            ..
        } = self.profile;
        if let Conveyance::Never(why) = provider::of(*provider).conveys(wanted) {
            let message = format!("profile `{id}` cannot have a `{}`: {why}", wanted.word());
            return Err(Error::new(code::POLICY, message).hint(again(self.profile)));
        }
        if *safety_policy != SafetyPolicy::Worker {
            let message = format!(
                "profile `{id}` is `{}`: its login is the person's own affair",
                safety_policy.word()
            );
            return Err(Error::new(code::POLICY, message).hint(format!(
                "agent-fleet profile policy {id} --safety-policy worker"
            )));
        }
        if *credential != wanted {
            let message = format!(
                "profile `{id}` has `credential = \"{}\"`, and this would be a `{}`",
                credential.word(),
                wanted.word()
            );
            return Err(Error::new(code::POLICY, message).hint(format!(
                "agent-fleet profile policy {id} --credential {}",
                wanted.word()
            )));
        }
        Ok(())
    }

    fn log_in(&self, method: Method, tell: &dyn Fn(&str)) -> Result<Done> {
        let Self { profile, .. } = self;
        let stage = Stage::make(self.context, profile)?;
        let home = stage.home();
        let stays = if is_missing(self.context, profile) {
            String::new()
        } else {
            format!(
                "; the login that {} has stays until the new one is proved",
                profile.id
            )
        };
        tell(&format!(
            "logging in to {0} for {1}: the {0} CLI asks you now{stays}",
            profile.provider, profile.id
        ));
        if !is_at_terminal() {
            tell(
                "standard input is no terminal: a code that the CLI asks for has to come in there; in a container, \
                 start it with one (`-it`)",
            );
        }
        login::run(self, &home, method)?;
        let look = verify::staged(self.context, profile, &home)?;
        let named = self.prove(&home, &look, tell)?;
        let _: Pin = force::check(self, &named.fingerprint, &look.login.digest)?;
        if let Some((inside, whose)) = self.good_one(&look, &named) {
            let digest = &inside.login.digest;
            force::take_as_it_is(self, digest, &whose, &again(profile), tell)?;
            tell("the login in force is good and of this account: it stays as it is");
            return Ok(self.done(EnrollmentOutcome::Unchanged, named, None));
        }
        let named = self.prove_again(&named, tell, &|| self.ask(&home, &look))?;
        let new = New {
            digest: &look.login.digest,
            text: &look.text,
        };
        let kept = force::put(self, Some(&home), new, &named, tell)?;
        tell("the new login is in force");
        Ok(self.done(EnrollmentOutcome::Promoted, named, kept))
    }

    fn adopt(&self, tell: &dyn Fn(&str)) -> Result<Done> {
        let Self {
            context, profile, ..
        } = self;
        let home = &profile.home;
        let look = verify::in_force(context, profile)?;
        if !is_usable(&look.login, context.clock.now()) {
            let message = format!(
                "the access token in the home of profile `{}` ran out, so nobody can be asked whose it is",
                profile.id
            );
            return Err(Error::new(code::IDENTITY_UNPROVEN, message)
                .hint(format!("agent-fleet profile verify --probe {}", profile.id)));
        }
        let named = self.prove(home, &look, tell)?;
        let digest = &look.login.digest;
        let _: Pin = force::check(self, &named.fingerprint, digest)?;
        let named = self.prove_again(&named, tell, &|| self.ask(home, &look))?;
        let anew = format!("{} --adopt", again(profile));
        force::take_as_it_is(self, digest, &named, &anew, tell)?;
        Ok(self.done(EnrollmentOutcome::Adopted, named, None))
    }

    fn done(&self, outcome: EnrollmentOutcome, named: Named, kept: Option<Utf8PathBuf>) -> Done {
        Done {
            outcome,
            named,
            at: self.context.clock.now(),
            kept,
        }
    }

    fn prove(&self, home: &Utf8Path, look: &Look, tell: &dyn Fn(&str)) -> Result<Named> {
        let named = self.ask(home, look)?;
        tell(&format!(
            "the server says that this login is of account {}",
            named.fingerprint.short()
        ));
        Ok(named)
    }

    fn ask(&self, home: &Utf8Path, look: &Look) -> Result<Named> {
        let new = verify::New::of(home, look);
        verify::ask(self.context, self.settings, self.profile, &new)
    }

    /// The login in force and whose it is, when it is good, of the same account, and lasts.
    fn good_one(&self, new: &Look, named: &Named) -> Option<(Box<Look>, Named)> {
        let Self {
            context, profile, ..
        } = self;
        let now = context.clock.now();
        let home = &profile.home;
        let look = verify::in_force(context, profile).ok()?;
        let ends = look.login.login_expires_at;
        let outlived = ends.is_some_and(|ends| {
            let soon = now.checked_add(SOON).is_ok_and(|soon| ends < soon);
            soon && new.login.login_expires_at.is_none_or(|new| new > ends)
        });
        if outlived || !is_usable(&look.login, now) {
            return None;
        }
        let inside = self.ask(home, &look).ok()?;
        let is_same = inside.fingerprint.overlaps(&named.fingerprint);
        is_same.then_some((look, inside))
    }

    /// Asks once more after a while: a login may be withdrawn seconds after it was made.
    fn prove_again(
        &self,
        first: &Named,
        tell: &dyn Fn(&str),
        ask: &dyn Fn() -> Result<Named>,
    ) -> Result<Named> {
        let span = self.second_proof();
        tell(&format!(
            "asking again in {} s, since a login may be withdrawn right after it was made",
            span.as_secs_f64()
        ));
        let deadline = self.context.clock.deadline(span);
        loop {
            if self.interrupts.came() {
                return Err(Unfit::interrupted(self.profile).into());
            }
            if !deadline.pause(POLL) {
                break;
            }
        }
        let again = ask().map_err(|error| match error.details.get("reason") {
            Some(reason) if reason == "unauthorized" => Unfit::withdrawn(self.profile).into(),
            Some(_) | None => error,
        })?;
        if again.fingerprint.whole == first.fingerprint.whole {
            Ok(again)
        } else {
            Err(Unfit::another(self.profile, &first.fingerprint, &again.fingerprint).into())
        }
    }

    #[cfg(feature = "test-fakes")]
    fn second_proof(&self) -> Duration {
        let wanted = self.context.variables.text(crate::env::TEST_SECOND_PROOF);
        wanted
            .and_then(|text| text.parse().ok())
            .map_or(SECOND_PROOF, Duration::from_millis)
    }
    #[cfg(not(feature = "test-fakes"))]
    #[expect(clippy::unused_self, reason = "a test shortens it")]
    fn second_proof(&self) -> Duration {
        SECOND_PROOF
    }

    /// Makes the home ready, measures the account once, and says what is still in the way of work.
    fn told(&self, done: Done, tell: &dyn Fn(&str)) -> Enrolled {
        let profile = self.profile;
        let missing = self.missing(tell).err();
        let (reason, hint) = match missing {
            None => ("ready".to_owned(), None),
            Some(error) => (error.code.name.to_owned(), error.hint),
        };
        Enrolled {
            profile: profile.id.clone(),
            provider: profile.provider,
            outcome: done.outcome,
            identity_fingerprint: done.named.fingerprint.whole,
            identity_source: done.named.source,
            verified_at: done.at,
            routeable: hint.is_none() && reason == "ready",
            reason,
            hint,
            kept: done.kept,
        }
    }

    fn missing(&self, tell: &dyn Fn(&str)) -> Result<()> {
        let context = self.context;
        // A person may have enabled it during the login.
        let registry = &snapshot::registry::load(context)?;
        let profile = registry.profile(&self.profile.id)?;
        if home::readiness(context, registry, profile).is_err() {
            tell("making the home ready for workers");
            home::provision(context, registry, profile)?;
        }
        let deadline = context.clock.deadline(ROUTINE);
        let ask = Ask {
            target: Target::Profile(profile),
            want: Want {
                identity: true,
                usage: true,
            },
            asker: Asker::Program,
        };
        refresh(context, registry, &[ask], &deadline)?;
        let report = routeability::report(context, registry, profile, &deadline)?;
        match report.refusal(profile) {
            Some(refusal) => Err(refusal),
            None if profile.enabled => Ok(()),
            None => Err(Error::new(code::PROFILE_DISABLED, "it is not enabled")
                .hint(format!("agent-fleet profile enable {}", profile.id))),
        }
    }
}
