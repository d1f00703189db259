//! What a person pastes: at the prompt it is not shown and nothing of it is left for the shell; anywhere else it is
//! repeated nowhere.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::given::{SILENT, add, enroll, give, world};
use crate::support::online::Online;
use crate::support::ran::Ran;
use crate::support::sandbox::Sandbox;

/// A shell in a terminal of its own.
struct Terminal {
    shell: Child,
    typing: ChildStdin,
    output: ChildStdout,
    said: String,
}

impl Terminal {
    /// Runs these lines; `$enroll` is the enrollment of the profile `token`.
    fn run(world: &Online, lines: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_agent-fleet");
        let enroll = "profile enroll token --setup-token --same-account-as claude-1";
        let lines = lines.replace("$enroll", &format!("{program} {enroll}"));
        let mut shell = world
            .sandbox
            .shell(&format!("exec timeout 60 script -qec '{lines}' /dev/null"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let typing = shell.stdin.take().expect("a pipe");
        let output = shell.stdout.take().expect("a pipe");
        Self {
            shell,
            typing,
            output,
            said: String::new(),
        }
    }

    fn wait_for(&mut self, word: &str, times: usize) {
        let mut bytes = [0; 4096];
        while self.said.matches(word).count() < times {
            let count = self.output.read(&mut bytes).expect("a terminal's output");
            assert!(count > 0, "it ended without `{word}`: {}", self.said);
            self.said
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn paste(&mut self, text: &str) {
        self.typing.write_all(text.as_bytes()).expect("it waits");
    }

    /// Everything that was said.
    fn end(mut self) -> String {
        self.output.read_to_string(&mut self.said).expect("text");
        self.shell.wait().expect("it ends");
        self.said
    }
}

/// The end of the question.
const ASKED: &str = "(nothing is shown)";

#[test]
fn what_is_pasted_at_a_terminal_is_not_shown() {
    let world = world();
    world.run("profile disable claude-1").success();
    let mut terminal = Terminal::run(&world, "$enroll; stty -a");
    terminal.wait_for(ASKED, 1);
    terminal.paste(&format!("{SILENT}\n"));
    let said = terminal.end();
    assert!(said.contains("it is in force"), "{said}");
    assert!(!said.contains(SILENT), "{said}");
    let settings: Vec<&str> = said.split_whitespace().collect();
    assert!(
        settings.contains(&"echo"),
        "what is typed is shown again: {said}"
    );
}

#[test]
fn no_line_of_what_was_pasted_is_left_for_the_shell() {
    let world = world();
    // Whatever reads the terminal next gets what is left.
    let lines = "$enroll; stty -icanon -echo min 0 time 5; cat; echo the end";
    let mut terminal = Terminal::run(&world, lines);
    terminal.wait_for(ASKED, 1);
    terminal.paste("sk-ant-oat01-half\nother-half\nthird\n");
    let said = terminal.end();
    assert!(said.contains("has more than one line"), "{said}");
    assert!(said.contains("the end"), "{said}");
    for part in ["half", "third"] {
        assert!(!said.contains(part), "{said}");
    }
}

#[test]
fn a_terminal_that_shows_again_what_is_typed_is_silenced_and_the_person_asked_once_more() {
    let world = world();
    world.run("profile disable claude-1").success();
    let go = world.sandbox.path("tmp/go");
    // As a shell does when the program is stopped.
    let lines = format!(
        "(until [ -e {} ]; do sleep 0.02; done; stty -F /dev/tty echo) & $enroll",
        go.display()
    );
    let mut terminal = Terminal::run(&world, &lines);
    terminal.wait_for(ASKED, 1);
    world.sandbox.write(go, "");
    terminal.wait_for(ASKED, 2);
    terminal.paste(&format!("{SILENT}\n"));
    let said = terminal.end();
    assert!(said.contains("it is in force"), "{said}");
    assert!(!said.contains(SILENT), "{said}");
}

#[test]
fn what_is_pasted_where_a_name_belongs_is_repeated_nowhere() {
    let world = world();
    let project = world.project.to_str().expect("UTF-8").to_owned();
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    // In two halves, since no word of a test may look like one; the shell joins them.
    for pasted in [
        "sk-a''nt-oat01-misplaced",
        "sk-proj-misplaced",
        "sk-aB3dE6gH9jK2mN5misplaced",
        "rt_aB3dE6gH9jK2mN5misplaced",
        "eyJaB3dE6gH9jK2mN5.eyJmisplaced.x",
        "misplaced@exam''ple.invalid",
    ] {
        for line in [
            "profile enable PASTED".to_owned(),
            "profile add PASTED --provider claude".to_owned(),
            "profile add x --provider PASTED".to_owned(),
            "profile enroll token --setup-token PASTED".to_owned(),
            "profile enroll token --setup-token=PASTED".to_owned(),
            "profile enroll token --PASTED".to_owned(),
            "profile import PASTED".to_owned(),
            "profile drain claude-1 --reason PASTED".to_owned(),
            "profile status claude-1".to_owned(),
            "project register PASTED".to_owned(),
            "config set PASTED PASTED".to_owned(),
            "transaction show PASTED".to_owned(),
            "reasons PASTED".to_owned(),
            "PASTED".to_owned(),
            "status --format=PASTED".to_owned(),
            format!("exec --task PASTED --pool PASTED --workspace {project} -- -p say"),
            format!("resume --task PASTED --workspace {project} -- -p say"),
            "audit".to_owned(),
        ] {
            let line = line.replace("PASTED", pasted);
            for format in ["json", "human"] {
                let line = format!("exec {program} --format {format} -v {line}");
                let ran = Ran::of(&mut world.sandbox.shell(&line));
                let said = format!("{}{}", ran.stdout, ran.stderr);
                assert!(!said.contains("misplaced"), "{line}: {said}");
            }
        }
    }
    let state = world.sandbox.path("state");
    let mut grep = Sandbox::tool("grep");
    let found = grep.arg("-rl").arg("misplaced").arg(&state).output();
    let found = String::from_utf8(found.expect("grep runs").stdout).expect("UTF-8");
    assert_eq!(found, "", "it was written down");
}

#[test]
fn one_token_is_one_account_whoever_vouches_for_another() {
    let mut world = world();
    world.run("profile disable claude-1").success();
    enroll(&world, SILENT).success();
    world.log_in_as("claude-1", "3", "third");
    world.later(3600);
    add(&world, "claude-3", "claude", "home");
    world.sandbox.write(
        world.home("claude-3").join(".credentials.json"),
        std::fs::read(world.home("claude-1").join(".credentials.json")).expect("a login"),
    );
    world.run("profile verify claude-3").success();
    add(&world, "other", "claude", "setup-token");
    let line = "profile enroll other --setup-token --same-account-as claude-3";
    let refused = give(&world, line, SILENT).refused("duplicate_provider_identity");
    let error = refused["error"].as_str().expect("a sentence");
    assert!(error.contains("`token`"), "{error}");
}
