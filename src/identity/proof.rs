//! Whether a profile's account is proved for the login that is in its home now.
//!
//! A proof is bound to the login tokens. While they are unchanged it holds, however old: a token cannot
//! change its account, and an expired access token is not a lost identity. When they change, the new access
//! token is asked once, read-only. A login that changed and has expired since cannot be asked: the profile
//! alone is unproven. [`judge`] decides over facts; [`check`] only looks at the credential file first.

use jiff::Timestamp;

use super::credential::{self, Seen};
use crate::env::Context;
use crate::error::{Code, Error, Refusal, code};
use crate::id::ProfileId;
use crate::provider::{self, Login, LoginKind};
use crate::registry::schema::{Credential, Profile, ProviderSettings, QuotaReader};
use crate::snapshot::profile::{Binding, Note, ProfileState};
use crate::sys::filesystem::Identity;
use crate::sys::shell;

/// How a profile's account stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The proof holds for the login that is there now. When the file had to be read to know it, its stat
    /// tuple and the time of the reading come along, to be kept with the proof.
    Proven(Option<(Identity, i128)>),
    /// Never proved, or the login changed: asking the server once would settle it.
    Renew,
    /// Not proved, and asking cannot settle it now.
    Unproven(Unproven),
    /// Isolated until a person acts.
    Quarantined(Note),
}

/// Why an account is not proved and cannot be now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The home holds no credential.
    NoLogin,
    /// The provider's CLI logged itself out: the tokens are empty.
    LoggedOut,
    /// The credential file is shared with another place.
    CredentialLink,
    /// The credential file cannot be read.
    CredentialUnreadable,
    /// The credential file is not in the provider's format.
    CredentialUnparsable,
    /// The login changed, and its access token has expired since.
    TokenExpired,
    /// The home holds an API key, which is paid per token.
    ApiKey,
    /// A credential in the keyring that was never proved.
    NotEnrolled,
}

impl Unproven {
    /// The reason as a stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoLogin => "no_login",
            Self::LoggedOut => "logged_out",
            Self::CredentialLink => "credential_link",
            Self::CredentialUnreadable => "credential_unreadable",
            Self::CredentialUnparsable => "credential_unparsable",
            Self::TokenExpired => "token_expired",
            Self::ApiKey => "api_key",
            Self::NotEnrolled => "not_enrolled",
        }
    }

    /// The error code that names it.
    pub fn code(self) -> Code {
        match self {
            Self::LoggedOut => code::AUTH_BROKEN,
            Self::ApiKey => code::MONEY_GUARD,
            Self::NoLogin
            | Self::CredentialLink
            | Self::CredentialUnreadable
            | Self::CredentialUnparsable
            | Self::TokenExpired
            | Self::NotEnrolled => code::IDENTITY_UNPROVEN,
        }
    }

    fn clause(self) -> &'static str {
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
            Self::NotEnrolled => "its stored credential was never proved",
        }
    }
}

impl Standing {
    /// The error code of a standing that routes nothing; `None` when proven.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Proven(_) => None,
            Self::Renew => Some(code::IDENTITY_UNPROVEN),
            Self::Unproven(reason) => Some(reason.code()),
            Self::Quarantined(_) => Some(code::IDENTITY_CHANGED),
        }
    }

    /// The reason as a stable word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Proven(_) => "proven",
            Self::Renew => "unproven",
            Self::Unproven(reason) => reason.word(),
            Self::Quarantined(_) => "identity_changed",
        }
    }

    /// The refusal of a profile that stands so; `None` when proven.
    pub fn refusal(&self, profile: &Profile) -> Option<NotProven> {
        let provider = provider::of(profile.provider);
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
            credential: profile.home.join(provider.credential_file()).into_string(),
            // Codex refuses to log in to a home that does not exist.
            login: match self {
                _ if !profile.home.exists() => {
                    format!("agent-fleet profile provision {}", profile.id)
                }
                Self::Unproven(Unproven::TokenExpired) => {
                    provider.renew_command(Some(&profile.home))
                }
                Self::Unproven(_) | Self::Proven(_) | Self::Renew | Self::Quarantined(_) => {
                    provider.login_command(&profile.home)
                }
            },
        })
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
    credential: String,
    login: String,
}

impl Refusal for NotProven {
    fn code(&self) -> Code {
        self.code
    }
    fn hint(&self) -> Option<String> {
        let word = self.word;
        Some(
            if matches!(
                word,
                "credential_link" | "credential_unreadable" | "credential_unparsable"
            ) {
                format!("ls -li {}", shell::quote(&self.credential))
            } else if matches!(word, "no_login" | "logged_out" | "token_expired") {
                self.login.clone()
            } else if word == "api_key" {
                format!("agent-fleet profile status {}", self.profile)
            } else {
                format!("agent-fleet profile verify {}", self.profile)
            },
        )
    }
}

/// The refusal of a profile whose login the server takes no longer: only a new login helps.
pub fn broken(profile: &Profile) -> Error {
    let message = format!(
        "the server no longer takes the login of profile `{}` (auth_broken)",
        profile.id
    );
    Error::new(code::AUTH_BROKEN, message)
        .hint(provider::of(profile.provider).login_command(&profile.home))
}

