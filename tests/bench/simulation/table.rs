//! The results, averaged and printed.

use crate::demand::Pattern;
use crate::fleet::Outcome;

/// One simulated world under one strategy.
struct Row {
    load: u32,
    pattern: Pattern,
    strategy: &'static str,
    outcome: Outcome,
    bound: f64,
}

/// Everything that was simulated, in order.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn add(
        &mut self,
        load: u32,
        pattern: Pattern,
        strategy: &'static str,
        outcome: Outcome,
        bound: f64,
    ) {
        self.rows.push(Row {
            load,
            pattern,
            strategy,
            outcome,
            bound,
        });
    }

    /// Prints a line per load and strategy, and with `each` a line per kind of demand before it.
    pub(crate) fn print(&self, each: bool) {
        println!(
            "{:<7} {:<7} {:<15} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}",
            "demand", "of", "strategy", "done", "given up", "wait min", "walls", "moved", "expired"
        );
        let mut kinds: Vec<(u32, &str)> = Vec::new();
        for row in &self.rows {
            if !kinds.contains(&(row.load, row.strategy)) {
                kinds.push((row.load, row.strategy));
            }
        }
        for (load, strategy) in kinds {
            let of: Vec<&Row> = self
                .rows
                .iter()
                .filter(|row| row.load == load && row.strategy == strategy)
                .collect();
            if each {
                for pattern in Pattern::ALL {
                    let rows = of.iter().copied().filter(|row| row.pattern == pattern);
                    print(load, pattern.name(), strategy, &rows.collect::<Vec<_>>());
                }
            }
            print(load, "all", strategy, &of);
        }
    }
}

fn print(load: u32, pattern: &str, strategy: &str, rows: &[&Row]) {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred worlds")]
    let count = rows.len() as f64;
    let mean = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / count;
    let per_task = |of: &dyn Fn(&Outcome) -> f64| {
        mean(&|row: &Row| 100.0 * of(&row.outcome) / row.outcome.tasks)
    };
    println!(
        "{load:>5} % {pattern:<7} {strategy:<15} {:>7.1} % {:>7.1} % {:>8.0} {:>6.1} % {:>6.1} % {:>6.1} %",
        mean(&|row| 100.0 * row.outcome.done / row.bound),
        per_task(&|outcome| outcome.refused),
        mean(&|row| row.outcome.waited / row.outcome.tasks),
        per_task(&|outcome| outcome.walls),
        per_task(&|outcome| outcome.moves),
        mean(&|row| 100.0 * row.outcome.expired),
    );
}
