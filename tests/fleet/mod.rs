//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod background;
mod crash;
mod damage;
mod kills;
mod limits;
mod run;
