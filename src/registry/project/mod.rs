//! Workspaces: the worktree root of a registered project, or a linked worktree of one.
//!
//! Paths are compared after every link is resolved. Nothing in a project is believed: trust is what the
//! registry says of its root. Limits: a repository that is moved has to be registered again.

pub mod register;
pub mod worktree;

use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};

use self::worktree::Kind;
use super::path::resolved;
use super::schema::Registry;
use crate::env::Context;
use crate::error::{Code, Error, Refusal, Result, code};
use crate::id::ProviderKind;
use crate::sys::shell;

/// A directory that may host a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Canonical root of the worktree.
    pub path: Utf8PathBuf,
    /// The registered root that it is, or is a linked worktree of.
    pub project: Utf8PathBuf,
}

/// Why a directory cannot host a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// Not UTF-8; paths travel through JSON.
    #[error("the workspace path is not UTF-8: `{0}`")]
    NotText(String),
    /// Nothing there, or no directory.
    #[error("the workspace `{path}` {problem}")]
    NotADirectory {
        /// As the caller wrote it.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Below a worktree root.
    #[error("the workspace `{path}` lies inside the worktree `{root}`; name its root")]
    Inside {
        /// The directory.
        path: Utf8PathBuf,
        /// The root.
        root: Utf8PathBuf,
    },
    /// Not under git at all.
    #[error("the workspace `{0}` is not the root of a git worktree")]
    Outside(Utf8PathBuf),
    /// A repository without files.
    #[error("`{0}` is a bare repository, which has no files to work on")]
    Bare(Utf8PathBuf),
    /// Its `.git` leads nowhere.
    #[error("the workspace `{path}` is not the root of a git worktree: {problem}")]
    Broken {
        /// The directory.
        path: Utf8PathBuf,
        /// What is wrong with its `.git`.
        problem: String,
    },
    /// A worktree, but nobody registered it.
    #[error("the workspace `{path}` is not a registered project of {provider}")]
    Untrusted {
        /// Its root.
        path: Utf8PathBuf,
        /// For which provider.
        provider: ProviderKind,
    },
}

impl Refusal for WorkspaceError {
    fn code(&self) -> Code {
        match self {
            Self::NotText(_) => code::USAGE,
            Self::NotADirectory { .. }
            | Self::Inside { .. }
            | Self::Outside(_)
            | Self::Bare(_)
            | Self::Broken { .. } => code::WORKSPACE_INVALID,
            Self::Untrusted { .. } => code::WORKSPACE_UNTRUSTED,
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotText(_) | Self::NotADirectory { .. } => "agent-fleet project list".to_owned(),
            Self::Inside { root, .. } => format!("cd {}", shell::quote(root.as_str())),
            Self::Outside(path) => format!("git init {}", shell::quote(path.as_str())),
            Self::Bare(path) => format!(
                "git -C {} worktree add /path/to/a/checkout",
                shell::quote(path.as_str())
            ),
            Self::Broken { path, .. } => format!("git -C {} status", shell::quote(path.as_str())),
            Self::Untrusted { path, provider } => format!(
                "agent-fleet project register --provider {provider} {}",
                shell::quote(path.as_str())
            ),
        })
    }
    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut details = serde_json::Map::new();
        if let Self::Inside { root, .. } = self {
            details.insert("root".to_owned(), root.as_str().into());
        }
        details
    }
}

/// The workspace at `path` for workers of `provider`.
///
/// A relative path counts from the caller's directory. Fails with `workspace_invalid`,
/// `workspace_untrusted`, or `usage` for a path that is not UTF-8.
pub fn workspace(
    context: &Context,
    registry: &Registry,
    provider: ProviderKind,
    path: &Path,
) -> Result<Workspace> {
    let (root, kind) = root(context, path)?;
    match project_of(registry, provider, &root, &kind) {
        Some(project) => Ok(Workspace {
            path: root,
            project,
        }),
        None => Err(WorkspaceError::Untrusted {
            path: root,
            provider,
        }
        .into()),
    }
}

