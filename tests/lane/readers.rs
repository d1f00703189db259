//! What is left of each account, read without spending or renewing anything.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::{BOTH, Cli};
use crate::lab::{Plan, now};
use crate::world::{World, profile};

/// How often each method and path was asked for, of both providers.
fn asked(world: &World, since: f64) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in world.lab.log(since) {
        if request.log == "claude" || request.log == "codex" {
            let path = request.path.split('?').next().unwrap_or_default();
            let key = format!("{:?} {} {path}", request.account, request.method);
            *counts.entry(key).or_insert(0) += 1;
        }
    }
    counts
}

/// Remaining percent of the five-hour window of each profile.
fn remaining(world: &World) -> BTreeMap<String, f64> {
    let answer = world.run(["quota", "show"]).success();
    let quota = answer["quota"].as_array().expect("a list");
    quota
        .iter()
        .filter_map(|entry| {
            let windows = entry["windows"].as_array()?;
            let session = windows.iter().find(|window| window["kind"] == "session")?;
            let left = session["remaining_percent"].as_f64()?;
            Some((entry["profile"].as_str()?.to_owned(), left))
        })
        .collect()
}

fn uneven() -> Plan {
    Plan {
        scenario: json!({"accounts": {"1": {"five_hour": 70}, "2": {"five_hour": 20}}}),
        ..Plan::default()
    }
}

#[test]
fn the_built_in_reader_asks_once_per_account_and_renews_nothing() {
    let since = now();
    let world = World::enabled(&uneven(), 1, &["project"]);
    let project = world.project("project");
    for cli in BOTH {
        drop(world.run(["quota", "refresh", &profile(cli, 1)]).success());
        let job = crate::world::Job::new(cli.name(), cli.name(), &project);
        let chosen = world.choose(&job).success();
        assert_eq!(
            chosen["profile"],
            profile(cli, 2),
            "the fuller account was chosen"
        );
    }
    let left = remaining(&world);
    for cli in BOTH {
        assert_eq!(left.get(&profile(cli, 1)), Some(&30.0), "{left:?}");
        assert_eq!(left.get(&profile(cli, 2)), Some(&80.0), "{left:?}");
    }
    let counts = asked(&world, since);
    for (key, count) in &counts {
        assert!(key.contains(" GET "), "not a read: {key} in {counts:?}");
        assert_eq!(*count, 1, "{key} in {counts:?}");
    }
    let wanted: Vec<String> = [1, 2]
        .iter()
        .flat_map(|account| {
            [
                "/api/oauth/profile",
                "/api/oauth/usage",
                "/backend-api/wham/usage",
            ]
            .map(|path| format!("Some({account}) GET {path}"))
        })
        .collect();
    for key in &wanted {
        assert!(counts.contains_key(key), "{key} is not in {counts:?}");
    }
    assert_eq!(counts.len(), wanted.len(), "{counts:?}");
}

/// Needs quota-axi, which `run.sh` installs.
#[test]
fn an_external_reader_gets_a_home_and_a_cache_for_each_profile() {
    let mut world = World::new(&uneven(), &[]);
    let reader = world.lab.value("QUOTA_AXI_BIN").to_owned();
    assert!(
        !reader.is_empty(),
        "quota-axi is not installed; run tests/lane/run.sh"
    );
    // The program is a Node script; the lab's Node lies beside it.
    world.prepend_path(std::path::Path::new(&reader).parent().expect("a folder"));
    for cli in BOTH {
        world.configure(&format!("providers.{}.quota_reader", cli.name()), &reader);
        for account in [1, 2] {
            world.add(cli, account, 1);
        }
    }
    for cli in BOTH {
        for account in [1, 2] {
            drop(
                world
                    .run(["quota", "refresh", &profile(cli, account)])
                    .success(),
            );
        }
    }
    let left = remaining(&world);
    for cli in BOTH {
        assert_eq!(left.get(&profile(cli, 1)), Some(&30.0), "{left:?}");
        assert_eq!(left.get(&profile(cli, 2)), Some(&80.0), "{left:?}");
    }
    for shared in ["home/.cache/quota-axi", "cache/quota-axi"] {
        assert!(
            !world.lab.path(shared).exists(),
            "a cache that all profiles share: {shared}"
        );
    }
    let spent: Vec<Value> = world
        .lab
        .log(0.0)
        .iter()
        .filter(|request| {
            request.refresh.is_some()
                || Cli::Claude.asks_model(request)
                || Cli::Codex.asks_model(request)
        })
        .map(|request| json!(request.line()))
        .collect();
    assert!(spent.is_empty(), "a reader spent something: {spent:?}");
}
