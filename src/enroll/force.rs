//! Putting a proved login in force: what may be in the way, the locks, the promotion, and what is written down.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Access, access};

use super::given::KEY;
use super::refusal::Unfit;
use super::verify::{self, Named, Others, Pin};
use super::{New, Work};
use crate::clock::ROUTINE;
use crate::contract::lease::Verdict;
use crate::error::{Error, Result, code};
use crate::identity::anchor;
use crate::identity::conflict::{AnchorIdentity, Holder, Overlap};
use crate::identity::credential::{self, Seen};
use crate::identity::fingerprint::Fingerprint;
use crate::identity::verify::about_base;
use crate::lease::{LeaseStore as _, TableStore};
use crate::provider::home::link;
use crate::provider::{self, conveyance};
use crate::quota::poll;
use crate::quota::refresh::refresh;
use crate::registry::binary;
use crate::registry::schema::{Credential, Profile, Registry};
use crate::snapshot;
use crate::snapshot::merge::{self, Proved};
use crate::snapshot::profile::{Binding, ProfileState, Proof};
use crate::store::directory;
use crate::store::lock::{Guard, Locks};
use crate::sys::shell;
use crate::transaction::promote::Promoted;
use crate::transaction::{begin, pending};

const PURPOSE: &str = "profile enroll";
/// How long another command may keep a login that was made from its place.
const PATIENCE: Duration = Duration::from_mins(1);

/// Refuses what would be refused at the end anyway, before the person has to log in.
pub(super) fn may_begin(work: &Work<'_>, tell: &dyn Fn(&str)) -> Result<()> {
    let Work {
        context,
        registry,
        profile,
        ..
    } = work;
    binary::resolve(context, work.settings)?;
    for recovered in pending::fence(context, profile.provider)? {
        tell(&recovered.told());
    }
    // Maintenance under way, or a state root that cannot be written, is noticed by taking the locks once.
    drop(Locks::of(context).maintenance(profile.provider, PURPOSE)?);
    idle(work)?;
    is_writable(&profile.home)?;
    link::refuse(
        &profile.home,
        &[provider::of(profile.provider).credential_file()],
    )?;
    if profile.credential == Credential::ApiKey {
        // A key is no login that anyone could share.
        return Ok(());
    }
    let deadline = context.clock.deadline(ROUTINE);
    let base: Vec<_> = about_base(context, registry, profile.provider)?
        .into_iter()
        .collect();
    refresh(context, registry, &base, &deadline)?;
    let known = snapshot::provider::load(context, profile.provider)?;
    if let Some(damage) = known.damaged.get(profile.id.as_str())
        && damage.is_unreadable()
    {
        return Err(damage.clone().into());
    }
    let anchors = anchor::look(context, work.settings, &known)?.anchors;
    let unverified = match (&anchors.base, &anchors.desktop) {
        (AnchorIdentity::Unverified(reason), _) => Overlap::BaseUnverified(reason),
        (_, AnchorIdentity::Unverified(reason)) => Overlap::DesktopUnverified(reason),
        _ => return Ok(()),
    };
    Err(verify::shared(registry, profile, unverified))
}

/// Refuses while a lease is in the way.
fn idle(work: &Work<'_>) -> Result<()> {
    let Work {
        context, profile, ..
    } = work;
    let deadline = context.clock.deadline(ROUTINE);
    let listing = TableStore::open(context, deadline)?.list()?;
    let kind = profile.provider;
    let beside_live = work.beside_live;
    let mut in_the_way = listing.leases.iter().filter(|lease| {
        lease.verdict != Verdict::Dead
            && if beside_live {
                lease.profile == profile.id
            } else {
                lease.provider == kind
            }
    });
    let phrase = format!("refusing {kind} login while any same-provider Fleet lease is active");
    let own =
        |id| format!("refusing {kind} login for profile `{id}` while it holds a lease itself");
    let (message, hint) = match in_the_way.next() {
        Some(_) if beside_live => (own(&profile.id), "agent-fleet lease list".to_owned()),
        Some(_) => (phrase, format!("{} --beside-live", super::again(profile))),
        // Nobody knows whose they are.
        None if !listing.damaged.is_empty() => (phrase, "agent-fleet lease list".to_owned()),
        None => return Ok(()),
    };
    Err(Error::new(code::LEASE_ACTIVE, message).hint(hint))
}

/// Refuses a home into which nothing can be written, or the directory that it would be made in.
fn is_writable(home: &Utf8Path) -> Result<()> {
    let there = home.ancestors().find(|path| path.exists()).unwrap_or(home);
    access(there.as_std_path(), Access::WRITE_OK).map_err(|error| {
        let error = std::io::Error::from(error);
        Error::io("write to", there, &error)
    })
}

