//! How much of an account's allowance is left: windows, readings, headroom, cooldowns.

pub mod window;
