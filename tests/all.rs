//! One integration binary: the real program in hermetic homes.

mod architecture;
mod cli_contract;
mod cli_output;
mod docs;
mod generated;
mod pages;
mod scripted_agent;
mod support;
