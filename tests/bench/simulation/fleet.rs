//! Tasks and accounts put together, a minute at a time.

use std::collections::VecDeque;

use agent_fleet::choose::candidate::{Asked, Reserve};
use agent_fleet::choose::rank::rank;
use agent_fleet::registry::schema::Settings;

use crate::account::{Account, moment};
use crate::demand::{Task, WEEK};

/// What a worker that begins again on another account has to read once more, in worker-minutes.
const MOVING: u32 = 5;

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Work of the tasks that were finished, in worker-minutes.
    pub(crate) done: f64,
    /// Tasks that came.
    pub(crate) tasks: f64,
    /// Tasks that were given up.
    pub(crate) refused: f64,
    /// Minutes that tasks waited, all together.
    pub(crate) waited: f64,
    /// Times a running task met a wall.
    pub(crate) walls: f64,
    /// Times a task went on under another account.
    pub(crate) moves: f64,
    /// Share of the weeks' allowances that expired unused.
    pub(crate) expired: f64,
}

/// A task on its way.
struct Job {
    left: u32,
    work: u32,
    patience: u32,
    waited: u32,
    /// Where it was stopped.
    account: Option<usize>,
}

impl Job {
    fn of(task: &Task) -> Self {
        Self {
            left: task.work,
            work: task.work,
            patience: task.patience,
            waited: 0,
            account: None,
        }
    }
}

/// The accounts at work.
struct Fleet<'a> {
    accounts: Vec<Account>,
    settings: &'a Settings,
    asked: Asked,
    /// First come, first served.
    waiting: VecDeque<Job>,
    running: Vec<(usize, Job)>,
    picks: u64,
    outcome: Outcome,
}

/// Lets the accounts do the tasks for so many weeks, as the settings choose.
pub(crate) fn run(
    accounts: Vec<Account>,
    tasks: &[Task],
    settings: &Settings,
    weeks: u32,
) -> Outcome {
    let mut fleet = Fleet {
        accounts,
        settings,
        asked: Asked {
            pool: "crew".parse().expect("an id"),
            provider: None,
            profile: None,
            model: None,
            reserve: Reserve::Keep,
        },
        waiting: VecDeque::new(),
        running: Vec::new(),
        picks: 0,
        outcome: Outcome::default(),
    };
    let mut coming = tasks.iter().peekable();
    for minute in 0..weeks * WEEK {
        for account in &mut fleet.accounts {
            account.tick(minute);
        }
        while let Some(task) = coming.next_if(|task| task.comes <= minute) {
            fleet.outcome.tasks += 1.0;
            fleet.waiting.push_back(Job::of(task));
        }
        while fleet.start(minute) {}
        fleet.wait();
        fleet.work(minute);
    }
    fleet.end()
}

impl Fleet<'_> {
    /// Starts the task that waited longest, if there is one and any account can take it.
    fn start(&mut self, minute: u32) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let candidates = self
            .accounts
            .iter_mut()
            .enumerate()
            .filter_map(|(order, account)| {
                account.candidate(order, &self.asked, self.settings, minute)
            })
            .collect();
        let ranked = rank(candidates, self.settings, moment(minute));
        let Some(best) = ranked.first() else {
            return false;
        };
        let Some(mut job) = self.waiting.pop_front() else {
            return false;
        };
        self.picks += 1;
        self.accounts[best.order].live += 1;
        self.accounts[best.order].last_pick = self.picks;
        if job.account.is_some_and(|before| before != best.order) {
            self.outcome.moves += 1.0;
            job.left += MOVING;
        }
        self.running.push((best.order, job));
        true
    }

    /// A minute passes for those that could not start; some have waited long enough.
    fn wait(&mut self) {
        let before = self.waiting.len();
        for job in &mut self.waiting {
            job.waited += 1;
            self.outcome.waited += 1.0;
        }
        self.waiting.retain(|job| job.waited <= job.patience);
        for _ in self.waiting.len()..before {
            self.outcome.refused += 1.0;
        }
    }

    /// A minute of work; at a wall every task of the account stops and is the next to start.
    fn work(&mut self, minute: u32) {
        let mut stopped = vec![false; self.accounts.len()];
        for (on, mut job) in std::mem::take(&mut self.running) {
            let account = &mut self.accounts[on];
            if !stopped[on] {
                job.left -= 1;
                if let Some(resets_at) = account.work(minute) {
                    account.wall(minute, resets_at);
                    stopped[on] = true;
                }
            }
            if job.left == 0 {
                account.live -= 1;
                self.outcome.done += f64::from(job.work);
            } else {
                self.running.push((on, job));
            }
        }
        for (on, mut job) in std::mem::take(&mut self.running) {
            if stopped[on] {
                self.accounts[on].live -= 1;
                self.outcome.walls += 1.0;
                job.account = Some(on);
                job.waited = 0;
                self.waiting.push_front(job);
            } else {
                self.running.push((on, job));
            }
        }
    }

    fn end(self) -> Outcome {
        let expired: Vec<f64> = self
            .accounts
            .into_iter()
            .flat_map(|account| account.expired)
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "a few dozen weeks")]
        let count = expired.len().max(1) as f64;
        Outcome {
            expired: expired.iter().sum::<f64>() / count,
            ..self.outcome
        }
    }
}
