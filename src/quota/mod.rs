//! How much of an account's allowance is left: windows, readings, headroom, cooldowns.

pub(crate) mod external;
pub(crate) mod fetch;
pub mod headroom;
pub mod limit;
pub mod model;
pub mod poll;
pub mod refresh;
pub mod report;
pub mod reset;
pub mod window;
pub mod wording;
