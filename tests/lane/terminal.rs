//! A worker on the provider's own screen, in a tmux server of its own.

use std::path::PathBuf;
use std::process::Command;

use crate::lab::tool;
use crate::wait::{gone, until};
use crate::worker::TURN;
use crate::world::World;

/// A screen; dropping it ends its tmux server, and no other.
#[derive(Debug)]
pub(crate) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs a command of this world on a screen of its own; the screen stays when the command ends.
    pub(crate) fn start(world: &World, name: &str, command: &Command) -> Self {
        let terminal = Self {
            socket: world.lab.path(format!("{name}.tmux")),
        };
        let mut tmux = tool("tmux");
        tmux.arg("-S")
            .arg(&terminal.socket)
            .args(["-f", "/dev/null", "start-server", ";"])
            .args(["set-option", "-g", "remain-on-exit", "on", ";"])
            .args(["new-session", "-d", "-x", "120", "-y", "40", "--"])
            .arg(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(world.variables())
            .current_dir(command.get_current_dir().unwrap_or(&world.lab.path("home")));
        for (variable, value) in command.get_envs() {
            if let Some(value) = value {
                tmux.env(variable, value);
            }
        }
        let done = tmux.status().expect("tmux starts");
        assert!(done.success(), "tmux made no screen");
        terminal
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = tool("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(words)
            .output()
            .expect("tmux starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is on the screen, with what scrolled off it.
    pub(crate) fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p", "-S", "-200"])
    }

    /// The process of the screen: the worker itself, since `exec` becomes it.
    pub(crate) fn pid(&self) -> i32 {
        self.ask(&["display-message", "-p", "#{pane_pid}"])
            .trim()
            .parse()
            .expect("a screen has a process")
    }

    /// Whether the command has ended.
    pub(crate) fn ended(&self) -> bool {
        self.ask(&["display-message", "-p", "#{pane_dead}"]).trim() == "1"
    }

    /// Types a short line, and Enter once it is shown: Codex takes an Enter that comes with the text for a part
    /// of what was pasted.
    #[track_caller]
    pub(crate) fn type_line(&self, line: &str) {
        self.type_text(line);
        self.press("Enter");
    }

    /// Types a short text, and waits until it is shown.
    #[track_caller]
    pub(crate) fn type_text(&self, text: &str) {
        self.ask(&["send-keys", "-l", text]);
        self.wait_for(text);
    }

    /// Presses one key, by tmux's name of it.
    pub(crate) fn press(&self, key: &str) {
        self.ask(&["send-keys", key]);
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: &str) {
        until(&format!("`{wanted}` on the screen"), TURN, || {
            let screen = self.screen();
            if screen.contains(wanted) {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }

    /// Ends the worker as a supervisor would, with SIGTERM, and waits for its end.
    #[track_caller]
    pub(crate) fn terminate(&self) {
        self.end(rustix::process::Signal::TERM);
    }

    /// Ends the worker without a warning, and waits for its end.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.end(rustix::process::Signal::KILL);
    }

    #[track_caller]
    fn end(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("the worker is ours to end");
        until("the end of the worker", TURN, || {
            if self.ended() {
                Ok(())
            } else {
                Err(self.screen())
            }
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let processes = self.ask(&["display-message", "-p", "#{pid} #{pane_pid}"]);
        self.ask(&["kill-server"]);
        // The worker writes into the lab's folder until it is gone, and the next screen of the name would be made by a
        // server that is about to go.
        for pid in processes.split_whitespace() {
            if let Ok(pid) = pid.parse() {
                gone(pid);
            }
        }
    }
}
