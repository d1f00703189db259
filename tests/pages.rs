//! Pages for people, as they look: the answer goes in as data, the page comes out as text.

use std::collections::BTreeMap;

use agent_fleet::contract::lease::{Lease, LeaseList, State, Verdict, Waiting};
use agent_fleet::contract::profile::{
    AuthOverride, Note, Overage, OverrideScope, Profile, ProfileList, ProfileStatus, Routeability,
};
use agent_fleet::contract::quota::{Quota, QuotaList, Spend, Window};
use agent_fleet::contract::selection::{DecisionReason, Explanation, Identity, Selection};
use agent_fleet::id::ProviderKind;
use agent_fleet::registry::schema::{Credential, SafetyPolicy};
use agent_fleet::render::{Format, Human, View};
use jiff::{Timestamp, ToSpan as _};

const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);

#[expect(
    clippy::unnecessary_wraps,
    reason = "every field that holds one is optional"
)]
fn later(minutes: i64) -> Option<Timestamp> {
    Some(NOW.checked_add(minutes.minutes()).expect("in range"))
}

fn earlier(minutes: i64) -> Timestamp {
    NOW.checked_sub(minutes.minutes()).expect("in range")
}

/// The page without styles and padding, instants on the clock replaced: both depend on the time zone.
fn page<T: serde::Serialize + Human>(answer: &T) -> String {
    let view = View::new(answer, NOW, Format::Human).expect("a page");
    // Shown by `cargo test pages -- --nocapture`, in colour.
    println!("{}", view.text());
    let mut text = anstream::adapter::strip_str(view.text()).to_string();
    while let Some(start) = text.find(" (") {
        let Some(length) = text[start..].find(')') else {
            break;
        };
        text.replace_range(start..=start + length, " @");
    }
    while text.contains("   ") {
        text = text.replace("   ", "  ");
    }
    text
}

fn lease(task: &str, profile: &str, state: State, verdict: Verdict) -> Lease {
    Lease {
        schema: 3,
        task: Some(task.to_owned()),
        profile: profile.parse().expect("an id"),
        provider: ProviderKind::Claude,
        pool: Some("crew".to_owned()),
        workspace: Some("/home/me/repo".into()),
        state,
        generation: 4_294_967_298,
        pid: (state == State::Running).then_some(4242),
        process_start: Some(1),
        boot_id: "boot".to_owned(),
        labels: BTreeMap::new(),
        created_at: earlier(3),
        expires_at: (state == State::Reserved).then(|| later(1)).flatten(),
        bound_at: (state == State::Running).then(|| earlier(2)),
        verdict,
        details_lost: false,
    }
}

fn profile(id: &str, provider: ProviderKind, enabled: bool) -> Profile {
    Profile {
        id: id.parse().expect("an id"),
        provider,
        home: format!("/home/me/.local/share/agent-fleet/accounts/{provider}/{id}").into(),
        enabled,
        pools: vec![
            "crew".parse().expect("an id"),
            "night".parse().expect("an id"),
        ],
        weight: 1,
        max_concurrent: 2,
        reserve_percent: 15.0,
        safety_policy: SafetyPolicy::Worker,
        credential: Credential::Home,
    }
}

fn window(kind: &str, remaining_percent: f64, resets: i64) -> Window {
    Window {
        id: kind.to_owned(),
        kind: kind.to_owned(),
        scope: None,
        remaining_percent,
        resets_at: later(resets),
        presumed: false,
    }
}

fn quota(id: &str, status: &str, windows: Vec<Window>) -> Quota {
    let measured = !windows.is_empty();
    Quota {
        schema: 1,
        profile: id.parse().expect("an id"),
        provider: ProviderKind::Claude,
        status: status.to_owned(),
        fresh: status == "fresh",
        age_seconds: measured.then_some(150),
        reported_status: "fresh".to_owned(),
        reason: (status == "presumed").then(|| "throttled".to_owned()),
        headroom_percent: windows.first().map(|window| window.remaining_percent),
        identity_fingerprint: None,
        identity_source: None,
        verified_at: None,
        verified_recent: false,
        verification_age_seconds: None,
        refreshed_at: measured.then(|| earlier(2)),
        source: measured.then(|| "builtin".to_owned()),
        next_poll_at: later(1).filter(|_| measured),
        overage_enabled: None,
        overage_spend: None,
        windows,
    }
}