/// The canonical root of the worktree at `path`, registered or not, and what kind of root it is.
pub fn root(context: &Context, path: &Path) -> Result<(Utf8PathBuf, Kind)> {
    let directory = directory(context, path)?;
    let refused = match worktree::inspect(&directory) {
        kind @ (Kind::Main | Kind::Linked(_)) => return Ok((directory, kind)),
        Kind::Inside(root) => WorkspaceError::Inside {
            path: directory,
            root,
        },
        Kind::Broken(problem) => WorkspaceError::Broken {
            path: directory,
            problem,
        },
        Kind::Outside => outside(directory),
    };
    Err(refused.into())
}

/// The canonical root of the worktree that `path` is in.
pub fn enclosing(context: &Context, path: &Path) -> Result<Utf8PathBuf> {
    let found = directory(context, path)?;
    match worktree::inspect(&found) {
        Kind::Main | Kind::Linked(_) => Ok(found),
        Kind::Inside(root) => Ok(root),
        Kind::Broken(problem) => Err(WorkspaceError::Broken {
            path: found,
            problem,
        }
        .into()),
        Kind::Outside => Err(outside(found).into()),
    }
}

/// Why a directory that is in no worktree hosts nobody.
fn outside(directory: Utf8PathBuf) -> WorkspaceError {
    if worktree::is_bare(&directory) {
        WorkspaceError::Bare(directory)
    } else {
        WorkspaceError::Outside(directory)
    }
}

/// The path that a caller means, absolute, not resolved.
pub fn absolute(context: &Context, path: &Path) -> Result<Utf8PathBuf> {
    let full: PathBuf = match (path.strip_prefix("~"), &context.directory) {
        (Ok(rest), _) => context.roots.home.as_std_path().join(rest),
        // A shell would have put a home there; a directory called `~…` is hardly meant.
        (Err(_), _) if path.as_os_str().as_encoded_bytes().starts_with(b"~") => {
            let message = format!(
                "`{}` begins with `~`: write the path in full",
                path.display()
            );
            return Err(Error::new(code::USAGE, message).hint("echo ~"));
        }
        (Err(_), Some(directory)) => directory.join(path),
        (Err(_), None) if path.is_absolute() => path.to_owned(),
        (Err(_), None) => {
            let message = format!(
                "`{}` is relative, and the current directory is gone",
                path.display()
            );
            return Err(Error::new(code::USAGE, message).hint("cd"));
        }
    };
    Utf8PathBuf::from_path_buf(full)
        .map_err(|full| WorkspaceError::NotText(full.display().to_string()).into())
}

fn directory(context: &Context, path: &Path) -> Result<Utf8PathBuf, Error> {
    let refused = |problem| WorkspaceError::NotADirectory {
        path: path.display().to_string(),
        problem,
    };
    if path.as_os_str().is_empty() {
        return Err(refused("is an empty path").into());
    }
    let full = absolute(context, path)?;
    let real = match full.as_std_path().canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(refused("does not exist").into());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(refused("is not a directory").into());
        }
        // A path too long, with a NUL or with a loop of links is no directory either.
        Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
            return Err(refused("cannot be resolved").into());
        }
        Err(error) => return Err(Error::io("open the workspace", &full, &error)),
    };
    if !real.is_dir() {
        return Err(refused("is not a directory").into());
    }
    Utf8PathBuf::from_path_buf(real)
        .map_err(|real| WorkspaceError::NotText(real.display().to_string()).into())
}

fn project_of(
    registry: &Registry,
    provider: ProviderKind,
    root: &Utf8Path,
    kind: &Kind,
) -> Option<Utf8PathBuf> {
    let trusted = registry.trusted(provider);
    // Registered roots are canonical unless a person wrote or moved them; only then are links resolved.
    let find = |wanted: &Utf8Path| {
        trusted
            .iter()
            .find(|path| **path == wanted)
            .or_else(|| trusted.iter().find(|path| resolved(path) == wanted))
    };
    if find(root).is_some() {
        return Some(root.to_owned());
    }
    let Kind::Linked(common) = kind else {
        return None;
    };
    // The common directory of a repository with a main worktree is `<root>/.git`, or what that resolves to.
    common
        .parent()
        .filter(|_| common.file_name() == Some(".git"))
        .filter(|main| find(main).is_some())
        .map(Utf8Path::to_owned)
        .or_else(|| {
            trusted
                .iter()
                .map(|path| resolved(path))
                .find(|main| resolved(&main.join(".git")) == *common)
        })
}

#[cfg(test)]
mod tests;
