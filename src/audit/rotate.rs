//! Setting a full file aside.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::env::Context;
use crate::store::lock::{Locks, Mode, Name};
use crate::store::replace;

/// From which size on a file is set aside, in bytes.
const FULL: u64 = 4 * 1024 * 1024;
/// How many such files are kept.
const KEPT: u32 = 4;

/// The file that was set aside `number` rotations ago.
pub(super) fn aside(live: &Utf8Path, number: u32) -> Utf8PathBuf {
    live.with_file_name(format!("audit.{number}.jsonl"))
}

/// All files, oldest first.
pub(super) fn all(live: &Utf8Path) -> Vec<Utf8PathBuf> {
    let old = (1..=KEPT).rev().map(|number| aside(live, number));
    old.chain([live.to_owned()]).collect()
}

/// Sets the file aside when it is full. Whoever has it open still writes to it, under its new name. Nobody waits:
/// when another process is at it, or nothing can be renamed, the file grows until the next event.
pub(super) fn rotate(context: &Context, live: &Utf8Path) {
    let is_full = || fs::metadata(live).is_ok_and(|file| file.size() >= FULL);
    if !is_full() {
        return;
    }
    let locks = Locks::of(context);
    let Ok(Some(_guard)) = locks.try_take(Name::Audit, Mode::Exclusive) else {
        return;
    };
    if !is_full() {
        return;
    }
    for number in (1..KEPT).rev() {
        drop(replace::rename(
            aside(live, number),
            aside(live, number + 1),
        ));
    }
    drop(replace::rename(live, aside(live, 1)));
}

#[cfg(test)]
mod tests {
    use super::super::{Filter, event, read, write};
    use super::{FULL, KEPT, all, aside};
    use crate::snapshot::provider::tests::World;

    #[test]
    fn a_full_file_is_set_aside_and_the_oldest_goes() {
        let world = World::new();
        let context = &world.context;
        std::fs::create_dir_all(&context.roots.state).unwrap();
        let live = super::super::path(context);
        let filler = format!("\n{}\n", "x".repeat(usize::try_from(FULL).unwrap()));
        for round in 1..=KEPT + 2 {
            write(context, &event(context, &format!("round_{round}")));
            world.write(
                &live,
                &format!("{}{filler}", std::fs::read_to_string(&live).unwrap()),
            );
            write(context, &event(context, &format!("full_{round}")));
            assert!(!live.exists(), "set aside in round {round}");
        }
        assert_eq!(all(&live).iter().filter(|file| file.exists()).count(), 4);
        assert!(!aside(&live, KEPT + 1).exists());
        let found = read(context, &Filter::default()).unwrap();
        let words: Vec<_> = found.events.iter().map(|one| one.event.as_str()).collect();
        let kept = (3..=KEPT + 2)
            .flat_map(|round| ["round", "full"].map(|word| format!("{word}_{round}")));
        assert_eq!(words, kept.collect::<Vec<_>>());
        assert_eq!(found.damaged, u64::from(KEPT), "the filler is no event");
    }
}
