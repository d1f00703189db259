//! A lease store in a directory of its own, and its files for tests that damage them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use agent_fleet::env::Faults;
use agent_fleet::id::Task;
use agent_fleet::lease::TableStore;

use super::leases::store;

/// A store of its own, and its files.
#[derive(Debug)]
pub(crate) struct World {
    /// Where it keeps its state.
    pub directory: tempfile::TempDir,
    /// The store.
    pub store: TableStore,
}

/// An empty one.
pub(crate) fn world() -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(
        directory.path().to_str().expect("an UTF-8 path"),
        Faults::default(),
    );
    World { directory, store }
}

impl World {
    /// The table.
    pub(crate) fn table(&self) -> PathBuf {
        self.directory.path().join("leases/table")
    }

    /// Names of the store's files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path().join("leases"))
            .expect("a directory")
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The table, to be changed.
    pub(crate) fn open_table(&self) -> File {
        let table = File::options().read(true).write(true).open(self.table());
        table.expect("a table")
    }

    /// Changes the header and seals it again.
    pub(crate) fn rewrite_header(&self, change: impl FnOnce(&mut [u8])) {
        let file = self.open_table();
        let mut header = [0; 256];
        file.read_exact_at(&mut header, 0).expect("a header");
        change(&mut header);
        let sum = crc32fast::hash(&header[..252]);
        header[252..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&header, 0).expect("room for it");
    }

    /// Flips bits of a byte of the table; records of 256 bytes follow a header of 256.
    pub(crate) fn damage(&self, place: u64) {
        let file = self.open_table();
        let mut was = [0];
        file.read_exact_at(&mut was, place).expect("a byte there");
        file.write_all_at(&[was[0] ^ 0x5a], place)
            .expect("room for it");
    }
}

/// A task of this name.
pub(crate) fn task(name: &str) -> Task {
    name.parse().expect("a task")
}
