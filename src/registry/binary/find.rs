//! Where people have their CLIs, and the native binary behind an npm launcher.

use std::fs;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::check;
use crate::env::Context;
use crate::id::ProviderKind;

/// The native binary of a provider that is installed here, canonical; the first on `PATH` wins.
pub fn installed(context: &Context, provider: ProviderKind) -> Option<Utf8PathBuf> {
    let program = match provider {
        ProviderKind::Claude => "claude",
        ProviderKind::Codex => "codex",
        ProviderKind::Scripted => return None,
    };
    places(context, provider)
        .into_iter()
        .find_map(|directory| native(&directory.join(program), provider))
}

/// The native binary that a path leads to: itself, or the one that its npm package launches.
pub(super) fn native(path: &Utf8Path, provider: ProviderKind) -> Option<Utf8PathBuf> {
    let real = path.canonicalize_utf8().ok()?;
    if check(&real).is_ok() {
        return Some(real);
    }
    behind(&real, provider)
}

/// Directories to look in: `PATH`, then where installers put the CLIs without touching `PATH`.
fn places(context: &Context, provider: ProviderKind) -> Vec<Utf8PathBuf> {
    let home = &context.roots.home;
    let path = context.variables.text("PATH").unwrap_or_default();
    let mut places: Vec<Utf8PathBuf> = path
        .split(':')
        .map(Utf8PathBuf::from)
        .filter(|directory| directory.is_absolute())
        .collect();
    places.push(home.join(".local/bin"));
    if provider == ProviderKind::Claude {
        places.push(home.join(".claude/local"));
        places.push(home.join(".claude/local/node_modules/.bin"));
    }
    for prefix in [".npm-global", ".npm-packages", ".bun", ".volta"] {
        places.push(home.join(prefix).join("bin"));
    }
    places
}

/// The native binary that an npm launcher starts: in the launcher's package, or in the platform's package
/// inside or beside it.
pub fn behind(launcher: &Utf8Path, provider: ProviderKind) -> Option<Utf8PathBuf> {
    let (scope, name) = match provider {
        ProviderKind::Claude => ("@anthropic-ai", "claude-code"),
        ProviderKind::Codex => ("@openai", "codex"),
        ProviderKind::Scripted => return None,
    };
    let package = launcher
        .ancestors()
        .find(|ancestor| ancestor.ends_with(format!("{scope}/{name}")))?;
    let mut packages = vec![package.to_owned()];
    for scoped in [
        package.join("node_modules").join(scope),
        package.parent()?.to_owned(),
    ] {
        packages.extend(
            entries(&scoped)
                .into_iter()
                .filter(|path| is_platform_of(name, path)),
        );
    }
    packages
        .iter()
        .flat_map(|package| candidates(package, provider))
        .find(|path| check(path).is_ok())
        .and_then(|path| path.canonicalize_utf8().ok())
}

/// Whether a package directory is that of this platform, as npm names them: `codex-linux-x64`.
fn is_platform_of(name: &str, package: &Utf8Path) -> bool {
    let system = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let machine = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    package
        .file_name()
        .and_then(|file| file.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(&format!("-{system}-{machine}")))
}

fn candidates(package: &Utf8Path, provider: ProviderKind) -> Vec<Utf8PathBuf> {
    match provider {
        ProviderKind::Claude => vec![package.join("bin/claude.exe"), package.join("claude")],
        ProviderKind::Codex => entries(&package.join("vendor"))
            .into_iter()
            .flat_map(|triple| [triple.join("bin/codex"), triple.join("codex/codex")])
            .collect(),
        ProviderKind::Scripted => Vec::new(),
    }
}

/// What a directory holds, sorted; nothing when it cannot be read.
fn entries(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut paths: Vec<Utf8PathBuf> = fs::read_dir(Path::new(directory.as_str()))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok())
        .collect();
    paths.sort_unstable();
    paths
}

/// The command that installs a provider's CLI.
pub fn install_command(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Claude => "npm install -g @anthropic-ai/claude-code",
        ProviderKind::Codex => "npm install -g @openai/codex",
        ProviderKind::Scripted => "agent-fleet version",
    }
}