fn explanation(id: &str, eligible: bool, reason: &str) -> Explanation {
    Explanation {
        profile: id.parse().expect("an id"),
        eligible,
        reason: reason.to_owned(),
        headroom_percent: Some(82.0),
        active_leases: 1,
        score: eligible.then_some(74.0),
        reading_age_seconds: Some(150),
        retry_at: (!eligible).then(|| later(130)).flatten(),
    }
}

fn waiting(task: &str, profile: Option<&str>, attending: bool) -> Waiting {
    Waiting {
        task: task.parse().expect("a task"),
        pool: "crew".parse().expect("an id"),
        provider: None,
        profile: profile.map(|id| id.parse().expect("an id")),
        pid: 77,
        since: earlier(4),
        attending,
    }
}

#[test]
fn leases_are_a_table_with_a_total_and_below_it_who_waits() {
    let answer = LeaseList {
        leases: vec![
            lease(
                "build the parser",
                "claude-1",
                State::Running,
                Verdict::Alive,
            ),
            lease("review", "claude-2", State::Reserved, Verdict::Reserved),
            lease("old", "claude-2", State::Running, Verdict::Orphaned),
            lease("gone", "claude-2", State::Running, Verdict::Dead),
        ],
        waiting: vec![
            waiting("next", None, true),
            waiting("stopped", Some("claude-2"), false),
        ],
        damaged: Vec::new(),
        unleased: Vec::new(),
    };
    assert_eq!(
        page(&answer),
        "\
TASK  PROFILE  STATE  HOLDER  SINCE  WORKSPACE
build the parser  claude-1  running  pid 4242  2 min ago  /home/me/repo
review  claude-2  reserved for 1 min  -  3 min ago  /home/me/repo
old  claude-2  orphaned  pid 4242  2 min ago  /home/me/repo
gone  claude-2  dead, reclaimed by the next choose  pid 4242  2 min ago  /home/me/repo

4 leases: 2 running, 1 reserved, 1 dead

TURN  WAITING TASK  POOL  ONLY  PROCESS  SINCE
  1  next  crew  -  pid 77  4 min ago
  2  stopped  crew  claude-2  pid 77, not looking  4 min ago
"
    );
    assert_eq!(
        page(&LeaseList {
            leases: Vec::new(),
            waiting: Vec::new(),
            damaged: Vec::new(),
            unleased: Vec::new(),
        }),
        "no leases\n"
    );
}

#[test]
fn quota_is_one_bar_per_window_with_its_reset_in_words() {
    let mut answer = QuotaList {
        quota: vec![
            quota(
                "claude-1",
                "fresh",
                vec![window("session", 82.0, 130), window("weekly", 12.5, 4_560)],
            ),
            quota("claude-2", "presumed", vec![window("session", 40.0, 10)]),
            quota("claude-3", "unmeasured", Vec::new()),
        ],
    };
    answer.quota[0].overage_enabled = Some(true);
    answer.quota[0].overage_spend = Some(Spend {
        used: Some(12.5),
        limit: Some(50.0),
        balance: None,
    });
    assert_eq!(
        page(&answer),
        "\
PROFILE  WINDOW  LEFT  FULL AGAIN  READING  NEXT LOOK
claude-1  session  ████████░░  82%  in 2 h 10 min @  fresh, 2 min old, builtin  in 1 min @
  weekly  █░░░░░░░░░ 12.5%  in 3 days 4 h @
claude-2  session  ████░░░░░░  40%  in 10 min @  presumed, 2 min old, builtin @  in 1 min @
claude-3  -  -  -  unmeasured  -
claude-1: paid overage is on, 12.50 of 50.00 paid this month
An age is not a fault: the providers allow a look every few minutes, and what was read last holds until the next.
"
    );
}

