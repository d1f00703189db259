//! How much of an account's allowance is left: windows, readings, headroom, cooldowns.

pub(crate) mod external;
pub mod headroom;
pub mod poll;
pub mod window;
