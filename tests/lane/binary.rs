//! The provider's binary is looked at, never read: it is a quarter of a gigabyte.

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::inotify;

use crate::cli::Cli;
use crate::lab::{Plan, tool};
use crate::ran::Ran;
use crate::world::{Job, World};

/// Counts how often a file was opened since the last look.
struct Watch(rustix::fd::OwnedFd);

impl Watch {
    fn new(path: &Path) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)
            .expect("an inotify instance");
        inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).expect("a watch on the binary");
        Self(watch)
    }

    fn opened(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            count += usize::from(event.events().contains(inotify::ReadFlags::OPEN));
        }
        count
    }
}

/// Another small native program stands in, so that no other test opens the same file.
#[test]
fn choosing_does_not_open_the_provider_binary_and_launching_opens_it_once_before_it_runs() {
    let world = World::new(&Plan::default(), &["project"]);
    world.add(Cli::Claude, 1, 2);
    let project = world.project("project");
    let binary = world.lab.path("claude-stand-in");
    // Copied by another process: a descriptor open for writing here could reach a child of another test.
    let copied = tool("cp")
        .arg("/bin/true")
        .arg(&binary)
        .status()
        .expect("cp runs");
    assert!(copied.success(), "cp failed");
    world.configure(
        "providers.claude.binary",
        binary.to_str().expect("the lab's paths are UTF-8"),
    );
    let job = |task: &str| Job::new(task, "claude", &project);
    drop(world.choose(&job("warm")).success());
    let watch = Watch::new(&binary);
    drop(world.choose(&job("task")).success());
    assert_eq!(watch.opened(), 0, "choose opened the binary");
    let ran = Ran::of(&mut world.exec(&job("task"), &Cli::Claude.headless("hello")));
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        watch.opened(),
        2,
        "a look at its first bytes, and the kernel's own"
    );
}
