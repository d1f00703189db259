//! `pool status`: what a pool can take now.

use serde_json::Value;

use crate::support::sandbox::Sandbox;

#[test]
fn a_pool_says_what_it_could_take_and_why_a_profile_could_not() {
    let mut sandbox = Sandbox::new();
    sandbox.run(["init", "--scripted", "2"]).success();
    let service = sandbox.path("service");
    let service = service.to_str().expect("UTF-8");
    sandbox
        .run(["config", "set", "providers.scripted.service", service])
        .success();
    for profile in ["scripted-1", "scripted-2"] {
        let home = sandbox.path(format!("share/accounts/scripted/{profile}"));
        let login = sandbox
            .command(["scripted-agent", "login", "--account", profile])
            .args(["--service", service, "--used", "20"])
            .env("SCRIPTED_HOME", home)
            .status()
            .expect("the pretend login runs");
        assert!(login.success());
    }
    sandbox.run(["profile", "provision", "--all"]).success();
    sandbox.run(["profile", "enable", "scripted-1"]).success();
    sandbox.run(["quota", "refresh", "--all"]).success();

    let answer = sandbox
        .run(["pool", "status", "--pool", "scripted-crew"])
        .success();
    let scripted = &answer["providers"][0];
    assert_eq!(scripted["provider"], "scripted");
    assert_eq!(scripted["available"], true, "{answer}");
    assert_eq!(scripted["selection_mode"], "quota");
    assert_eq!(scripted["degraded"], false);
    assert_eq!(scripted["eligible_profiles"], 1, "only one is enabled");
    assert_eq!(scripted["best_adjusted_headroom_percent"], 80.0);
    assert_eq!(scripted["active_leases"], 0);
    assert_eq!(scripted["profiles"].as_array().map(Vec::len), Some(2));

    sandbox.set("AGENT_FLEET_TEST_NOW", "+900");
    let aged = sandbox
        .run(["pool", "status", "--pool", "scripted-crew"])
        .success();
    let scripted = &aged["providers"][0];
    assert_eq!(scripted["available"], true, "choosing measures it anew");
    assert_eq!(scripted["degraded"], true);
    assert_eq!(scripted["profiles"][0]["routeability"]["reason"], "stale");

    sandbox
        .run(["profile", "drain", "scripted-1", "--reason", "holiday"])
        .success();
    let drained = sandbox
        .run([
            "pool",
            "status",
            "--pool",
            "scripted-crew",
            "--provider",
            "scripted",
        ])
        .success();
    let scripted = &drained["providers"][0];
    assert_eq!(scripted["available"], false);
    assert_eq!(scripted["selection_mode"], "unavailable");
    assert_eq!(scripted["best_adjusted_headroom_percent"], Value::Null);
    assert_eq!(
        scripted["profiles"][0]["routeability"]["reason"],
        "draining"
    );
    assert_eq!(
        scripted["profiles"][0]["routeability"]["hint"],
        "agent-fleet profile undrain scripted-1"
    );
    assert_eq!(
        scripted["profiles"][1]["routeability"]["hint"],
        "agent-fleet profile enable scripted-2"
    );
}

#[test]
fn a_pool_without_profiles_is_not_found() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--scripted", "1"]).success();
    sandbox
        .run(["pool", "status", "--pool", "nobody"])
        .refused("not_found");
    sandbox
        .run([
            "pool",
            "status",
            "--pool",
            "scripted-crew",
            "--provider",
            "claude",
        ])
        .refused("not_found");
}
