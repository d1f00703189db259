//! `contract`, `completions` and `man`: the program about itself.

use crate::support::sandbox::Sandbox;

#[test]
fn contract_names_every_command_that_supervisors_type() {
    let sandbox = Sandbox::new();
    let answer = sandbox.run(["contract"]).success();
    assert_eq!(answer["contract_version"], 1);
    assert_eq!(answer["cli_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        answer["formats"],
        serde_json::json!(["json", "toon", "human"])
    );
    let commands = answer["commands"].as_object().expect("a map");
    assert_eq!(
        commands["atomic_choose"],
        "lease choose --pool <pool> --task <task> --workspace <path>"
    );
    assert_eq!(commands.len(), 16);
}

#[test]
fn completions_and_manual_pages_are_made_for_every_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = sandbox.run(["completions", shell]);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.stdout.contains("completions"), "{shell}: {ran:?}");
    }
    let page = sandbox.run(["man"]);
    assert!(page.stdout.contains(".TH agent-fleet 1"), "{page:?}");
    let page = sandbox.run(["man", "completions"]);
    assert!(
        page.stdout.contains("agent\\-fleet\\-completions"),
        "{page:?}"
    );
    sandbox.run(["man", "no-such-command"]).refused("not_found");
}

#[test]
fn providers_are_shown_as_they_are_configured() {
    let sandbox = Sandbox::new();
    sandbox.run(["providers"]).refused("config_missing");
    let program = std::fs::canonicalize("/bin/sh").expect("a shell");
    let text = format!(
        "version = 1\n[providers.claude]\nbinary = \"{}\"\nbase_home = false\ndesktop_identity_file = false\nquota_reader = \"none\"\n",
        program.display()
    );
    sandbox.write("config/accounts.toml", text);
    let answer = sandbox.run(["providers"]).success();
    let claude = &answer["providers"][0];
    assert_eq!(claude["provider"], "claude");
    assert_eq!(claude["base_home"], serde_json::Value::Null);
    assert_eq!(claude["quota_reader"], "none");
    assert_eq!(claude["profiles"], 0);
}

#[test]
fn no_two_commands_say_the_same_of_themselves() {
    fn look(command: &clap::Command) {
        let mut told = std::collections::BTreeSet::new();
        for one in command.get_subcommands() {
            let about = one.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let name = one.get_name();
            assert!(told.insert(about.clone()), "`{name}` says: {about}");
            look(one);
        }
    }
    look(&agent_fleet::cli::definition());
}
