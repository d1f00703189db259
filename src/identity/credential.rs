//! Looking at a credential file without disturbing its owner.
//!
//! The file is only ever opened for reading. While its stat tuple is the one that was digested, it is not
//! opened at all. A tuple that was younger than two seconds when it was digested proves nothing: a second
//! write may have left the same times and size. Codex rewrites its file in place, so an empty or torn file
//! is read again three times over 50 ms before it means anything.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use camino::Utf8Path;
use jiff::SignedDuration;

use crate::clock::Clock;
use crate::env::Context;
use crate::id::ProviderKind;
use crate::provider::answer::digest;
use crate::provider::{self, Login, LoginKind, conveyance};
use crate::registry::schema::{Credential, Profile};
use crate::secret::Secret;
use crate::secret::kept::{self, Kept, Unread};
use crate::snapshot::profile::Proof;
use crate::store::read;
use crate::sys::filesystem::Identity;

/// How young a tuple may be when digested, in nanoseconds, before it is digested again.
const RACILY_CLEAN: i128 = 2_000_000_000;
/// How often a file that means nothing is read again, and how long apart.
pub(super) const RETRIES: u32 = 3;
pub(super) const PAUSE: Duration = Duration::from_millis(16);
/// How long a long-lived token of Claude lasts, by its documentation. Nobody says when it was made, so it is counted
/// from when it was given to us: it ends no later.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Largest credential file, in bytes; real ones have a few thousand.
const LIMIT: u64 = 1 << 20;

/// What a look at the credential file showed.
#[derive(Clone, Debug)]
pub enum Seen {
    /// There is none.
    Missing,
    /// It is a symbolic link, has a second name, or is no regular file: another home may share it.
    Linked,
    /// It is there but cannot be read.
    Unreadable,
    /// It is not in the provider's format, and stayed so.
    Unparsable,
    /// Its stat tuple is the one that the proof was made with.
    Unchanged,
    /// It was read.
    Read(Box<Look>),
}

/// A credential file that was read.
#[derive(Clone, Debug)]
pub struct Look {
    /// What it says.
    pub login: Login,
    /// Its text, for the hints in it.
    pub text: Secret,
    /// Its stat tuple while it was read.
    pub file: Identity,
    /// Wall time of the reading, in nanoseconds.
    pub at: i128,
}

/// True when an unchanged tuple means unchanged bytes.
pub fn is_settled(file: &Identity, digested_at: i128) -> bool {
    digested_at - file.modified.max(file.changed) >= RACILY_CLEAN
}

/// Looks at the credential of a profile, wherever it is kept; `known` is the proof whose tuple saves the reading.
pub fn of(context: &Context, profile: &Profile, known: Option<&Proof>) -> Seen {
    if !conveyance::is_ours(profile) {
        return look(profile.provider, &profile.home, known, context.clock);
    }
    let path = conveyance::file(context, profile);
    let parse = |bytes: &[u8]| match kept::parse(bytes) {
        Ok(kept) => Ok(Some(stored(profile.credential, kept))),
        Err(Unread::Format) => Ok(None),
        Err(Unread::Keychain) => Err(io::ErrorKind::NotFound.into()),
    };
    look_at(&path, &parse, known, context.clock)
}

/// A secret that we keep, as a login that nothing renews.
pub fn stored(credential: Credential, kept: Kept) -> Login {
    let (kind, ends) = match credential {
        Credential::Home | Credential::SetupToken => (
            LoginKind::Subscription,
            kept.since.checked_add(TOKEN_LIFE).ok(),
        ),
        Credential::ApiKey => (LoginKind::ApiKey, None),
    };
    Login {
        kind,
        digest: digest(&[Some(credential.word()), Some(kept.secret.expose())]),
        access_token: Some(kept.secret),
        account_id: None,
        access_expires_at: ends,
        refreshable: false,
        renewed_from: None,
        login_expires_at: ends,
    }
}

/// Looks at the credential file of a home; `known` is the proof whose tuple saves the reading.
pub fn look(kind: ProviderKind, home: &Utf8Path, known: Option<&Proof>, clock: Clock) -> Seen {
    let provider = provider::of(kind);
    let parse = |bytes: &[u8]| Ok(provider.parse_login(bytes).ok());
    look_at(&home.join(provider.credential_file()), &parse, known, clock)
}

type Parse<'a> = &'a dyn Fn(&[u8]) -> io::Result<Option<Login>>;

