#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agent_fleet::fuzz::fleet_plan(bytes));
