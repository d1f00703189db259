//! What may be wrong with a login and its account, and what is said then.

use super::{Case, Fail, Warn, ago, error, file, note, routing};
use crate::error::code;
use crate::id::ProviderKind;
use crate::provider::LoginKind;
use crate::quota::window::{Cooldown, Reading};
use crate::registry::schema::Credential;
use crate::report::doctor::profile::{CredentialFile, ProfileFacts};

/// Makes it a profile with a long-lived token.
fn has_a_token(facts: &mut ProfileFacts) {
    facts.profile.provider = ProviderKind::Claude;
    facts.profile.credential = Credential::SetupToken;
}

pub(super) const CASES: &[Case] = &[
    (
        "record",
        Fail,
        |f| f.record = Some(error(code::RECORD_DAMAGED)),
        "type this",
    ),
    (
        "credential",
        Fail,
        |f| {
            f.credential.file = CredentialFile::Missing;
            f.login = None;
        },
        "log in",
    ),
    (
        "credential",
        Fail,
        |f| {
            f.credential.file = CredentialFile::Linked("a file with 2 hard links".into());
            f.login = None;
        },
        "ls -li /h/codex-1/auth.json",
    ),
    (
        "credential",
        Fail,
        |f| {
            f.credential.file = CredentialFile::Unreadable("denied".into());
            f.login = None;
        },
        "ls -li /h/codex-1/auth.json",
    ),
    (
        "credential",
        Fail,
        |f| f.credential.file = file(0o600, false),
        "ls -li /h/codex-1/auth.json",
    ),
    (
        "credential",
        Warn,
        |f| f.credential.file = file(0o644, true),
        "chmod 600 /h/codex-1/auth.json",
    ),
    (
        "login",
        Fail,
        |f| f.login = None,
        "ls -li /h/codex-1/auth.json",
    ),
    (
        "login",
        Fail,
        |f| f.login.as_mut().unwrap().kind = LoginKind::Blank,
        "log in",
    ),
    (
        "login",
        Fail,
        |f| f.login.as_mut().unwrap().kind = LoginKind::ApiKey,
        "log in",
    ),
    (
        "login",
        Fail,
        |f| {
            let login = f.login.as_mut().unwrap();
            login.access_expires_at = Some(ago(1));
            login.refreshable = false;
        },
        "log in",
    ),
    (
        "login_expiry",
        Warn,
        |f| f.login.as_mut().unwrap().login_expires_at = Some(ago(-48)),
        "log in",
    ),
    (
        "login_expiry",
        Fail,
        |f| f.login.as_mut().unwrap().login_expires_at = Some(ago(1)),
        "log in",
    ),
    (
        "auth",
        Fail,
        |f| f.state.auth_broken = Some(note()),
        "log in",
    ),
    (
        "identity",
        Fail,
        |f| f.state.proof = None,
        "agent-fleet profile verify codex-1",
    ),
    (
        "identity",
        Fail,
        |f| f.state.durable.quarantine = Some(note()),
        "agent-fleet profile verify codex-1",
    ),
    (
        "identity",
        Fail,
        |f| f.standing = ("token_expired".into(), Some(error(code::IDENTITY_UNPROVEN))),
        "type this",
    ),
    (
        "identity",
        Warn,
        |f| f.standing = ("unproven".into(), Some(error(code::IDENTITY_UNPROVEN))),
        "agent-fleet profile verify codex-1",
    ),
    (
        "conflict",
        Fail,
        |f| f.conflict = Some(error(code::BASE_IDENTITY)),
        "type this",
    ),
    (
        "credential",
        Fail,
        |f| {
            has_a_token(f);
            f.credential.file = CredentialFile::Missing;
        },
        "log in",
    ),
    (
        "quota",
        Warn,
        |f| {
            has_a_token(f);
            f.quota.as_mut().unwrap().headroom_percent = None;
            f.state.poll.reason = Some("unmeasurable".to_owned());
        },
        "agent-fleet config set settings.unmeasured allow",
    ),
    (
        "quota",
        Fail,
        |f| f.quota = Err(error(code::IO)),
        "type this",
    ),
    (
        "quota",
        Warn,
        |f| f.state.poll.failures = 3,
        "agent-fleet quota refresh codex-1",
    ),
    (
        "quota",
        Warn,
        |f| f.state.poll.last_at = Some(ago(-2)),
        "agent-fleet quota refresh codex-1",
    ),
    (
        "quota",
        Warn,
        |f| f.quota.as_mut().unwrap().headroom_percent = None,
        "agent-fleet quota refresh codex-1",
    ),
    (
        "cooldown",
        Warn,
        |f| {
            f.state.cooldown = Some(Cooldown {
                reason: "quota".into(),
                until: ago(-1),
                since: ago(1),
                guessed: false,
            });
        },
        "agent-fleet profile cooldown-clear codex-1",
    ),
    (
        "drain",
        Warn,
        |f| f.state.durable.drain = Some(note()),
        "agent-fleet profile undrain codex-1",
    ),
    (
        "billing",
        Fail,
        |f| f.state.durable.billing_block = Some(note()),
        "agent-fleet profile cooldown-clear codex-1",
    ),
    (
        "billing",
        Warn,
        |f| {
            f.state.reading = Some(Reading {
                at: ago(0),
                fingerprint: String::new(),
                source: "builtin".into(),
                windows: Vec::new(),
                overage_enabled: Some(true),
                spend: None,
            });
        },
        "agent-fleet profile status codex-1",
    ),
    (
        "routing",
        Warn,
        |f| f.routing = Ok((routing(false), Some(error(code::QUOTA_RESERVE)))),
        "type this",
    ),
    (
        "routing",
        Fail,
        |f| f.routing = Ok((routing(false), Some(error(code::POLICY)))),
        "type this",
    ),
    (
        "routing",
        Fail,
        |f| f.routing = Err(error(code::IO)),
        "type this",
    ),
];
