//! Where the socket of a screen is: in a directory that nobody but this user may enter.
//!
//! The person's runtime directory is the place, and the system's directory for temporary files where there is none or
//! its name is too long for a socket. Which one it was is written down beside the launch, so that a viewer with other
//! variables finds it. What is there already and is not ours, or open to others, is refused and left alone.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::store::owner;
use crate::sys::socket::LONGEST_PATH;
use crate::sys::user;

/// What the directory is, for people.
const WHAT: &str = "the directory of screens,";

/// `screen.json`: where the screen of a launch can be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRecord {
    /// Format.
    pub schema: u32,
    /// The launch's.
    pub token: String,
    /// The socket.
    pub socket: Utf8PathBuf,
}

/// The path of a launch's socket, in a directory that was made and checked.
///
/// Refused with `exposed` when the directory is not ours alone.
pub fn prepare(context: &Context, token: &str) -> Result<Utf8PathBuf> {
    let name = format!("{}.sock", token.get(..16).unwrap_or(token));
    let mut refused = None;
    for directory in directories(context) {
        let path = directory.join(&name);
        if path.as_str().len() > LONGEST_PATH {
            continue;
        }
        match make(&directory) {
            Ok(()) => return Ok(path),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let message = "no directory is known whose name is short enough for a socket";
        Error::new(code::IO, message).hint("export XDG_RUNTIME_DIR=/run/user/$(id -u)")
    }))
}

/// Refuses a socket in a directory that is not ours alone.
pub fn check(socket: &Utf8Path) -> Result<()> {
    match socket.parent() {
        Some(directory) => owner::check_private(WHAT, directory),
        None => Err(Error::internal("a socket was named without a directory")),
    }
}

/// Where it may be, the best first.
fn directories(context: &Context) -> Vec<Utf8PathBuf> {
    let named = |name: &str| {
        let path = context.variables.text(name).map(Utf8PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let own = format!("agent-fleet-{}", user::number());
    let runtime = named("XDG_RUNTIME_DIR").map(|path| path.join("agent-fleet"));
    let temporary = named("TMPDIR").map(|path| path.join(&own));
    let last = Utf8PathBuf::from("/tmp").join(&own);
    runtime.into_iter().chain(temporary).chain([last]).collect()
}

/// Makes a directory, not those above it, and refuses one that is not ours alone.
fn make(directory: &Utf8Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::io("create the directory", directory, &error))
        }
        Ok(()) | Err(_) => owner::check_private(WHAT, directory),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_PATH, check, prepare};
    use crate::env::{Context, Variables, World};
    use crate::error::code;
    use camino::{Utf8Path, Utf8PathBuf};
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn context(runtime: &Utf8Path, temporary: &Utf8Path) -> Context {
        let pairs = [
            ("HOME", "/home/person"),
            ("XDG_RUNTIME_DIR", runtime.as_str()),
            ("TMPDIR", temporary.as_str()),
        ];
        let world = World {
            arguments: Vec::new(),
            variables: pairs.into_iter().collect::<Variables>(),
            directory: None,
            executable: None,
        };
        Context::resolve(&world, None).unwrap()
    }

    fn root() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path()).unwrap().to_owned();
        (directory, path)
    }

    #[test]
    fn the_directory_is_made_for_this_user_alone() {
        let (_kept, root) = root();
        let path = prepare(&context(&root, &root), TOKEN).unwrap();
        assert_eq!(path, root.join("agent-fleet/0123456789abcdef.sock"));
        let made = root.join("agent-fleet").metadata().unwrap();
        assert_eq!(made.mode() & 0o7777, 0o700);
        check(&path).unwrap();
        assert_eq!(prepare(&context(&root, &root), TOKEN).unwrap(), path);
    }

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused_and_left_alone() {
        let (_kept, root) = root();
        let place = root.join("agent-fleet");
        let other = root.join("other");
        create_dir(&other).unwrap();
        let refused = || {
            let found = super::make(&place).unwrap_err();
            assert_eq!(check(&place.join("x.sock")).unwrap_err().code, found.code);
            found.code
        };
        create_dir(root.join("elsewhere")).unwrap();
        symlink(root.join("elsewhere"), &place).unwrap();
        assert_eq!(refused(), code::EXPOSED);
        // There is another place, and it is taken.
        let path = prepare(&context(&root, &other), TOKEN).unwrap();
        assert!(path.starts_with(&other), "{path}");
        std::fs::remove_file(&place).unwrap();
        create_dir(&place).unwrap();
        set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(refused(), code::EXPOSED);
        assert_eq!(place.metadata().unwrap().mode() & 0o7777, 0o755);
        if rustix::process::geteuid().is_root() {
            set_permissions(&place, Permissions::from_mode(0o700)).unwrap();
            chown(&place, Some(4_242), None).unwrap();
            assert_eq!(refused(), code::EXPOSED);
        }
    }

    #[test]
    fn a_name_that_is_too_long_for_a_socket_is_passed_over() {
        let (_kept, root) = root();
        let long = root.join("x".repeat(LONGEST_PATH));
        create_dir(&long).unwrap();
        let path = prepare(&context(&long, &root), TOKEN).unwrap();
        assert!(
            path.starts_with(&root) && path.as_str().len() <= LONGEST_PATH,
            "{path}"
        );
    }
}
