//! Asking about accounts: the only way to a network call or an external reader.
//!
//! Targets are asked about in parallel, each under its own fetch lock. What goes wrong with one target is
//! its own outcome and never its siblings'. No provider lock is needed or taken here.

use std::collections::{BTreeMap, BTreeSet};

use super::fetch::Fetch;
use crate::clock::Deadline;
use crate::env::Context;
use crate::error::{Error, Result};
use crate::id::ProviderKind;
use crate::provider::Want;
use crate::registry::install;
use crate::registry::schema::{Profile, Registry};
use crate::snapshot::fold;
use crate::snapshot::profile::BASE;

/// Most fetches at a time.
const PARALLEL: usize = 16;

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A command that needs it by the way.
    Program,
    /// A person who named the profile: what holds is asked again, a back-off that is not the server's own
    /// wish is skipped for the identity, and a lost record may be brought back.
    Person,
}

/// Whose account.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A profile's.
    Profile(&'a Profile),
    /// The base CLI login's, whose identity alone matters.
    Base(ProviderKind),
}

impl Target<'_> {
    /// The provider, and the name in its snapshot.
    pub fn key(&self) -> (ProviderKind, String) {
        match self {
            Self::Profile(profile) => (profile.provider, profile.id.as_str().to_owned()),
            Self::Base(provider) => (*provider, BASE.to_owned()),
        }
    }
}

/// One question.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Whose account.
    pub target: Target<'a>,
    /// What about it.
    pub want: Want,
    /// Who wants to know.
    pub asker: Asker,
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything wanted is known now, by this call or by another process meanwhile.
    Known,
    /// It was not asked about, for this reason word; what was known stands.
    Left(&'static str),
    /// It was asked about in vain; the reason word says why.
    Failed(&'static str),
    /// The home holds another account than before: the profile is quarantined.
    Changed,
}

/// The outcomes, by provider and profile id, or [`BASE`] for the base login.
pub type Outcomes = BTreeMap<(ProviderKind, String), Outcome>;

/// Asks about every target until the deadline. Fails only when the install's key cannot be read.
pub fn refresh(
    context: &Context,
    registry: &Registry,
    asks: &[Ask<'_>],
    deadline: &Deadline,
) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    if asks.is_empty() {
        return Ok(outcomes);
    }
    let kinds: BTreeSet<ProviderKind> = asks.iter().map(|ask| ask.target.key().0).collect();
    for kind in kinds {
        // Whatever was seen so far is older than the answers, whatever the clock said then. What cannot be read
        // is told by whoever goes by it.
        drop(fold::settle(context, kind, deadline));
    }
    let key = install::key(context)?;
    let mut fetches = Vec::new();
    for ask in asks {
        match Fetch::plan(context, registry, &key, ask, deadline)? {
            Ok(fetch) => fetches.push((ask, fetch)),
            Err(reason) => {
                outcomes.insert(ask.target.key(), Outcome::Left(reason));
            }
        }
    }
    for some in fetches.chunks(PARALLEL) {
        let answers: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter()
                .map(|(_, fetch)| scope.spawn(|| fetch.run()))
                .collect();
            threads
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect()
        });
        for ((ask, _), answer) in some.iter().zip(answers) {
            let outcome = match answer.map_err(|_| Error::internal("a fetch ended in a panic"))? {
                Ok(outcome) => outcome,
                Err(error) => Outcome::Failed(error.code.name),
            };
            outcomes.insert(ask.target.key(), outcome);
        }
    }
    Ok(outcomes)
}
