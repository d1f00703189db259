//! One integration binary: the real program in hermetic homes.

mod cli_version;
mod support;
