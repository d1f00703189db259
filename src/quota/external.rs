//! An external quota reader: any program that prints quota-axi's JSON (0.1.40, schema 5; 0.1.8, schema 2).
//! 0.1.8 itself knows no `--no-credential-refresh` and refuses it, so it needs a wrapper that leaves it out.
//!
//! It is trusted by configuration, never by environment. Each profile gives it a HOME and an
//! `XDG_CACHE_HOME` of its own: quota-axi's cache is shared across accounts otherwise and answers one
//! account's question with another's windows. It sees the provider home, the profile's name, the way to the
//! network and nothing else of the caller's environment. Only an answer that calls itself fresh, for the
//! provider that was asked about, counts. What it says of the account is hashed at once and never kept.

use camino::Utf8Path;
use jiff::Timestamp;
use serde_json::Value;

use super::window::{Kind, Spend, Window};
use crate::clock::Deadline;
use crate::env::{self, Context};
use crate::error::Result;
use crate::id::ProviderKind;
use crate::identity::fingerprint::Account;
use crate::provider::answer::{add, instant, nothing_left, number, remaining_of_used, text};
use crate::provider::{self, FetchError, Usage};
use crate::store::directory;
use crate::sys::spawn::{self, Program};

/// Variables of the caller that the reader sees: to find its interpreter, its words, and the network.
const PASSED: [&str; 21] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CODEX_CA_CERTIFICATE",
    // Node below 22.21 asks for it before it honours a proxy.
    "NODE_USE_ENV_PROXY",
];

/// What the reader said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// Whose account it is.
    pub(crate) account: Account,
    /// What is left.
    pub(crate) usage: Usage,
    /// When the provider was asked, if it says so.
    pub(crate) at: Option<Timestamp>,
}

/// Whom the reader is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The profile's name, by which its directories are told apart.
    pub(crate) profile: &'a str,
    /// Its provider.
    pub(crate) provider: ProviderKind,
    /// Its home.
    pub(crate) home: &'a Utf8Path,
}

/// Runs the reader for one profile and reads its answer.
pub(crate) fn read(
    context: &Context,
    program: &Utf8Path,
    subject: Subject<'_>,
    deadline: &Deadline,
) -> Result<Result<Answer, FetchError>> {
    let own = context.roots.state.join("readers").join(subject.profile);
    let (home, cache) = (own.join("home"), own.join("cache"));
    directory::ensure(&home)?;
    directory::ensure(&cache)?;
    let passed = PASSED
        .iter()
        .filter_map(|name| Some((*name, context.variables.raw(name)?.to_owned())));
    let own = [
        ("HOME", home.as_str()),
        ("XDG_CACHE_HOME", cache.as_str()),
        (
            provider::of(subject.provider).home_variable(),
            subject.home.as_str(),
        ),
        (env::PROFILE, subject.profile),
    ];
    let environment = passed
        .chain(own.map(|(name, value)| (name, value.into())))
        .map(|(name, value)| (name.into(), value))
        .collect();
    let arguments = [
        "--provider",
        subject.provider.name(),
        "--json",
        "--full",
        // Renewing a login is the provider CLI's affair alone.
        "--no-credential-refresh",
    ];
    let program = Program {
        path: program.into(),
        arguments: arguments.map(Into::into).to_vec(),
        environment,
        directory: Some(home.into()),
        input: Vec::new(),
    };
    // Its standard error and exit status may hold anything; the state in its answer says enough.
    Ok(match spawn::run(&program, deadline) {
        Ok(ended) => parse(&ended.stdout, subject.provider),
        Err(error) => Err(FetchError::Unavailable(format!(
            "the quota reader could not be run: {}",
            error.kind()
        ))),
    })
}

