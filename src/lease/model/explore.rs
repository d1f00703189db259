//! Everything that can happen next, breadth first, until nothing new is found or something does not hold.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Instant;

use super::key::key;
use super::names::TICK;
use super::state::{Ask, Budget, Doing, Process, State, Survivor, Want};
use super::step::{Rules, Stepped};
use super::truth;

/// Which part of the world is explored.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) name: &'static str,
    pub(super) rules: Rules,
    pub(super) processes: usize,
    /// The last process is in another pid namespace.
    pub(super) foreign: bool,
    pub(super) asks: Vec<Ask>,
    pub(super) budget: Budget,
    /// After how many steps is not looked any further: with the tests, and by hand.
    pub(super) steps: [usize; 2],
}

/// How a record is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Its checksum alone.
    Sum,
    /// The name of its profile became another one.
    Profile,
    /// Nothing of it can be read.
    All,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start(usize, Ask),
    Step(usize),
    /// The same, killed before this change.
    StartKilled(usize, Ask, usize),
    StepKilled(usize, usize),
    Kill(usize),
    /// It is killed, and its child holds the witness.
    LeaveChild(usize),
    /// It is killed, and its files are closed a moment later.
    Die(usize),
    /// It is killed, its files are closed, and its pid goes a moment later.
    Close(usize),
    EndSurvivor(usize),
    Tick,
    Reboot,
    LoseTable,
    /// To so many blocks.
    CutTable(usize),
    Damage(usize, Harm),
    Settle(usize),
}

impl Action {
    /// The same step, killed half way.
    fn killed(self, cut: usize) -> Option<Self> {
        if let Self::Start(pid, ask) = self {
            return Some(Self::StartKilled(pid, ask, cut));
        }
        if let Self::Step(pid) = self {
            return Some(Self::StepKilled(pid, cut));
        }
        None
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) transitions: usize,
    pub(super) depth: usize,
    /// Whether states were left because of the depth.
    pub(super) more: bool,
    pub(super) seconds: f64,
    /// Every kind of answer that was given.
    pub(super) answers: BTreeSet<&'static str>,
    /// What does not hold, and how it came to that.
    pub(super) violation: Option<(String, Vec<Action>)>,
}

impl Found {
    /// For people.
    pub(super) fn told(&self) -> String {
        let mut text = format!(
            "{} states, {} transitions, depth {}{}, {:.1} s",
            self.states,
            self.transitions,
            self.depth,
            if self.more { " (bounded)" } else { "" },
            self.seconds
        );
        if let Some((what, how)) = &self.violation {
            write!(text, "\n  {what}").expect("a string takes all");
            for action in how {
                write!(text, "\n    {action:?}").expect("a string takes all");
            }
        }
        text
    }
}

struct Search<'a> {
    scope: &'a Scope,
    /// For each state, which came before it and what happened.
    nodes: Vec<(usize, Action)>,
    seen: BTreeSet<u128>,
    refilled: BTreeSet<u128>,
    queue: VecDeque<(usize, usize, State)>,
    found: Found,
}

/// Explores a scope for so many steps.
pub(super) fn explore(scope: &Scope, steps: usize) -> Found {
    let mut first = State {
        processes: vec![Process::default(); scope.processes],
        budget: scope.budget,
        ..State::default()
    };
    first.world.now = TICK;
    if let Some(last) = first.processes.last_mut() {
        last.foreign = scope.foreign;
    }
    let mut search = Search {
        scope,
        nodes: vec![(0, Action::Tick)],
        seen: BTreeSet::from([key(&first)]),
        refilled: BTreeSet::new(),
        queue: VecDeque::from([(0, 0, first)]),
        found: Found::default(),
    };
    let begun = Instant::now();
    while let Some((at, depth, state)) = search.queue.pop_front() {
        if depth == steps {
            search.found.more = true;
            break;
        }
        if search.next(at, depth, &state) {
            break;
        }
    }
    search.found.states = search.seen.len();
    search.found.seconds = begun.elapsed().as_secs_f64();
    search.found
}

