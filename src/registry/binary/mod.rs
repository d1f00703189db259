//! The provider's program: a native executable, never a shim.
//!
//! A shell or node shim would start the real program as a child: its death would not end the child, the
//! lease would watch the wrong process, and the shim's own environment could change the account. Only the
//! first bytes of a binary are read here; it is neither hashed nor started.

pub mod find;

use std::fs;
use std::io::{self, Read as _};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Access, access};

use super::schema::{BinaryPolicy, ProviderSettings};
use crate::env::Context;
use crate::error::{Code, Refusal, Result, code};
use crate::id::ProviderKind;
use crate::store::read;
use crate::sys::shell;

/// What a file is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// ELF or Mach-O.
    Native,
    /// Begins with `#!`.
    Script,
    /// Anything else.
    Other,
}

/// Why a provider's binary cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryError {
    /// The registry names none.
    #[error("the registry names no binary for {0}")]
    Unnamed(ProviderKind, Option<Utf8PathBuf>),
    /// There is no such file.
    #[error("the {0} binary `{1}` does not exist")]
    Missing(ProviderKind, Utf8PathBuf, Option<Utf8PathBuf>),
    /// A file, but not one that can be run.
    #[error("the {provider} binary `{path}` {problem}")]
    Unusable {
        /// Whose.
        provider: ProviderKind,
        /// Which.
        path: Utf8PathBuf,
        /// What is wrong with it.
        problem: String,
        /// A better one, where one was found.
        better: Option<Utf8PathBuf>,
    },
}

impl Refusal for BinaryError {
    fn code(&self) -> Code {
        code::PROVIDER_MISSING
    }
    fn hint(&self) -> Option<String> {
        let (provider, better) = match self {
            Self::Unnamed(provider, better)
            | Self::Missing(provider, _, better)
            | Self::Unusable {
                provider, better, ..
            } => (*provider, better),
        };
        Some(match better {
            Some(path) => format!(
                "agent-fleet config set providers.{provider}.binary {}",
                shell::quote(path.as_str())
            ),
            None => find::install_command(provider).to_owned(),
        })
    }
}

/// The native binary to launch, every link resolved where the policy follows them.
///
/// Fails with `provider_missing`. The scripted provider's binary is this program itself.
pub fn resolve(context: &Context, settings: &ProviderSettings) -> Result<Utf8PathBuf> {
    let provider = settings.kind;
    if provider == ProviderKind::Scripted {
        return Ok(own(context)?);
    }
    let better = || find::installed(context, provider);
    let Some(path) = &settings.binary else {
        return Err(BinaryError::Unnamed(provider, better()).into());
    };
    let unusable = |problem: String, better| BinaryError::Unusable {
        provider,
        path: path.clone(),
        problem,
        better,
    };
    let real = match path.canonicalize_utf8() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BinaryError::Missing(provider, path.clone(), better()).into());
        }
        Err(error) => return Err(unusable(format!("cannot be found: {error}"), better()).into()),
    };
    if settings.binary_policy == BinaryPolicy::Pin && real != *path {
        let problem =
            format!("is a link to `{real}`, but `binary_policy = \"pin\"` names one file for good");
        let native = find::native(&real, provider).or_else(better);
        return Err(unusable(problem, native).into());
    }
    match check(&real) {
        Ok(()) => Ok(real),
        Err(problem) => {
            let better = find::behind(&real, provider).or_else(better);
            Err(unusable(problem, better).into())
        }
    }
}

fn own(context: &Context) -> Result<Utf8PathBuf, BinaryError> {
    let path = context.executable.as_deref().and_then(Utf8Path::from_path);
    path.map(Utf8Path::to_owned)
        .ok_or(BinaryError::Unnamed(ProviderKind::Scripted, None))
}

/// Whether a file can be launched as it is, or what is wrong with it.
pub fn check(path: &Utf8Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err("is not a file".to_owned()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    }
    if access(path.as_std_path(), Access::EXEC_OK).is_err() {
        return Err("is not executable".to_owned());
    }
    match form(path) {
        Ok(Form::Native) => Ok(()),
        Ok(Form::Script) => Err("is a script that starts the real program".to_owned()),
        Ok(Form::Other) => Err("is not a native executable".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// What a file is, by its first four bytes.
fn form(path: &Utf8Path) -> io::Result<Form> {
    let mut magic = Vec::new();
    read::open(path)?.take(4).read_to_end(&mut magic)?;
    Ok(match magic.as_slice() {
        [0x7f, b'E', b'L', b'F']
        | [0xfe, 0xed, 0xfa, 0xce | 0xcf]
        | [0xce | 0xcf, 0xfa, 0xed, 0xfe]
        | [0xca, 0xfe, 0xba, 0xbe] => Form::Native,
        [b'#', b'!', ..] => Form::Script,
        _ => Form::Other,
    })
}

#[cfg(test)]
mod tests;
