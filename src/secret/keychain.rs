//! The login keychain of macOS. Written from documentation; it has never run.

use apple_native_keyring_store::keychain::Store;
use keyring_core::Entry;
use keyring_core::api::CredentialStoreApi as _;

use super::Secret;
use crate::error::{Error, Result, code};

/// The service of our items, as Keychain Access shows it.
const SERVICE: &str = "agent-fleet";

fn entry(item: &str) -> keyring_core::Result<Entry> {
    Store::new()?.build(SERVICE, item, None)
}

/// Puts a secret into an item of its own.
pub(super) fn put(item: &str, secret: &Secret) -> Result<()> {
    entry(item)
        .and_then(|entry| entry.set_password(secret.expose()))
        .map_err(|_| {
            // The cause may quote what was to be kept.
            let message = "the login keychain does not take the secret";
            Error::new(code::IO, message).hint("security show-keychain-info")
        })
}

/// The secret of an item, if the keychain gives it out.
pub(super) fn get(item: &str) -> Option<Secret> {
    let password = entry(item).ok()?.get_password().ok()?;
    Some(Secret::new(password))
}

/// Removes an item. One that cannot be removed is named by no file any more.
pub(super) fn forget(item: &str) {
    if let Ok(entry) = entry(item) {
        drop(entry.delete_credential());
    }
}
