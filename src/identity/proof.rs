//! Whether a profile's account is proved for the login that is in its home now.
//!
//! A proof is bound to the login tokens. While they are unchanged it holds, however old: a token cannot
//! change its account, and an expired access token is not a lost identity. When they change, the new access
//! token is asked once, read-only. A login that changed and has expired since cannot be asked: the profile
//! alone is unproven. [`judge`] decides over facts; [`check`] only looks at the credential file first.

use jiff::Timestamp;

use super::credential::{self, Look, Seen};
use crate::env::Context;
use crate::error::{Code, code};
use crate::provider::{Login, LoginKind, conveyance};
use crate::registry::schema::{Credential, Profile, ProviderSettings, QuotaReader};
use crate::snapshot::profile::{Binding, Note, ProfileState};
use crate::sys::filesystem::Identity;

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
    /// A token or key that nobody enrolled, or not the one that is there.
    NotEnrolled,
    /// The access token has expired, and there is nothing to renew it with.
    LoginExpired,
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
            Self::LoginExpired => "login_expired",
        }
    }

    /// The error code that names it.
    pub fn code(self) -> Code {
        match self {
            Self::LoggedOut => code::AUTH_BROKEN,
            Self::ApiKey => code::MONEY_GUARD,
            Self::LoginExpired => code::LOGIN_EXPIRED,
            Self::NoLogin
            | Self::CredentialLink
            | Self::CredentialUnreadable
            | Self::CredentialUnparsable
            | Self::TokenExpired
            | Self::NotEnrolled => code::IDENTITY_UNPROVEN,
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
}

/// The login in the home, when it is another one than that which the server refused or which ran out: a person
/// logged in again. Where nobody knows which one that was, any login is another.
pub fn replaced(context: &Context, profile: &Profile, state: &ProfileState) -> Option<Box<Look>> {
    match credential::of(context, profile, None) {
        Seen::Read(look) if is_another(&look.login, profile.credential, state) => Some(look),
        Seen::Read(_)
        | Seen::Missing
        | Seen::Linked
        | Seen::Unreadable
        | Seen::Unparsable
        | Seen::Unchanged => None,
    }
}

/// Whether a login is another one than the last that was judged. Pure.
fn is_another(login: &Login, credential: Credential, state: &ProfileState) -> bool {
    let proved = state.proof.as_ref().and_then(|proof| match &proof.binding {
        Binding::Tokens(digest) => Some(digest),
        Binding::NoCredential => None,
    });
    let judged = state.refused_login.as_ref().or(proved);
    login.kind == expected(credential) && judged.is_none_or(|digest| *digest != login.digest)
}

/// The kind of login that a profile is to have.
fn expected(credential: Credential) -> LoginKind {
    match credential {
        Credential::Home | Credential::SetupToken => LoginKind::Subscription,
        Credential::ApiKey => LoginKind::ApiKey,
    }
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
    /// What the registry says that the credential is.
    pub credential: Credential,
    /// Whether we keep it.
    pub ours: bool,
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
    let proof = facts.state.proof.as_ref();
    let proof = proof.filter(|proof| facts.state.may_be(&proof.fingerprint));
    let look = match facts.seen {
        Seen::Missing if external => {
            return match proof.map(|proof| &proof.binding) {
                Some(Binding::NoCredential) => Standing::Proven(None),
                Some(Binding::Tokens(_)) | None => Standing::Renew,
            };
        }
        Seen::Missing if facts.ours => return Standing::Unproven(Unproven::NotEnrolled),
        Seen::Missing => return Standing::Unproven(Unproven::NoLogin),
        Seen::Linked => return Standing::Unproven(Unproven::CredentialLink),
        Seen::Unreadable => return Standing::Unproven(Unproven::CredentialUnreadable),
        Seen::Unparsable => return Standing::Unproven(Unproven::CredentialUnparsable),
        Seen::Unchanged if proof.is_some() => return Standing::Proven(None),
        Seen::Unchanged => return Standing::Renew,
        Seen::Read(look) => look,
    };
    match (look.login.kind, facts.credential) {
        (LoginKind::Blank, _) => return Standing::Unproven(Unproven::LoggedOut),
        (LoginKind::ApiKey, Credential::Home | Credential::SetupToken) => {
            return Standing::Unproven(Unproven::ApiKey);
        }
        (LoginKind::Subscription, Credential::ApiKey) => {
            return Standing::Unproven(Unproven::NotEnrolled);
        }
        (LoginKind::Subscription, Credential::Home | Credential::SetupToken)
        | (LoginKind::ApiKey, Credential::ApiKey) => {}
    }
    match proof.map(|proof| &proof.binding) {
        Some(Binding::Tokens(digest)) if *digest == look.login.digest => {
            Standing::Proven(Some((look.file, look.at)))
        }
        // No server tells whose a key is: it was tried when the person gave it.
        _ if facts.credential == Credential::ApiKey => Standing::Unproven(Unproven::NotEnrolled),
        _ if external || is_usable(&look.login, facts.now) => Standing::Renew,
        _ if look.login.refreshable => Standing::Unproven(Unproven::TokenExpired),
        _ => Standing::Unproven(Unproven::LoginExpired),
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
    let seen = credential::of(context, profile, proof);
    judge(&Facts {
        state,
        seen: &seen,
        reader: conveyance::reader(profile, settings),
        credential: profile.credential,
        ours: conveyance::is_ours(profile),
        now: context.clock.now(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Facts, Standing, Unproven, is_another, judge};
    use crate::id::ProviderKind::Claude;
    use crate::identity::credential::{Look, Seen};
    use crate::identity::fingerprint::{Account, Fingerprint, Key};
    use crate::provider::{Login, LoginKind};
    use crate::registry::schema::{Credential, QuotaReader};
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
            credential: Credential::Home,
            ours: false,
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
    fn a_login_that_cannot_be_renewed_ends_with_its_token() {
        let Seen::Read(mut look) = read(LoginKind::Subscription, "new", PAST) else {
            panic!("not read");
        };
        look.login.refreshable = false;
        assert_eq!(
            decide(&state(None), &Seen::Read(look), &QuotaReader::Builtin),
            Standing::Unproven(Unproven::LoginExpired)
        );
    }

    #[test]
    fn only_a_login_that_was_not_refused_yet_is_another() {
        let login = |kind, digest| {
            let Seen::Read(look) = read(kind, digest, AHEAD) else {
                panic!("not read");
            };
            look.login
        };
        let other = |state: &ProfileState, digest| {
            is_another(
                &login(LoginKind::Subscription, digest),
                Credential::Home,
                state,
            )
        };
        let mut state = state(tokens("proved"));
        assert!(!other(&state, "proved"), "the proved one was refused");
        assert!(other(&state, "new"));
        state.refused_login = Some("new".to_owned());
        assert!(!other(&state, "new"), "the new one was refused as well");
        assert!(other(&state, "newer"));
        assert!(!is_another(
            &login(LoginKind::Blank, "newer"),
            Credential::Home,
            &state
        ));
        assert!(
            other(&ProfileState::named("claude-1"), "any"),
            "nobody knows which was refused"
        );
    }
}
