//! A profile's id as it stands in a record.

use std::fmt;

use crate::id::{ID_LENGTH, ProfileId, is_id};

/// A profile's id as it stands in a record: reading ten thousand of them must not allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    length: u8,
    bytes: [u8; ID_LENGTH],
}

impl Name {
    /// The id as text.
    pub(super) fn as_str(&self) -> &str {
        let bytes = &self.bytes[..usize::from(self.length)];
        std::str::from_utf8(bytes).expect("a name is made from an id or checked to be one")
    }

    /// The id.
    pub(super) fn id(&self) -> ProfileId {
        let id = self.as_str().parse();
        id.expect("a name is made from an id or checked to be one")
    }

    /// Its length in bytes.
    pub(super) fn length(&self) -> u8 {
        self.length
    }

    /// Its bytes, with zeros after them.
    pub(super) fn padded(&self) -> &[u8; ID_LENGTH] {
        &self.bytes
    }

    /// The name that these bytes hold; `None` when they are no id.
    pub(super) fn read(length: u8, bytes: [u8; ID_LENGTH]) -> Option<Self> {
        let name = Self { length, bytes };
        let text = name.bytes.get(..usize::from(name.length))?;
        std::str::from_utf8(text).is_ok_and(is_id).then_some(name)
    }
}

impl From<&ProfileId> for Name {
    fn from(profile: &ProfileId) -> Self {
        let text = profile.as_str().as_bytes();
        let mut bytes = [0; ID_LENGTH];
        bytes[..text.len()].copy_from_slice(text);
        Self {
            length: u8::try_from(text.len()).expect("an id has at most 128 bytes"),
            bytes,
        }
    }
}

impl PartialEq<ProfileId> for Name {
    fn eq(&self, profile: &ProfileId) -> bool {
        self.as_str() == profile.as_str()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
