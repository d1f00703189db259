//! What a path is taken for, and what is refused by name.

use super::{root, workspace};
use crate::env::{Context, Variables, World};
use crate::error::{Error, code};
use crate::id::ProviderKind::{Claude, Codex};
use crate::registry::schema::{Project, Registry};
use camino::{Utf8Path, Utf8PathBuf};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

struct Ground {
    _directory: tempfile::TempDir,
    base: Utf8PathBuf,
    context: Context,
}

/// A repository `main` with a linked worktree `linked`, as `git worktree add` lays them out.
fn world() -> Ground {
    let directory = tempfile::tempdir().unwrap();
    let base = Utf8Path::from_path(directory.path())
        .unwrap()
        .canonicalize_utf8()
        .unwrap();
    for path in ["main/.git/worktrees/linked", "main/src", "linked", "plain"] {
        std::fs::create_dir_all(base.join(path)).unwrap();
    }
    let admin = "main/.git/worktrees/linked";
    write(&base, "main/.git/HEAD", "ref: refs/heads/main\n");
    write(&base, &format!("{admin}/HEAD"), "ref: refs/heads/x\n");
    write(&base, &format!("{admin}/commondir"), "../..\n");
    write(
        &base,
        &format!("{admin}/gitdir"),
        &format!("{base}/linked/.git\n"),
    );
    write(&base, "linked/.git", &format!("gitdir: {base}/{admin}\n"));
    let world = World {
        arguments: Vec::new(),
        variables: [("HOME", base.as_str())].into_iter().collect::<Variables>(),
        directory: Some(base.join("main").into()),
        executable: None,
    };
    Ground {
        context: Context::resolve(&world, None).unwrap(),
        base,
        _directory: directory,
    }
}

fn write(base: &Utf8Path, path: &str, text: &str) {
    let path = base.join(path);
    drop(std::fs::remove_file(&path));
    crate::store::replace::create(path, text.as_bytes()).unwrap();
}

fn registry(path: impl Into<Utf8PathBuf>) -> Registry {
    Registry {
        projects: vec![Project {
            path: path.into(),
            provider: Some(Claude),
        }],
        ..Registry::default()
    }
}

fn refusal(world: &Ground, path: impl AsRef<Path>) -> Error {
    root(&world.context, path.as_ref()).unwrap_err()
}

#[test]
fn a_registered_root_and_its_linked_worktree_are_workspaces_of_that_provider_alone() {
    let world = world();
    let (main, linked) = (world.base.join("main"), world.base.join("linked"));
    let registry = registry(&main);
    let at = |provider, path: &Utf8Path| {
        workspace(&world.context, &registry, provider, path.as_std_path())
    };
    let own = at(Claude, &main).unwrap();
    assert_eq!((&own.path, &own.project), (&main, &main));
    let other = at(Claude, &linked).unwrap();
    assert_eq!((&other.path, &other.project), (&linked, &main));
    let error = at(Codex, &main).unwrap_err();
    assert_eq!(error.code, code::WORKSPACE_UNTRUSTED);
    assert_eq!(
        error.hint.unwrap(),
        format!("agent-fleet project register --provider codex {main}")
    );
}

#[test]
fn links_and_relative_paths_lead_to_the_canonical_root() {
    let world = world();
    std::os::unix::fs::symlink(world.base.join("main"), world.base.join("a link's \"way\""))
        .unwrap();
    let registry = registry(world.base.join("a link's \"way\""));
    for path in [".", "../a link's \"way\"", "~/main", "src/.."] {
        let found = workspace(&world.context, &registry, Claude, Path::new(path)).unwrap();
        assert_eq!(found.path, world.base.join("main"), "{path}");
    }
}

#[test]
fn what_is_no_root_says_what_it_is() {
    let world = world();
    let inside = refusal(&world, world.base.join("main/src"));
    assert_eq!(inside.code, code::WORKSPACE_INVALID);
    assert_eq!(inside.details["root"], world.base.join("main").as_str());
    for (path, words) in [
        ("plain", "is not the root of a git worktree"),
        ("gone", "does not exist"),
        ("linked/.git", "is not a directory"),
        ("linked/.git/x", "is not a directory"),
        ("a\0b", "cannot be resolved"),
    ] {
        let error = refusal(&world, world.base.join(path));
        assert_eq!(error.code, code::WORKSPACE_INVALID, "{path}");
        assert!(error.message.contains(words), "{path}: {}", error.message);
        assert!(error.hint.is_some());
    }
    assert_eq!(refusal(&world, "").code, code::WORKSPACE_INVALID);
    let bytes = OsStr::from_bytes(b"/tmp/\xff");
    assert_eq!(refusal(&world, bytes).code, code::USAGE);
}

#[test]
fn a_git_file_that_its_repository_does_not_know_gains_nothing() {
    let world = world();
    let base = &world.base;
    let forged = format!("gitdir: {base}/main/.git/worktrees/linked\n");
    write(base, "plain/.git", &forged);
    let error = refusal(&world, base.join("plain"));
    assert!(
        error.message.contains("belongs to another worktree"),
        "{}",
        error.message
    );
    write(
        base,
        "plain/.git",
        &format!("gitdir: {base}/main/.git/worktrees/none\n"),
    );
    assert!(
        refusal(&world, base.join("plain"))
            .message
            .contains("which is gone")
    );
    write(base, "plain/.git", "\u{0}nonsense");
    assert!(
        refusal(&world, base.join("plain"))
            .message
            .contains("not a pointer")
    );

    // An administrative directory of one's own that claims the trusted repository as its common directory.
    std::fs::create_dir_all(base.join("plain/admin")).unwrap();
    write(base, "plain/admin/HEAD", "x\n");
    write(
        base,
        "plain/admin/commondir",
        &format!("{base}/main/.git\n"),
    );
    write(base, "plain/admin/gitdir", &format!("{base}/plain/.git\n"));
    write(base, "plain/.git", &format!("gitdir: {base}/plain/admin\n"));
    let error = refusal(&world, base.join("plain"));
    assert!(
        error.message.contains("not in its repository"),
        "{}",
        error.message
    );
}

#[test]
fn a_submodule_stands_for_itself() {
    let world = world();
    let base = &world.base;
    std::fs::create_dir_all(base.join("main/.git/modules/sub")).unwrap();
    std::fs::create_dir_all(base.join("main/sub")).unwrap();
    write(base, "main/.git/modules/sub/HEAD", "x\n");
    write(base, "main/sub/.git", "gitdir: ../.git/modules/sub\n");
    let sub = base.join("main/sub");
    let trusting =
        |path: &Utf8Path| workspace(&world.context, &registry(path), Claude, sub.as_std_path());
    assert_eq!(trusting(&sub).unwrap().path, sub);
    assert_eq!(
        trusting(&base.join("main")).unwrap_err().code,
        code::WORKSPACE_UNTRUSTED
    );
}

#[test]
fn a_bare_repository_is_named_as_one() {
    let world = world();
    let bare = world.base.join("main/.git");
    let away = world.base.join("bare");
    crate::store::replace::rename(&bare, &away).unwrap();
    for name in ["objects", "refs"] {
        crate::store::directory::ensure(away.join(name)).unwrap();
    }
    let error = refusal(&world, &away);
    assert_eq!(error.code, code::WORKSPACE_INVALID);
    assert!(error.message.contains("bare repository"), "{error:?}");
    let above = super::enclosing(&world.context, away.as_std_path()).unwrap_err();
    assert_eq!(above.message, error.message);
}
