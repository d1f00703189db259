use super::{BinaryError, check, find, resolve};
use crate::env::{Context, Roots, Variables, World};
use crate::error::{Error, code};
use crate::id::ProviderKind::{self, Claude, Codex, Scripted};
use crate::registry::schema::{BinaryPolicy, ProviderSettings};
use crate::registry::validate::defaults;
use camino::{Utf8Path, Utf8PathBuf};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};

struct Ground {
    _directory: tempfile::TempDir,
    base: Utf8PathBuf,
    context: Context,
}

fn ground() -> Ground {
    let directory = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(directory.path())
        .unwrap()
        .canonicalize_utf8()
        .unwrap();
    let world = World {
        arguments: Vec::new(),
        variables: [("HOME", base.join("home")), ("PATH", base.join("bin"))]
            .into_iter()
            .map(|(name, path)| (name, path.into_string()))
            .collect::<Variables>(),
        directory: None,
        executable: Some(base.join("self").into()),
    };
    std::fs::create_dir(base.join("bin")).unwrap();
    Ground {
        context: Context::resolve(&world, None).unwrap(),
        base,
        _directory: directory,
    }
}

/// A file that looks like this to the kernel; it is never started.
fn put(path: &Utf8Path, bytes: &[u8], mode: u32) {
    use std::io::Write as _;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .unwrap();
    file.write_all(bytes).unwrap();
}

const ELF: &[u8] = b"\x7fELF\x02\x01\x01";

fn settings(roots: &Roots, kind: ProviderKind, binary: &Utf8Path) -> ProviderSettings {
    ProviderSettings {
        binary: Some(binary.to_owned()),
        ..defaults(kind, roots)
    }
}

#[track_caller]
fn refused(ground: &Ground, settings: &ProviderSettings, words: &str) -> Error {
    let error = resolve(&ground.context, settings).unwrap_err();
    assert_eq!(error.code, code::PROVIDER_MISSING);
    assert!(error.message.contains(words), "{}", error.message);
    assert!(error.hint.is_some());
    error
}

#[test]
fn links_are_followed_or_refused_as_the_policy_says() {
    let ground = ground();
    let (version, link) = (ground.base.join("v/2"), ground.base.join("bin/claude"));
    put(&version, ELF, 0o755);
    symlink(&version, &link).unwrap();
    let mut settings = settings(&ground.context.roots, Claude, &link);
    assert_eq!(resolve(&ground.context, &settings).unwrap(), version);
    settings.binary_policy = BinaryPolicy::Pin;
    let error = refused(&ground, &settings, "names one file for good");
    let set = format!("agent-fleet config set providers.claude.binary {version}");
    assert_eq!(error.hint.unwrap(), set);
    settings.binary = Some(version.clone());
    assert_eq!(resolve(&ground.context, &settings).unwrap(), version);
}

#[test]
fn what_cannot_be_launched_says_why_and_names_a_better_one() {
    let ground = ground();
    let roots = &ground.context.roots;
    let at = |name: &str| ground.base.join(name);
    put(&at("script"), b"#!/bin/sh\n", 0o755);
    put(&at("text"), b"hello", 0o755);
    put(&at("empty"), b"", 0o755);
    put(&at("data"), ELF, 0o644);
    symlink(at("nowhere"), at("dangling")).unwrap();
    for (name, words) in [
        ("script", "is a script"),
        ("text", "is not a native executable"),
        ("empty", "is not a native executable"),
        ("data", "is not executable"),
        ("bin", "is not a file"),
        ("gone", "does not exist"),
        ("dangling", "does not exist"),
        ("text/x", "cannot be found"),
    ] {
        let error = refused(&ground, &settings(roots, Codex, &at(name)), words);
        assert_eq!(error.hint.as_deref(), Some("npm install -g @openai/codex"));
    }
    refused(&ground, &defaults(Codex, roots), "names no binary");
    put(&at("bin/codex"), ELF, 0o755);
    let error = refused(
        &ground,
        &settings(roots, Codex, &at("gone")),
        "does not exist",
    );
    assert_eq!(
        error.hint.unwrap(),
        format!(
            "agent-fleet config set providers.codex.binary {}",
            at("bin/codex")
        )
    );
}

#[test]
fn an_npm_launcher_leads_to_the_native_binary_of_this_platform() {
    let ground = ground();
    let scope = ground.base.join("lib/node_modules/@openai");
    let launcher = scope.join("codex/bin/codex.js");
    put(&launcher, b"#!/usr/bin/env node\n", 0o755);
    symlink(&launcher, ground.base.join("bin/codex")).unwrap();
    let platform = match (cfg!(target_os = "macos"), cfg!(target_arch = "aarch64")) {
        (true, true) => "darwin-arm64",
        (true, false) => "darwin-x64",
        (false, true) => "linux-arm64",
        (false, false) => "linux-x64",
    };
    let other = scope.join("codex-win32-x64/vendor/a/bin/codex");
    put(&other, ELF, 0o755);
    assert_eq!(find::installed(&ground.context, Codex), None);
    let beside = scope.join(format!("codex-{platform}/vendor/triple/bin/codex"));
    put(&beside, ELF, 0o755);
    assert_eq!(
        find::installed(&ground.context, Codex),
        Some(beside.clone())
    );
    let inside = scope.join(format!(
        "codex/node_modules/@openai/codex-{platform}/vendor/triple/bin/codex"
    ));
    put(&inside, ELF, 0o755);
    assert_eq!(
        find::installed(&ground.context, Codex),
        Some(inside.clone())
    );
    let error = refused(
        &ground,
        &settings(&ground.context.roots, Codex, &ground.base.join("bin/codex")),
        "is a script",
    );
    assert!(error.hint.unwrap().contains(inside.as_str()));
}

#[test]
fn claude_is_found_natively_in_its_package_or_where_its_installer_puts_it() {
    let ground = ground();
    let package = ground
        .base
        .join("lib/node_modules/@anthropic-ai/claude-code");
    put(&package.join("bin/claude.exe"), ELF, 0o755);
    let local = ground.context.roots.home.join(".local/bin/claude");
    put(&local, ELF, 0o755);
    assert_eq!(find::installed(&ground.context, Claude), Some(local));
    symlink(
        package.join("bin/claude.exe"),
        ground.base.join("bin/claude"),
    )
    .unwrap();
    let found = find::installed(&ground.context, Claude);
    assert_eq!(found, Some(package.join("bin/claude.exe")), "PATH wins");
}

#[test]
fn the_scripted_provider_is_this_program() {
    let ground = ground();
    let settings = defaults(Scripted, &ground.context.roots);
    assert_eq!(
        resolve(&ground.context, &settings).unwrap(),
        ground.base.join("self")
    );
    assert_eq!(find::installed(&ground.context, Scripted), None);
    let error = BinaryError::Unnamed(Scripted, None);
    assert!(error.to_string().contains("scripted"));
}

#[test]
fn this_test_program_is_native() {
    let path = std::path::PathBuf::from("/proc/self/exe").canonicalize();
    if let Ok(path) = path {
        assert_eq!(check(Utf8Path::from_path(&path).unwrap()), Ok(()));
    }
}
