//! The words of the fleet's files and answers: what things are, and the states they go through. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A word that is none of those that may stand there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is one of {0}")]
pub struct UnknownWord(String);

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every one of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word in files and answers.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text { $($word => Ok(Self::$variant),)+ _ => Err(UnknownWord([$($word,)+].join(", "))) }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.word())
            }
        }
    };
}

words! {
    /// What a worker is there for.
    Role {
        /// It changes the step's files.
        Implementation = "implementation",
        /// It judges another worker's changes and changes nothing.
        Review = "review",
    }
}

words! {
    /// How hard a step is: what a tier of the settings is called by.
    Tier {
        /// Needs the strongest model.
        Heavy = "heavy",
        /// Ordinary work.
        Standard = "standard",
        /// Small work.
        Light = "light",
        /// Judging the work of others.
        Review = "review",
    }
}

words! {
    /// What a step may do.
    StepKind {
        /// It changes the files it names, or its own worktree.
        Change = "change",
        /// It only reads, owns no files and answers.
        Investigate = "investigate",
    }
}

words! {
    /// How a worker talks.
    Mode {
        /// One process per turn, output to a file.
        Headless = "headless",
        /// The provider's own screen, on a terminal that the host owns.
        Terminal = "terminal",
    }
}

words! {
    /// Which steps another model family has to review.
    ReviewMode {
        /// None.
        Off = "off",
        /// Those of tier heavy.
        CrossHeavy = "cross-heavy",
        /// Every one that changes something.
        CrossAll = "cross-all",
    }
}

words! {
    /// Who says that a step is done.
    Accept {
        /// The lead, by `fleet verify` with evidence.
        Lead = "lead",
        /// The program, by the step's own artifacts and commands.
        Program = "program",
    }
}

words! {
    /// What a failed step means for the rest.
    OnFailure {
        /// Nothing new is launched.
        Stop = "stop",
        /// What does not need it goes on.
        Continue = "continue",
    }
}

words! {
    /// How work goes on after a usage limit.
    Going {
        /// A new conversation on another account, with a handoff.
        Fresh = "fresh",
        /// The same conversation, when its account's reset is near.
        Sticky = "sticky",
    }
}

words! {
    /// Where a worker stands.
    WorkerState {
        /// A launch was written down and no process of it is known yet.
        Launching = "launching",
        /// Its process lives.
        Running = "running",
        /// Its turn ended well; no process, no lease.
        Parked = "parked",
        /// A usage limit ended its turn; `held_until` says when it is over.
        Limited = "limited",
        /// Alive, but no session began: a trust, login or update screen.
        StartBlocked = "start_blocked",
        /// Its turn failed, or it was stopped.
        Exited = "exited",
        /// Whether it runs cannot be told; it keeps its slot.
        Unknown = "unknown",
        /// It was asked to end.
        Stopping = "stopping",
        /// It was asked to end and did not; it keeps its slot.
        StopFailed = "stop_failed",
    }
}

impl WorkerState {
    /// Whether it was asked to end.
    pub fn is_ending(self) -> bool {
        matches!(self, Self::Stopping | Self::StopFailed)
    }

    /// Whether a process of it lives or may live, so that its files and its place are taken.
    pub fn holds_slot(self) -> bool {
        match self {
            Self::Launching
            | Self::Running
            | Self::StartBlocked
            | Self::Stopping
            | Self::StopFailed
            | Self::Unknown => true,
            Self::Parked | Self::Limited | Self::Exited => false,
        }
    }
}

words! {
    /// Where a step stands.
    StepState {
        /// Something it needs is not verified yet.
        Pending = "pending",
        /// It could be launched.
        Ready = "ready",
        /// Its worker works, or waits to go on.
        Running = "running",
        /// Its worker handed back.
        Reported = "reported",
        /// Its acceptance or its review is under way.
        Checking = "checking",
        /// Accepted; what needs it may begin.
        Verified = "verified",
        /// Given up after its attempts.
        Failed = "failed",
        /// A question is open that a person or a lead has to answer.
        Blocked = "blocked",
        /// The review wants something changed.
        ChangesRequested = "changes_requested",
        /// Taken out of the plan.
        Dropped = "dropped",
        /// What it needs failed.
        Skipped = "skipped",
    }
}

impl StepState {
    /// Whether nothing more happens to it by itself.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Verified | Self::Failed | Self::Dropped | Self::Skipped
        )
    }
}

words! {
    /// Where a run stands.
    RunState {
        /// Begun, without a plan.
        Draft = "draft",
        /// Planned, nothing launched.
        Planned = "planned",
        /// Something was launched.
        Running = "running",
        /// Held.
        Paused = "paused",
        /// Nothing can go on until a question is answered.
        Blocked = "blocked",
        /// Every step is verified, or dropped.
        Done = "done",
        /// Some step failed, and nothing can go on.
        Failed = "failed",
        /// A person stopped it.
        Stopped = "stopped",
    }
}

impl RunState {
    /// Whether `result.json` says how it ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::{RunState, StepState, WorkerState};

    #[test]
    fn what_may_still_run_keeps_its_slot() {
        let free: Vec<&str> = WorkerState::ALL
            .iter()
            .filter(|state| !state.holds_slot())
            .map(|state| state.word())
            .collect();
        assert_eq!(free, ["parked", "limited", "exited"]);
    }

    #[test]
    fn words_are_read_back() {
        for state in StepState::ALL {
            assert_eq!(state.word().parse(), Ok(*state));
            let json = serde_json::to_value(state).unwrap();
            assert_eq!(json, state.word());
        }
        assert!("gone".parse::<RunState>().is_err());
    }
}