/// Reads the reader's answer.
pub(crate) fn parse(bytes: &[u8], provider: ProviderKind) -> Result<Answer, FetchError> {
    let answer: Value = serde_json::from_slice(bytes).map_err(|_| FetchError::Shape)?;
    let entries = answer["providers"].as_array().ok_or(FetchError::Shape)?;
    let mut entries = entries
        .iter()
        .filter(|entry| entry["provider"] == provider.name());
    let (Some(entry), None) = (entries.next(), entries.next()) else {
        return Err(FetchError::Shape);
    };
    match entry["state"]["status"].as_str() {
        Some("fresh") => {}
        Some("auth_required") => return Err(FetchError::Unauthorized),
        Some("rate_limited") => return Err(FetchError::Throttled(None)),
        _ => {
            return Err(FetchError::Unavailable(
                "the quota reader has no fresh reading".to_owned(),
            ));
        }
    }
    let whose = &entry["account"];
    if whose["identityStatus"]
        .as_str()
        .is_some_and(|status| status != "verified")
    {
        return Err(FetchError::Shape);
    }
    let account = Account {
        account: Some(text(&whose["accountId"]).ok_or(FetchError::Shape)?),
        ..Account::default()
    };
    let rows = entry["windows"].as_array().ok_or(FetchError::Shape)?;
    let mut windows = Vec::new();
    let (mut understood, mut misread) = (false, false);
    let mut overage = overage_of(&entry["credits"]);
    for row in rows {
        if row["kind"] == "credits" {
            // It is told only while overage is on, and gates nothing.
            overage = Some((
                true,
                spend(&row["spentUsd"], &row["limitUsd"], &Value::Null),
            ));
            continue;
        }
        let window = window(row)?;
        let made_sense = window.is_ok();
        understood |= made_sense;
        misread |= !made_sense;
        add(&mut windows, window.unwrap_or_else(|window| window));
    }
    if !understood {
        return Err(FetchError::Shape);
    }
    Ok(Answer {
        account,
        usage: Usage {
            windows,
            overage_enabled: overage.map(|(enabled, _)| enabled),
            spend: overage.and_then(|(_, spend)| spend),
            misread,
        },
        at: instant(&entry["state"]["refreshedAt"]),
    })
}

/// Codex's credits: overage is on while there are any.
fn overage_of(credits: &Value) -> Option<(bool, Option<Spend>)> {
    let left = number(&credits["remaining"]);
    let unlimited = credits["unlimited"].as_bool();
    let enabled = unlimited == Some(true) || left.is_some_and(|left| left > 0.0);
    let told = left.is_some() || unlimited.is_some();
    told.then(|| {
        (
            enabled,
            spend(&Value::Null, &Value::Null, &credits["remaining"]),
        )
    })
}

fn spend(used: &Value, limit: &Value, balance: &Value) -> Option<Spend> {
    let spend = Spend {
        used: number(used),
        limit: number(limit),
        balance: number(balance),
    };
    let told = [spend.used, spend.limit, spend.balance];
    told.iter().any(Option::is_some).then_some(spend)
}

/// One window; as an error when its numbers make no sense, so that nothing is left of it.
fn window(window: &Value) -> Result<Result<Window, Window>, FetchError> {
    let id = text(&window["id"]).ok_or(FetchError::Shape)?;
    // Two that contradict each other: the one that leaves less is believed, and one that makes no sense leaves nothing.
    let left = &window["percentRemaining"];
    let left = (!left.is_null()).then(|| number(left).filter(|left| (0.0..=100.0).contains(left)));
    let used = &window["percentUsed"];
    let used = (!used.is_null()).then(|| remaining_of_used(used));
    let remaining = match (left, used) {
        (Some(left), Some(used)) => left.zip(used).map(|(left, used)| left.min(used)),
        (left, used) => left.or(used).flatten(),
    };
    let of_a_model = id.strip_prefix("model:");
    let scope = match of_a_model {
        // `model:NAME`, of a week, or `model:NAME:5h`, `model:NAME:7d`, `model:NAME:window:SECONDS`.
        Some(rest) => rest.split(':').next(),
        None => id.strip_prefix("seven_day_"),
    };
    let kind = match window["kind"].as_str() {
        Some("session") => Kind::Session,
        Some("weekly") => Kind::Weekly,
        Some("monthly") => Kind::Monthly,
        _ => match (number(&window["windowSeconds"]), of_a_model) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float is saturated, and any number of minutes has a kind"
            )]
            (Some(seconds), _) => Kind::of_minutes((seconds / 60.0) as u64),
            (None, Some(model)) if model.ends_with(":5h") => Kind::Session,
            (None, Some(_)) => Kind::Weekly,
            (None, None) => Kind::Other,
        },
    };
    let scope = scope.map(str::to_owned);
    Ok(match remaining {
        Some(remaining_percent) => Ok(Window {
            id,
            kind,
            scope,
            remaining_percent,
            resets_at: instant(&window["resetsAt"]),
        }),
        None => Err(nothing_left(id, kind, scope)),
    })
}

