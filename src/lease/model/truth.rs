//! What must hold: in every state, for every answer, and after everything has ended.

use super::names::{PROFILES, TASKS, TICK};
use super::state::{Ask, Asking, Budget, Doing, State, Want, Work};
use super::step::{Answer, Rules};
use crate::contract::lease::Verdict;
use crate::lease::record::{Slot, Stage, Takes};

type Held = Result<(), String>;

fn unless(broken: bool, what: impl FnOnce() -> String) -> Held {
    if broken { Err(what()) } else { Ok(()) }
}

/// What holds in every state.
pub(super) fn invariants(state: &State, rules: Rules) -> Held {
    for profile in 0..PROFILES {
        let (live, cap) = (state.live(profile), rules.caps[profile] as usize);
        unless(live > cap, || {
            format!("p{profile} has {live} live leases, its cap is {cap}")
        })?;
        let mut all = state
            .working()
            .filter(|work| !work.evicted && work.profile == profile);
        let probed = all.any(|work| work.probes);
        unless(probed && live > 1, || {
            format!("p{profile} is probed and leased")
        })?;
    }
    for task in 0..TASKS.len() {
        let workers = state.working().filter(|work| work.task == task).count();
        let owners = workers + usize::from(state.reservation(task).is_some());
        unless(owners > 1, || format!("task {task} has {owners} owners"))?;
    }
    if state.harmed || state.world.table.is_none() {
        return Ok(());
    }
    kept(state)
}

/// Whoever lives has its record, as long as nothing was harmed.
fn kept(state: &State) -> Held {
    let slots = state.slots();
    let of = |generation: u64| {
        slots.iter().find_map(|slot| match slot {
            Slot::Lease(record) if record.generation == generation => Some(record),
            Slot::Lease(_) | Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => None,
        })
    };
    for work in state.working() {
        let takes = of(work.generation).and_then(|record| match record.stage {
            Stage::Running { takes, .. } => Some(takes),
            Stage::Reserved { .. } => None,
        });
        let holds = matches!(takes, Some(Takes::Slot | Takes::Profile));
        unless(!work.evicted && !holds, || {
            format!("the slot of a live worker of task {} was freed", work.task)
        })?;
    }
    for task in 0..state.reserved.len() {
        if let Some(reserved) = state.reservation(task) {
            unless(of(reserved.generation).is_none(), || {
                format!("the reservation of task {task} is gone before its time")
            })?;
        }
    }
    Ok(())
}

/// Whether an answer is right, for one who asked in `before`.
pub(super) fn judge(before: &State, asking: &Asking, answer: Answer, rules: Rules) -> Held {
    let ask = asking.ask;
    if answer == Answer::Unsure {
        return unless(asking.attempts >= 2, || {
            "a confirmed look was unsure".to_owned()
        });
    }
    let hurt = !before.damaged().is_empty();
    if hurt && answer == Answer::Refused("record_damaged") {
        return Ok(());
    }
    let worker = before.working().find(|work| work.task == ask.task);
    let closing = before.closing().any(|work| work.task == ask.task);
    let right = match ask.want {
        Want::Choose | Want::Wait | Want::Exec => {
            granting(before, asking, answer, rules, worker, closing)
        }
        Want::Probe => probing(before, ask, answer),
        Want::Release | Want::Force => {
            let ended = Answer::Ended;
            let missing = Answer::Refused("not_found");
            let active = Answer::Refused("lease_active");
            let reserved = before.reservation(ask.task).is_some();
            match worker {
                Some(work) if work.evicted => answer == missing || before.harmed,
                Some(_) if ask.want == Want::Force => {
                    answer == ended || (hurt && answer == missing)
                }
                Some(_) => answer == active || (hurt && answer == missing),
                None if reserved => answer == ended,
                None if closing => true,
                None => answer == ended || answer == missing,
            }
        }
    };
    unless(!right, || format!("{ask:?} was answered with {answer:?}"))
}

fn probing(before: &State, ask: Ask, answer: Answer) -> bool {
    let profile = usize::from(ask.wishes > 1);
    let maybe = doubtful(before, profile);
    match answer {
        Answer::Granted {
            sticky,
            generation,
            profile: granted,
        } => {
            before.live(profile) == 0
                && !sticky
                && generation > before.highest
                && granted == profile
        }
        Answer::Refused("lease_active" | "task_owned") => {
            before.live(profile) + maybe > 0 || before.working().any(|work| work.task == ask.task)
        }
        Answer::Refused(_) | Answer::Ended | Answer::Unsure => false,
    }
}

