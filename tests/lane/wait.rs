//! Waiting for conditions, always with a deadline.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Asks until there is an answer; fails with what it saw last when there is none in time.
#[track_caller]
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + limit;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(seen) => assert!(
                Instant::now() < end,
                "not within {} s: {what}\n{seen}",
                limit.as_secs()
            ),
        }
        pace();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pace of asking, not a wait for luck"
)]
fn pace() {
    std::thread::sleep(Duration::from_millis(200));
}

/// Waits for a process that was told to end, for as long as that takes at most; for destructors, which must not
/// fail.
pub(crate) fn gone(pid: i32) {
    let end = Instant::now() + Duration::from_secs(10);
    let process = PathBuf::from(format!("/proc/{pid}"));
    while process.exists() && Instant::now() < end {
        pace();
    }
}