#[cfg(test)]
mod tests {
    use super::{Subject, parse, read};
    use crate::id::ProviderKind::{Claude, Codex};
    use crate::provider::FetchError;
    use crate::quota::window::Kind;
    use crate::snapshot::provider::tests::World;
    use camino::Utf8Path;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::os::unix::fs::PermissionsExt as _;

    fn answer() -> Value {
        json!({"providers": [{
            "provider": "claude",
            "account": {"accountId": "claude-1-account"},
            "state": {"status": "fresh", "refreshedAt": "2030-01-02T12:00:00Z"},
            "windows": [{"id": "five_hour", "kind": "session", "percentRemaining": 80}],
        }]})
    }

    fn read_back(answer: &Value) -> Result<super::Answer, FetchError> {
        parse(answer.to_string().as_bytes(), Claude)
    }

    #[test]
    fn a_fresh_answer_for_the_right_provider_counts() {
        let read = read_back(&answer()).unwrap();
        assert_eq!(read.account.account.as_deref(), Some("claude-1-account"));
        let window = &read.usage.windows[0];
        assert_eq!(
            (window.kind, window.remaining_percent),
            (Kind::Session, 80.0)
        );
        assert_eq!(read.at, "2030-01-02T12:00:00Z".parse().ok());
    }

    #[test]
    fn anything_else_does_not() {
        for (path, value) in [
            ("/providers/0/state/status", json!("stale")),
            ("/providers/0/state/status", json!(null)),
            ("/providers/0/provider", json!("codex")),
            (
                "/providers/0/account",
                json!({"email": "acct1@lab.invalid"}),
            ),
            (
                "/providers/0/account",
                json!({"accountId": "a", "identityStatus": "claimed"}),
            ),
            ("/providers/0/windows", json!([])),
            ("/providers/0/windows/0/percentRemaining", json!(105)),
            ("/providers/0/windows/0/percentRemaining", json!("80")),
            ("/providers/0/windows/0/percentRemaining", json!(null)),
            ("/providers/0/windows/0/id", json!(null)),
            ("/providers/0/windows", json!([5])),
        ] {
            let mut changed = answer();
            *changed.pointer_mut(path).unwrap() = value.clone();
            assert!(read_back(&changed).is_err(), "accepted {path} = {value}");
        }
        let entry = answer()["providers"][0].clone();
        let twice = json!({"providers": [entry.clone(), entry]});
        assert!(read_back(&twice).is_err(), "two answers for one provider");
    }

    #[test]
    fn of_two_numbers_the_one_that_leaves_less_is_believed() {
        for (left, used, wanted) in [
            (json!(80), json!(null), Some(80.0)),
            (json!(null), json!(60), Some(40.0)),
            (json!(80), json!(20), Some(80.0)),
            (json!(80), json!(60), Some(40.0)),
            (json!(10), json!(60), Some(10.0)),
            (json!(80), json!("60"), None),
            (json!("80"), json!(60), None),
            (json!(105), json!(60), None),
            (json!(null), json!(null), None),
        ] {
            let mut changed = answer();
            changed["providers"][0]["windows"] = json!([
                {"id": "five_hour", "kind": "session", "percentRemaining": left, "percentUsed": used},
                {"id": "seven_day", "kind": "weekly", "percentRemaining": 100},
            ]);
            let read = read_back(&changed).unwrap();
            let got = (read.usage.windows[0].remaining_percent, read.usage.misread);
            let wanted = (wanted.unwrap_or(0.0), wanted.is_none());
            assert_eq!(got, wanted, "{left} left, {used} used");
        }
    }

