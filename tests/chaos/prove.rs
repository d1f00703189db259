//! What chaos would see: each protection switched off, and a violation demanded within a minute.

use std::time::{Duration, Instant};

use crate::mix::Mix;
use crate::storm::{self, Plan};

const MINUTE: Duration = Duration::from_mins(1);

/// A protection, and how it is missed.
struct Proof {
    name: &'static str,
    faults: &'static str,
    mix: Mix,
    namespaces: bool,
}

const PROOFS: [Proof; 6] = [
    Proof {
        name: "leases",
        faults: "no-leases-lock",
        mix: Mix::Work,
        namespaces: false,
    },
    Proof {
        name: "snapshot",
        faults: "no-snapshot-lock",
        mix: Mix::Gates,
        namespaces: false,
    },
    Proof {
        name: "queue",
        faults: "no-queue",
        mix: Mix::Queue,
        namespaces: false,
    },
    Proof {
        name: "turnstile",
        faults: "no-turnstile",
        mix: Mix::Gates,
        namespaces: false,
    },
    Proof {
        name: "witness-children",
        faults: "no-witness",
        mix: Mix::Work,
        namespaces: false,
    },
    Proof {
        name: "witness-namespaces",
        faults: "no-witness",
        mix: Mix::Work,
        namespaces: true,
    },
];

/// Runs the proofs of these names, or all; true when each found something.
pub(crate) fn run(seed: u64, names: &[String]) -> bool {
    let mut good = true;
    for proof in PROOFS
        .iter()
        .filter(|proof| names.is_empty() || names.iter().any(|name| name == proof.name))
    {
        let begun = Instant::now();
        let plan = Plan {
            seed,
            span: MINUTE,
            mix: proof.mix,
            faults: proof.faults,
            namespaces: proof.namespaces,
            thorough: false,
        };
        let report = storm::run(&plan);
        let violations = &report.judge.violations;
        let took = begun.elapsed().as_secs_f64();
        // Those of the truth come last.
        match violations.last() {
            Some(seen) => println!(
                "chaos: without {}: seen after {took:.1} s: {seen}",
                proof.name
            ),
            None => println!("chaos: without {}: NOT SEEN in {took:.1} s", proof.name),
        }
        good &= !violations.is_empty();
    }
    good
}
