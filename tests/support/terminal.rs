//! A terminal of a person, for a command that draws on it: what it shows, and keys.

use std::process::Command;

use agent_fleet::fleet::screen::picture::Screen;
use agent_fleet::sys::pty::{Pty, Shown, Size};
use agent_fleet::sys::spawn::Program;
use agent_fleet::sys::tend::{Exit, Tended};

use super::world::wait;

/// A command at a terminal of its own, hung up when dropped.
pub(crate) struct Terminal {
    pty: Pty,
    child: Tended,
    screen: Screen,
    /// Everything that was written to it.
    pub written: String,
}

/// The size of a terminal.
pub(crate) const SIZE: Size = Size {
    rows: 30,
    columns: 100,
};

impl Terminal {
    /// Starts a command at a terminal of [`SIZE`], as a person who reads pages.
    pub(crate) fn start(command: &mut Command) -> Self {
        command
            .env("AGENT_FLEET_FORMAT", "human")
            .env("TERM", "xterm-256color");
        let program = Program {
            path: command.get_program().into(),
            arguments: command.get_args().map(Into::into).collect(),
            environment: command
                .get_envs()
                .filter_map(|(name, value)| Some((name.into(), value?.into())))
                .collect(),
            directory: command.get_current_dir().map(Into::into),
            input: Vec::new(),
        };
        let (pty, far) = Pty::open(SIZE).expect("a terminal");
        let child = Tended::on_terminal(&program, far).expect("the command starts");
        Self {
            pty,
            child,
            screen: Screen::new(SIZE),
            written: String::new(),
        }
    }

    /// The same in a shell, which tells how the terminal is set before and after the command.
    pub(crate) fn start_in_shell(command: &Command) -> Self {
        let script =
            "echo before: $(stty -g); \"$@\"; status=$?; echo after: $(stty -g); exit $status";
        let mut shell = super::sandbox::Sandbox::tool("/bin/sh");
        shell.args(["-c", script, "sh"]).arg(command.get_program());
        shell.args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        if let Some(directory) = command.get_current_dir() {
            shell.current_dir(directory);
        }
        Self::start(&mut shell)
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Types keys.
    pub(crate) fn types(&self, keys: &str) {
        let taken = self.pty.type_keys(keys.as_bytes()).expect("a terminal");
        assert_eq!(taken, keys.len());
    }

    /// Takes another size.
    pub(crate) fn resize(&mut self, size: Size) {
        self.pty.resize(size).expect("a terminal");
        self.screen.resize(size);
    }

    /// What it shows now; false when nothing more will come.
    fn look(&mut self) -> bool {
        let mut piece = vec![0; 64 << 10];
        loop {
            match self.pty.read(&mut piece).expect("a terminal") {
                Shown::Bytes(count) => {
                    let bytes = &piece[..count];
                    self.screen.feed(bytes);
                    self.written.push_str(&String::from_utf8_lossy(bytes));
                }
                Shown::Nothing => return true,
                Shown::HungUp => return false,
            }
        }
    }

    /// Its rows now.
    pub(crate) fn rows(&mut self) -> Vec<String> {
        self.look();
        self.screen.text()
    }

    /// Waits until it shows a text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) {
        wait(&format!("the terminal to show {text:?}"), || {
            let rows = self.rows();
            rows.iter().any(|row| row.contains(text)).then_some(())
        });
    }

    /// Waits for the end of the command; how it ended.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Exit {
        let exit = wait("the end at the terminal", || {
            self.look();
            self.child.ended().expect("a child")
        });
        self.look();
        exit
    }

    /// Waits for the end of a command in a shell: the terminal is set as it was before.
    #[track_caller]
    pub(crate) fn ended_and_restored(&mut self) -> Exit {
        let exit = self.ended();
        let said = |what: &str| {
            let rest = self.written.split_once(what).expect("it was said").1;
            rest.split_whitespace().next().expect("settings").to_owned()
        };
        assert_eq!(said("before: "), said("after: "), "{:?}", self.written);
        assert!(self.written.contains("\u{1b}[?1049l"), "{:?}", self.written);
        exit
    }
}

/// The process that a shell has started, once there is one.
#[track_caller]
pub(crate) fn child_of(pid: u32) -> u32 {
    wait("the shell's child", || {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().next_back()?.parse().ok()
    })
}
