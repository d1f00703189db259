//! How a run is run, as far as a settings file or a plan says so. Pure.

use jiff::SignedDuration;

use super::route::Routing;
use crate::fleet::model::{Accept, Going, OnFailure, Options, ReviewMode};

/// How a run is run, as far as one place says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Most workers with a process at once.
    pub max_parallel: Option<u32>,
    /// Which steps are reviewed.
    pub review: Option<ReviewMode>,
    /// Who accepts.
    pub accept: Option<Accept>,
    /// What a failure means for the rest.
    pub on_failure: Option<OnFailure>,
    /// Most launches that count as attempts.
    pub max_attempts: Option<u32>,
    /// How work goes on after a limit.
    pub going: Option<Going>,
    /// Longest wait for a reset that keeps the conversation, in seconds.
    pub sticky_max_seconds: Option<u64>,
    /// Which providers may be used at all.
    pub routing: Option<Routing>,
}

impl Choices {
    /// These where they say something, else those below.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            max_parallel: self.max_parallel.or(below.max_parallel),
            review: self.review.or(below.review),
            accept: self.accept.or(below.accept),
            on_failure: self.on_failure.or(below.on_failure),
            max_attempts: self.max_attempts.or(below.max_attempts),
            going: self.going.or(below.going),
            sticky_max_seconds: self.sticky_max_seconds.or(below.sticky_max_seconds),
            routing: self.routing.or(below.routing),
        }
    }

    /// The first key that it says something for.
    pub fn first_said(&self) -> Option<&'static str> {
        [
            ("max_parallel", self.max_parallel.is_some()),
            ("review", self.review.is_some()),
            ("accept", self.accept.is_some()),
            ("on_failure", self.on_failure.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("continue", self.going.is_some()),
            ("sticky_max", self.sticky_max_seconds.is_some()),
            ("routing", self.routing.is_some()),
        ]
        .into_iter()
        .find_map(|(key, said)| said.then_some(key))
    }

    /// The options of a run, the rest from those below.
    pub fn options(&self, below: &Options) -> Options {
        Options {
            max_parallel: self.max_parallel.unwrap_or(below.max_parallel),
            review: self.review.unwrap_or(below.review),
            accept: self.accept.unwrap_or(below.accept),
            on_failure: self.on_failure.unwrap_or(below.on_failure),
            max_attempts: self.max_attempts.unwrap_or(below.max_attempts),
            going: self.going.unwrap_or(below.going),
            sticky_max_seconds: self.sticky_max_seconds.unwrap_or(below.sticky_max_seconds),
        }
    }
}

/// What a time to wait must be, as the end of a sentence.
pub const WANTED_DURATION: &str = "must be a time between 0s and 7 days, such as `20m`";

/// A time to wait, in seconds.
pub fn seconds(text: &str) -> Option<u64> {
    let time: SignedDuration = text.trim().parse().ok()?;
    let seconds = u64::try_from(time.as_secs()).ok()?;
    (seconds <= 7 * 86_400).then_some(seconds)
}
