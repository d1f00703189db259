//! Granting, returning and binding leases, under the lock.

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde_json::json;

use super::details::{self, Details};
use super::holder::Holder;
use super::leases::{Attempt, running};
use super::locked::Locked;
use super::machine::{Bound, Machine};
use super::name::Name;
use super::reclaim::Ahead;
use super::record::{Record, Slot, Stage, Takes};
use super::refusal::{self, Difference};
use super::transition::{Decision, Event, Standing, Terms, decide};
use super::witness::Witness;
use super::{Choice, Granted, Hold, Pick, Request};
use crate::contract::lease::{Lease, Verdict};
use crate::error::{Error, Result};
use crate::id::{PoolId, ProfileId, ProviderKind, Task};

/// A lease about to be written.
struct New<'a> {
    task: &'a Task,
    workspace: Option<&'a Utf8Path>,
    pool: Option<&'a PoolId>,
    labels: &'a BTreeMap<String, String>,
    profile: ProfileId,
    provider: ProviderKind,
    hold: Hold,
    takes: Takes,
    active_before: u32,
}

impl<M: Machine> Locked<'_, M> {
    /// [`super::LeaseStore::reserve`].
    pub(super) fn reserve(
        &mut self,
        request: &Request,
        ahead: &Ahead,
        pick: &mut Pick<'_>,
    ) -> Result<Attempt<Granted>> {
        if request.task.as_str().starts_with("@probe/") {
            return Err(refusal::reserved_name(&request.task));
        }
        let key = request.task.key();
        let standing = self.standing(key);
        if self.unsure {
            return Ok(Attempt::Unsure);
        }
        let present = self.lease_of(key).map(|(at, record)| (at, *record));
        let differences = match &present {
            Some((_, record)) => self.differences(record, request),
            None => Vec::new(),
        };
        let terms = if differences.is_empty() {
            Terms::Same
        } else {
            Terms::Different
        };
        let event = match request.hold {
            Hold::Later(_) => Event::Reserve(terms),
            Hold::Now(_) => Event::Bind(terms),
        };
        match (decide(standing, event), present) {
            (Decision::Grant, present) => {
                if let Some((at, _)) = present {
                    self.reclaim(at)?;
                }
                self.grant(request, ahead, pick)
            }
            (Decision::Return, Some((at, record))) => {
                self.renew(at, record, request).map(Attempt::Done)
            }
            (Decision::Bind, Some((at, record))) => {
                self.bind(at, record, request).map(Attempt::Done)
            }
            (Decision::Conflict, Some((_, record))) => {
                Err(refusal::conflict(&request.task, &record, &differences))
            }
            (Decision::Owned, present) => {
                let record = present.map(|(_, record)| record);
                Err(refusal::owned(&request.task, record.as_ref(), standing))
            }
            (Decision::Unreadable, _) => Err(self.damaged(&request.task)),
            (decision, _) => Err(unexpected(standing, decision)),
        }
    }

    /// In which terms the task's lease differs from the request.
    fn differences(&self, record: &Record, request: &Request) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut differ = |what, has: String, asked: String| {
            found.push(Difference { what, has, asked });
        };
        if let Some(asked) = request.provider.filter(|asked| *asked != record.provider) {
            differ("provider", record.provider.to_string(), asked.to_string());
        }
        if let Some(asked) = request
            .profile
            .as_ref()
            .filter(|asked| record.profile != **asked)
        {
            differ("profile", record.profile.id().into(), asked.to_string());
        }
        let of = |pool| details::terms(Some(&request.workspace), pool);
        if record.terms == of(request.pool.as_ref()) || record.terms == of(None) {
            return found;
        }
        let Some(known) = self.machine.details(record.task, record.generation) else {
            differ(
                "workspace or pool",
                "lost".to_owned(),
                request.workspace.to_string(),
            );
            return found;
        };
        if known.workspace.as_ref() != Some(&request.workspace) {
            let has = known.workspace.map_or_else(String::new, Into::into);
            differ("workspace", has, request.workspace.to_string());
        }
        if let (Some(has), Some(asked)) = (known.pool, &request.pool)
            && has != *asked
        {
            differ("pool", has.to_string(), asked.to_string());
        }
        found
    }

    /// Returns the lease there is, a reservation with its time renewed.
    fn renew(&mut self, at: usize, mut record: Record, request: &Request) -> Result<Granted> {
        if let (Stage::Reserved { expires }, Hold::Later(span)) = (record.stage, request.hold) {
            let expires = expires.max(self.now.plus(span).0);
            record.stage = Stage::Reserved { expires };
            self.table.write(at, &record.encode())?;
        }
        let verdict = self.verify(at);
        Ok(self.returned(&record, verdict, None))
    }

    /// Binds the reservation there is.
    fn bind(&mut self, at: usize, mut record: Record, request: &Request) -> Result<Granted> {
        let Hold::Now(holder) = request.hold else {
            return Err(Error::internal("a lease was bound without a holder"));
        };
        let Some(witness) = self.machine.take_witness(record.task)? else {
            return Err(refusal::owned(&request.task, None, Standing::Evicted));
        };
        if !request.labels.is_empty() {
            self.machine.save_labels(&Bound {
                task: record.task,
                generation: record.generation,
                labels: &request.labels,
            })?;
        }
        record.stage = running(holder, Takes::Slot, self.machine.now());
        self.table.write(at, &record.encode())?;
        Ok(self.returned(&record, Verdict::Alive, Some(witness)))
    }

    /// The answer with a lease that the task had before.
    fn returned(&self, record: &Record, verdict: Verdict, witness: Option<Witness>) -> Granted {
        let (live, _) = self.use_of(&record.profile.id());
        Granted {
            lease: self.lease(record, verdict),
            sticky: true,
            active_before: live.saturating_sub(1),
            witness,
        }
    }

    /// Lets `pick` choose among what is free, and writes the lease.
    fn grant(
        &mut self,
        request: &Request,
        ahead: &Ahead,
        pick: &mut Pick<'_>,
    ) -> Result<Attempt<Granted>> {
        self.reclaim_window(ahead)?;
        let mut everything_verified = false;
        loop {
            match pick(&self.occupancy())? {
                Choice::Take {
                    profile,
                    provider,
                    cap,
                } => {
                    self.reclaim_profile(&profile)?;
                    let (live, probed) = self.use_of(&profile);
                    if live < cap && !probed {
                        return self
                            .write(&New {
                                task: &request.task,
                                workspace: Some(&request.workspace),
                                pool: request.pool.as_ref(),
                                labels: &request.labels,
                                profile,
                                provider,
                                hold: request.hold,
                                takes: Takes::Slot,
                                active_before: live,
                            })
                            .map(Attempt::Done);
                    }
                    if self.unsure {
                        return Ok(Attempt::Unsure);
                    }
                    let error = refusal::capacity(&profile, cap);
                    return Err(self.with_holders(error, &[profile]));
                }
                Choice::Nothing { error, full } => {
                    if !everything_verified {
                        everything_verified = true;
                        if self.reclaim_all()? {
                            continue;
                        }
                    }
                    if self.unsure {
                        return Ok(Attempt::Unsure);
                    }
                    return Err(self.with_holders(error, &full));
                }
            }
        }
    }

    /// [`super::LeaseStore::probe`].
    pub(super) fn grant_probe(
        &mut self,
        profile: &ProfileId,
        provider: ProviderKind,
        holder: Holder,
    ) -> Result<Attempt<Granted>> {
        let task = Task::probe(profile);
        let standing = self.standing(task.key());
        self.reclaim_profile(profile)?;
        if standing == Standing::Damaged {
            return Err(self.damaged(&task));
        }
        if self.use_of(profile).0 > 0 || standing == Standing::Evicted {
            if self.unsure {
                return Ok(Attempt::Unsure);
            }
            let error = refusal::in_use(profile);
            return Err(self.with_holders(error, std::slice::from_ref(profile)));
        }
        self.write(&New {
            task: &task,
            workspace: None,
            pool: None,
            labels: &BTreeMap::new(),
            profile: profile.clone(),
            provider,
            hold: Hold::Now(holder),
            takes: Takes::Profile,
            active_before: 0,
        })
        .map(Attempt::Done)
    }

    /// Writes a new lease: header, details, witness, record. Killed between any two of them, nothing is
    /// leased and what is left is swept.
    fn write(&mut self, new: &New<'_>) -> Result<Granted> {
        let now = self.machine.now();
        let generation = self.table.next_generation()?;
        let record = Record {
            stage: match new.hold {
                Hold::Later(span) => Stage::Reserved {
                    expires: self.now.plus(span).0,
                },
                Hold::Now(holder) => running(holder, new.takes, now),
            },
            profile: Name::from(&new.profile),
            provider: new.provider,
            task: new.task.key(),
            terms: details::terms(new.workspace, new.pool),
            generation,
            created: now.as_millisecond(),
        };
        let details = Details {
            schema: 1,
            task: new.task.clone(),
            pool: new.pool.cloned(),
            workspace: new.workspace.map(Utf8Path::to_path_buf),
            profile: new.profile.clone(),
            provider: new.provider,
            labels: new.labels.clone(),
            created_at: now,
        };
        match self.write_files(new, &record, &details) {
            Ok(witness) => {
                // Only breaks ties between profiles; not worth failing a lease that is in force.
                drop(self.save_pick(&new.profile, generation));
                self.sweep();
                let verdict = match record.stage {
                    Stage::Reserved { .. } => Verdict::Reserved,
                    Stage::Running { .. } => Verdict::Alive,
                };
                Ok(Granted {
                    lease: self.store.lease(&record, Some(details), verdict),
                    sticky: false,
                    active_before: new.active_before,
                    witness,
                })
            }
            Err(error) => {
                self.machine.remove_details(record.task, generation);
                Err(error)
            }
        }
    }

    fn write_files(
        &mut self,
        new: &New<'_>,
        record: &Record,
        details: &Details,
    ) -> Result<Option<Witness>> {
        self.machine.save_details(record.generation, details)?;
        let witness = match new.hold {
            Hold::Later(_) => None,
            Hold::Now(_) => match self.machine.take_witness(record.task)? {
                Some(witness) => Some(witness),
                None => return Err(refusal::owned(new.task, None, Standing::Evicted)),
            },
        };
        let place = self.table.free_place();
        self.table.write(place, &record.encode())?;
        Ok(witness)
    }

    /// Adds who holds the slots of `profiles` to an error, and which damaged records keep some.
    fn with_holders(&mut self, error: Error, profiles: &[ProfileId]) -> Error {
        let taken: Vec<(usize, Record)> = self
            .table
            .slots
            .iter()
            .enumerate()
            .filter_map(|(at, slot)| match slot {
                Slot::Lease(record)
                    if profiles.iter().any(|profile| record.profile == *profile) =>
                {
                    Some((at, *record))
                }
                Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
            })
            .filter(|(_, record)| !record.is_evicted())
            .collect();
        let holders: Vec<Lease> = taken
            .into_iter()
            .map(|(at, record)| {
                let verdict = self.verify(at);
                self.lease(&record, verdict)
            })
            .collect();
        let error = refusal::with_holders(error, &holders, self.machine.now());
        let damaged = self.damaged_of(profiles);
        if damaged.is_empty() {
            error
        } else {
            error.detail("damaged", json!(damaged))
        }
    }
}

fn unexpected(standing: Standing, decision: Decision) -> Error {
    Error::internal(format!(
        "{decision:?} was decided for a task that is {standing:?}"
    ))
}