/// Holds a login and its account against the profile's own and everybody else's, as they are known now; `digest` is
/// of its tokens.
pub(super) fn check(work: &Work<'_>, fingerprint: &Fingerprint, digest: &str) -> Result<Pin> {
    check_in(work, work.registry, fingerprint, digest)
}

fn check_in(
    work: &Work<'_>,
    registry: &Registry,
    fingerprint: &Fingerprint,
    digest: &str,
) -> Result<Pin> {
    let Work {
        context, profile, ..
    } = work;
    let twins = twins(work, registry, digest);
    if !twins.is_empty() {
        let overlap = Overlap::Duplicate(twins);
        return Err(verify::shared(registry, profile, overlap));
    }
    let known = snapshot::provider::load(context, profile.provider)?;
    let anchors = anchor::look(context, work.settings, &known)?.anchors;
    let siblings: Vec<_> = registry
        .of(profile.provider)
        .filter(|sibling| sibling.id != profile.id)
        .filter_map(|sibling| {
            let state = known.states.get(sibling.id.as_str())?;
            Some(Holder::of(sibling, state.fingerprint()?))
        })
        .collect();
    let state = known.states.get(profile.id.as_str());
    let pinned = state.and_then(|state| state.durable.pinned.as_ref());
    // A key is its own account, and is replaced by another one every now and then.
    let is_next = profile.credential == Credential::ApiKey
        && pinned.is_some_and(|pinned| {
            pinned.source == KEY && !pinned.fingerprint.overlaps(fingerprint)
        });
    let pinned = pinned.filter(|_| !is_next);
    let others = Others {
        pinned: pinned.map(|pinned| &pinned.fingerprint),
        siblings: &siblings,
        anchors: &anchors,
    };
    verify::judge(profile, fingerprint, &others)
        .map(|pin| if is_next { Pin::Anew } else { pin })
        .map_err(|wrong| verify::refused(registry, profile, fingerprint, wrong))
}

/// The profiles that hold this very login, token or key: one account, whatever was said about whose it is.
fn twins(work: &Work<'_>, registry: &Registry, digest: &str) -> Vec<String> {
    let Work {
        context, profile, ..
    } = work;
    let holds = |other: &Profile| match credential::of(context, other, None) {
        Seen::Read(look) => look.login.digest == digest,
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            false
        }
    };
    registry
        .of(profile.provider)
        .filter(|other| other.id != profile.id && holds(other))
        .map(|other| other.id.to_string())
        .collect()
}

/// Takes the provider for maintenance, and waits for whoever has it: a login that a person has just made is worth that.
fn take_turn(work: &Work<'_>, tell: &dyn Fn(&str)) -> Result<(Guard, Guard)> {
    let Work {
        context, profile, ..
    } = work;
    let locks = Locks::of(context);
    let deadline = context.clock.deadline(PATIENCE);
    let mut told = false;
    loop {
        let taken = locks.maintenance(profile.provider, PURPOSE);
        let is_busy = taken
            .as_ref()
            .is_err_and(|error| error.code == code::MAINTENANCE_BUSY);
        if is_busy && work.interrupts.came() {
            return Err(Unfit::interrupted(profile).into());
        }
        if !is_busy || !deadline.pause(super::POLL) {
            return taken;
        }
        if !std::mem::replace(&mut told, true) {
            tell("another command changes the profiles of this provider: waiting for it");
        }
    }
}

/// What must still hold once the locks are taken. What else of the profile was changed meanwhile, such as whether it is
/// enabled, is no reason to throw a login away.
fn still(work: &Work<'_>, fingerprint: &Fingerprint, digest: &str) -> Result<Pin> {
    let Work {
        context,
        profile: before,
        ..
    } = work;
    let registry = snapshot::registry::load(context)?;
    let profile = registry.profile(&before.id)?;
    let is_meant = |one: &Profile| {
        let place = one.home.clone();
        (one.provider, place, one.credential, one.safety_policy)
    };
    if is_meant(profile) != is_meant(before)
        || registry.provider(profile.provider)? != work.settings
    {
        let message = format!(
            "profile `{}` was changed by someone else during the login: nothing was changed",
            profile.id
        );
        return Err(Error::new(code::MAINTENANCE_BUSY, message).hint(super::again(profile)));
    }
    let work = Work { profile, ..*work };
    check_in(&work, &registry, fingerprint, digest)
}

