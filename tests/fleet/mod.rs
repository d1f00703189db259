//! Runs of the fleet, through the real program with scripted workers in a real checkout.

mod background;
mod crash;
mod damage;
mod doctor;
mod follow;
mod hold;
mod judge;
mod kills;
mod launch;
mod limits;
mod merge;
mod on_event;
mod plan;
mod recover;
mod reviews;
mod rules;
mod run;
mod screen;
mod send;
mod skill;
mod stop;
mod take;
mod terminal;
mod unread;
mod wait;
mod windows;
