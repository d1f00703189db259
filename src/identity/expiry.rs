//! When a login ends by itself. Pure.
//!
//! A refresh does not extend a login: about a month after it was made, a person has to make a new one.

use jiff::{SignedDuration, Timestamp};

/// How long before its end a login is worth planning for.
pub const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How the end of a login lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// Nobody said when it ends.
    Unknown,
    /// Further away than [`SOON`].
    Far(Timestamp),
    /// Within [`SOON`].
    Near(Timestamp),
    /// It has ended.
    Past(Timestamp),
}

/// How the end of a login lies as seen from now.
pub fn forecast(ends: Option<Timestamp>, now: Timestamp) -> Forecast {
    match ends {
        None => Forecast::Unknown,
        Some(at) if at <= now => Forecast::Past(at),
        Some(at) if at.duration_since(now) <= SOON => Forecast::Near(at),
        Some(at) => Forecast::Far(at),
    }
}

#[cfg(test)]
mod tests {
    use super::{Forecast, SOON, forecast};
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn a_login_is_far_then_near_then_past() {
        let now: Timestamp = "2030-01-02T12:00:00Z".parse().unwrap();
        let second = SignedDuration::from_secs(1);
        assert_eq!(forecast(None, now), Forecast::Unknown);
        let edge = now + SOON;
        assert_eq!(
            forecast(Some(edge + second), now),
            Forecast::Far(edge + second)
        );
        assert_eq!(forecast(Some(edge), now), Forecast::Near(edge));
        assert_eq!(
            forecast(Some(now + second), now),
            Forecast::Near(now + second)
        );
        assert_eq!(forecast(Some(now), now), Forecast::Past(now));
    }
}
