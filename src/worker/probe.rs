//! Letting the provider's own CLI refresh a login that nobody can be asked about otherwise.
//!
//! Only for a person who says `--probe`, and only for a login that changed, or was never proved, and whose access
//! token has expired: while a token is good it is shown to the server instead, and a login that is proved is left
//! to the next worker. The CLI runs in the profile's home with a worker's environment, under a lease that takes
//! every slot, so no worker starts beside it. It is never killed: a refresh that is cut off loses the login. One
//! that outlives our patience goes on by itself, keeps its lease by the witness that it inherited, and frees it
//! when it ends; our own end changes nothing for it.
//!
//! Limits: a CLI that a person started in the home without a lease is not seen, but for Claude's own lock.

use std::ffi::OsString;
use std::time::Duration;

use crate::choose::examine::overridden;
use crate::clock::{Deadline, ROUTINE};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::home;
use crate::id::ProfileId;
use crate::identity::credential::{self, Look, Seen};
use crate::identity::proof::is_usable;
use crate::identity::refusal;
use crate::identity::verify::{self, Verdict};
use crate::lease::holder::Holder;
use crate::lease::{Granted, LeaseStore};
use crate::provider::{self, Conversation, LaunchFacts, LoginKind};
use crate::registry::binary;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot;
use crate::store::lock::{Locks, Mode, Name};
use crate::sys::spawn::{Apart, Program};
use crate::sys::{shell, user};
use crate::transaction::pending;

/// How long a refresh by another process is waited for between two looks.
const POLL: Duration = Duration::from_millis(100);

/// Proves these profiles anew, and lets the provider's CLI refresh the logins that have to be for that, one after
/// another; reports in the order given. `note` tells a person what is being waited for.
pub fn verify(
    context: &Context,
    registry: &Registry,
    store: &dyn LeaseStore,
    profiles: &[&Profile],
    patience: Duration,
    note: &dyn Fn(&str),
) -> Result<Vec<Verdict>> {
    let deadline = context.clock.deadline(ROUTINE);
    let mut verdicts = verify::verify(context, registry, profiles, &deadline)?;
    for (profile, verdict) in profiles.iter().zip(&mut verdicts) {
        if !verdict.needs_refresh {
            continue;
        }
        let probed = probe(context, store, &profile.id, patience, note).and_then(|()| {
            let deadline = context.clock.deadline(ROUTINE);
            verify::verify(context, registry, &[*profile], &deadline)
        });
        match probed {
            Ok(again) => *verdict = again.into_iter().next().ok_or_else(nothing)?,
            Err(error) => verdict.refuse(error),
        }
    }
    Ok(verdicts)
}

fn nothing() -> Error {
    Error::internal("a profile was verified without a verdict")
}

/// Lets the CLI refresh one profile's login, if that is what it takes.
fn probe(
    context: &Context,
    store: &dyn LeaseStore,
    id: &ProfileId,
    patience: Duration,
    note: &dyn Fn(&str),
) -> Result<()> {
    let locks = Locks::of(context);
    let routine = context.clock.deadline(ROUTINE);
    let registry = snapshot::registry::load(context)?;
    let kind = registry.profile(id)?.provider;
    let turnstile = locks.take(&Name::Turnstile(kind), Mode::Shared, &routine)?;
    let held = locks.take(&Name::Provider(kind), Mode::Shared, &routine)?;
    drop(turnstile);
    // A CLI that refreshes a login that is to be taken back would spend it.
    if let Some(pending) = pending::of(context, kind)?.first() {
        return Err(pending.refusal(None));
    }
    // What maintenance changed while it was waited for.
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(id)?;
    let program = program(context, &registry, profile)?;
    let granted = store.probe(id, kind, Holder::current()?)?;
    drop(held);
    match refresh(context, profile, &program, &granted, patience, note) {
        // It keeps the lease for as long as it lives.
        Err(error) if error.code == code::PROBE_SLOW => Err(error),
        Err(error) => {
            store.abandon(granted)?;
            Err(error)
        }
        Ok(()) => store.abandon(granted),
    }
}

/// The CLI as it is started for a refresh; refused where it would not be the home's own login that it uses.
fn program(context: &Context, registry: &Registry, profile: &Profile) -> Result<Program> {
    let provider = provider::of(profile.provider);
    home::readiness(context, registry, profile)?;
    let found = provider::overrides::of(profile, &[&profile.home]);
    if let Some(found) = found.into_iter().next() {
        return Err(overridden(profile, found));
    }
    let binary = binary::resolve(context, registry.provider(profile.provider)?)?;
    let facts = LaunchFacts {
        home: profile.home.clone(),
        workspace: profile.home.clone(),
        project: profile.home.clone(),
        conversation: Conversation::New { id: String::new() },
        binary: binary.clone(),
        may_spend: false,
        program: home::program::path(context),
    };
    let mut environment = provider::environment::worker(
        &context.variables,
        registry.settings.worker_env,
        user::name().as_deref(),
    );
    environment.extend(provider.environment(&facts));
    #[cfg(feature = "test-fakes")]
    if let Some(now) = context.variables.text(crate::env::TEST_NOW) {
        environment.push((crate::env::TEST_NOW.into(), now.into()));
    }
    Ok(Program {
        path: binary.into_std_path_buf(),
        arguments: provider
            .refresh_arguments()
            .iter()
            .map(OsString::from)
            .collect(),
        environment,
        directory: Some(profile.home.clone().into_std_path_buf()),
        input: Vec::new(),
    })
}

