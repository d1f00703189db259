//! Every way in which a promotion can be cut, written into and recovered, over the shipped code.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use super::journal::{Digest, Entry, Parsed};
use super::model::{Broken, Cut, Disk, Fate, Model, NEW, OLD, PROVIDERS, Write};
use super::promote::{Promoted, promote};
use super::recover::recover;
use crate::id::ProviderKind;

const JOURNALS: &str = "/state/transactions";
const TARGET: &str = "/home/auth.json";
const WRITES: [Write; 4] = [
    Write::Replaces,
    Write::InPlace,
    Write::EmptiesFirst,
    Write::Opened,
];

fn entry(old: Option<&[u8]>) -> Entry {
    Entry {
        id: "t-1".into(),
        profile: "one".parse().unwrap(),
        provider: ProviderKind::Codex,
        target: TARGET.into(),
        old: old.map(Digest::of),
        new: Digest::of(NEW),
        at: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

/// What is explored, and what was found.
struct Search {
    old: Option<&'static [u8]>,
    stands: bool,
    broken: Option<Broken>,
    runs: usize,
    /// Writes to a file that was just found unchanged and is being removed: the documented limit.
    written_to_no_one: usize,
    recovered: BTreeSet<(Disk, bool)>,
    violations: BTreeSet<String>,
}

impl Search {
    fn target() -> &'static Utf8Path {
        Utf8Path::new(TARGET)
    }

    /// One promotion; what it left, and what it reported.
    fn promote(&mut self, fate: Fate) -> (Model, Option<Promoted>) {
        self.runs += 1;
        let disk = Disk::with(Self::target(), self.old);
        let model = Model::new(disk, fate, Self::target());
        let mut stands = || self.stands;
        let told = promote(
            &model,
            Utf8Path::new(JOURNALS),
            &entry(self.old),
            NEW,
            &mut stands,
        );
        let told = told.ok().filter(|_| !model.is_dead());
        (model, told)
    }

    fn journal(&self) -> Utf8PathBuf {
        entry(self.old).path(Utf8Path::new(JOURNALS))
    }

    /// Recovers what was left, cut at every step, written into at every step.
    fn recover(&mut self, disk: &Disk, done: bool) {
        // One violation is enough of a mistake that was made on purpose.
        if self.broken.is_some() && !self.violations.is_empty() {
            return;
        }
        let disk = &disk.compact();
        if !self.recovered.insert((disk.clone(), done)) {
            return;
        }
        let whole = self.recover_once(disk, done, Fate::default());
        let provider = |at| WRITES.into_iter().map(move |write| Some((at, write)));
        for at in 0..=whole {
            let mut fates = vec![None];
            if !disk.provider_wrote {
                fates.extend(provider(at));
            }
            for written in fates {
                let steps = self.recover_once(
                    disk,
                    done,
                    Fate {
                        provider: written,
                        ..Fate::default()
                    },
                );
                for cut in at..steps {
                    self.recover_once(
                        disk,
                        done,
                        Fate {
                            provider: written,
                            cut: Some((cut, Cut::Before)),
                            ..Fate::default()
                        },
                    );
                }
            }
        }
    }

    /// One recovery; a whole one is judged, one that was cut is recovered. Returns its steps.
    fn recover_once(&mut self, disk: &Disk, done: bool, fate: Fate) -> usize {
        self.runs += 1;
        let fate = Fate {
            broken: self.broken,
            ..fate
        };
        let pending = disk.read(&self.journal()).map(Entry::parse);
        let model = Model::new(disk.clone(), fate, Self::target());
        if let Some(Parsed::Whole(entry)) = &pending {
            let told = recover(&model, Utf8Path::new(JOURNALS), entry);
            if !model.is_dead() && told.is_err() {
                self.violate(&format!("recovery failed: {told:?}"));
            }
        }
        let lost = *model.written_to_no_one.borrow();
        let left = model.disk.borrow().clone();
        if lost {
            self.written_to_no_one += 1;
        } else if model.is_dead() {
            self.recover(&left, done);
            for cut in left.cut() {
                self.recover(&cut, done);
            }
        } else {
            self.judge(left, done, pending.is_some());
        }
        model.steps.into_inner()
    }

    fn judge(&mut self, mut disk: Disk, done: bool, was_pending: bool) {
        disk.settle();
        let live = disk.read(Self::target()).map(<[u8]>::to_vec);
        let known = [Some(NEW), Some(PROVIDERS), self.old];
        if !known.contains(&live.as_deref()) && (live.is_some() || self.old.is_some()) {
            self.violate(&format!("I1: the credential is {live:?}"));
        }
        let successors = [Some(NEW), Some(PROVIDERS)];
        if done && !successors.contains(&live.as_deref()) {
            self.violate(&format!("I2: reported, but the credential is {live:?}"));
        }
        if disk.provider_wrote && !disk.holds(PROVIDERS) {
            self.violate("I3: what the provider wrote is gone");
        }
        if was_pending && live.as_deref() == Some(NEW) {
            self.violate("I5: what was never committed is in force");
        }
        if disk.read(&self.journal()).is_some() {
            self.violate("I5: a journal entry stayed");
        }
        // I4: another recovery finds nothing to do.
        let before = disk.files();
        let model = Model::new(disk, Fate::default(), Self::target());
        let again = recover(&model, Utf8Path::new(JOURNALS), &entry(self.old));
        let after = model.disk.borrow().files();
        if was_pending && (again.is_err() || after != before) {
            self.violate("I4: a second recovery changed something");
        }
    }

    fn violate(&mut self, what: &str) {
        self.violations.insert(what.to_owned());
    }

    /// One promotion under one fate, and everything that can follow.
    fn follow(&mut self, fate: Fate) -> usize {
        if self.broken.is_some() && !self.violations.is_empty() {
            return 0;
        }
        let fate = Fate {
            broken: self.broken,
            ..fate
        };
        let (model, told) = self.promote(fate);
        let steps = *model.steps.borrow();
        if *model.written_to_no_one.borrow() {
            self.written_to_no_one += 1;
            return steps;
        }
        let done = matches!(told, Some(Promoted::Done { .. }));
        if told.is_some() && !done && self.stands && fate.provider.is_none() {
            self.violate(&format!("a promotion that stands ended as {told:?}"));
        }
        let disk = model.disk.borrow().clone();
        self.recover(&disk, done);
        for cut in disk.cut() {
            self.recover(&cut, done);
        }
        steps
    }
}

fn explore(old: Option<&'static [u8]>, stands: bool, broken: Option<Broken>) -> Search {
    let mut search = Search {
        old,
        stands,
        broken,
        runs: 0,
        written_to_no_one: 0,
        recovered: BTreeSet::new(),
        violations: BTreeSet::new(),
    };
    let whole = search.follow(Fate::default());
    let mut writes = vec![None];
    for at in 0..=whole {
        writes.extend(WRITES.map(|write| Some((at, write))));
    }
    for provider in writes {
        let steps = search.follow(Fate {
            provider,
            ..Fate::default()
        });
        // Before the provider's write, every cut was followed without it.
        for at in provider.map_or(0, |(at, _)| at)..steps {
            for cut in [Cut::Before, Cut::Half] {
                search.follow(Fate {
                    provider,
                    cut: Some((at, cut)),
                    ..Fate::default()
                });
            }
        }
    }
    search
}

#[test]
fn no_cut_no_write_and_no_half_recovery_loses_a_login() {
    for old in [None, Some(OLD)] {
        for stands in [true, false] {
            let search = explore(old, stands, None);
            println!(
                "old {}, stands {stands}: {} runs, {} states recovered, {} writes to no one",
                old.is_some(),
                search.runs,
                search.recovered.len(),
                search.written_to_no_one
            );
            assert_eq!(search.violations, BTreeSet::new());
            assert!(search.recovered.len() > 100, "too little was explored");
        }
    }
}

#[test]
fn the_model_finds_each_mistake() {
    for broken in [
        Broken::NoFileSync,
        Broken::NoDirectorySync,
        Broken::ExchangeByRename,
        Broken::RenameReplaces,
        Broken::DeletesUnread,
    ] {
        let found = [None, Some(OLD)]
            .into_iter()
            .flat_map(|old| [true, false].map(|stands| explore(old, stands, Some(broken))))
            .map(|search| search.violations.len())
            .sum::<usize>();
        assert!(found > 0, "{broken:?} goes unseen");
    }
}
