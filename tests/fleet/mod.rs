//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod doctor;
mod hold;
mod judge;
mod launch;
mod merge;
mod plan;
mod run;
mod skill;
