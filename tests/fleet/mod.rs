//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod follow;
mod on_event;
mod reviews;
mod rules;
mod run;
mod unread;
mod wait;
