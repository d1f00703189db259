//! The registry file through the commands: made, broken, edited, locked.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::support::sandbox::{Ran, Sandbox};

const REGISTRY: &str = "config/accounts.toml";

fn read(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path(REGISTRY)).expect("a registry")
}

/// A file that the kernel would take for a native program; it is never started.
fn install(sandbox: &Sandbox, path: &str) {
    let path = sandbox.write(path, b"\x7fELF\x02\x01\x01");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn initialised() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", sandbox.path("bin"));
    install(&sandbox, "bin/claude");
    install(&sandbox, "bin/codex");
    drop(
        sandbox
            .run(["init", "--claude", "2", "--codex", "1", "--scripted", "1"])
            .success(),
    );
    sandbox
}

#[test]
fn init_pins_what_is_installed_and_never_overwrites() {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", sandbox.path("bin"));
    let missing = sandbox
        .run(["init", "--codex", "1"])
        .refused("provider_missing");
    assert_eq!(missing["hint"], "npm install -g @openai/codex");
    assert!(
        !sandbox.path(REGISTRY).exists(),
        "a refused init wrote something"
    );
    let launcher = sandbox.write(
        "lib/node_modules/@openai/codex/bin/codex.js",
        "#!/usr/bin/env node\n",
    );
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let machine = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    let system = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let native =
        format!("lib/node_modules/@openai/codex-{system}-{machine}/vendor/triple/bin/codex");
    install(&sandbox, &native);
    std::fs::create_dir(sandbox.path("bin")).expect("a directory");
    symlink(&launcher, sandbox.path("bin/codex")).expect("a link");
    drop(sandbox.write("home/.codex/auth.json", "{}"));

    let made = sandbox.run(["init", "--codex", "2"]).success();
    assert_eq!(
        made["binaries"]["codex"],
        sandbox.path(&native).to_str().expect("text")
    );
    assert_eq!(made["enabled"], 0);
    assert_eq!(made["profiles"][1]["id"], "codex-2");
    assert_eq!(
        made["profiles"][0]["pools"],
        serde_json::json!(["codex-crew"])
    );
    let text = read(&sandbox);
    assert!(text.contains("base_home = \"~/.codex\""), "{text}");
    let mode = |path: &str| {
        let metadata = std::fs::metadata(sandbox.path(path)).expect("metadata");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(REGISTRY), mode("config"), mode("state/install.json")),
        (0o600, 0o700, 0o600)
    );
    drop(sandbox.run(["init"]).refused("already_exists"));
    drop(sandbox.write(REGISTRY, "broken ["));
    drop(sandbox.run(["init"]).refused("already_exists"));
    assert_eq!(read(&sandbox), "broken [");
}

#[test]
fn every_problem_of_a_broken_registry_is_named_at_once_and_nothing_is_touched() {
    let mut sandbox = Sandbox::new();
    let missing = sandbox.run(["profile", "list"]).refused("config_missing");
    assert_eq!(missing["hint"], "agent-fleet init");
    let text = "version = 1\n[settings]\nstrategy = \"best\" # mine\n[profiles.x]\nprovider = \"codex\"\nhome = \"relative\"\nmax_concurrent = 0\n";
    drop(sandbox.write(REGISTRY, text));
    sandbox.set("EDITOR", "nano -l");
    for arguments in [
        vec!["profile", "list"],
        vec!["config", "list"],
        vec!["config", "set", "settings.strategy", "headroom"],
        vec!["profile", "add", "y", "--provider", "codex"],
        vec!["profile", "disable", "x"],
    ] {
        let error = sandbox.run(&arguments).refused("config_invalid");
        let lines: Vec<u64> = error["details"]["diagnostics"]
            .as_array()
            .expect("diagnostics")
            .iter()
            .filter_map(|found| found["line"].as_u64())
            .collect();
        assert_eq!(lines, [3, 6, 7], "{arguments:?}");
        let hint = error["hint"].as_str().expect("a hint");
        assert!(hint.starts_with("nano -l +3 /"), "{hint}");
        assert_eq!(read(&sandbox), text, "{arguments:?}");
    }
    drop(sandbox.write(REGISTRY, b"version = 1\n# \xff\n"));
    let error = sandbox.run(["profile", "list"]).refused("config_invalid");
    assert_eq!(error["details"]["diagnostics"][0]["line"], 2);
    drop(sandbox.write(REGISTRY, "version = 9\n[new]\nx = 1\n"));
    drop(
        sandbox
            .run(["config", "set", "settings.strategy", "headroom"])
            .refused("newer_format"),
    );
    assert_eq!(read(&sandbox), "version = 9\n[new]\nx = 1\n");
    std::fs::remove_file(sandbox.path(REGISTRY)).expect("a registry");
    std::fs::create_dir(sandbox.path(REGISTRY)).expect("a directory");
    drop(sandbox.run(["profile", "list"]).refused("io"));
}

