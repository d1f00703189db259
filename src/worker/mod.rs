//! What happens inside a worker: its hooks and status line report here, and it can ask who it is.

pub mod ancestry;
pub mod hook;
pub mod identity;
pub mod statusline;