/// Puts a login in force, and writes down whose it is; what its CLI noted in a staged home comes along. Returns where a login is kept that the
/// provider's CLI wrote meanwhile.
pub(super) fn put(
    work: &Work<'_>,
    staged: Option<&Utf8Path>,
    new: New<'_>,
    named: &Named,
    tell: &dyn Fn(&str),
) -> Result<Option<Utf8PathBuf>> {
    let Work {
        context, profile, ..
    } = work;
    let (_turnstile, guard) = take_turn(work, tell)?;
    pending::settle(context, profile.provider, &guard)?;
    idle(work)?;
    let pin = still(work, &named.fingerprint, new.digest)?;
    let target = conveyance::file(context, profile);
    let folder = target.parent().unwrap_or(&profile.home);
    let made = make(folder)?;
    let promoted = promote_in(work, &guard, &target, new);
    if made && promoted.is_err() {
        // Nothing of ours stays in what was not there before.
        drop(directory::remove_empty(folder));
    }
    let kept = promoted?;
    if let Some(staged) = staged {
        // One that cannot be carried over is found by whoever looks whether the home is ready.
        drop(provider::of(profile.provider).carry_notes(context, staged, &profile.home));
    }
    write_down(work, named, pin)?;
    Ok(kept)
}

fn make(folder: &Utf8Path) -> Result<bool> {
    let made = !folder.exists();
    directory::establish(folder)?;
    Ok(made)
}

fn promote_in(
    work: &Work<'_>,
    guard: &Guard,
    target: &Utf8Path,
    new: New<'_>,
) -> Result<Option<Utf8PathBuf>> {
    let Work {
        context, profile, ..
    } = work;
    if let (Some(folder), Some(name)) = (target.parent(), target.file_name()) {
        link::refuse(folder, &[name])?;
    }
    let text = new.text.expose().as_bytes();
    let promotion = begin(context, (profile.provider, &profile.id), target, text)?;
    let mut stands = || match credential::of(context, profile, None) {
        Seen::Read(found) => found.login.digest == new.digest && !context.faults.last_look_fails,
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            false
        }
    };
    let outcome = promotion.carry_out(guard, text, &mut stands)?;
    let (message, kept) = match outcome {
        Promoted::Done { kept } => return Ok(kept),
        Promoted::Changed => ("changed at the same moment", None),
        Promoted::TakenBack { kept } => ("could not be read back", kept),
    };
    let message = format!(
        "the login of profile `{}` {message}: the one in force stays",
        profile.id
    );
    let error = Error::new(code::IDENTITY_UNPROVEN, message).hint(super::again(profile));
    Err(match kept {
        Some(kept) => error.detail("kept", kept.as_str()),
        None => error,
    })
}

/// Takes the login that is in force already, if it is still the one that was proved; `digest` is of its tokens. Nothing
/// is moved, so a worker that began meanwhile is not in the way.
pub(super) fn take_as_it_is(
    work: &Work<'_>,
    digest: &str,
    named: &Named,
    again: &str,
    tell: &dyn Fn(&str),
) -> Result<()> {
    let Work {
        context, profile, ..
    } = work;
    let (_turnstile, guard) = take_turn(work, tell)?;
    pending::settle(context, profile.provider, &guard)?;
    let pin = still(work, &named.fingerprint, digest)?;
    let now = verify::in_force(context, profile)?;
    if now.login.digest != digest {
        let message = format!(
            "the login of profile `{}` changed while it was proved: nothing was changed",
            profile.id
        );
        return Err(Error::new(code::IDENTITY_UNPROVEN, message).hint(again));
    }
    write_down(work, named, pin)
}

/// Pins and proves the account for the login in the home.
fn write_down(work: &Work<'_>, named: &Named, pin: Pin) -> Result<()> {
    let Work {
        context, profile, ..
    } = work;
    let look = verify::in_force(context, profile)?;
    let proof = Proof {
        fingerprint: named.fingerprint.clone(),
        source: named.source.clone(),
        at: context.clock.now(),
        binding: Binding::Tokens(look.login.digest.clone()),
        file: Some(look.file),
        digested_at: look.at,
    };
    let deadline = context.clock.deadline(ROUTINE);
    let proved = snapshot::provider::update(context, profile.provider, &deadline, |snapshot| {
        snapshot.restore(profile.id.as_str());
        let state = snapshot.entry(profile.id.as_str());
        if pin == Pin::Anew {
            // What was known is another account's; only what a person decided about the profile stays.
            let drain = state.durable.drain.take();
            *state = ProfileState::new(&profile.id);
            state.durable.drain = drain;
        }
        let proved = merge::prove(state, proof);
        if proved != Proved::Changed {
            state.durable.quarantine = None;
            state.auth_broken = None;
            state.login_expires_at = look.login.login_expires_at;
            state.poll = poll::with_new_login(&state.poll);
        }
        Ok(proved)
    })?;
    if proved == Proved::Changed {
        // The account was held against this very pin under the same locks.
        let path = shell::quote(profile.home.as_str());
        return Err(
            Error::internal(format!("profile `{}` was pinned meanwhile", profile.id))
                .hint(format!("ls -l {path}")),
        );
    }
    Ok(())
}
