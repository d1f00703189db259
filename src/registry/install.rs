//! The install: what ties one registry to one state root, and the key of its fingerprints.
//!
//! `state/install.json` holds an id and 32 random bytes. A registry that carries an `install_id` works only
//! with the state root of that id: two state roots for one registry would grant every slot twice. A
//! registry without one is tied to nothing. The file is written once and never replaced; its key never
//! leaves the state root.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::schema::Registry;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::hex;
use crate::identity::fingerprint::Key;
use crate::store::{directory, read, replace};
use crate::sys::shell;

/// Version of `install.json` that this program reads and writes.
pub const VERSION: u32 = 1;

/// What a person types once it is sure that the other state root is not in use.
const ADOPT: &str = "agent-fleet config set install_id adopt";

#[derive(Serialize, Deserialize)]
struct Install {
    version: u32,
    #[serde(rename = "install_id")]
    id: String,
    key: String,
}

/// Where the install of a state root is written down.
pub fn path(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("install.json")
}

/// The key of this install's fingerprints; made on first use.
///
/// Fails with `record_damaged` or `newer_format` when the file cannot be read; it is never replaced, since
/// a new key would orphan every fingerprint.
pub fn key(context: &Context) -> Result<Key> {
    let install = match load(context)? {
        Some(install) => install,
        None => establish(context)?,
    };
    match unhex(&install.key) {
        Some(bytes) => Ok(Key::new(bytes)),
        None => Err(damaged(context)),
    }
}

/// The id of the state root's install, if it has one.
pub fn id(context: &Context) -> Result<Option<String>> {
    Ok(load(context)?.map(|install| install.id))
}

/// Makes the state root's install if there is none, and returns its id.
pub fn ensure(context: &Context) -> Result<String> {
    match load(context)? {
        Some(install) => Ok(install.id),
        None => Ok(establish(context)?.id),
    }
}

/// Refuses a registry that belongs to another state root.
pub fn check(context: &Context, registry: &Registry) -> Result<()> {
    let Some(wanted) = &registry.install_id else {
        return Ok(());
    };
    let found = id(context)?;
    if found.as_deref() == Some(wanted) {
        return Ok(());
    }
    let (config, state) = (&context.roots.config, path(context));
    let message = match &found {
        Some(other) => format!(
            "the registry `{config}` belongs to install {wanted}, but the state root's `{state}` to install {other}"
        ),
        None => format!(
            "the registry `{config}` belongs to install {wanted}, but its state root has no `{state}`"
        ),
    };
    Err(Error::new(code::INSTALL_MISMATCH, message)
        .hint(ADOPT)
        .detail("registry", config.as_str())
        .detail("state", state.as_str())
        .detail("registry_install_id", wanted.as_str())
        .detail("state_install_id", found))
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn load(context: &Context) -> Result<Option<Install>> {
    let path = path(context);
    let Some(bytes) = read::optional(&path)? else {
        return Ok(None);
    };
    match serde_json::from_slice::<Version>(&bytes) {
        Ok(Version { version }) if version > VERSION => Err(Error::new(
            code::NEWER_FORMAT,
            format!("`{path}` has version {version} and was made by a newer agent-fleet"),
        )
        .hint("agent-fleet version")),
        Ok(_) => match serde_json::from_slice::<Install>(&bytes) {
            Ok(install) if unhex(&install.key).is_some() => Ok(Some(install)),
            _ => Err(damaged(context)),
        },
        Err(_) => Err(damaged(context)),
    }
}

fn damaged(context: &Context) -> Error {
    let path = path(context);
    Error::new(
        code::RECORD_DAMAGED,
        format!("`{path}` cannot be read as an install and is left alone"),
    )
    .hint(format!("ls -l {}", shell::quote(path.as_str())))
    .detail("path", path.as_str())
}

/// Writes a new install unless another process was first, and returns the one in force.
fn establish(context: &Context) -> Result<Install> {
    // 488 bits straight from the operating system, folded into 256.
    let key = (0..4).fold(Sha256::new(), |digest, _| {
        digest.chain_update(Uuid::new_v4().as_bytes())
    });
    let install = Install {
        version: VERSION,
        id: Uuid::new_v4().to_string(),
        key: hex(&key.finalize()),
    };
    directory::establish(&context.roots.state)?;
    let text = serde_json::to_string(&install)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    replace::establish(path(context), text.as_bytes())?;
    load(context)?.ok_or_else(|| damaged(context))
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0_u8; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{check, ensure, key, path};
    use crate::env::{Context, Variables, World};
    use crate::error::code;
    use crate::id::ProviderKind;
    use crate::identity::fingerprint::Account;
    use crate::registry::schema::Registry;

    fn context(directory: &tempfile::TempDir) -> Context {
        let home = directory.path().to_str().unwrap();
        let world = World {
            arguments: Vec::new(),
            variables: [("HOME", home)].into_iter().collect::<Variables>(),
            directory: None,
            executable: None,
        };
        Context::resolve(&world, None).unwrap()
    }

    #[test]
    fn the_key_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(&directory);
        let account = Account {
            user: Some("u".to_owned()),
            ..Account::default()
        };
        let print = || {
            key(&context)
                .unwrap()
                .fingerprint(ProviderKind::Codex, &account)
        };
        let first = print();
        assert_eq!(first, print());
        let bytes = std::fs::read(path(&context)).unwrap();
        ensure(&context).unwrap();
        assert_eq!(bytes, std::fs::read(path(&context)).unwrap());
    }

    #[test]
    fn a_registry_of_another_install_is_refused_naming_both_files() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(&directory);
        let mut registry = Registry::default();
        check(&context, &registry).unwrap();
        registry.install_id = Some("elsewhere".to_owned());
        for state in ["none yet", "another"] {
            let error = check(&context, &registry).unwrap_err();
            assert_eq!(error.code, code::INSTALL_MISMATCH, "{state}");
            assert!(error.message.contains(context.roots.config.as_str()));
            assert!(error.message.contains(path(&context).as_str()));
            ensure(&context).unwrap();
        }
        registry.install_id = Some(ensure(&context).unwrap());
        check(&context, &registry).unwrap();
    }

    #[test]
    fn a_damaged_or_newer_install_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(&directory);
        ensure(&context).unwrap();
        for (text, expected) in [
            ("", code::RECORD_DAMAGED),
            (
                "{\"version\":1,\"install_id\":\"x\",\"key\":\"zz\"}",
                code::RECORD_DAMAGED,
            ),
            ("{\"version\":2}", code::NEWER_FORMAT),
        ] {
            let file = path(&context);
            std::fs::remove_file(&file).unwrap();
            crate::store::replace::create(&file, text.as_bytes()).unwrap();
            assert_eq!(key(&context).unwrap_err().code, expected, "{text}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
}
