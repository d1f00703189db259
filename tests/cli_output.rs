//! What every command keeps to: formats, usage errors, exit statuses, streams that end.

use std::process::Stdio;

use crate::support::sandbox::{Ran, Sandbox};

#[test]
fn version_needs_no_registry_and_names_the_contract() {
    let sandbox = Sandbox::new();
    let answer = sandbox.run(["version"]).success();
    assert_eq!(answer["contract_version"], 1);
    assert_eq!(answer["cli_version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn flags_stand_before_or_after_the_command() {
    let sandbox = Sandbox::new();
    let before = sandbox.run(["--format", "toon", "-q", "version"]);
    let after = sandbox.run(["version", "-q", "--format=toon"]);
    assert_eq!((before.status, after.status), (0, 0));
    assert!(before.stdout.starts_with("cli_version: "), "{before:?}");
    assert_eq!(before.stdout, after.stdout);
}

#[test]
fn usage_errors_are_json_when_json_is_asked_for_in_any_way() {
    let mut sandbox = Sandbox::new();
    let error = sandbox.run(["no-such-command"]).refused("usage");
    assert_eq!(error["class"], "refused");
    assert_eq!(error["ok"], false);
    sandbox.set("AGENT_FLEET_FORMAT", "human");
    for arguments in [
        &["--format", "json", "no-such-command"][..],
        &["no-such-command", "--format=json"],
        &["version", "--no-such-flag", "--format", "json"],
        &["--format", "json"],
    ] {
        let error = sandbox.run(arguments).refused("usage");
        let sentence = error["error"].as_str().expect("a sentence");
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "{error}");
    }
}

#[test]
fn a_usage_error_names_the_argument_and_a_command_that_can_be_typed() {
    let sandbox = Sandbox::new();
    let error = sandbox.run(["completions"]).refused("usage");
    assert!(
        error["error"].as_str().expect("text").contains("<SHELL>"),
        "{error}"
    );
    assert_eq!(error["hint"], "agent-fleet completions --help");
    let guess = sandbox
        .run(["--format", "json", "versoin"])
        .refused("usage");
    assert_eq!(guess["hint"], "agent-fleet version --help");
}

#[test]
fn a_usage_error_for_people_goes_to_stderr() {
    let mut sandbox = Sandbox::new();
    sandbox.set("AGENT_FLEET_FORMAT", "human");
    let ran = sandbox.run(["no-such-command"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("no-such-command"), "{ran:?}");
    assert!(
        !ran.stderr.contains('\u{1b}'),
        "colour off a terminal: {ran:?}"
    );
}

#[test]
fn a_variable_that_means_nothing_is_refused_by_name() {
    let mut sandbox = Sandbox::new();
    sandbox.set("AGENT_FLEET_EXIT_CODES", "clas");
    let error = sandbox.run(["version"]).refused("usage");
    assert!(
        error["error"]
            .as_str()
            .expect("text")
            .contains("AGENT_FLEET_EXIT_CODES")
    );
    sandbox.set("AGENT_FLEET_EXIT_CODES", "class");
    sandbox.set("AGENT_FLEET_FORMAT", "yaml");
    let ran = sandbox.run(["version"]);
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(ran.stdout.contains("AGENT_FLEET_FORMAT must be"), "{ran:?}");
}

#[test]
fn a_home_that_is_not_utf8_is_refused_and_not_a_panic() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut sandbox = Sandbox::new();
    sandbox.set("HOME", std::ffi::OsString::from_vec(b"/h\xff".to_vec()));
    let ran = sandbox.run(["version"]);
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(ran.stdout.contains("\"code\":\"usage\""), "{ran:?}");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let sandbox = Sandbox::new();
    for arguments in [&["contract", "--schema"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ran = sandbox
            .command(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.is_empty(), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error_with_the_status_that_was_asked_for() {
    let sandbox = Sandbox::new();
    for (arguments, status) in [
        (&["version", "--format", "human"][..], 2),
        (
            &["version", "--format", "human", "--exit-codes", "class"],
            13,
        ),
        (&["--exit-codes=flat", "version", "--format", "human"], 2),
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let ran = Ran::of(sandbox.command(arguments).stdout(full));
        assert_eq!(ran.status, status, "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("[disk_full]"), "{ran:?}");
    }
}

#[test]
fn a_misspelt_command_is_never_taken_for_one_that_only_programs_call() {
    let sandbox = Sandbox::new();
    for (typed, hint) in [
        ("list", "agent-fleet project list --help"),
        ("stat", "agent-fleet status --help"),
        ("exce", "agent-fleet exec --help"),
    ] {
        assert_eq!(sandbox.run([typed]).refused("usage")["hint"], hint);
        let person = sandbox.run(["--format", "human", typed]);
        assert!(!person.stderr.contains("statusline"), "{person:?}");
    }
}

#[test]
fn a_hook_is_silent_whatever_its_words() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["hook"][..],
        &["hook", "nonsense", "--flag"],
        &["--format", "json", "hook"],
        &["--quiet", "hook", "nonsense"],
        &["hook", "--format", "yaml"],
    ] {
        let ran = sandbox.run(arguments);
        let seen = (ran.status, ran.stdout.as_str());
        assert_eq!(seen, (0, ""), "{arguments:?}: {ran:?}");
    }
}