fn refresh(
    context: &Context,
    profile: &Profile,
    program: &Program,
    granted: &Granted,
    patience: Duration,
    note: &dyn Fn(&str),
) -> Result<()> {
    let deadline = context.clock.deadline(patience);
    let Some(before) = expired(context, profile) else {
        return Ok(());
    };
    if !others_are_done(context, profile, &deadline, note) {
        return Err(being_refreshed(context, profile));
    }
    match expired(context, profile) {
        Some(now) if now.login.digest == before.login.digest => {}
        // Someone else refreshed it, or logged in.
        Some(_) | None => return Ok(()),
    }
    let kind = profile.provider;
    note(&format!(
        "agent-fleet: {kind} refreshes the login of `{}` (at most {} s are waited for)",
        profile.id,
        deadline.left().as_secs()
    ));
    for start in 0..provider::of(kind).refresh_starts() {
        if start > 0 && deadline.passed() {
            break;
        }
        run(program, granted, profile, &deadline)?;
        match expired(context, profile) {
            Some(now) if now.login.digest == before.login.digest => {}
            // What it is now is told by whoever proves it.
            Some(_) | None => return Ok(()),
        }
    }
    Err(unrefreshed(profile))
}

/// Starts the CLI once, with the probe's witness, and waits for its end.
fn run(program: &Program, granted: &Granted, profile: &Profile, deadline: &Deadline) -> Result<()> {
    let failed = |error: std::io::Error| {
        let path = program.path.display();
        let message = format!("cannot start `{path}`: {error}");
        Error::new(code::PROVIDER_MISSING, message)
            .hint(format!("ls -l {}", shell::quote(&path.to_string())))
    };
    let start = || Apart::start(program);
    let started = match &granted.witness {
        Some(witness) => witness.lend(start).and_then(|started| started),
        None => start(),
    };
    let mut running = started.map_err(failed)?;
    if running.ended(deadline).map_err(failed)? {
        Ok(())
    } else {
        Err(slow(profile, running.pid()))
    }
}

/// The login in the home, if its CLI could refresh it and nobody can be asked about it before.
fn expired(context: &Context, profile: &Profile) -> Option<Box<Look>> {
    match credential::of(context, profile, None) {
        Seen::Read(look)
            if look.login.kind == LoginKind::Subscription
                && look.login.refreshable
                && !is_usable(&look.login, context.clock.now()) =>
        {
            Some(look)
        }
        Seen::Read(_)
        | Seen::Missing
        | Seen::Linked
        | Seen::Unreadable
        | Seen::Unparsable
        | Seen::Unchanged => None,
    }
}

/// Waits for a refresh that another process says it is making; false when it goes on beyond the deadline.
fn others_are_done(
    context: &Context,
    profile: &Profile,
    deadline: &Deadline,
    note: &dyn Fn(&str),
) -> bool {
    let provider = provider::of(profile.provider);
    let mut told = false;
    while let Some(lock) = provider.refreshing(&profile.home, context.clock.now()) {
        if !told {
            note(&format!(
                "agent-fleet: another process refreshes the login: `{lock}` is held"
            ));
            told = true;
        }
        if !deadline.pause(POLL) {
            return false;
        }
    }
    true
}

fn being_refreshed(context: &Context, profile: &Profile) -> Error {
    let lock = provider::of(profile.provider).refreshing(&profile.home, context.clock.now());
    let lock = lock.unwrap_or_else(|| profile.home.clone());
    let message = format!(
        "another process is refreshing the login of profile `{}`: it holds `{lock}`",
        profile.id
    );
    Error::new(code::LOCK_TIMEOUT, message)
        .hint(format!("ls -ld {}", shell::quote(lock.as_str())))
        .detail("path", lock.as_str())
}

fn slow(profile: &Profile, pid: u32) -> Error {
    let message = format!(
        "the {} CLI (process {pid}) is still refreshing the login of profile `{}`; it is left alone and holds the \
         profile until it ends (probe-slow)",
        profile.provider, profile.id
    );
    Error::new(code::PROBE_SLOW, message)
        .hint("agent-fleet lease list")
        .detail("pid", pid)
}

fn unrefreshed(profile: &Profile) -> Error {
    let message = format!(
        "the {} CLI ended without refreshing the login of profile `{}`: the server refused it or could not be reached",
        profile.provider, profile.id
    );
    Error::new(code::PROVIDER_FAILED, message).hint(refusal::log_in(profile))
}
