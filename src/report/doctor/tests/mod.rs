//! Each check of a profile comes out well, and can fail by itself.

mod home;
mod login;

use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};

use super::profile::{
    CredentialFacts, CredentialFile, HomeFacts, LoginFacts, ProfileFacts, Reached,
};
use super::storage::Entry;
use super::{checks, profile_checks};
use crate::contract::doctor::Level::{self, Fail, Ok as Good, Warn};
use crate::contract::lease::{Lease, State, Verdict};
use crate::contract::profile::{AuthOverride, OverrideScope, Routeability};
use crate::contract::quota::Quota;
use crate::contract::unleased::{Unleased, UnleasedLife, UnleasedRole};
use crate::error::{Code, Error, code};
use crate::id::ProviderKind;
use crate::identity::fingerprint::{Account, Key};
use crate::provider::LoginKind;
use crate::registry::schema::{Credential, Profile, SafetyPolicy, Unmeasured};
use crate::report::refresh_lock::{RefreshLock, Shape};
use crate::snapshot::profile::{Binding, Note, ProfileState, Proof};

fn now() -> Timestamp {
    "2030-01-02T12:00:00Z".parse().unwrap()
}

fn ago(hours: i64) -> Timestamp {
    now() - SignedDuration::from_hours(hours)
}

fn profile() -> Profile {
    Profile {
        id: "codex-1".parse().unwrap(),
        provider: ProviderKind::Codex,
        home: "/h/codex-1".into(),
        pools: vec!["crew".parse().unwrap()],
        enabled: true,
        credential: Credential::Home,
        max_concurrent: 2,
        reserve_percent: 15.0,
        weight: 1,
        safety_policy: SafetyPolicy::Worker,
        allow_overage: false,
    }
}

fn quota() -> Quota {
    Quota {
        schema: 1,
        profile: "codex-1".parse().unwrap(),
        provider: ProviderKind::Codex,
        status: "fresh".to_owned(),
        fresh: true,
        age_seconds: Some(30),
        reported_status: "fresh".to_owned(),
        reason: None,
        headroom_percent: Some(80.0),
        identity_fingerprint: None,
        identity_source: None,
        verified_at: None,
        verified_recent: true,
        verification_age_seconds: None,
        refreshed_at: None,
        source: None,
        next_poll_at: None,
        windows: Vec::new(),
        overage_enabled: None,
        overage_spend: None,
    }
}

fn routing(eligible: bool) -> Routeability {
    Routeability {
        eligible,
        mode: "quota".to_owned(),
        reason: if eligible { "fresh" } else { "quota_reserve" }.to_owned(),
        retry_at: None,
        hint: None,
    }
}

fn facts() -> ProfileFacts {
    let mut state = ProfileState::named("codex-1");
    state.proof = Some(Proof {
        fingerprint: Key::new([1; 32]).fingerprint(ProviderKind::Codex, &Account::default()),
        source: "usage".to_owned(),
        at: ago(5),
        binding: Binding::NoCredential,
        file: None,
        digested_at: 0,
    });
    ProfileFacts {
        now: now(),
        profile: profile(),
        state,
        login_command: "log in".to_owned(),
        home: HomeFacts {
            entry: directory(0o700),
            reached: Reached::Directly,
            kind: None,
        },
        not_ready: None,
        credential: CredentialFacts {
            path: "/h/codex-1/auth.json".into(),
            file: file(0o600, true),
        },
        login: Some(LoginFacts {
            kind: LoginKind::Subscription,
            access_expires_at: Some(ago(-3)),
            refreshable: true,
            login_expires_at: Some(ago(-24 * 20)),
        }),
        record: None,
        standing: ("proven".to_owned(), None),
        conflict: None,
        overrides: vec![overridden(OverrideScope::Environment)],
        quota: Ok(quota()),
        unmeasured: Unmeasured::Refuse,
        leases: vec![
            lease(Verdict::Alive),
            lease(Verdict::Reserved),
            lease(Verdict::Dead),
        ],
        unleased: Vec::new(),
        unreadable: Vec::new(),
        locks: (vec![lock(10, Shape::Empty)], false),
        leftovers: Ok(Vec::new()),
        databases: Vec::new(),
        routing: Ok((routing(true), None)),
    }
}

fn directory(mode: u32) -> Entry {
    Entry::Directory {
        mode,
        ours: true,
        writable: true,
    }
}

fn file(mode: u32, ours: bool) -> CredentialFile {
    CredentialFile::File {
        mode,
        ours,
        age: 60,
    }
}

fn error(code: Code) -> Error {
    Error::new(code, "it is so").hint("type this")
}