impl Search<'_> {
    /// Follows everything that can happen in a state; true when something does not hold.
    fn next(&mut self, at: usize, depth: usize, state: &State) -> bool {
        for action in self.actions(state) {
            if self.follow(at, depth, state, action) {
                return true;
            }
        }
        false
    }

    /// Follows one action, and its deaths half way.
    fn follow(&mut self, at: usize, depth: usize, state: &State, action: Action) -> bool {
        let stepped = apply(state, action, self.scope.rules);
        let changes = stepped.changes;
        if self.arrive(at, depth, state, action, stepped) {
            return true;
        }
        if state.budget.crashes == 0 {
            return false;
        }
        (1..changes).any(|cut| {
            let Some(killed) = action.killed(cut) else {
                return false;
            };
            let stepped = apply(state, killed, self.scope.rules);
            self.arrive(at, depth, state, killed, stepped)
        })
    }

    fn arrive(
        &mut self,
        at: usize,
        depth: usize,
        before: &State,
        action: Action,
        stepped: Stepped,
    ) -> bool {
        self.found.transitions += 1;
        let rules = self.scope.rules;
        let state = stepped.state;
        let mut held = Ok(());
        if let (Some(asking), Some(answer)) = (&stepped.asking, stepped.answer) {
            self.found.answers.insert(answer.word());
            held = truth::judge(before, asking, answer, rules);
        }
        held = held.and_then(|()| truth::invariants(&state, rules));
        let new = self.seen.insert(key(&state));
        if new && held.is_ok() {
            held = self.ends_well(&state);
        }
        if let Err(what) = held {
            let mut how = vec![action];
            let mut from = at;
            while from != 0 {
                how.push(self.nodes[from].1);
                from = self.nodes[from].0;
            }
            how.reverse();
            self.found.violation = Some((what, how));
            return true;
        }
        if new {
            self.found.depth = depth + 1;
            self.nodes.push((at, action));
            self.queue
                .push_back((self.nodes.len() - 1, depth + 1, state));
        }
        false
    }

    /// What must hold in the end, from this state on.
    fn ends_well(&mut self, state: &State) -> Result<(), String> {
        if state.processes.iter().any(|it| it.ticket.is_some()) {
            truth::serves_the_oldest(state.clone(), self.scope.rules)?;
        }
        truth::is_listed(state, self.scope.rules)?;
        let after = truth::aftermath(state);
        if self.refilled.insert(key(&after)) {
            truth::refills(after, self.scope.rules)?;
        }
        Ok(())
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut all = vec![Action::Tick];
        let mut idle = Vec::new();
        for (pid, process) in state.processes.iter().enumerate() {
            match &process.doing {
                Doing::Nothing if process.start == 0 => {
                    let alike = idle_class(state, pid);
                    if !idle.contains(&alike) {
                        idle.push(alike);
                        let may = |ask: &&Ask| ask.want != Want::Force || state.budget.forces > 0;
                        let asks = self.scope.asks.iter().filter(may);
                        all.extend(asks.map(|ask| Action::Start(pid, *ask)));
                    }
                }
                Doing::Nothing => all.push(Action::Step(pid)),
                Doing::Asking(_) => {
                    if state.can_step(pid) {
                        all.push(Action::Step(pid));
                    }
                    all.push(Action::Kill(pid));
                }
                Doing::Working(_) => {
                    all.push(Action::Kill(pid));
                    if state.budget.remains > 0 {
                        all.extend([
                            Action::LeaveChild(pid),
                            Action::Die(pid),
                            Action::Close(pid),
                        ]);
                    }
                }
                Doing::Closing(_) => all.push(Action::Kill(pid)),
            }
        }
        all.extend((0..state.survivors.len()).map(Action::EndSurvivor));
        if state.budget.reboots > 0 {
            all.push(Action::Reboot);
        }
        let records = state.slots().len();
        if state.budget.losses > 0 && state.world.table.is_some() {
            all.push(Action::LoseTable);
            all.extend((0..=records).map(Action::CutTable));
        }
        for (at, slot) in state.slots().iter().enumerate().take(records) {
            use crate::lease::record::Slot;
            match slot {
                Slot::Lease(_) if state.budget.damages > 0 => {
                    let harms = [Harm::Sum, Harm::Profile, Harm::All];
                    all.extend(harms.map(|harm| Action::Damage(at, harm)));
                }
                Slot::Damaged { .. } => all.push(Action::Settle(at)),
                Slot::Lease(_) | Slot::Free | Slot::Pick { .. } => {}
            }
        }
        all
    }
}

