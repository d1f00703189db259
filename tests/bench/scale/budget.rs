//! The budgets, each beside what was measured.

use crate::{Costs, Measured};

/// Prints a line for each budget.
pub(crate) fn print(measured: &Measured) {
    println!("\nbudget");
    let of = |size, value: fn(&Costs) -> f64| measured.costs.get(&size).map(value);
    let locked = |size| measured.costs.get(&size).and_then(|costs| costs.locked);
    let times = |grown: Option<f64>, from: Option<f64>| Some(grown? / from?);
    let (few, many, grown, most) = ((10, 10), (100, 100), (100, 10_000), (1000, 10_000));
    let choose: fn(&Costs) -> f64 = |costs| costs.choose;
    let quota: fn(&Costs) -> f64 = |costs| costs.quota;
    for (name, found, budget, unit) in [
        ("version", of(few, |costs| costs.version), 3.0, "N"),
        ("choose, 10 profiles, 10 leases", of(few, choose), 5.0, "N"),
        (
            "choose, 100 profiles, 100 leases",
            of(many, choose),
            9.0,
            "N",
        ),
        (
            "choose, 1000 profiles, 10,000 leases",
            of(most, choose),
            25.0,
            "N",
        ),
        (
            "choose, from 100 to 10,000 leases",
            times(of(grown, choose), of(many, choose)),
            2.0,
            "times",
        ),
        (
            "under the lock, 100 profiles, 100 leases",
            locked(many),
            2.0,
            "N",
        ),
        (
            "under the lock, 1000 profiles, 10,000 leases",
            locked(most),
            8.0,
            "N",
        ),
        (
            "under the lock, from 100 to 10,000 leases",
            times(locked(grown), locked(many)),
            6.0,
            "times",
        ),
        (
            "exec beyond worker and choice",
            Some(measured.launch),
            1.5,
            "N",
        ),
        ("quota show, 10 profiles", of(few, quota), 4.0, "N"),
        (
            "quota show, 1000 profiles",
            of((1000, 100), quota),
            12.0,
            "N",
        ),
    ] {
        if let Some(found) = found {
            at_most(name, found, budget, unit);
        }
    }
    for (profiles, budget) in [(10, 35.0), (100, 18.0)] {
        let Some(crowd) = measured.crowds.get(&(profiles, 64)) else {
            continue;
        };
        let name = format!("64 processes, {profiles} profiles, share of no-ops");
        let share = crowd.share * 100.0;
        line(&name, share, budget, "%", share >= budget);
        let name = format!("64 processes, {profiles} profiles, p99 by p50");
        at_most(&name, crowd.p99 / crowd.p50, 4.0, "times");
    }
}

fn at_most(name: &str, found: f64, budget: f64, unit: &str) {
    line(name, found, budget, unit, found <= budget);
}

fn line(name: &str, found: f64, budget: f64, unit: &str, kept: bool) {
    let verdict = if kept { "ok" } else { "MISSED" };
    println!("{name:<46} {found:>7.2} {unit:<5}  budget {budget:>5.1}  {verdict}");
}
