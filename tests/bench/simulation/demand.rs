//! What people and machines want done, drawn from a seed.

/// Minutes in an hour, a day and a week.
pub(crate) const HOUR: u32 = 60;
pub(crate) const DAY: u32 = 24 * HOUR;
pub(crate) const WEEK: u32 = 7 * DAY;

/// A stream of numbers that is the same on every machine (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.next() % u64::from(end.max(1))).expect("less than a u32")
    }
}

/// The times at which work comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Bursts of tasks in the working hours of five days; nobody waits long.
    Office,
    /// A fleet that never sleeps.
    Fleet,
    /// A stack of tasks each evening, which may take all night.
    Night,
}

impl Pattern {
    pub(crate) const ALL: [Self; 3] = [Self::Office, Self::Fleet, Self::Night];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Office => "office",
            Self::Fleet => "fleet",
            Self::Night => "night",
        }
    }

    /// How long a task waits before it is given up, in minutes.
    fn patience(self) -> u32 {
        match self {
            Self::Office => HOUR,
            Self::Fleet => 3 * HOUR,
            Self::Night => 10 * HOUR,
        }
    }

    /// When the next task comes.
    fn arrival(self, random: &mut Random, weeks: u32) -> u32 {
        match self {
            Self::Office => {
                let day = random.below(weeks * 5);
                // Three or four bursts a day, a quarter of an hour long.
                let burst = 9 * HOUR + random.below(4) * (2 * HOUR + 15) + random.below(15);
                (day / 5) * WEEK + (day % 5) * DAY + burst
            }
            Self::Fleet => random.below(weeks * WEEK),
            Self::Night => random.below(weeks * 7) * DAY + 22 * HOUR + random.below(30),
        }
    }
}

/// One task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// When it comes, in minutes since the beginning.
    pub(crate) comes: u32,
    /// Work in it, in worker-minutes.
    pub(crate) work: u32,
    /// How long it waits at a stretch before it is given up.
    pub(crate) patience: u32,
}

/// Tasks of a pattern whose work adds up to `total`, by the time at which they come.
pub(crate) fn tasks(pattern: Pattern, total: u32, weeks: u32, random: &mut Random) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut sum = 0;
    while sum < total {
        // Most tasks are short, some are long: 10 minutes to two hours.
        let work = 10 + random.below(20) + random.below(20) * random.below(20) / 4;
        sum += work;
        tasks.push(Task {
            comes: pattern.arrival(random, weeks),
            work,
            patience: pattern.patience(),
        });
    }
    tasks.sort_by_key(|task| (task.comes, task.work));
    tasks
}