/// What the standing is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What is known of the profile.
    pub state: &'a ProfileState,
    /// What its credential file looks like.
    pub seen: &'a Seen,
    /// Who asks the server.
    pub reader: &'a QuotaReader,
    /// The moment of asking.
    pub now: Timestamp,
}

/// Whether the login's access token can be shown to the server.
pub fn is_usable(login: &Login, now: Timestamp) -> bool {
    login.access_token.is_some() && login.access_expires_at.is_none_or(|at| at > now)
}

/// Decides how a profile stands. Pure.
pub fn judge(facts: &Facts<'_>) -> Standing {
    if let Some(note) = &facts.state.durable.quarantine {
        return Standing::Quarantined(note.clone());
    }
    let external = matches!(facts.reader, QuotaReader::External(_));
    let pinned = facts.state.durable.pinned.as_ref();
    let proof = facts.state.proof.as_ref().filter(|proof| {
        pinned.is_none_or(|pinned| pinned.fingerprint.overlaps(&proof.fingerprint))
    });
    let look = match facts.seen {
        Seen::Missing if external => {
            return match proof.map(|proof| &proof.binding) {
                Some(Binding::NoCredential) => Standing::Proven(None),
                Some(Binding::Tokens(_)) | None => Standing::Renew,
            };
        }
        Seen::Missing => return Standing::Unproven(Unproven::NoLogin),
        Seen::Linked => return Standing::Unproven(Unproven::CredentialLink),
        Seen::Unreadable => return Standing::Unproven(Unproven::CredentialUnreadable),
        Seen::Unparsable => return Standing::Unproven(Unproven::CredentialUnparsable),
        Seen::Unchanged if proof.is_some() => return Standing::Proven(None),
        Seen::Unchanged => return Standing::Renew,
        Seen::Read(look) => look,
    };
    match look.login.kind {
        LoginKind::Blank => return Standing::Unproven(Unproven::LoggedOut),
        LoginKind::ApiKey => return Standing::Unproven(Unproven::ApiKey),
        LoginKind::Subscription => {}
    }
    match proof.map(|proof| &proof.binding) {
        Some(Binding::Tokens(digest)) if *digest == look.login.digest => {
            Standing::Proven(Some((look.file, look.at)))
        }
        _ if external || is_usable(&look.login, facts.now) => Standing::Renew,
        _ => Standing::Unproven(Unproven::TokenExpired),
    }
}

