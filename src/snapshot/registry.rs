//! The compiled registry: what routine commands read instead of TOML.
//!
//! One sealed line of JSON in `state/snapshot/registry`, keyed by the registry file's identity, the digest
//! of its text, the roots and the program's version. It is only ever a copy: damaged, foreign, missing or
//! unwritable, the registry file itself is read. A file that changed within [`RACY`] before it was compiled
//! may have changed again within one tick of its time stamps, so its text is compared as well.

use std::time::Duration;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::env::Context;
use crate::error::Result;
use crate::id::hex;
use crate::registry::schema::Registry;
use crate::registry::{file, install};
use crate::store::replace::Durability;
use crate::store::{directory, read, replace, seal};
use crate::sys::filesystem::Identity;

/// Youngest age at which a file's time stamps are believed to tell two versions apart.
pub const RACY: Duration = Duration::from_secs(2);

/// Raised when the meaning of a compiled registry changes.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Compiled<R> {
    format: u32,
    program: String,
    config: Utf8PathBuf,
    home: Utf8PathBuf,
    state: Utf8PathBuf,
    share: Utf8PathBuf,
    identity: Identity,
    settled: bool,
    digest: String,
    registry: R,
}

/// The registry in force.
///
/// Fails with `config_missing`, `config_invalid`, `newer_format`, `install_mismatch`, or an io code for a
/// registry that cannot be read.
pub fn load(context: &Context) -> Result<Registry> {
    let identity = file::identity(&context.roots)?;
    let compiled = match read_compiled(context) {
        Some(compiled) if compiled.settled && compiled.identity == identity => {
            return Ok(compiled.registry);
        }
        other => other,
    };
    let source = file::read(context)?;
    let digest = hex(&Sha256::digest(&source.text));
    let registry = match compiled {
        Some(compiled) if compiled.digest == digest => {
            if compiled.identity == source.identity && !settled(context, &source.identity) {
                return Ok(compiled.registry);
            }
            compiled.registry
        }
        _ => {
            let registry = file::parse(context, &source.text)?.registry;
            install::check(context, &registry)?;
            registry
        }
    };
    save(context, &registry, source.identity, digest);
    Ok(registry)
}

/// Where the compiled registry is.
pub fn path(context: &Context) -> Utf8PathBuf {
    context.roots.state.join("snapshot/registry")
}

fn read_compiled(context: &Context) -> Option<Compiled<Registry>> {
    let bytes = read::optional(path(context)).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?;
    let compiled: Compiled<Registry> = serde_json::from_str(seal::open(text)?).ok()?;
    let roots = &context.roots;
    let ours = compiled.format == FORMAT
        && compiled.program == env!("CARGO_PKG_VERSION")
        && compiled.config == roots.config
        && compiled.home == roots.home
        && compiled.state == roots.state
        && compiled.share == roots.share;
    ours.then_some(compiled)
}

/// Whether the file's last change lies far enough back to be told apart from a later one.
fn settled(context: &Context, identity: &Identity) -> bool {
    let margin = i128::try_from(RACY.as_nanos()).unwrap_or(i128::MAX);
    identity.modified.max(identity.changed) + margin < context.clock.now().as_nanosecond()
}