#[test]
fn profiles_are_a_table_and_one_is_its_fields_and_windows() {
    let list = ProfileList {
        profiles: vec![
            profile("claude-1", ProviderKind::Claude, true),
            profile("codex-1", ProviderKind::Codex, false),
        ],
    };
    assert_eq!(
        page(&list),
        "\
PROFILE  PROVIDER  STATE  POOLS  SLOTS  RESERVE  WEIGHT  HOME
claude-1  claude  enabled  crew, night  2  15%  1  /home/me/.local/share/agent-fleet/accounts/claude/claude-1
codex-1  codex  disabled  crew, night  2  15%  1  /home/me/.local/share/agent-fleet/accounts/codex/codex-1
"
  );
    let status = ProfileStatus {
        profile: profile("claude-1", ProviderKind::Claude, false),
        active_leases: 1,
        auth_status: "logged_in".to_owned(),
        cooldown: Some(Note {
            reason: "quota".to_owned(),
            at: earlier(5),
            until: later(60),
            guessed: false,
        }),
        drain: None,
        provisioned: true,
        provision_reason: None,
        quota: quota("claude-1", "fresh", vec![window("session", 82.0, 130)]),
        overage: Overage {
            enabled: Some(true),
            allowed: false,
        },
        routeability: Routeability {
            eligible: false,
            mode: "unavailable".to_owned(),
            reason: "cooldown".to_owned(),
            retry_at: later(60),
            hint: None,
        },
        auth_overrides: vec![
            AuthOverride {
                scope: OverrideScope::Project,
                source: "/home/me/repo/.claude/settings.json: apiKeyHelper".to_owned(),
                file: Some("/home/me/repo/.claude/settings.json".into()),
                effect: "replaces the login by its output".to_owned(),
                refuses: true,
            },
            AuthOverride {
                scope: OverrideScope::Environment,
                source: "environment: ANTHROPIC_API_KEY".to_owned(),
                file: None,
                effect: "bills the key's account".to_owned(),
                refuses: false,
            },
        ],
        login_expires_at: None,
    };
    assert_eq!(
        page(&status),
        "\
profile  claude-1
provider  claude
state  disabled
pools  crew, night
slots  2
reserve  15%
weight  1
credential  home
home  /home/me/.local/share/agent-fleet/accounts/claude/claude-1
routing  cooldown, again in 1 h @
leases  1 of 2 slots
login  logged in
provisioned  yes
cooldown  quota, set 5 min ago, ends in 1 h @
reading  fresh, 2 min old, builtin
overage  on at the provider: no worker starts at 100 %, a running one is billed
refused: /home/me/repo/.claude/settings.json: apiKeyHelper replaces the login by its output
kept from workers: environment: ANTHROPIC_API_KEY bills the key's account

WINDOW  LEFT  FULL AGAIN
session  ████████░░  82%  in 2 h 10 min @
"
    );
}

#[test]
fn a_selection_says_who_why_and_why_not_the_others() {
    let answer = Selection {
        schema: 1,
        task: "build".parse().expect("a task"),
        pool: "crew".parse().expect("an id"),
        profile: "claude-1".parse().expect("an id"),
        provider: ProviderKind::Claude,
        workspace: "/home/me/repo".into(),
        decision_reason: DecisionReason::Quota,
        model: None,
        quota_fresh: true,
        headroom_percent: Some(82.0),
        active_lease_count: 1,
        degraded: false,
        degraded_reason: None,
        dry_run: true,
        generation: 0,
        identity: Some(Identity {
            fingerprint: "9f3c1a2b".repeat(8),
            proved_at: earlier(90),
            source: "oauth-profile".to_owned(),
        }),
        lease: None,
        explain: Some(vec![
            explanation("claude-1", true, "fresh"),
            explanation("claude-2", false, "cooldown"),
        ]),
    };
    assert_eq!(
        page(&answer),
        "\
would lease claude-1 @ for build
why  it ranked first
headroom  ████████░░  82%  fresh
leases  1 other lease on it
account  9f3c1a2b, proved 1 h 30 min ago by oauth-profile
workspace  /home/me/repo

  PROFILE  REASON  HEADROOM  SCORE  LEASES  READING  AGAIN
+ claude-1  fresh  82%  74.0  1  2 min  -
- claude-2  cooldown  82%  -  1  2 min  in 2 h 10 min @
words:  agent-fleet reasons cooldown
"
    );
}
