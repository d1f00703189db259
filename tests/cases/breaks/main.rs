//! Breaks the functions that guard the cases, one at a time, and demands that the named tests fail.
//!
//!     cargo test --features test-fakes --test breaks                          ten breaks at random
//!     cargo test --features test-fakes --test breaks -- --seed 7 --count 20   these twenty
//!     cargo test --features test-fakes --test breaks -- --all                 every break
//!     cargo test --features test-fakes --test breaks -- --only lease::        those of some functions; may be repeated
//!
//! It works in a copy of the tree below `target/breaks`, with build output of its own; nothing in the tree is
//! touched. First the named tests must pass unbroken. Then each break is built, and every test that it names
//! must fail; one that is still running after three minutes has failed too. Ends with status 1 when a break
//! survived one of its tests or could not be built.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "its answer is its output, and what it cannot go on with ends it"
)]

mod copy;
#[expect(
    dead_code,
    reason = "the suite reads the cases; only the breaks are of interest here"
)]
#[path = "../list.rs"]
mod list;
#[path = "../tree.rs"]
mod tree;
mod trial;

use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;
use std::process::ExitCode;

use crate::list::{Break, sections};
use crate::trial::{Trial, demanded};

/// What was asked for.
struct Asked {
    seed: u64,
    count: usize,
    /// Parts of functions' names; empty for all.
    only: Vec<String>,
}

fn main() -> ExitCode {
    let asked = asked(std::env::args().skip(1));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sections = sections(root);
    let all: Vec<&Break> = sections
        .iter()
        .flat_map(|section| &section.breaks)
        .filter(|one| {
            let mut named = asked.only.iter().map(|part| one.function.contains(part));
            asked.only.is_empty() || named.any(|is| is)
        })
        .collect();
    let chosen = chosen(all, &asked);
    println!("seed {}: {} breaks", asked.seed, chosen.len());
    let copy = copy::Copy::of(root);
    let trial = Trial::new(&copy);
    let wanted = demanded(chosen.iter().copied());
    match trial.run(&wanted, trial::LONG) {
        Ok(failed) if failed.is_empty() => println!("{} tests pass unbroken", wanted.len()),
        Ok(failed) => panic!("these tests fail unbroken: {failed:?}"),
        Err(error) => panic!("unbroken: {error}"),
    }
    let mut survived = 0;
    for (number, one) in chosen.iter().enumerate() {
        let verdict = broken(&copy, &trial, one);
        survived += usize::from(verdict.is_err());
        let (word, detail) = match verdict {
            Ok(count) => ("seen", format!("{count} of {count} tests fail")),
            Err(why) => ("SURVIVED", why),
        };
        println!("{:>3}  {word:<8}  {}  {detail}", number + 1, one.function);
    }
    println!(
        "seed {}: {} of {} breaks were seen by every test that must see them",
        asked.seed,
        chosen.len() - survived,
        chosen.len()
    );
    if survived == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// How many tests failed when the function was broken, or why that proves nothing.
fn broken(copy: &copy::Copy, trial: &Trial, one: &Break) -> Result<usize, String> {
    let (file, range) =
        tree::function(copy.root(), &one.function).ok_or("there is no such function")?;
    let whole = std::fs::read_to_string(&file).expect("a source file");
    let text = &whole[range.clone()];
    if text.matches(&one.find).count() != 1 {
        return Err("its text does not stand there once".to_owned());
    }
    let changed = [
        &whole[..range.start],
        &text.replace(&one.find, &one.replace),
        &whole[range.end..],
    ]
    .concat();
    copy::write(&file, changed.as_bytes());
    let wanted = demanded([one]);
    let ran = trial.run(&wanted, trial::PATIENCE);
    copy::write(&file, whole.as_bytes());
    let failed = ran?;
    let blind: Vec<&str> = wanted
        .iter()
        .filter(|name| !failed.contains(**name))
        .copied()
        .collect();
    if blind.is_empty() {
        Ok(wanted.len())
    } else {
        Err(format!("still passing: {}", blind.join(", ")))
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Asked {
    let mut asked = Asked {
        seed: std::hash::RandomState::new().build_hasher().finish() % 1_000_000,
        count: 10,
        only: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("`{word}` needs a value"))
        };
        match word.as_str() {
            "--seed" => asked.seed = value().parse().expect("a seed is a whole number"),
            "--count" => asked.count = value().parse().expect("a count is a whole number"),
            "--all" => asked.count = usize::MAX,
            "--only" => {
                asked.only.push(value());
                asked.count = usize::MAX;
            }
            other => panic!("`{other}` means nothing: --seed N, --count N, --all, --only TEXT"),
        }
    }
    asked
}

/// The first `count` of the breaks in an order that follows from the seed (Fisher and Yates, splitmix64).
fn chosen<'a>(mut all: Vec<&'a Break>, asked: &Asked) -> Vec<&'a Break> {
    let mut state = asked.seed;
    for last in (1..all.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let room = u64::try_from(last + 1).expect("few breaks");
        all.swap(last, usize::try_from(mixed % room).expect("few breaks"));
    }
    all.truncate(asked.count);
    all
}