/// Leases of a profile that may count although they have ended: the pid is still there, or a table was harmed.
fn doubtful(before: &State, profile: usize) -> usize {
    if before.harmed {
        return before.slots().len();
    }
    before
        .closing()
        .filter(|work| work.profile == profile)
        .count()
}

fn granting(
    before: &State,
    asking: &Asking,
    answer: Answer,
    rules: Rules,
    worker: Option<&Work>,
    closing: bool,
) -> bool {
    let ask = asking.ask;
    let owned = Answer::Refused("task_owned");
    let conflict = Answer::Refused("task_conflict");
    let agrees =
        |place: usize, profile: usize| place == ask.place && ask.wishes & (1 << profile) != 0;
    let same = |profile: usize, generation: u64| Answer::Granted {
        sticky: true,
        profile,
        generation,
    };
    if let Some(work) = worker {
        let returned = if agrees(work.place, work.profile) {
            same(work.profile, work.generation)
        } else {
            conflict
        };
        return match (ask.want == Want::Exec, work.evicted) {
            (true, _) => answer == owned,
            (false, true) => answer == owned || (before.harmed && answer == returned),
            (false, false) => answer == returned || (before.harmed && answer == owned),
        };
    }
    if let Some(reserved) = before.reservation(ask.task) {
        return if agrees(reserved.place, reserved.profile) {
            answer == same(reserved.profile, reserved.generation)
        } else {
            answer == conflict
        };
    }
    match answer {
        Answer::Granted {
            sticky: false,
            profile,
            generation,
        } => {
            let left = free(before, asking, rules, false);
            ask.wishes & (1 << profile) != 0 && generation > before.highest && left[profile] > 0
        }
        // Of a table that was cut short, a reservation may be left.
        Answer::Granted {
            sticky: true,
            generation,
            ..
        } => closing || (before.harmed && before.has_record(generation)),
        Answer::Refused("capacity") => {
            let left = free(before, asking, rules, true);
            (0..PROFILES).all(|profile| ask.wishes & (1 << profile) == 0 || left[profile] == 0)
        }
        Answer::Refused("task_owned" | "task_conflict") => closing || before.harmed,
        Answer::Refused(_) | Answer::Ended | Answer::Unsure => false,
    }
}

/// The slots that are left for one who asks, once those who wait and come first have taken theirs, oldest first.
fn free(before: &State, asking: &Asking, rules: Rules, doubt: bool) -> [usize; PROFILES] {
    let mut left: [usize; PROFILES] = std::array::from_fn(|profile| {
        let doubtful = if doubt { doubtful(before, profile) } else { 0 };
        let probed = before
            .working()
            .any(|work| work.probes && !work.evicted && work.profile == profile);
        let cap = if probed {
            0
        } else {
            rules.caps[profile] as usize
        };
        cap.saturating_sub(before.live(profile) + doubtful)
    });
    let mine = before.processes[asking.pid].ticket.as_ref();
    let mut first: Vec<_> = before
        .processes
        .iter()
        .filter_map(|process| match (&process.doing, &process.ticket) {
            (Doing::Asking(asking), Some(ticket)) => Some((asking.ask.task, ticket)),
            (Doing::Asking(_) | Doing::Nothing | Doing::Working(_) | Doing::Closing(_), _) => None,
        })
        .filter(|(task, ticket)| {
            let attends = ticket.heard > 0 && before.world.now - ticket.heard < TICK;
            let older = mine.is_none_or(|mine| ticket.place < mine.place);
            // Whose task was given a lease through another request waits until it looks again.
            let served = before.reservation(*task).is_some()
                || before.working().any(|work| work.task == *task);
            // Who drew its ticket, or came back, after the look is not seen by it.
            attends && older && (doubt || !served) && asking.first.contains(&ticket.place)
        })
        .map(|(_, ticket)| ticket)
        .collect();
    first.sort_by(|one, other| one.place.cmp(&other.place));
    for ticket in first {
        let takes = (0..PROFILES).find(|it| ticket.wishes & (1 << it) != 0 && left[*it] > 0);
        if let Some(profile) = takes {
            left[profile] -= 1;
        }
    }
    left
}

