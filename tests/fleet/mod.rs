//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod doctor;
mod follow;
mod hold;
mod judge;
mod launch;
mod merge;
mod on_event;
mod plan;
mod recover;
mod reviews;
mod rules;
mod run;
mod send;
mod skill;
mod stop;
mod unread;
mod wait;
