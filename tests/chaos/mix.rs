//! What actors do how often.

use std::str::FromStr;

use crate::truth::Dice;

/// What an actor can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Reserves a slot, and mostly gives it back.
    Reserve,
    /// Reserves a slot and works.
    Bind,
    /// Takes a slot and works, as `exec` does.
    Work,
    /// Waits for a slot.
    Wait,
    /// Gives back what another may have.
    Release,
    /// Reserves what a conversation needs that went on before.
    Recover,
    /// Looks.
    Look,
    /// Asks about an account.
    Refresh,
    /// Drains, rests or disables a profile, and ends that.
    Gate,
    /// Changes the registry.
    Configure,
    /// Becomes the shipped program.
    Become,
    /// Logs in again.
    Enroll,
    /// Takes and gives back leases of the table a few times over, without choosing.
    Table,
}

/// A choice of deeds, by a name that travels to actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Everything.
    All,
    /// Mostly what closes and opens profiles.
    Gates,
    /// Mostly waiting and overtaking.
    Queue,
    /// Working and nothing else.
    Work,
}

impl Mix {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Gates => "gates",
            Self::Queue => "queue",
            Self::Work => "work",
        }
    }

    fn weights(self) -> &'static [(Deed, u64)] {
        match self {
            Self::All => &[
                (Deed::Reserve, 300),
                (Deed::Bind, 130),
                (Deed::Work, 150),
                (Deed::Wait, 40),
                (Deed::Release, 90),
                (Deed::Recover, 20),
                (Deed::Look, 50),
                (Deed::Refresh, 40),
                (Deed::Gate, 40),
                (Deed::Configure, 6),
                (Deed::Become, 25),
                (Deed::Enroll, 6),
                (Deed::Table, 300),
            ],
            Self::Gates => &[(Deed::Reserve, 6), (Deed::Gate, 6), (Deed::Refresh, 1)],
            Self::Queue => &[(Deed::Reserve, 5), (Deed::Wait, 2), (Deed::Work, 5)],
            Self::Work => &[(Deed::Work, 3), (Deed::Bind, 1)],
        }
    }

    /// The next deed.
    pub(crate) fn deal(self, dice: &mut Dice) -> Deed {
        let weights = self.weights();
        let mut at = dice.below(weights.iter().map(|(_, weight)| weight).sum());
        for (deed, weight) in weights {
            if at < *weight {
                return *deed;
            }
            at -= weight;
        }
        Deed::Look
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::All, Self::Gates, Self::Queue, Self::Work]
            .into_iter()
            .find(|mix| mix.name() == text)
            .ok_or_else(|| format!("there is no mix `{text}`"))
    }
}