#[test]
fn edits_keep_comments_unknown_keys_and_everything_else() {
    let sandbox = initialised();
    let text = read(&sandbox).replace(
        "[settings]",
        "# --- mine ---\nfuture = { a = 1 } # kept\n\n[settings]",
    );
    let text = format!("{text}\n# the end\n");
    drop(sandbox.write(REGISTRY, &text));
    let noted = sandbox.run(["config", "set", "settings.lease_ttl_seconds", "45"]);
    assert!(
        noted.stderr.contains("unknown key `future`"),
        "{}",
        noted.stderr
    );
    assert_eq!(noted.success()["value"], 45);
    drop(
        sandbox
            .run([
                "profile",
                "policy",
                "claude-2",
                "--weight",
                "3",
                "--reserve-percent",
                "20",
            ])
            .success(),
    );
    let expected = text
        .replace("its default\n", "its default\nlease_ttl_seconds = 45\n")
        .replacen(
            "reserve_percent = 15\n\n[profiles.\"codex-1\"]",
            "reserve_percent = 20\nweight = 3\n\n[profiles.\"codex-1\"]",
            1,
        );
    assert_eq!(read(&sandbox), expected);
    drop(
        sandbox
            .run(["profile", "add", "extra", "--provider", "codex"])
            .success(),
    );
    drop(sandbox.run(["profile", "remove", "extra"]).success());
    assert_eq!(
        read(&sandbox),
        expected,
        "adding and removing is not neutral"
    );
}

#[test]
fn a_linked_registry_stays_a_link() {
    let sandbox = initialised();
    std::fs::create_dir(sandbox.path("dotfiles")).expect("a directory");
    let real = sandbox.path("dotfiles/accounts.toml");
    std::fs::copy(sandbox.path(REGISTRY), &real).expect("a copy");
    std::fs::remove_file(sandbox.path(REGISTRY)).expect("a registry");
    symlink(&real, sandbox.path(REGISTRY)).expect("a link");
    drop(
        sandbox
            .run(["config", "set", "settings.strategy", "round-robin"])
            .success(),
    );
    assert!(sandbox.path(REGISTRY).is_symlink());
    assert!(
        std::fs::read_to_string(real)
            .expect("text")
            .contains("round-robin")
    );
}

#[test]
fn settings_show_defaults_and_refuse_what_is_out_of_range() {
    let sandbox = initialised();
    let list = sandbox.run(["config", "list"]).success();
    let penalty = list["settings"]
        .as_array()
        .expect("settings")
        .iter()
        .find(|setting| setting["key"] == "settings.active_lease_penalty")
        .expect("the penalty");
    assert_eq!(
        (&penalty["value"], &penalty["default"]),
        (&8.0.into(), &8.0.into())
    );
    let before = read(&sandbox);
    for (key, value) in [
        ("settings.lease_ttl_seconds", "0"),
        ("settings.lease_ttl_seconds", "soon"),
        ("settings.active_lease_penalty", "nan"),
        ("settings.strategy", "best"),
        ("providers.claude.base_home", "relative"),
        ("providers.claude.base_home", "true"),
        (
            "providers.claude.shared_entries",
            "skills,.credentials.json",
        ),
        ("providers.codex.worker_options", "--ok,no"),
        ("providers.codex.worker_options", "-b"),
        ("providers.codex.service", "/x"),
        ("settings.no_such", "1"),
        ("profiles.claude-1.enabled", "true"),
        ("install_id", "mine"),
    ] {
        drop(sandbox.run(["config", "set", key, value]).refused("usage"));
        assert_eq!(read(&sandbox), before, "{key} {value}");
    }
    let misspelt = sandbox
        .run(["config", "get", "settings.stratgy"])
        .refused("usage");
    assert!(
        misspelt["error"]
            .as_str()
            .expect("text")
            .contains("did you mean `settings.strategy`?")
    );
    drop(
        sandbox
            .run([
                "config",
                "set",
                "providers.claude.worker_options",
                "--foo,--bar:value",
            ])
            .success(),
    );
    let got = sandbox
        .run(["config", "get", "providers.claude.worker_options"])
        .success();
    assert_eq!(got["value"], serde_json::json!(["--foo", "--bar:value"]));
    let shim = sandbox.write("bin/shim", "#!/bin/sh\n");
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let error = sandbox
        .run([
            "config",
            "set",
            "providers.claude.binary",
            shim.to_str().expect("text"),
        ])
        .refused("provider_missing");
    assert!(
        error["error"]
            .as_str()
            .expect("text")
            .contains("is a script")
    );
}