/// The state after every process has ended and every time has passed.
pub(super) fn aftermath(state: &State) -> State {
    let mut after = state.clone();
    for pid in 0..after.processes.len() {
        after.end(pid);
    }
    after.survivors.clear();
    after.world.now += 2 * TICK;
    after.budget = Budget::default();
    after
}

/// Nobody who lives is listed as dead, from wherever one looks.
pub(super) fn is_listed(state: &State, rules: Rules) -> Held {
    if state.harmed {
        return Ok(());
    }
    for pid in 0..state.processes.len() {
        let listing = state.clone().model(pid, rules, None).list_leases();
        let listing = listing.map_err(|error| error.message)?;
        let verdict = |generation: u64| {
            let mut leases = listing.leases.iter();
            let found = leases.find(|lease| lease.generation == generation);
            found.map(|lease| lease.verdict)
        };
        for work in state.working().filter(|work| !work.evicted) {
            let said = verdict(work.generation);
            let lives = matches!(said, Some(Verdict::Alive | Verdict::Orphaned));
            unless(!lives, || format!("{work:?} is listed as {said:?}"))?;
        }
        for task in 0..state.reserved.len() {
            if let Some(reserved) = state.reservation(task) {
                let said = verdict(reserved.generation);
                unless(said != Some(Verdict::Reserved), || {
                    format!("{reserved:?} is listed as {said:?}")
                })?;
            }
        }
    }
    Ok(())
}

/// After everything has ended, every slot can be granted, and not one more.
pub(super) fn refills(mut state: State, rules: Rules) -> Held {
    let fill = |mut state: State, task: usize, wishes: u8| {
        state.start(
            0,
            Ask {
                want: Want::Choose,
                task,
                wishes,
                place: 0,
            },
        );
        let mut answer = None;
        for _ in 0..8 {
            let stepped = state.step(0, rules, None);
            (state, answer) = (stepped.state, stepped.answer);
            if answer.is_some() {
                break;
            }
        }
        (state, answer)
    };
    for at in (0..state.slots().len()).rev() {
        state.settle(at, rules);
    }
    let mut task = TASKS.len() - 5;
    for profile in 0..PROFILES {
        for slot in 0..=rules.caps[profile] {
            let (next, answer) = fill(state, task, 1 << profile);
            state = next;
            if slot == rules.caps[profile] {
                let full = answer == Some(Answer::Refused("capacity"));
                unless(!full, || {
                    format!("p{profile} was filled beyond its cap: {answer:?}")
                })?;
            } else {
                let given = matches!(answer, Some(Answer::Granted { sticky: false, .. }));
                unless(!given, || {
                    format!(
                        "a slot of p{profile} leaked: everything has ended, and it is {answer:?}"
                    )
                })?;
                task += 1;
            }
        }
    }
    Ok(())
}

/// When every slot comes free, the oldest who waits is given one, however late it comes to look.
pub(super) fn serves_the_oldest(mut state: State, rules: Rules) -> Held {
    for pid in 0..state.processes.len() {
        if state.processes[pid].ticket.is_none() {
            state.end(pid);
        }
    }
    state.survivors.clear();
    state.world.now += 2 * TICK;
    // A damaged record keeps its slot until then.
    for at in 0..state.slots().len() {
        state.settle(at, rules);
    }
    let now = state.world.now;
    let mut order: Vec<usize> = (0..state.processes.len())
        .filter(|pid| matches!(state.processes[*pid].doing, Doing::Asking(_)))
        .collect();
    order.sort_by(|one, other| {
        let place = |pid: usize| {
            state.processes[pid]
                .ticket
                .as_ref()
                .map(|it| it.place.clone())
        };
        place(*other).cmp(&place(*one))
    });
    let Some(oldest) = order.last().copied() else {
        return Ok(());
    };
    for pid in &order {
        if let Some(ticket) = &mut state.processes[*pid].ticket {
            ticket.heard = now;
        }
    }
    for _ in 0..6 {
        for pid in &order {
            if matches!(state.processes[*pid].doing, Doing::Asking(_)) {
                state = state.step(*pid, rules, None).state;
            }
        }
    }
    let waits = matches!(state.processes[oldest].doing, Doing::Asking(_));
    unless(waits, || {
        "the oldest who waits was given nothing".to_owned()
    })
}
