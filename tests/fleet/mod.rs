//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod reviews;
mod rules;
mod run;
