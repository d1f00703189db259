//! Files of fixed-size blocks that are rewritten in place.
//!
//! Nothing is synced: after a power cut any block may be old, new or torn. A process that is killed leaves
//! each block old or new. A reader without the writers' lock may see a torn block, so blocks carry checksums.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::owner;
use super::read::LIMIT;

/// An open file of blocks.
#[derive(Debug)]
pub struct Blocks<const SIZE: usize> {
    file: File,
}

impl<const SIZE: usize> Blocks<SIZE> {
    /// Opens an existing file to read and write it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = owner::open(OpenOptions::new().read(true).write(true), path)?;
        Ok(Self { file })
    }

    /// Opens an existing file to read it.
    pub fn open_read_only(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = super::read::open(path)?;
        Ok(Self { file })
    }

    /// All whole blocks; fewer when the file is cut meanwhile. A file above [`LIMIT`] is not read.
    pub fn read(&self) -> io::Result<Vec<[u8; SIZE]>> {
        let length = self.file.metadata()?.len();
        if length > LIMIT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = usize::try_from(length).unwrap_or(0) / SIZE;
        let mut blocks = vec![[0; SIZE]; count];
        let bytes = blocks.as_flattened_mut();
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        blocks.truncate(filled / SIZE);
        Ok(blocks)
    }

    /// Writes one block with one call.
    pub fn write(&self, at: usize, block: &[u8; SIZE]) -> io::Result<()> {
        self.file.write_all_at(block, (at * SIZE) as u64)
    }

    /// Cuts the file so that this many blocks are left.
    pub fn cut(&self, count: usize) -> io::Result<()> {
        self.file.set_len((count * SIZE) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn blocks_are_rewritten_in_place_and_a_torn_tail_is_no_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        super::super::replace::create(&path, b"aabbc").unwrap();
        let blocks = Blocks::<2>::open(&path).unwrap();
        blocks.write(1, b"xx").unwrap();
        assert_eq!(blocks.read().unwrap(), [*b"aa", *b"xx"]);
        blocks.write(2, b"yy").unwrap();
        assert_eq!(blocks.read().unwrap(), [*b"aa", *b"xx", *b"yy"]);
        blocks.cut(1).unwrap();
        assert_eq!(blocks.read().unwrap(), [*b"aa"]);
    }
}