/// How a profile stands now: a stat of its credential file, which is read only if it changed.
pub fn check(
    context: &Context,
    profile: &Profile,
    settings: &ProviderSettings,
    state: &ProfileState,
) -> Standing {
    let proof = state.proof.as_ref();
    if profile.credential != Credential::Home {
        // Its proof is bound to what was stored; choosing never opens a keyring.
        return match (&state.durable.quarantine, proof) {
            (Some(note), _) => Standing::Quarantined(note.clone()),
            (None, Some(_)) => Standing::Proven(None),
            (None, None) => Standing::Unproven(Unproven::NotEnrolled),
        };
    }
    let seen = credential::look(profile.provider, &profile.home, proof, context.clock);
    judge(&Facts {
        state,
        seen: &seen,
        reader: &settings.quota_reader,
        now: context.clock.now(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Facts, Standing, Unproven, judge};
    use crate::error::Refusal as _;
    use crate::id::ProviderKind::Claude;
    use crate::identity::credential::{Look, Seen};
    use crate::identity::fingerprint::{Account, Fingerprint, Key};
    use crate::provider::{Login, LoginKind};
    use crate::registry::schema::{Credential, Profile, QuotaReader, SafetyPolicy};
    use crate::secret::Secret;
    use crate::snapshot::profile::{Binding, Note, Pinned, ProfileState, Proof};
    use crate::sys::filesystem::Identity;
    use jiff::Timestamp;

    fn now() -> Timestamp {
        "2030-01-02T12:00:00Z".parse().unwrap()
    }

    fn fingerprint(account: &str) -> Fingerprint {
        let account = Account {
            account: Some(account.to_owned()),
            ..Account::default()
        };
        Key::new([1; 32]).fingerprint(Claude, &account)
    }

    fn state(binding: impl Into<Option<Binding>>) -> ProfileState {
        let mut state = ProfileState::named("claude-1");
        state.proof = binding.into().map(|binding| Proof {
            fingerprint: fingerprint("a1"),
            source: "oauth-profile".to_owned(),
            at: now(),
            binding,
            file: None,
            digested_at: 0,
        });
        state
    }

    fn tokens(digest: &str) -> Binding {
        Binding::Tokens(digest.to_owned())
    }

    fn read(kind: LoginKind, digest: &str, expires: &str) -> Seen {
        Seen::Read(Box::new(Look {
            login: Login {
                kind,
                digest: digest.to_owned(),
                access_token: Some(Secret::new("t")),
                account_id: None,
                access_expires_at: expires.parse().ok(),
                refreshable: true,
                renewed_from: None,
                login_expires_at: None,
            },
            text: Secret::new(""),
            file: Identity {
                device: 1,
                inode: 2,
                size: 3,
                modified: 4,
                changed: 5,
            },
            at: 6,
        }))
    }

    fn decide(state: &ProfileState, seen: &Seen, reader: &QuotaReader) -> Standing {
        judge(&Facts {
            state,
            seen,
            reader,
            now: now(),
        })
    }

    const PAST: &str = "2030-01-02T11:00:00Z";
    const AHEAD: &str = "2030-01-02T13:00:00Z";

    #[test]
    fn unchanged_tokens_stay_proven_however_old_and_expired() {
        let seen = read(LoginKind::Subscription, "d", PAST);
        let standing = decide(&state(tokens("d")), &seen, &QuotaReader::Builtin);
        assert!(
            matches!(standing, Standing::Proven(Some(_))),
            "{standing:?}"
        );
    }

    #[test]
    fn changed_tokens_are_renewed_while_fresh_and_unproven_once_expired() {
        let proved = state(tokens("old"));
        let fresh = read(LoginKind::Subscription, "new", AHEAD);
        assert_eq!(
            decide(&proved, &fresh, &QuotaReader::Builtin),
            Standing::Renew
        );
        let expired = read(LoginKind::Subscription, "new", PAST);
        assert_eq!(
            decide(&proved, &expired, &QuotaReader::Builtin),
            Standing::Unproven(Unproven::TokenExpired)
        );
        assert_eq!(
            decide(&state(None), &fresh, &QuotaReader::Builtin),
            Standing::Renew
        );
    }

    #[test]
    fn a_stub_and_an_api_key_are_no_account() {
        let blank = read(LoginKind::Blank, "d", AHEAD);
        let proved = state(tokens("d"));
        assert_eq!(
            decide(&proved, &blank, &QuotaReader::Builtin),
            Standing::Unproven(Unproven::LoggedOut)
        );
        let key = read(LoginKind::ApiKey, "d", AHEAD);
        assert_eq!(
            decide(&proved, &key, &QuotaReader::Builtin),
            Standing::Unproven(Unproven::ApiKey)
        );
    }

    #[test]
    fn an_external_readers_proof_binds_to_no_credential_as_well() {
        let external = QuotaReader::External("/reader".into());
        let proved = state(Binding::NoCredential);
        assert_eq!(
            decide(&proved, &Seen::Missing, &external),
            Standing::Proven(None)
        );
        assert_eq!(
            decide(&state(tokens("d")), &Seen::Missing, &external),
            Standing::Renew
        );
        let appeared = read(LoginKind::Subscription, "d", PAST);
        assert_eq!(decide(&proved, &appeared, &external), Standing::Renew);
        assert_eq!(
            decide(&proved, &Seen::Missing, &QuotaReader::Builtin),
            Standing::Unproven(Unproven::NoLogin)
        );
    }

    #[test]
    fn quarantine_outweighs_everything_and_a_proof_of_another_account_is_none() {
        let mut state = state(tokens("d"));
        state.durable.pinned = Some(Pinned {
            fingerprint: fingerprint("a2"),
            source: "oauth-profile".to_owned(),
            at: now(),
        });
        assert_eq!(
            decide(&state, &Seen::Unchanged, &QuotaReader::Builtin),
            Standing::Renew
        );
        state.durable.quarantine = Some(Note {
            reason: "identity_changed".to_owned(),
            at: now(),
        });
        let standing = decide(&state, &Seen::Missing, &QuotaReader::Builtin);
        assert!(matches!(standing, Standing::Quarantined(_)));
    }

    #[test]
    fn each_missing_proof_says_what_a_person_types() {
        let directory = tempfile::tempdir().unwrap();
        let home = camino::Utf8Path::from_path(directory.path()).unwrap();
        let profile = |home: &camino::Utf8Path| Profile {
            id: "claude-1".parse().unwrap(),
            provider: Claude,
            home: home.to_owned(),
            pools: Vec::new(),
            enabled: true,
            credential: Credential::Home,
            max_concurrent: 1,
            reserve_percent: 0.0,
            weight: 1,
            safety_policy: SafetyPolicy::Worker,
            allow_overage: false,
        };
        let hint = |standing: Standing, home: &camino::Utf8Path| {
            let refusal = standing.refusal(&profile(home)).unwrap();
            refusal.hint().unwrap()
        };
        let unproven = Standing::Unproven;
        let in_home = |words: &str| format!("env CLAUDE_CONFIG_DIR={home} claude {words}");
        assert_eq!(
            hint(unproven(Unproven::NoLogin), home),
            in_home("auth login")
        );
        assert_eq!(
            hint(unproven(Unproven::TokenExpired), home),
            in_home("auth status"),
            "a token that ran out is no lost login"
        );
        assert_eq!(
            hint(unproven(Unproven::NoLogin), &home.join("missing")),
            "agent-fleet profile provision claude-1"
        );
        assert_eq!(
            hint(Standing::Renew, home),
            "agent-fleet profile verify claude-1"
        );
    }
}