/// What tells an unused pid from another: its namespace and the records that name it.
fn idle_class(state: &State, pid: usize) -> (bool, Vec<usize>) {
    use crate::lease::record::{Slot, Stage};
    let names = |slot: &Slot| match slot {
        Slot::Lease(record) => match record.stage {
            Stage::Running { pid: other, .. } => other as usize == pid + 1,
            Stage::Reserved { .. } => false,
        },
        Slot::Free | Slot::Pick { .. } | Slot::Damaged { .. } => false,
    };
    let slots = state.slots();
    let named = (0..slots.len()).filter(|at| names(&slots[*at]));
    (state.processes[pid].foreign, named.collect())
}

fn apply(before: &State, action: Action, rules: Rules) -> Stepped {
    let mut state = before.clone();
    let world = &mut state.world;
    match action {
        Action::Start(pid, ask) => {
            spend(&mut state, ask);
            state.start(pid, ask);
            return state.step(pid, rules, None);
        }
        Action::StartKilled(pid, ask, cut) => {
            spend(&mut state, ask);
            state.budget.crashes -= 1;
            state.start(pid, ask);
            return state.step(pid, rules, Some(cut));
        }
        Action::Step(pid) => return state.step(pid, rules, None),
        Action::StepKilled(pid, cut) => {
            state.budget.crashes -= 1;
            return state.step(pid, rules, Some(cut));
        }
        Action::Kill(pid) => state.end(pid),
        Action::LeaveChild(pid) | Action::Die(pid) => {
            state.budget.remains -= 1;
            let process = &state.processes[pid];
            if let (Doing::Working(work), Some(witness)) = (&process.doing, process.witness) {
                state.survivors.push(Survivor {
                    work: *work,
                    witness,
                    dying: matches!(action, Action::Die(_)),
                });
            }
            state.end(pid);
        }
        Action::Close(pid) => {
            state.budget.remains -= 1;
            let process = &mut state.processes[pid];
            process.witness = None;
            if let Doing::Working(work) = process.doing {
                process.doing = Doing::Closing(work);
            }
        }
        Action::EndSurvivor(at) => drop(state.survivors.remove(at)),
        Action::Tick => world.now += TICK,
        Action::Reboot => {
            state.budget.reboots -= 1;
            world.boot += 1;
            world.now = TICK;
            state.survivors.clear();
            state.reserved = Default::default();
            for pid in 0..state.processes.len() {
                state.end(pid);
            }
        }
        Action::LoseTable | Action::CutTable(_) => {
            state.budget.losses -= 1;
            state.harmed = true;
            state.reserved = Default::default();
            match (action, &mut world.table) {
                (Action::CutTable(blocks), Some(table)) => table.truncate(blocks),
                (_, table) => *table = None,
            }
        }
        Action::Damage(at, harm) => {
            state.budget.damages -= 1;
            state.harmed = true;
            damage(&mut state, at, harm);
        }
        Action::Settle(at) => state.settle(at, rules),
    }
    Stepped::on(state)
}

fn spend(state: &mut State, ask: Ask) {
    if ask.want == Want::Force {
        state.budget.forces -= 1;
    }
}

fn damage(state: &mut State, at: usize, harm: Harm) {
    use super::names::task_of;
    use crate::lease::record::Slot;
    if let Slot::Lease(record) = state.slots()[at]
        && let Some(task) = task_of(record.task)
        && let Some(reserved) = state.reserved.get_mut(task)
    {
        *reserved = None;
    }
    let record = &mut state.world.table.as_mut().expect("it has records")[at + 1];
    match harm {
        Harm::Sum => record[255] ^= 1,
        // The second letter of the name: `p0` becomes `p8`.
        Harm::Profile => record[121] ^= 8,
        Harm::All => record.fill(0xff),
    }
}