fn look_at(path: &Utf8Path, parse: Parse<'_>, known: Option<&Proof>, clock: Clock) -> Seen {
    let mut worst = Seen::Unparsable;
    for attempt in 0..=RETRIES {
        if attempt > 0 {
            clock.pause(PAUSE);
        }
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Seen::Missing,
            Err(_) => return Seen::Unreadable,
        };
        if !metadata.is_file() || metadata.nlink() > 1 {
            return Seen::Linked;
        }
        if let Some(proof) = known
            && proof.file == Some(Identity::from(&metadata))
            && is_settled(&Identity::from(&metadata), proof.digested_at)
        {
            return Seen::Unchanged;
        }
        match read(path, parse, &metadata, clock) {
            Ok(Some(look)) => return Seen::Read(Box::new(look)),
            Ok(None) => worst = Seen::Unparsable,
            Err(_) => worst = Seen::Unreadable,
        }
    }
    worst
}

/// Reads the file once; `None` when it means nothing or was written meanwhile.
fn read(
    path: &Utf8Path,
    parse: Parse<'_>,
    expected: &Metadata,
    clock: Clock,
) -> io::Result<Option<Look>> {
    let at = clock.now().as_nanosecond();
    let file = read::open(path)?;
    let bytes = read::to_end(&file, LIMIT)?;
    let after = Identity::from(&file.metadata()?);
    if after != Identity::from(expected) {
        return Ok(None);
    }
    let Some(login) = parse(&bytes)? else {
        return Ok(None);
    };
    Ok(Some(Look {
        login,
        text: Secret::new(String::from_utf8_lossy(&bytes)),
        file: after,
        at,
    }))
}

#[cfg(test)]
mod tests {
    use super::{Seen, is_settled, look};
    use crate::clock::Clock;
    use crate::id::ProviderKind::Claude;
    use crate::identity::fingerprint::{Account, Key};
    use crate::snapshot::profile::{Binding, Proof};
    use crate::snapshot::provider::tests::World;
    use crate::sys::filesystem::Identity;
    use camino::{Utf8Path, Utf8PathBuf};

    const LOGIN: &str = include_str!("../../fixtures/provider/claude/credentials.json");

    fn home(world: &World) -> Utf8PathBuf {
        Utf8Path::from_path(world.directory.path())
            .unwrap()
            .join("home")
    }

    fn proof(file: Identity, digested_at: i128) -> Proof {
        Proof {
            fingerprint: Key::new([1; 32]).fingerprint(Claude, &Account::default()),
            source: "oauth-profile".to_owned(),
            at: Clock::real().now(),
            binding: Binding::NoCredential,
            file: Some(file),
            digested_at,
        }
    }

    #[test]
    fn an_unchanged_tuple_is_not_read_unless_it_was_too_young() {
        let world = World::new();
        let path = home(&world).join(".credentials.json");
        world.write(&path, LOGIN);
        let Seen::Read(first) = look(Claude, &home(&world), None, Clock::real()) else {
            panic!("not read");
        };
        let young = proof(first.file, first.at);
        let seen = look(Claude, &home(&world), Some(&young), Clock::real());
        assert!(
            matches!(seen, Seen::Read(_)),
            "a second write may hide in the same tick"
        );
        let later = proof(first.file, first.at + 2_000_000_000);
        let seen = look(Claude, &home(&world), Some(&later), Clock::real());
        assert!(matches!(seen, Seen::Unchanged));
        assert!(
            !is_settled(&first.file, first.file.modified - 5),
            "the clock went back"
        );
    }

    #[test]
    fn links_torn_files_and_missing_ones_are_told_apart() {
        let world = World::new();
        let path = home(&world).join(".credentials.json");
        let seen = || look(Claude, &home(&world), None, Clock::real());
        assert!(matches!(seen(), Seen::Missing));
        world.write(&path, "");
        assert!(matches!(seen(), Seen::Unparsable));
        world.write(&path, &LOGIN[..40]);
        assert!(matches!(seen(), Seen::Unparsable));
        world.write(&path, LOGIN);
        let other = home(&world).join("other");
        std::fs::hard_link(&path, &other).unwrap();
        assert!(
            matches!(seen(), Seen::Linked),
            "a hard link is a shared login"
        );
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(
            matches!(seen(), Seen::Linked),
            "a symlink is a shared login"
        );
    }

    #[test]
    fn a_file_that_is_whole_again_within_the_patience_is_read() {
        let world = World::new();
        let path = home(&world).join(".credentials.json");
        world.write(&path, "");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Clock::real().pause(std::time::Duration::from_millis(5));
                world.write(&path, LOGIN);
            });
            let seen = look(Claude, &home(&world), None, Clock::real());
            assert!(matches!(seen, Seen::Read(_)), "{seen:?}");
        });
    }
}
