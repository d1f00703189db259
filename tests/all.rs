//! One integration binary: the real program in hermetic homes.

mod architecture;
mod cli_contract;
mod cli_lease;
mod cli_output;
mod docs;
mod generated;
<<<<<<< HEAD
mod lease_process;
mod lease_store;
mod lease_storm;
=======
mod hooks;
>>>>>>> b486773 (Add the commands hook, statusline, session and which)
mod pages;
mod scripted_agent;
mod support;
