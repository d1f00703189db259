//! The search for secrets finds them: in a file, in a name, in an answer, among the words of a command.

use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;

/// A token as tests have them.
const TOKEN: &str = "synthetic-token";

fn fails(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panicked = std::panic::catch_unwind(test).expect_err("the secret was not found");
    let text = panicked.downcast_ref::<String>();
    text.expect("a sentence").clone()
}

#[test]
fn a_secret_in_a_file_that_a_program_wrote_fails_its_test() {
    for path in [
        "state/snapshot/codex",
        "config/accounts.toml",
        "share/hooks/codex.json",
        "share/accounts/codex/codex-1/agent-fleet.json",
        "tmp/x",
    ] {
        let said = fails(|| {
            let sandbox = Sandbox::new();
            let file = sandbox.write(path, "");
            let write = format!("printf {TOKEN} > '{}'", file.display());
            // The words of the shell are the test's own.
            assert!(sandbox.shell(&write).status().expect("sh runs").success());
        });
        assert!(said.contains(path) && said.contains("synthetic-"), "{said}");
    }
    let said = fails(|| {
        let sandbox = Sandbox::new();
        drop(sandbox.write(format!("state/{TOKEN}"), ""));
    });
    assert!(said.contains("state"), "{said}");
}

#[test]
fn a_secret_in_a_home_or_in_what_the_test_itself_wrote_is_where_it_belongs() {
    let sandbox = Sandbox::new();
    sandbox.write("share/accounts/codex/codex-1/auth.json", TOKEN);
    sandbox.write("home/.codex/auth.json", TOKEN);
    sandbox.write("home/.codex/config.toml", TOKEN);
    let file = sandbox.write("login-to-be", TOKEN);
    drop(sandbox);
    let said = fails(|| {
        let sandbox = Sandbox::new();
        let file = sandbox.write("login-to-be", TOKEN);
        let append = format!("echo >> '{}'", file.display());
        assert!(sandbox.shell(&append).status().expect("sh runs").success());
    });
    assert!(said.contains("login-to-be"), "{said}");
    assert!(!file.exists());
}

#[test]
fn a_secret_in_an_answer_or_among_words_fails_its_test() {
    for stream in ["", " >&2"] {
        let said = fails(|| {
            let line = format!("echo synth''etic-token{stream}");
            drop(Ran::of(&mut Sandbox::new().shell(&line)));
        });
        assert!(said.contains("standard"), "{said}");
    }
    let said = fails(|| drop(Sandbox::new().run(["profile", "status", TOKEN])));
    assert!(said.contains("words"), "{said}");
}

#[test]
fn the_words_of_every_program_that_is_started_are_noted() {
    let mut world = crate::support::world::World::with(1);
    assert_eq!(world.exec("task", "say hello").status, 0);
    world.sandbox.set("AGENT_FLEET_TEST_SECOND_PROOF", "0");
    world.command(&["profile", "disable", "one"]);
    drop(world.sandbox.run(["profile", "enroll", "one"]));
    let noted =
        std::fs::read_to_string(world.sandbox.path("programs.started")).expect("programs started");
    for words in ["say hello", "scripted-agent -- login"] {
        assert!(noted.contains(words), "no `{words}` in {noted}");
    }
}
