//! Places where a test can end the process or hold it back, one after each durable step.
//!
//! With the feature `test-fakes`, `AGENT_FLEET_TEST_CRASH_AT` aborts at the n-th point that the process passes, or
//! at the first one of a name, and `AGENT_FLEET_TEST_CRASH_TRACE=<file>` lists the points it passes. Both count only
//! processes one of whose words is `AGENT_FLEET_TEST_CRASH_ONLY`, where that is set: a command's switches are
//! inherited by what it starts. `AGENT_FLEET_TEST_CRASH_ONCE=<file>` is made by the first that aborts, and no other
//! does. `AGENT_FLEET_TEST_HOLD_AT=<name>` makes a process wait at the points of that name while the file
//! `AGENT_FLEET_TEST_HOLD` is there, as a suspend would. Without the feature there is no code.

/// Names a crash point.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "test-fakes")]
        $crate::store::crash::reached($name);
    };
}

/// Aborts or waits when the test asked for it here.
#[cfg(feature = "test-fakes")]
#[expect(
    clippy::disallowed_methods,
    reason = "a test switch far below the captured environment"
)]
pub fn reached(name: &str) {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSED: AtomicU32 = AtomicU32::new(0);
    if let Some(only) = std::env::var_os("AGENT_FLEET_TEST_CRASH_ONLY")
        && std::env::args_os().all(|word| word != only)
    {
        return;
    }
    let count = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(path) = std::env::var_os("AGENT_FLEET_TEST_CRASH_TRACE")
        && let Ok(mut file) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
    {
        drop(writeln!(file, "{name}"));
    }
    if std::env::var("AGENT_FLEET_TEST_HOLD_AT").is_ok_and(|wanted| wanted == name)
        && let Some(file) = std::env::var_os("AGENT_FLEET_TEST_HOLD")
    {
        while std::path::Path::new(&file).exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    let wanted = std::env::var("AGENT_FLEET_TEST_CRASH_AT").ok();
    if wanted.is_some_and(|wanted| wanted == name || wanted.parse() == Ok(count)) && first() {
        std::process::abort();
    }
}

/// Whether nobody aborted before, where only one may.
#[cfg(feature = "test-fakes")]
#[expect(
    clippy::disallowed_methods,
    reason = "a test switch far below the captured environment"
)]
fn first() -> bool {
    std::env::var_os("AGENT_FLEET_TEST_CRASH_ONCE").is_none_or(|path| {
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .is_ok()
    })
}