fn overridden(scope: OverrideScope) -> AuthOverride {
    AuthOverride {
        scope,
        source: "/w/.claude/settings.json: apiKeyHelper".to_owned(),
        file: Some("/w/.claude/settings.json".into()),
        effect: "replaces the login".to_owned(),
        refuses: scope != OverrideScope::Environment,
    }
}

fn lease(verdict: Verdict) -> Lease {
    Lease {
        schema: 3,
        task: Some("t".to_owned()),
        profile: "codex-1".parse().unwrap(),
        provider: ProviderKind::Codex,
        pool: None,
        workspace: None,
        state: State::Running,
        generation: 1,
        pid: Some(7),
        process_start: Some(70),
        boot_id: String::new(),
        labels: std::collections::BTreeMap::new(),
        created_at: ago(1),
        expires_at: None,
        bound_at: None,
        verdict,
        details_lost: false,
    }
}

fn unleased(role: UnleasedRole, older_login: bool) -> Unleased {
    Unleased {
        profile: "codex-1".parse().unwrap(),
        provider: ProviderKind::Codex,
        home: "/h/codex-1".into(),
        pid: 9,
        process_start: Some(90),
        role,
        life: UnleasedLife::Alive,
        session_id: Some("01a22c6e-d38f-7180-9c62-31d568d51c17".to_owned()),
        since: Some(ago(2)),
        older_login,
        hint: "type this".to_owned(),
    }
}

fn lock(age: u64, shape: Shape) -> RefreshLock {
    RefreshLock {
        path: "/h/codex-1/.oauth_refresh.lock".into(),
        age,
        stale_after: 60,
        shape,
    }
}

fn note() -> Note {
    Note {
        reason: "because".to_owned(),
        at: ago(2),
    }
}

fn link() -> (Utf8PathBuf, String) {
    (
        "/h/codex-1/state_5.sqlite".into(),
        "a symbolic link to `/x`".to_owned(),
    )
}

/// Check, how it comes out, what was changed, and the command that is offered.
type Case = (&'static str, Level, fn(&mut ProfileFacts), &'static str);

fn bad(facts: &ProfileFacts) -> Vec<(String, Level, Option<String>)> {
    let checks = checks(facts).checks.into_iter();
    checks
        .filter(|check| check.level != Good)
        .map(|check| (check.id, check.level, check.fix))
        .collect()
}

#[test]
fn each_check_of_a_profile_can_fail_by_itself() {
    assert_eq!(bad(&facts()), [], "all is well");
    for (id, level, change, fix) in home::CASES.iter().chain(login::CASES) {
        let mut facts = facts();
        change(&mut facts);
        let wanted = ((*id).to_owned(), *level, Some((*fix).to_owned()));
        assert_eq!(bad(&facts), [wanted]);
    }
    for (id, ..) in profile_checks() {
        let mut cases = home::CASES.iter().chain(login::CASES);
        assert!(cases.any(|case| case.0 == id), "{id} cannot fail");
    }
}

#[test]
fn an_expired_token_that_can_be_refreshed_is_no_lost_login() {
    let mut facts = facts();
    facts.login.as_mut().unwrap().access_expires_at = Some(ago(240));
    assert_eq!(bad(&facts), []);
    let checks = checks(&facts).checks;
    let login = checks.iter().find(|check| check.id == "login").unwrap();
    assert!(login.evidence.starts_with("refreshable"), "{login:?}");
    assert_eq!(login.age_seconds, Some(240 * 3600));
}

#[test]
fn a_home_that_is_not_there_is_one_finding_and_so_is_a_home_without_a_login() {
    let refused = Some(error(code::IDENTITY_UNPROVEN));
    let mut facts = facts();
    facts.credential.file = CredentialFile::Missing;
    facts.login = None;
    facts.state.proof = None;
    facts.quota.as_mut().unwrap().headroom_percent = None;
    facts.standing = ("no_login".to_owned(), refused.clone());
    facts.routing = Ok((routing(false), refused));
    let named = |facts: &ProfileFacts| -> Vec<String> {
        bad(facts).into_iter().map(|(id, ..)| id).collect()
    };
    assert_eq!(named(&facts), ["credential"]);
    facts.home.entry = Entry::Missing;
    facts.not_ready = Some(error(code::NOT_PROVISIONED));
    assert_eq!(named(&facts), ["home"]);
}

#[test]
fn routing_repeats_nothing_that_was_named_already() {
    let mut facts = facts();
    facts.state.durable.drain = Some(note());
    facts.routing = Ok((routing(false), Some(error(code::DRAINING))));
    let named: Vec<String> = bad(&facts).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(named, ["drain"]);
}