    #[test]
    fn a_window_that_makes_no_sense_has_nothing_left_and_hides_no_other() {
        let mut changed = answer();
        changed["providers"][0]["windows"] = json!([
            {"id": "five_hour", "kind": "session", "percentRemaining": "80"},
            {"id": "seven_day", "kind": "weekly", "percentRemaining": 3},
        ]);
        let usage = read_back(&changed).unwrap().usage;
        let left: Vec<_> = usage
            .windows
            .iter()
            .map(|window| window.remaining_percent)
            .collect();
        assert_eq!((left, usage.misread), (vec![0.0, 3.0], true));
    }

    #[test]
    fn windows_of_a_model_are_scoped_and_paid_overage_gates_nothing() {
        let mut changed = answer();
        changed["schemaVersion"] = json!(2);
        changed["providers"][0]["windows"] = json!([
            {"id": "five_hour", "kind": "session", "percentUsed": 30},
            {"id": "model:opus", "kind": "model", "percentUsed": 90, "percentRemaining": 10},
            {"id": "model:spark:5h", "kind": "model", "percentRemaining": 20},
            {"id": "codex:86400", "kind": "unknown", "percentRemaining": 40, "windowSeconds": 86_400},
            {"id": "extra_usage", "kind": "credits", "spentUsd": 12.5, "limitUsd": 50},
        ]);
        let usage = read_back(&changed).unwrap().usage;
        let seen: Vec<_> = usage
            .windows
            .iter()
            .map(|window| {
                (
                    window.kind,
                    window.scope.as_deref(),
                    window.remaining_percent,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (Kind::Session, None, 70.0),
                (Kind::Weekly, Some("opus"), 10.0),
                (Kind::Session, Some("spark"), 20.0),
                (Kind::Session, None, 40.0),
            ]
        );
        let spend = usage.spend.unwrap();
        assert_eq!(
            (usage.overage_enabled, spend.used, spend.limit),
            (Some(true), Some(12.5), Some(50.0))
        );
        changed["providers"][0]["credits"] = json!({"remaining": 0, "unlimited": false});
        changed["providers"][0]["windows"]
            .as_array_mut()
            .unwrap()
            .pop();
        assert_eq!(
            read_back(&changed).unwrap().usage.overage_enabled,
            Some(false)
        );
    }

    #[test]
    fn the_reader_sees_its_own_home_and_no_key_of_the_callers() {
        let world = World::with(&[("ANTHROPIC_API_KEY", "key"), ("HTTPS_PROXY", "http://p:1")]);
        let program = Utf8Path::from_path(world.directory.path())
            .unwrap()
            .join("reader");
        world.write(
            &program,
            "#!/bin/sh\n/usr/bin/env > seen\necho \"$@\" >> seen\n",
        );
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let subject = Subject {
            profile: "codex-1",
            provider: Codex,
            home: Utf8Path::new("/homes/codex-1"),
        };
        let outcome = read(&world.context, &program, subject, &world.deadline()).unwrap();
        assert_eq!(outcome, Err(FetchError::Shape), "it printed nothing");
        let own = world.context.roots.state.join("readers/codex-1");
        let seen = std::fs::read_to_string(own.join("home/seen")).unwrap();
        for line in [
            format!("HOME={own}/home"),
            format!("XDG_CACHE_HOME={own}/cache"),
            "CODEX_HOME=/homes/codex-1".to_owned(),
            "AGENT_FLEET_PROFILE=codex-1".to_owned(),
            "HTTPS_PROXY=http://p:1".to_owned(),
            "--provider codex --json --full --no-credential-refresh".to_owned(),
        ] {
            assert!(seen.lines().any(|seen| seen == line), "no {line} in {seen}");
        }
        assert!(!seen.contains("ANTHROPIC"), "{seen}");
    }

    proptest! {
        #[test]
        fn any_output_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes, Claude).is_err());
        }
    }
}
