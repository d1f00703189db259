//! More work than any strategy can do: tasks are split at will, nobody waits in a queue, no short window is in the
//! way, and the future is known.

use crate::account::Account;
use crate::demand::{HOUR, Task, WEEK};

/// The bound, in worker-minutes. Each hour serves what was asked for and not given up yet, from the weeks that
/// end first: what is kept back would be worth no more later.
pub(crate) fn bound(accounts: &[Account], tasks: &[Task], weeks: u32) -> f64 {
    let horizon = weeks * WEEK;
    let mut allowances: Vec<(u32, u32, f64)> = accounts
        .iter()
        .flat_map(|account| {
            let ends = account.weeks(horizon);
            ends.map(|(end, allows)| (end, end.saturating_sub(WEEK), allows))
        })
        .collect();
    allowances.sort_by_key(|(end, ..)| *end);
    let mut coming = tasks.iter().peekable();
    let mut open: Vec<(u32, f64)> = Vec::new();
    let mut done = 0.0;
    for hour in (0..horizon).step_by(60) {
        while let Some(task) = coming.next_if(|task| task.comes < hour + HOUR) {
            // Once begun it may go on as long as it takes.
            open.push((
                task.comes + task.patience + task.work * 2,
                f64::from(task.work),
            ));
        }
        open.retain(|(given_up, left)| *given_up >= hour && *left > 0.0);
        open.sort_by_key(|(given_up, _)| *given_up);
        for (_, left) in &mut open {
            for (end, begin, allows) in &mut allowances {
                if *end > hour && *begin < hour + HOUR {
                    let used = left.min(*allows);
                    *allows -= used;
                    *left -= used;
                    done += used;
                }
            }
        }
    }
    done
}
