//! Promotes a login as enrollment does at its end: `PROVIDER PROFILE CREDENTIAL NEW [falls]`.
//!
//! So that a test can end a promotion at each of its steps without a login by a person before it.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program outside the house"
)]

use agent_fleet::env::{Context, World};
use agent_fleet::error::{Error, Result, code};
use agent_fleet::store::lock::Locks;
use agent_fleet::transaction::{begin, pending};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match promote(&arguments) {
        Ok(outcome) => println!("{outcome}"),
        Err(error) => {
            println!("{}: {}", error.code.name, error.message);
            std::process::exit(2);
        }
    }
}

fn promote(arguments: &[String]) -> Result<String> {
    let [_, kind, profile, target, new, rest @ ..] = arguments else {
        return Err(Error::new(
            code::USAGE,
            "PROVIDER PROFILE CREDENTIAL NEW [falls]",
        ));
    };
    let new = std::fs::read(new).map_err(|error| Error::io("read", new, &error))?;
    let context = Context::resolve(&World::capture(), None)?;
    let (kind, profile) = (kind.parse()?, profile.parse()?);
    let locks = Locks::new(&context.roots.state, context.clock);
    let (_turnstile, guard) = locks.maintenance(kind, "a test's promotion")?;
    pending::settle(&context, kind, &guard)?;
    let promotion = begin(&context, (kind, &profile), target.as_str().into(), &new)?;
    let promoted = promotion.carry_out(&guard, &new, &mut || rest.is_empty())?;
    Ok(format!("{promoted:?}"))
}
