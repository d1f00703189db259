//! The lease protocol, explored: every order of steps, deaths and harm in small worlds, over the shipped code.
//!
//! [`world::Model`] is a machine in memory below [`super::leases::Leases`]; the table's bytes, verdicts, grants,
//! generations, the reclaim window and the order of turns are the real ones. What truly lives is kept apart
//! from them in [`state`], and [`truth`] says what must hold. `docs/reliability.md` has the results.

mod explore;
mod key;
mod names;
mod state;
mod step;
mod tests;
mod truth;
mod world;
