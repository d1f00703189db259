//! Each check of a profile comes out well, and can fail by itself.

use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};

use super::profile::{CredentialFacts, CredentialFile, HomeFacts, LoginFacts, ProfileFacts};
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
use crate::quota::window::{Cooldown, Reading};
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
            leads_to: None,
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

const HOMES: &[Case] = &[
    (
        "home",
        Fail,
        |f| f.home.entry = Entry::Missing,
        "agent-fleet profile provision codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.entry = Entry::Unusable("is a file".into()),
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.leads_to = Some("/elsewhere".into()),
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| f.home.entry = directory(0o770),
        "chmod 700 /h/codex-1",
    ),
    (
        "home",
        Warn,
        |f| f.home.entry = directory(0o755),
        "chmod 700 /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| {
            f.home.entry = Entry::Directory {
                mode: 0o700,
                ours: false,
                writable: true,
            }
        },
        "ls -ld /h/codex-1",
    ),
    (
        "home",
        Fail,
        |f| {
            f.home.entry = Entry::Directory {
                mode: 0o700,
                ours: true,
                writable: false,
            }
        },
        "ls -ld /h/codex-1 && df /h/codex-1",
    ),
    (
        "home_file_system",
        Warn,
        |f| f.home.kind = Some("overlay"),
        "df /h/codex-1",
    ),
    (
        "home_file_system",
        Warn,
        |f| f.home.kind = Some("NFS"),
        "df /h/codex-1",
    ),
    (
        "provisioned",
        Fail,
        |f| f.not_ready = Some(error(code::NOT_PROVISIONED)),
        "type this",
    ),
    (
        "overrides",
        Fail,
        |f| f.overrides.push(overridden(OverrideScope::Project)),
        "${EDITOR:-vi} /w/.claude/settings.json",
    ),
    (
        "databases",
        Fail,
        |f| f.databases.push(link()),
        "rm /h/codex-1/state_5.sqlite",
    ),
    (
        "refresh_lock",
        Warn,
        |f| f.locks = (vec![lock(7200, Shape::Empty)], false),
        "ls -la /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "refresh_lock",
        Fail,
        |f| f.locks = (vec![lock(7200, Shape::Empty)], true),
        "rmdir /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "refresh_lock",
        Fail,
        |f| f.locks = (vec![lock(7200, Shape::Filled)], true),
        "ls -la /h/codex-1/.oauth_refresh.lock",
    ),
    (
        "leases",
        Warn,
        |f| f.leases.push(lease(Verdict::Orphaned)),
        "agent-fleet lease list",
    ),
    (
        "leases",
        Warn,
        |f| f.leases.push(lease(Verdict::Unknown)),
        "agent-fleet lease list",
    ),
    (
        "leases",
        Warn,
        |f| f.leases[0].details_lost = true,
        "agent-fleet lease list",
    ),
    (
        "unleased_sessions",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Session, false)),
        "type this",
    ),
    (
        "unleased_sessions",
        Warn,
        |f| f.unreadable.push("/h/codex-1/tmp".into()),
        "ls -la /h/codex-1/tmp",
    ),
    (
        "daemons",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Daemon, false)),
        "type this",
    ),
    (
        "daemons",
        Fail,
        |f| f.unleased.push(unleased(UnleasedRole::Daemon, true)),
        "type this",
    ),
    (
        "daemons",
        Warn,
        |f| f.unleased.push(unleased(UnleasedRole::Updater, false)),
        "type this",
    ),
];

const LOGINS: &[Case] = &[
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
            })
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
            })
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
    for (id, level, change, fix) in HOMES.iter().chain(LOGINS) {
        let mut facts = facts();
        change(&mut facts);
        let wanted = ((*id).to_owned(), *level, Some((*fix).to_owned()));
        assert_eq!(bad(&facts), [wanted]);
    }
    for (id, ..) in profile_checks() {
        let mut cases = HOMES.iter().chain(LOGINS);
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
fn routing_repeats_nothing_that_was_named_already() {
    let mut facts = facts();
    facts.state.durable.drain = Some(note());
    facts.routing = Ok((routing(false), Some(error(code::DRAINING))));
    let named: Vec<String> = bad(&facts).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(named, ["drain"]);
}
