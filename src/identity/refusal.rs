//! How a profile whose account is not proved is told, and what a person types then.

use camino::Utf8Path;

use super::proof::{Standing, Unproven};
use crate::error::{Code, Error, Refusal, code};
use crate::id::ProfileId;
use crate::provider::{self, conveyance};
use crate::registry::schema::{Credential, Profile, SafetyPolicy};
use crate::sys::shell;

impl Unproven {
    /// The reason as a clause.
    pub fn clause(self) -> &'static str {
        match self {
            Self::NoLogin => "its home holds no login",
            Self::LoggedOut => "its login was refused and the provider's CLI emptied it",
            Self::CredentialLink => {
                "its credential file is a link, so another home may share the login"
            }
            Self::CredentialUnreadable => "its credential file cannot be read",
            Self::CredentialUnparsable => "its credential file is not in the provider's format",
            Self::TokenExpired => {
                "its access token ran out before the server was asked whose login it is"
            }
            Self::ApiKey => "its home holds an API key, which is paid per token",
            Self::NotEnrolled => "its token or key was not enrolled",
            Self::LoginExpired => "its login has run out and cannot be renewed",
        }
    }
}

/// A profile whose account is not proved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile `{profile}` cannot be used: {clause} ({word})")]
pub struct NotProven {
    /// Which.
    pub profile: ProfileId,
    code: Code,
    word: &'static str,
    clause: &'static str,
    next: String,
}

impl Standing {
    /// The refusal of a profile that stands so; `None` when proven.
    pub fn refusal(&self, profile: &Profile) -> Option<NotProven> {
        let clause = match self {
            Self::Proven(_) => return None,
            Self::Renew => "its account was not proved for the login in its home",
            Self::Unproven(reason) => reason.clause(),
            Self::Quarantined(_) => "it is quarantined: its home held another account than before",
        };
        Some(NotProven {
            profile: profile.id.clone(),
            code: self.code()?,
            word: self.word(),
            clause,
            next: self.next(profile),
        })
    }

    fn next(&self, profile: &Profile) -> String {
        let id = &profile.id;
        let Self::Unproven(reason) = self else {
            return format!("agent-fleet profile verify {id}");
        };
        match reason {
            Unproven::NoLogin
            | Unproven::LoggedOut
            | Unproven::LoginExpired
            | Unproven::NotEnrolled
            // A subscription's login takes its place.
            | Unproven::ApiKey => log_in(profile),
            Unproven::CredentialLink
            | Unproven::CredentialUnreadable
            | Unproven::CredentialUnparsable
                if conveyance::is_ours(profile) =>
            {
                format!("agent-fleet profile auth-status {id}")
            }
            Unproven::CredentialLink
            | Unproven::CredentialUnreadable
            | Unproven::CredentialUnparsable => {
                let file = provider::of(profile.provider).credential_file();
                look_at(&profile.home.join(file))
            }
            Unproven::TokenExpired => format!("agent-fleet profile verify {id} --probe"),
        }
    }
}

/// The command that shows whether a credential file is a link, and whose.
pub fn look_at(credential: &Utf8Path) -> String {
    format!("ls -li {}", shell::quote(credential.as_str()))
}

/// The command by which a person gives a profile its login, token or key.
///
/// A profile that is not for workers is not enrolled: its person logs in with the provider's own command.
pub fn log_in(profile: &Profile) -> String {
    if profile.safety_policy == SafetyPolicy::Worker {
        let kind = match profile.credential {
            Credential::Home => "",
            Credential::SetupToken => " --setup-token",
            Credential::ApiKey => " --api-key-stdin",
        };
        format!("agent-fleet profile enroll {}{kind}", profile.id)
    } else if profile.home.exists() {
        provider::of(profile.provider).login_command(&profile.home)
    } else {
        // Codex refuses to log in to a home that does not exist.
        format!("agent-fleet profile provision {}", profile.id)
    }
}

impl Refusal for NotProven {
    fn code(&self) -> Code {
        self.code
    }
    fn hint(&self) -> Option<String> {
        Some(self.next.clone())
    }
}

/// The refusal of a profile whose login the server takes no longer: only a new login helps.
pub fn broken(profile: &Profile) -> Error {
    let message = format!(
        "the server no longer takes the login of profile `{}` (auth_broken)",
        profile.id
    );
    Error::new(code::AUTH_BROKEN, message).hint(log_in(profile))
}

/// The refusal of a quarantined profile whose home was just seen to hold another account still: to have it verified
/// again would not help.
pub fn foreign(profile: &Profile) -> Error {
    let message = format!(
        "profile `{}` stays quarantined: its home still holds another account than before (identity_changed)",
        profile.id
    );
    Error::new(code::IDENTITY_CHANGED, message).hint(log_in(profile))
}

#[cfg(test)]
mod tests {
    use super::{broken, log_in};
    use crate::error::Refusal as _;
    use crate::id::ProviderKind::Claude;
    use crate::identity::proof::{Standing, Unproven};
    use crate::registry::schema::{Credential, Profile, SafetyPolicy};

    #[test]
    fn each_missing_proof_says_what_a_person_types() {
        let directory = tempfile::tempdir().unwrap();
        let home = camino::Utf8Path::from_path(directory.path()).unwrap();
        let of_policy = |home: &camino::Utf8Path, safety_policy| Profile {
            id: "claude-1".parse().unwrap(),
            provider: Claude,
            home: home.to_owned(),
            pools: Vec::new(),
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 1,
            reserve_percent: 0.0,
            weight: 1,
            safety_policy,
            allow_overage: false,
        };
        let profile = |home: &camino::Utf8Path| of_policy(home, SafetyPolicy::Worker);
        let hint = |standing: Standing, home: &camino::Utf8Path| {
            let refusal = standing.refusal(&profile(home)).unwrap();
            refusal.hint().unwrap()
        };
        let unproven = Standing::Unproven;
        let login = "agent-fleet profile enroll claude-1";
        for ended in [
            Unproven::NoLogin,
            Unproven::LoggedOut,
            Unproven::LoginExpired,
            Unproven::ApiKey,
        ] {
            assert_eq!(hint(unproven(ended), home), login);
        }
        assert_eq!(broken(&profile(home)).hint.as_deref(), Some(login));
        assert_eq!(
            hint(unproven(Unproven::TokenExpired), home),
            "agent-fleet profile verify claude-1 --probe",
            "a token that ran out is no lost login"
        );
        let own = |home: &camino::Utf8Path| log_in(&of_policy(home, SafetyPolicy::ManualOnly));
        assert_eq!(
            own(home),
            format!("env CLAUDE_CONFIG_DIR={home} claude auth login"),
            "nobody enrolls a profile that is not for workers"
        );
        assert_eq!(
            own(&home.join("missing")),
            "agent-fleet profile provision claude-1"
        );
        assert_eq!(
            hint(unproven(Unproven::CredentialLink), home),
            format!("ls -li {home}/.credentials.json")
        );
        assert_eq!(
            hint(Standing::Renew, home),
            "agent-fleet profile verify claude-1"
        );
    }
}
