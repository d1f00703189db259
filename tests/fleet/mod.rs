//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod follow;
mod on_event;
mod recover;
mod run;
mod send;
mod stop;
mod take;
mod unread;
mod wait;
