//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod recover;
mod run;
mod send;
mod stop;
