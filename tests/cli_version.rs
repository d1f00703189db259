//! `version` and the rules of output that every command follows.

use crate::support::sandbox::Sandbox;

#[test]
fn version_needs_no_registry_and_names_the_contract() {
    let sandbox = Sandbox::new();
    let answer = sandbox.run(["version"]).success();
    assert_eq!(answer["contract_version"], 1);
    assert_eq!(answer["cli_version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn usage_errors_are_json_when_json_is_asked_for() {
    let sandbox = Sandbox::new();
    let error = sandbox.run(["no-such-command"]).refused("usage");
    assert_eq!(error["class"], "refused");
    assert_eq!(error["ok"], false);
}
