//! Places where a test can end the process, one after each durable step.
//!
//! With the feature `test-fakes`, `AGENT_FLEET_TEST_CRASH_AT=<name>` aborts there, and
//! `AGENT_FLEET_TEST_CRASH_TRACE=<file>` lists the points that a run passes. Without it there is no code.

/// Names a crash point.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "test-fakes")]
        $crate::store::crash::reached($name);
    };
}

/// Aborts when the test asked for it here.
#[cfg(feature = "test-fakes")]
#[expect(
    clippy::disallowed_methods,
    reason = "a test switch far below the captured environment"
)]
pub fn reached(name: &str) {
    use std::io::Write as _;
    if let Some(path) = std::env::var_os("AGENT_FLEET_TEST_CRASH_TRACE")
        && let Ok(mut file) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
    {
        drop(writeln!(file, "{name}"));
    }
    if std::env::var_os("AGENT_FLEET_TEST_CRASH_AT").is_some_and(|at| at == *name) {
        std::process::abort();
    }
}