/// Keeps the compiled registry for the next command. A state root that cannot be written costs only speed.
fn save(context: &Context, registry: &Registry, identity: Identity, digest: String) {
    let roots = &context.roots;
    let compiled = Compiled {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        config: roots.config.clone(),
        home: roots.home.clone(),
        state: roots.state.clone(),
        share: roots.share.clone(),
        settled: settled(context, &identity),
        identity,
        digest,
        registry,
    };
    let target = path(context);
    let Some(parent) = target.parent() else {
        return;
    };
    if let Ok(text) = serde_json::to_string(&compiled)
        && directory::ensure(parent).is_ok()
    {
        let line = seal::line(&text);
        drop(replace::replace(
            &target,
            line.as_bytes(),
            Durability::Volatile,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::{load, path};
    use crate::env::{Context, Variables, World};
    use crate::error::code;
    use crate::store::directory;
    use crate::store::replace::{Durability, replace};

    struct Ground {
        _directory: tempfile::TempDir,
        context: Context,
    }

    fn ground(ahead: &str) -> Ground {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let world = World {
            arguments: Vec::new(),
            variables: [("HOME", home.to_str().unwrap())]
                .into_iter()
                .collect::<Variables>(),
            directory: None,
            executable: None,
        };
        let mut context = Context::resolve(&world, None).unwrap();
        context.clock = crate::clock::Clock::moved(ahead);
        directory::ensure(context.roots.config.parent().unwrap()).unwrap();
        Ground {
            _directory: directory,
            context,
        }
    }

    fn text(profiles: usize) -> String {
        (0..profiles).fold("version = 1\n".to_owned(), |text, number| {
            text + &format!(
                "[profiles.\"codex-{number}\"]\nprovider = \"codex\"\nhome = \"/homes/{number}\"\npools = [\"codex-crew\"]\nenabled = true\n"
            )
        })
    }

    fn save(ground: &Ground, text: &str) {
        replace(
            &ground.context.roots.config,
            text.as_bytes(),
            Durability::Volatile,
        )
        .unwrap();
    }

    #[test]
    fn a_changed_registry_is_seen_and_an_unchanged_one_is_read_from_the_copy() {
        let ground = ground("+10");
        save(&ground, &text(1));
        assert_eq!(load(&ground.context).unwrap().profiles.len(), 1);
        let copy = std::fs::read_to_string(path(&ground.context)).unwrap();
        // A copy that says something else and is sealed proves that it is the copy that is read.
        let sealed = crate::store::seal::open(&copy).unwrap();
        let changed = crate::store::seal::line(&sealed.replace("codex-0", "codex-9"));
        replace(
            path(&ground.context),
            changed.as_bytes(),
            Durability::Volatile,
        )
        .unwrap();
        assert_eq!(
            load(&ground.context).unwrap().profiles[0].id.as_str(),
            "codex-9"
        );
        save(&ground, &text(2));
        let ids: Vec<String> = load(&ground.context)
            .unwrap()
            .profiles
            .iter()
            .map(|profile| profile.id.to_string())
            .collect();
        assert_eq!(ids, ["codex-0", "codex-1"]);
    }

    #[test]
    fn a_change_within_one_tick_of_the_time_stamps_is_seen() {
        let ground = ground("0");
        save(&ground, &text(1));
        load(&ground.context).unwrap();
        let modified = std::fs::metadata(&ground.context.roots.config)
            .unwrap()
            .modified()
            .unwrap();
        // Same inode, same size, same times: only the text differs.
        let other = text(1).replace("codex-0", "codex-5");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(&ground.context.roots.config)
            .unwrap();
        std::io::Write::write_all(&mut file, other.as_bytes()).unwrap();
        file.set_modified(modified).unwrap();
        assert_eq!(
            load(&ground.context).unwrap().profiles[0].id.as_str(),
            "codex-5"
        );
    }

    #[test]
    fn a_damaged_foreign_or_missing_copy_is_rebuilt() {
        let ground = ground("+10");
        save(&ground, &text(1));
        let expected = load(&ground.context).unwrap();
        let good = std::fs::read_to_string(path(&ground.context)).unwrap();
        let foreign = crate::store::seal::open(&good)
            .unwrap()
            .replace("\"format\":1", "\"format\":0");
        for bad in [
            String::new(),
            "x".to_owned(),
            good[..good.len() - 3].to_owned(),
            crate::store::seal::line(&foreign),
        ] {
            replace(path(&ground.context), bad.as_bytes(), Durability::Volatile).unwrap();
            assert_eq!(load(&ground.context).unwrap(), expected);
            assert_eq!(
                std::fs::read_to_string(path(&ground.context)).unwrap(),
                good
            );
        }
        std::fs::remove_dir_all(&ground.context.roots.state).unwrap();
        assert_eq!(load(&ground.context).unwrap(), expected);
    }

    #[test]
    fn a_broken_registry_is_never_answered_from_an_old_copy() {
        let ground = ground("+10");
        assert_eq!(
            load(&ground.context).unwrap_err().code,
            code::CONFIG_MISSING
        );
        save(&ground, &text(1));
        load(&ground.context).unwrap();
        save(
            &ground,
            "version = 1\n[settings]\nstrategy = 1\nunmeasured = 2\n",
        );
        let error = load(&ground.context).unwrap_err();
        assert_eq!(error.code, code::CONFIG_INVALID);
        assert_eq!(error.details["diagnostics"].as_array().unwrap().len(), 2);
        assert!(error.hint.unwrap().starts_with("vi +3 "));
        save(&ground, "version = 7\n");
        assert_eq!(load(&ground.context).unwrap_err().code, code::NEWER_FORMAT);
    }
}
