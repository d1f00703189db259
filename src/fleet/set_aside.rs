//! Setting a whole run aside whose own records cannot be read, so that it stands in nobody's way any more.
//!
//! A run that cannot be read may have workers, so it keeps its checkout from beginning to work. Its directory is moved
//! whole to `<state>/fleet/damaged/` and nothing in it is changed but that launches nobody claimed are revoked; moved
//! back under its name, it is the run again. It stays while a process or a lease of it lives, or cannot be told about.

use camino::Utf8PathBuf;

use super::begin::alone;
use super::board::Board;
use super::files::{FleetFiles, LaunchFiles, RunFiles, names};
use super::launch::revoke::revoke;
use super::launch::{ClaimRecord, ExitRecord, LaunchRecord, Life, StartedRecord};
use super::record;
use super::recover::Alive;
use super::start::refuse_inside;
use crate::clock::ROUTINE;
use crate::contract::lease::Verdict;
use crate::crash_point;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::lease::{LeaseStore as _, TableStore};
use crate::store::directory;
use crate::store::lock::{Locks, Mode, Name};
use crate::store::replace::{rename_new, sync_directory};

/// Moves a run away that cannot be read; where it is now.
///
/// Refused with `not_found`, `step_not_ready` (it can be read), `newer_format`, or `worker_active` while something of it
/// lives or may live.
pub fn set_aside(context: &Context, files: &RunFiles, alive: Alive) -> Result<Utf8PathBuf> {
    refuse_inside(context)?;
    let _alone = alone(context, &files.repository)?;
    let locks = Locks::new(&context.roots.state, context.clock);
    let name = Name::Run(files.repository.clone(), files.id.clone());
    let _held = locks.take(&name, Mode::Exclusive, &context.clock.deadline(ROUTINE))?;
    match Board::look(files) {
        Err(error) if error.code == code::RECORD_DAMAGED => {}
        Err(error) => return Err(error),
        Ok(_) => {
            let message = format!("the run `{}` can be read, and stays where it is", files.id);
            let hint = format!("agent-fleet fleet status --run {}", files.id);
            return Err(Error::new(code::STEP_NOT_READY, message).hint(hint));
        }
    }
    let launches = launches(files)?;
    for launch in &launches {
        give_up(launch)?;
    }
    crash_point!("set_aside.revoked");
    if alive == Alive::Refuse {
        for launch in &launches {
            refuse_living(files, launch)?;
        }
        refuse_leased(context, files)?;
    }
    let kept = FleetFiles::new(context).damaged();
    directory::establish(&kept)?;
    let named = files.directory.file_name().unwrap_or_default();
    for number in 1_u32.. {
        let place = match number {
            1 => kept.join(named),
            _ => kept.join(format!("{named}.{number}")),
        };
        match rename_new(&files.directory, &place) {
            Ok(()) => {
                crash_point!("set_aside.moved");
                sync_directory(kept.as_std_path())?;
                if let Some(runs) = files.directory.parent() {
                    sync_directory(runs.as_std_path())?;
                }
                return Ok(place);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("move", &files.directory, &error)),
        }
    }
    Err(Error::internal("every name for a damaged run is taken"))
}

/// Every launch of the run.
fn launches(files: &RunFiles) -> Result<Vec<LaunchFiles>> {
    let all = files.directory.join("launches");
    let found = names(&all)?.into_iter();
    Ok(found
        .map(|name| LaunchFiles {
            directory: all.join(name),
        })
        .collect())
}

/// Sees to it that a launch that nobody claimed never begins. One whose record cannot be read is begun by nobody.
fn give_up(launch: &LaunchFiles) -> Result<()> {
    if launch.claim().exists() {
        return Ok(());
    }
    match record::load::<LaunchRecord>(&launch.launch()) {
        Ok(Some(known)) => match revoke(launch, &known.token, "set_aside") {
            Err(error) if error.code != code::RECORD_DAMAGED => Err(error),
            // A claim that cannot be read is one.
            Err(_) | Ok(_) => Ok(()),
        },
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Refuses unless no process of a launch lives.
fn refuse_living(files: &RunFiles, launch: &LaunchFiles) -> Result<()> {
    if matches!(record::load::<ExitRecord>(&launch.exit()), Ok(Some(_))) {
        return Ok(());
    }
    let claim: Option<ClaimRecord> = record::load(&launch.claim()).unwrap_or(None);
    let started: Option<StartedRecord> = record::load(&launch.started()).unwrap_or(None);
    let host = claim.filter(|claim| claim.revoked.is_none());
    let processes = host.map(|claim| claim.by).into_iter();
    let processes = processes.chain(started.map(|started| started.child));
    for process in processes {
        let what = match process.life() {
            Life::Gone => continue,
            Life::Alive => format!("its process {} lives", process.pid),
            Life::Unknown => format!(
                "from here it cannot be told whether its process {} lives",
                process.pid
            ),
        };
        let name = launch.directory.file_name().unwrap_or_default();
        let message = format!(
            "the launch `{name}` of run `{}` is in the way: {what}",
            files.id
        );
        let hint = format!("ps -fp {}", process.pid);
        return Err(Error::new(code::WORKER_ACTIVE, message).hint(hint));
    }
    Ok(())
}

/// Refuses while the broker has a lease of the run's that is not dead.
fn refuse_leased(context: &Context, files: &RunFiles) -> Result<()> {
    let store = TableStore::open(context, context.clock.deadline(ROUTINE))?;
    let ours = format!("{}.{}.", files.repository, files.id);
    let leases = store.list()?.leases.into_iter();
    let mut live = leases
        .filter(|lease| lease.verdict != Verdict::Dead)
        .filter_map(|lease| lease.task)
        .filter(|task| task.starts_with(&ours));
    match live.next() {
        None => Ok(()),
        Some(task) => {
            let message = format!(
                "the run `{}` is not gone: the lease of `{task}` is held",
                files.id
            );
            Err(Error::new(code::WORKER_ACTIVE, message).hint("agent-fleet lease list"))
        }
    }
}