#[test]
fn maintenance_in_progress_refuses_changes_and_leaves_the_registry_alone() {
    let sandbox = initialised();
    let before = read(&sandbox);
    let ready = sandbox.path("ready");
    let lock = sandbox.path("state/locks/provider-claude.lock");
    std::fs::create_dir_all(lock.parent().expect("a directory")).expect("a directory");
    let mut holder = Sandbox::tool("sh")
        .args(["-c", "exec 9<>\"$1\"; flock -x 9; printf '%s %s test\\n' $$ $(cut -d' ' -f22 /proc/$$/stat) >&9; : >\"$2\"; read line || :"])
        .args(["sh".as_ref(), lock.as_os_str(), ready.as_os_str()])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("a holder");
    let began = std::time::Instant::now();
    while !ready.exists() {
        assert!(
            began.elapsed().as_secs() < 10,
            "the holder never got the lock"
        );
        std::thread::yield_now();
    }
    let error = sandbox
        .run(["profile", "add", "claude-9", "--provider", "claude"])
        .refused("maintenance_busy");
    assert_eq!(
        error["error"],
        "provider maintenance is already in progress for claude"
    );
    assert_eq!(read(&sandbox), before);
    drop(
        sandbox
            .run(["profile", "policy", "codex-1", "--weight", "2"])
            .success(),
    );
    drop(holder.stdin.take());
    assert!(holder.wait().expect("the holder ends").success());
    drop(
        sandbox
            .run(["profile", "add", "claude-9", "--provider", "claude"])
            .success(),
    );
}

#[test]
fn a_registry_of_another_state_root_is_refused_until_a_person_adopts_it() {
    let mut sandbox = initialised();
    drop(sandbox.run(["profile", "list"]).success());
    sandbox.set("AGENT_FLEET_STATE_DIR", sandbox.path("other"));
    let error = sandbox.run(["profile", "list"]).refused("install_mismatch");
    let message = error["error"].as_str().expect("text");
    assert!(message.contains("config/accounts.toml") && message.contains("other/install.json"));
    drop(
        sandbox
            .run(["profile", "disable", "codex-1"])
            .refused("install_mismatch"),
    );
    assert_eq!(error["hint"], "agent-fleet config set install_id adopt");
    drop(
        sandbox
            .run(["config", "set", "install_id", "adopt"])
            .success(),
    );
    drop(sandbox.run(["profile", "list"]).success());
    sandbox.set("AGENT_FLEET_STATE_DIR", sandbox.path("state"));
    drop(sandbox.run(["profile", "list"]).refused("install_mismatch"));
}

#[test]
fn a_read_only_state_root_can_be_read_and_refuses_changes_by_name() {
    let sandbox = initialised();
    let before = read(&sandbox);
    // Root ignores permission bits, so the file system itself has to be read-only.
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" || exit 77; shift; exec \"$@\"";
    let run = |arguments: &[&str]| {
        let command = sandbox.command(arguments);
        let mut outer = Sandbox::tool("unshare");
        outer
            .args(["-rm", "sh", "-c", script, "sh"])
            .arg(sandbox.path("state"))
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        for (name, value) in command.get_envs() {
            if let (Some(value), true) = (value, name != "PATH") {
                outer.env(name, value);
            }
        }
        Ran::of(&mut outer)
    };
    let list = run(&["profile", "list"]);
    if list.status == 77 || list.stderr.contains("unshare") {
        eprintln!(
            "not tested: this machine lets nobody mount: {}",
            list.stderr
        );
        return;
    }
    assert_eq!(list.success()["profiles"][0]["id"], "claude-1");
    for arguments in [
        &["profile", "disable", "claude-1"][..],
        &["config", "set", "settings.strategy", "round-robin"],
        &["profile", "drain", "claude-1", "--reason", "x"],
    ] {
        drop(run(arguments).refused("read_only"));
    }
    assert_eq!(read(&sandbox), before);
}

#[test]
fn a_registry_that_is_a_link_to_nothing_is_named_and_never_written_through() {
    let sandbox = Sandbox::new();
    let nowhere = sandbox.path("elsewhere/accounts.toml");
    std::fs::create_dir_all(sandbox.path("config")).expect("a directory");
    symlink(&nowhere, sandbox.path(REGISTRY)).expect("a link");
    for line in [&["init"][..], &["init", "--import"], &["profile", "list"]] {
        let refused = sandbox.run(line).refused("config_missing");
        let hint = refused["hint"].as_str().expect("a hint");
        assert!(hint.starts_with("ls -l "), "{line:?}: {refused}");
    }
    assert!(!nowhere.exists());
}
