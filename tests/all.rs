//! One integration binary: the real program in hermetic homes.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on panics, and may show what it saw"
)]

mod architecture;
mod audit;
mod cases;
mod cli_choose;
mod cli_contract;
mod cli_demo;
mod cli_doctor;
mod cli_lease;
mod cli_output;
mod cli_pool;
mod cli_quota;
mod cli_registry;
mod cli_registry_profile;
mod cli_status;
mod costs;
mod crash;
mod crash_many;
mod docs;
mod enroll;
mod evidence;
mod exposed;
mod files;
mod first_contract;
mod fleet;
mod formats;
mod generated;
mod guard;
mod homes;
mod hooks;
mod http_client;
mod identity;
mod import;
mod killed;
mod launch;
mod lease_damage;
mod lease_elsewhere;
mod lease_late;
mod lease_process;
mod lease_store;
mod lease_watch;
mod pace;
mod pages;
mod permissions;
mod polling;
mod provision;
mod quota_watch;
mod readings;
mod refusals;
mod scripted_agent;
mod scripted_world;
mod secrets;
mod start_gate;
mod storm;
mod support;
mod transactions;
mod transactions_disk;
mod typed;
mod waiting;
