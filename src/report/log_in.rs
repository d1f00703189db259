//! The command that logs in to a profile while others of its provider are at work.

use std::collections::BTreeSet;

use crate::id::ProviderKind;
use crate::identity::refusal;
use crate::lease::Occupancy;
use crate::registry::schema::{Profile, Registry, SafetyPolicy};

/// The providers whose profiles have live leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtWork(pub BTreeSet<ProviderKind>);

impl AtWork {
    /// Those of a registry.
    pub fn of(registry: &Registry, occupancy: &Occupancy) -> Self {
        let live = |profile: &&Profile| occupancy.live(&profile.id) > 0;
        let profiles = registry.profiles.iter();
        Self(profiles.filter(live).map(|one| one.provider).collect())
    }

    /// A command about a profile: if it is the one that logs in, it says that it may run beside the others' work,
    /// without which it would be refused.
    pub fn beside(&self, command: String, profile: &Profile) -> String {
        let enrolls =
            profile.safety_policy == SafetyPolicy::Worker && command == refusal::log_in(profile);
        if enrolls && self.0.contains(&profile.provider) {
            format!("{command} --beside-live")
        } else {
            command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AtWork;
    use crate::id::ProviderKind::{Claude, Codex};
    use crate::registry::schema::{Credential, Profile, SafetyPolicy};

    #[test]
    fn logging_in_beside_workers_of_the_provider_says_so() {
        let profile = Profile {
            id: "codex-1".parse().unwrap(),
            provider: Codex,
            home: "/nowhere/codex-1".into(),
            pools: Vec::new(),
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 1,
            reserve_percent: 0.0,
            weight: 1,
            safety_policy: SafetyPolicy::Worker,
            allow_overage: false,
        };
        let enroll = "agent-fleet profile enroll codex-1";
        let told = |at_work: &AtWork, command: &str| at_work.beside(command.to_owned(), &profile);
        let busy = AtWork([Codex].into());
        assert_eq!(told(&busy, enroll), format!("{enroll} --beside-live"));
        assert_eq!(told(&AtWork([Claude].into()), enroll), enroll);
        assert_eq!(told(&AtWork::default(), enroll), enroll);
        let other = "agent-fleet profile verify codex-1";
        assert_eq!(told(&busy, other), other);
    }
}
