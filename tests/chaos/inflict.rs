//! What is done to files and disks from outside.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::{Mode, try_flock};

use crate::truth::Dice;

/// Whoever harms files.
#[derive(Debug)]
pub(crate) struct Vandal {
    state: PathBuf,
}

impl Vandal {
    pub(crate) fn new(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
        }
    }

    /// Leaves no room for anybody for a while.
    pub(crate) fn fill_the_disk(&self, span: Duration) {
        let path = self.state.join("filler");
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&path) {
            // Down to the last byte.
            for size in [1 << 20, 4096, 64, 1] {
                let block = vec![0; size];
                while file.write_all(&block).is_ok() {}
            }
        }
        Clock::real().pause(span);
        drop(std::fs::remove_file(path));
    }

    /// Damages something, as a disk may: while nobody is half way through changing it. False when it came to nothing.
    pub(crate) fn harm(&self, dice: &mut Dice) -> bool {
        match dice.below(6) {
            0 | 1 => self.harm_table(dice),
            2 => self.garble("snapshot/scripted", dice),
            3 => self.garble("snapshot/registry", dice),
            4 => self.cut_one_of("sessions", dice),
            _ => self.append_to_evidence(dice),
        }
    }

    /// One record of the lease table is damaged, or the table is cut.
    fn harm_table(&self, dice: &mut Dice) -> bool {
        let Ok(lock) = File::open(self.state.join("locks/leases.lock")) else {
            return false;
        };
        let deadline = Clock::real().deadline(Duration::from_secs(2));
        while !try_flock(&lock, Mode::Exclusive).unwrap_or(false) {
            if !deadline.pause(Duration::from_micros(200)) {
                return false;
            }
        }
        let table = OpenOptions::new()
            .write(true)
            .read(true)
            .open(self.state.join("leases/table"));
        let Ok(table) = table else { return false };
        let length = table.metadata().map_or(0, |file| file.len());
        if length == 0 {
            return false;
        }
        if dice.one_in(4) {
            return table.set_len(dice.below(length)).is_ok();
        }
        let at = dice.below(length);
        let mut byte = [0];
        drop(table.read_at(&mut byte, at));
        byte[0] ^= 1 << dice.below(8);
        table.write_at(&byte, at).is_ok()
    }

    /// Cuts a file or changes a byte of it.
    fn garble(&self, name: &str, dice: &mut Dice) -> bool {
        if dice.one_in(2) {
            return self.cut(name, dice);
        }
        self.change(name, |bytes| {
            let at = dice.pick(bytes.len());
            bytes[at] ^= 0x55;
        })
    }

    fn cut(&self, name: &str, dice: &mut Dice) -> bool {
        self.change(name, |bytes| bytes.truncate(dice.pick(bytes.len())))
    }

    /// Replaces a file whole, since those who write it do so too.
    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let path = self.state.join(name);
        let Ok(mut bytes) = std::fs::read(&path) else {
            return false;
        };
        if bytes.is_empty() {
            return false;
        }
        change(&mut bytes);
        let new = self.state.join("garbled");
        let file = File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&new);
        let written = file.and_then(|mut file| file.write_all(&bytes));
        #[expect(clippy::disallowed_methods, reason = "this is the damage")]
        let renamed = written.and_then(|()| std::fs::rename(&new, &path));
        renamed.is_ok()
    }

    /// Cuts a file that has no checksum: a changed letter of it would be another word.
    fn cut_one_of(&self, folder: &str, dice: &mut Dice) -> bool {
        let entries = std::fs::read_dir(self.state.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        if names.is_empty() {
            return false;
        }
        let name = &names[dice.pick(names.len())];
        self.cut(&format!("{folder}/{name}"), dice)
    }

    fn append_to_evidence(&self, dice: &mut Dice) -> bool {
        let path = self.state.join("evidence/scripted.jsonl");
        let file = OpenOptions::new().append(true).open(path);
        let torn = [
            "{\"event\":\"Stop",
            "\u{0}\u{0}\u{0}\n",
            "[]\n",
            "{\"schema\":99}\n",
            "\n\n{",
        ];
        file.and_then(|mut file| file.write_all(torn[dice.pick(torn.len())].as_bytes()))
            .is_ok()
    }
}
