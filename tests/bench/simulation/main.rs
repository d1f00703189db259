//! What each strategy makes of weeks of demand, by the functions that choosing itself uses.
//!
//!     cargo bench --bench simulation                  the table of docs/choosing.md
//!     cargo bench --bench simulation -- --each        and each kind of demand by itself
//!     cargo bench --bench simulation -- --reserve 5   with another reserve, in percent
//!     cargo bench --bench simulation -- --penalty 0   with another penalty per live lease, in points
//!     cargo bench --bench simulation -- --seed 7      with other accounts and tasks
//!
//! The same arguments give the same table on every machine. Each line is the mean over 2, 4 and 8 accounts of
//! mixed plans, bursts in working hours, a fleet that never sleeps and nightly batches, three draws of each.
//!
//! What is not modelled: work costs the same on every account, nobody else uses the accounts, a task that is
//! stopped at a wall keeps what it did, and goes on elsewhere with five minutes of reading again.

#![expect(clippy::print_stdout, reason = "its answer is its output")]

mod account;
mod bound;
mod demand;
mod fleet;
mod table;

use agent_fleet::registry::schema::{Settings, Strategy};

use crate::account::{Account, Plan};
use crate::demand::{Pattern, Random, tasks};
use crate::fleet::run;
use crate::table::Table;

/// How long each world is watched.
const WEEKS: u32 = 3;
/// Work that is asked for, in percent of what all accounts allow.
const LOADS: [u32; 3] = [60, 90, 120];
/// Worlds of each kind.
const DRAWS: u64 = 3;

/// A number from the command line.
fn number(name: &str, usual: f64) -> f64 {
    let arguments: Vec<String> = arguments().collect();
    let at = arguments.iter().position(|word| word == name);
    at.and_then(|at| arguments.get(at + 1)?.parse().ok())
        .unwrap_or(usual)
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args()
}

fn plans(count: usize) -> &'static [Plan] {
    use Plan::{Large, Medium, Small};
    match count {
        2 => &[Medium, Medium],
        4 => &[Large, Medium, Medium, Small],
        _ => &[Large, Large, Medium, Medium, Medium, Medium, Small, Small],
    }
}

fn accounts(count: usize, reserve: f64, seed: u64) -> Vec<Account> {
    let mut random = Random::new(seed);
    plans(count)
        .iter()
        .enumerate()
        .map(|(place, plan)| Account::new(place, *plan, reserve, &mut random))
        .collect()
}

fn main() {
    if !arguments().any(|word| word == "--bench") {
        println!("the simulation takes a while: cargo bench --bench simulation");
        return;
    }
    let usual = Settings::default();
    let penalty = number("--penalty", usual.active_lease_penalty);
    let reserve = number("--reserve", 15.0);
    let seed = number("--seed", 1.0);
    let strategies = [
        ("round-robin", Strategy::RoundRobin),
        ("headroom", Strategy::Headroom),
        ("soonest-reset", Strategy::SoonestReset),
    ]
    .map(|(name, strategy)| {
        let settings = Settings {
            strategy,
            active_lease_penalty: penalty,
            ..Settings::default()
        };
        (name, settings)
    });
    println!(
        "seed {seed}, {WEEKS} weeks, reserve {reserve}%, penalty {penalty}, default {}",
        usual.strategy.word()
    );
    let mut table = Table::default();
    for load in LOADS {
        for count in [2, 4, 8] {
            for pattern in Pattern::ALL {
                for draw in 0..DRAWS {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a small whole number"
                    )]
                    let seed = seed as u64 * 1000 + draw;
                    let allowed: u32 = plans(count).iter().map(|plan| plan.week()).sum();
                    let total = allowed / 100 * WEEKS * load;
                    let demand = tasks(pattern, total, WEEKS, &mut Random::new(seed + 17));
                    let bound = bound::bound(&accounts(count, reserve, seed), &demand, WEEKS);
                    let mut one = accounts(count, reserve, seed);
                    one.truncate(1);
                    let alone = run(one, &demand, &usual, WEEKS);
                    table.add(load, pattern, "single account", alone, bound);
                    for (name, settings) in &strategies {
                        let all = accounts(count, reserve, seed);
                        table.add(
                            load,
                            pattern,
                            name,
                            run(all, &demand, settings, WEEKS),
                            bound,
                        );
                    }
                }
            }
        }
    }
    table.print(arguments().any(|word| word == "--each"));
}
