//! What a profile's credential file says, without starting or asking anybody: it proves nothing.

use jiff::Timestamp;

use super::credential::{self, Seen};
use super::proof::Unproven;
use super::refusal;
use crate::contract::identity::AuthStatus;
use crate::env::Context;
use crate::provider::overrides::{self, Override};
use crate::provider::{Login, LoginKind, conveyance};
use crate::registry::schema::{Credential, Profile, Registry};

/// Looks at a profile's credential file, and for everything that would replace the login in it.
pub fn status(context: &Context, registry: &Registry, profile: &Profile) -> AuthStatus {
    let seen = look(context, profile);
    let now = context.clock.now();
    let login = match &seen {
        Seen::Read(look) => Some(&look.login),
        Seen::Missing | Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => {
            None
        }
    };
    let overrides = overrides::found(context, registry, profile, None);
    let refusing = overrides.iter().find(|found| found.refuses());
    let word = word(&seen, now);
    let file = conveyance::file(context, profile);
    let paid = word == "api_key" && profile.credential != Credential::ApiKey;
    let hint = match (word, refusing.and_then(Override::cure)) {
        _ if paid => Some(refusal::log_in(profile)),
        ("logged_out" | "expired", _) => Some(refusal::log_in(profile)),
        ("unknown", _) => Some(refusal::look_at(&file)),
        (_, cure) => cure,
    };
    AuthStatus {
        profile: profile.id.clone(),
        provider: profile.provider,
        auth_status: word.to_owned(),
        reason: problem(&seen, profile).map(|problem| problem.word().to_owned()),
        credential_file: file,
        present: !matches!(seen, Seen::Missing),
        access_expires_at: login.and_then(|login| login.access_expires_at),
        refreshable: login.is_some_and(|login| login.refreshable),
        login_expires_at: login.and_then(|login| login.login_expires_at),
        auth_overrides: overrides.into_iter().map(Into::into).collect(),
        hint,
    }
}

/// The word for a profile's login, as its credential file alone says.
pub fn brief(context: &Context, profile: &Profile) -> &'static str {
    word(&look(context, profile), context.clock.now())
}

fn look(context: &Context, profile: &Profile) -> Seen {
    credential::of(context, profile, None)
}

fn word(seen: &Seen, now: Timestamp) -> &'static str {
    match seen {
        Seen::Read(look) => match look.login.kind {
            LoginKind::ApiKey => "api_key",
            LoginKind::Blank => "logged_out",
            LoginKind::Subscription => subscription(&look.login, now),
        },
        Seen::Missing => "logged_out",
        Seen::Linked | Seen::Unreadable | Seen::Unparsable | Seen::Unchanged => "unknown",
    }
}

fn subscription(login: &Login, now: Timestamp) -> &'static str {
    let past = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    if past(login.login_expires_at) {
        "expired"
    } else if past(login.access_expires_at) {
        "refreshable"
    } else {
        "logged_in"
    }
}

fn problem(seen: &Seen, profile: &Profile) -> Option<Unproven> {
    match seen {
        Seen::Read(look) => match look.login.kind {
            LoginKind::ApiKey if profile.credential == Credential::ApiKey => None,
            LoginKind::ApiKey => Some(Unproven::ApiKey),
            LoginKind::Blank => Some(Unproven::LoggedOut),
            LoginKind::Subscription => None,
        },
        Seen::Missing if conveyance::is_ours(profile) => Some(Unproven::NotEnrolled),
        Seen::Missing => Some(Unproven::NoLogin),
        Seen::Linked => Some(Unproven::CredentialLink),
        Seen::Unreadable => Some(Unproven::CredentialUnreadable),
        Seen::Unparsable => Some(Unproven::CredentialUnparsable),
        Seen::Unchanged => None,
    }
}

#[cfg(test)]
mod tests {
    use super::subscription;
    use crate::id::ProviderKind::{Claude, Codex};
    use crate::provider;
    use jiff::Timestamp;

    #[test]
    fn a_login_is_refreshable_past_its_token_and_expired_past_its_own_end() {
        let fixture = include_bytes!("../../fixtures/provider/claude/credentials.json");
        let login = provider::of(Claude).parse_login(fixture).unwrap();
        let at = |time: &str| subscription(&login, time.parse::<Timestamp>().unwrap());
        assert_eq!(at("2026-11-30T15:59:59Z"), "logged_in");
        assert_eq!(at("2026-11-30T16:00:00Z"), "refreshable");
        assert_eq!(at("2026-12-28T08:00:00Z"), "expired");
        let fixture = include_str!("../../fixtures/provider/codex/auth.json");
        let unrenewable = fixture.replace("refresh_token", "other");
        let login = provider::of(Codex)
            .parse_login(unrenewable.as_bytes())
            .unwrap();
        let end = login.access_expires_at.unwrap();
        assert_eq!(subscription(&login, end), "expired", "nothing can renew it");
    }
}
