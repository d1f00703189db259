//! The only source of time and of waiting.
//!
//! Wall time is for people and for quota windows; boot time (runs on during suspend, never steps) is for
//! reservations, gates and deadlines. With the feature `test-fakes`, `AGENT_FLEET_TEST_NOW` moves wall
//! time: an RFC 3339 instant freezes it, `+SECONDS` or `-SECONDS` shifts it, and `@FILE` does what the file says
//! each time the time is asked for, so that it moves for processes that live. Boot time is never faked.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// How long a routine command may wait and fetch in all; callers give up after ten seconds.
pub const ROUTINE: Duration = Duration::from_secs(8);

/// Milliseconds since boot, suspend included (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub u64);

impl BootTime {
    /// The instant `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Tells time; cheap to copy around.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    shift: Shift,
}

#[derive(Clone, Copy, Debug, Default)]
enum Shift {
    #[default]
    None,
    #[cfg_attr(
        not(any(test, feature = "test-fakes")),
        expect(dead_code, reason = "only tests move the clock")
    )]
    By(SignedDuration),
    #[cfg_attr(
        not(any(test, feature = "test-fakes")),
        expect(dead_code, reason = "only tests move the clock")
    )]
    Fixed(Timestamp),
    #[cfg(any(test, feature = "test-fakes"))]
    File(&'static str),
}

#[cfg(any(test, feature = "test-fakes"))]
impl Shift {
    /// What a text says of the time; nothing when it is not usable.
    fn read(text: &str) -> Self {
        let text = text.trim();
        if let Ok(at) = text.parse() {
            Self::Fixed(at)
        } else if let Ok(seconds) = text.trim_start_matches('+').parse() {
            Self::By(SignedDuration::from_secs(seconds))
        } else {
            Self::None
        }
    }
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self::default()
    }

    /// A clock moved by the text of `AGENT_FLEET_TEST_NOW`; the machine's clock when it says nothing usable.
    #[cfg(any(test, feature = "test-fakes"))]
    pub fn moved(text: &str) -> Self {
        let shift = match text.strip_prefix('@') {
            // The few clocks of a process are for as long as it lives.
            Some(path) => Shift::File(Box::leak(path.into())),
            None => Shift::read(text),
        };
        Self { shift }
    }

    /// Wall time.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Timestamp {
        #[cfg(any(test, feature = "test-fakes"))]
        let shift = match self.shift {
            Shift::File(path) => Shift::read(&std::fs::read_to_string(path).unwrap_or_default()),
            shift @ (Shift::None | Shift::By(_) | Shift::Fixed(_)) => shift,
        };
        #[cfg(not(any(test, feature = "test-fakes")))]
        let shift = self.shift;
        match shift {
            #[cfg(any(test, feature = "test-fakes"))]
            Shift::File(_) => Timestamp::now(),
            Shift::None => Timestamp::now(),
            Shift::By(span) => Timestamp::now().checked_add(span).unwrap_or(Timestamp::MAX),
            Shift::Fixed(at) => at,
        }
    }

    /// Time since boot.
    pub fn boot(&self) -> BootTime {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let now = clock_gettime(clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        BootTime(seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000)
    }

    /// Lets `span` pass.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }

    /// The deadline `span` from now.
    pub fn deadline(&self, span: Duration) -> Deadline {
        Deadline {
            clock: *self,
            at: self.boot().plus(span),
        }
    }
}

/// An instant on the boot clock after which waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    clock: Clock,
    at: BootTime,
}

impl Deadline {
    /// What is left; zero once it has passed.
    pub fn left(&self) -> Duration {
        self.at.since(self.clock.boot())
    }

    /// True once nothing is left.
    pub fn passed(&self) -> bool {
        self.left().is_zero()
    }

    /// Lets `span` pass, but not beyond the deadline; false once it has passed.
    pub fn pause(&self, span: Duration) -> bool {
        self.clock.pause(span.min(self.left()));
        !self.passed()
    }

    /// The earlier of this deadline and one `span` from now.
    #[must_use]
    pub fn within(&self, span: Duration) -> Self {
        let other = self.clock.boot().plus(span);
        Self {
            clock: self.clock,
            at: self.at.min(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BootTime, Clock};
    use std::time::Duration;

    #[test]
    fn boot_time_never_underflows() {
        assert_eq!(BootTime(5).since(BootTime(9)), Duration::ZERO);
        assert_eq!(
            BootTime(u64::MAX).plus(Duration::from_secs(1)),
            BootTime(u64::MAX)
        );
    }

    #[test]
    fn a_moved_clock_moves_wall_time_only() {
        let clock = Clock::moved("2030-01-02T03:04:05Z");
        assert_eq!(clock.now().to_string(), "2030-01-02T03:04:05Z");
        let ahead = Clock::moved("+3600");
        assert!(ahead.now().duration_since(Clock::real().now()).as_secs() >= 3599);
        let file = tempfile::NamedTempFile::new().unwrap();
        let moving = Clock::moved(&format!("@{}", file.path().display()));
        for text in ["2030-01-02T03:04:05Z", "2030-01-02T03:04:06Z\n"] {
            crate::store::replace::replace(
                camino::Utf8Path::from_path(file.path()).unwrap(),
                text.as_bytes(),
                crate::store::replace::Durability::Volatile,
            )
            .unwrap();
            assert_eq!(moving.now().to_string(), text.trim());
        }
        assert!(ahead.boot().since(Clock::real().boot()) < Duration::from_mins(1));
    }
}
