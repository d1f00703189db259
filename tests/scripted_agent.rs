//! The scripted agent by itself: it behaves as the real CLIs do where a broker could get hurt.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_fleet::fleet::turn::{Ended, ExitFacts, FailedBy, Turn, judge, pointer};
use agent_fleet::id::ProviderKind;
use agent_fleet::quota::limit::Limit;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::support::sandbox::{Ran, Sandbox};

/// A home that is logged in to the account `one`, with hooks that append what they get to `hooks.jsonl`.
struct Agent {
    sandbox: Sandbox,
}

impl Agent {
    fn new(login: &[&str]) -> Self {
        let mut sandbox = Sandbox::new();
        let home = sandbox.path("provider");
        sandbox.set("SCRIPTED_HOME", &home);
        let agent = Self { sandbox };
        let service = agent.sandbox.path("service");
        let mut line = vec!["login", "--account", "one", "--service"];
        line.push(service.to_str().expect("UTF-8"));
        line.extend(login);
        let ran = agent.run(&line);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let log = agent.sandbox.path("hooks.jsonl");
        let command = format!("cat >> '{}'; echo >> '{}'", log.display(), log.display());
        let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
        let events = [
            "SessionStart",
            "UserPromptSubmit",
            "Stop",
            "StopFailure",
            "SessionEnd",
        ];
        let hooks: serde_json::Map<String, Value> = events
            .iter()
            .map(|event| ((*event).to_owned(), hook.clone()))
            .collect();
        agent.settings(&json!({"service": service, "hooks": hooks}));
        agent
    }

    fn settings(&self, settings: &Value) {
        self.sandbox
            .write("provider/settings.json", settings.to_string());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self
            .sandbox
            .command(["scripted-agent", "--"].iter().chain(arguments));
        command.current_dir(self.sandbox.path(""));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// The events that the hooks saw, less the session's own fields.
    fn events(&self) -> Vec<Value> {
        lines(&self.sandbox.path("hooks.jsonl"))
    }

    fn requests(&self, kind: &str) -> Vec<String> {
        lines(&self.sandbox.path("service/requests.jsonl"))
            .iter()
            .filter(|line| line["request"] == kind)
            .map(|line| format!("{} {}", line["account"], line["outcome"]).replace('"', ""))
            .collect()
    }

    fn names(&self) -> Vec<String> {
        self.events()
            .iter()
            .map(|event| {
                event["hook_event_name"]
                    .as_str()
                    .expect("a name")
                    .to_owned()
            })
            .collect()
    }
}

fn lines(path: &PathBuf) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_turn_reports_itself_works_and_can_be_continued_in_this_home_only() {
    let agent = Agent::new(&[]);
    let ran = agent.run(&["-p", "--session-id", "s-1", "write out.txt done; say bye"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "wrote out.txt\nbye\n")
    );
    let written = std::fs::read_to_string(agent.sandbox.path("out.txt")).unwrap();
    assert_eq!(written, "done\n");
    assert_eq!(
        agent.names(),
        ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
    );
    let start = agent.events().remove(0);
    assert_eq!(
        (&start["session_id"], &start["source"]),
        (&json!("s-1"), &json!("startup"))
    );
    let transcript = lines(&PathBuf::from(start["transcript_path"].as_str().unwrap()));
    let owner = (&transcript[0]["type"], &transcript[0]["account"]);
    assert_eq!(owner, (&json!("session-owner"), &json!("one")));
    assert_eq!(agent.run(&["-p", "--resume", "s-1", "say again"]).status, 0);
    assert_eq!(agent.events()[4]["source"], "resume");
    let missing = agent.run(&["-p", "--resume", "s-2", "say again"]);
    assert_eq!(missing.status, 1);
    assert!(
        missing.stderr.contains("No conversation found"),
        "{}",
        missing.stderr
    );
}

#[test]
fn stream_json_is_one_object_a_line_and_tells_what_the_agent_sees() {
    let mut agent = Agent::new(&[]);
    agent.sandbox.set("SEEN", "yes");
    let ran = agent.run(&[
        "-p",
        "--output-format=stream-json",
        "--",
        "env SEEN UNSET; argv\nspawn echo a; echo b >&2",
    ]);
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["subtype"], "init");
    let block = |index: usize| &events[index]["message"]["content"][0];
    assert_eq!(block(1)["text"], r#"{"SEEN":"yes"}"#);
    let argv: Value = serde_json::from_str(block(2)["text"].as_str().unwrap()).unwrap();
    assert_eq!(argv["arguments"][0], "-p");
    assert_eq!(
        argv["directory"],
        agent
            .sandbox
            .path("")
            .to_str()
            .unwrap()
            .trim_end_matches('/')
    );
    assert_eq!(block(3)["input"]["command"], "echo a; echo b >&2");
    assert_eq!(
        (&block(4)["content"], &block(4)["is_error"]),
        (&json!("a\nb"), &json!(false))
    );
    assert_eq!(block(5)["text"], "a");
    let windows = &events[6]["rate_limit_info"]["unifiedWindows"];
    assert!(windows["five_hour"]["utilization"].is_number(), "{windows}");
    assert_eq!(
        (&events[7]["is_error"], &events[7]["result"]),
        (&json!(false), &json!("a"))
    );
}

/// What a run with `stream-json` was, by its output and its status.
fn judged(ran: &Ran) -> (Ended, Turn) {
    let bytes = ran.stdout.as_bytes();
    let turn = Turn::of(
        ProviderKind::Scripted,
        bytes,
        Timestamp::UNIX_EPOCH,
        &TimeZone::UTC,
    );
    let exit = ExitFacts::Status(ran.status);
    (judge(exit, &turn, None, false), turn)
}

#[test]
fn a_prompt_that_points_to_a_file_means_the_blocks_in_it() {
    let agent = Agent::new(&[]);
    let text = "# Work\n\nDo this:\n\n```script\nwrite out.txt done\nspawn exit 3\ndeny WebFetch\n\
                answer\nStatus: done\n\nIt works.\n```\n\n```script review\nsay Status: approved\n```\n";
    agent.sandbox.write("my work.md", text);
    let turn = |worker: &str| {
        let prompt = pointer("my work.md", &worker.parse().unwrap());
        judged(&agent.run(&["-p", "--output-format", "stream-json", "--", &prompt]))
    };
    let (ended, worked) = turn("lexer");
    let tools = vec!["WebFetch".to_owned()];
    assert_eq!(ended, Ended::Denied { tools });
    assert_eq!(worked.answer.as_deref(), Some("Status: done\n\nIt works."));
    assert!(worked.session.is_some());
    let (ended, reviewed) = turn("lexer-review");
    assert_eq!(ended, Ended::Succeeded);
    assert_eq!(reviewed.answer.as_deref(), Some("Status: approved"));
    agent.sandbox.write("my work.md", "nothing for anybody");
    let (ended, failed) = turn("lexer");
    let by = FailedBy::Request;
    let detail = Some("invalid_request".to_owned());
    assert_eq!((ended, failed.answer), (Ended::Failed { by, detail }, None));
}

#[test]
fn a_reader_of_its_stream_sees_its_limits() {
    let agent = Agent::new(&[]);
    let turn = |prompt: &str| {
        let (ended, turn) = judged(&agent.run(&["-p", "--output-format", "stream-json", prompt]));
        (ended, turn.windows)
    };
    for (kind, limit) in [("rate", Limit::Rate), ("billing", Limit::Billing)] {
        let (ended, windows) = turn(&format!("limit {kind}"));
        let is = |ended: &Ended| matches!(ended, Ended::Limited { kind, .. } if *kind == limit);
        assert!(is(&ended) && windows.is_empty(), "{ended:?} {windows:?}");
    }
    let (ended, windows) = turn("limit quota 3600");
    let until = ended.held_until().expect("a reset");
    assert_eq!(windows[0].resets_at, Some(until));
    let (again, _) = turn("say hi");
    assert_eq!(again, ended);
    let other = Agent::new(&[]);
    let ran = other.run(&["-p", "--output-format", "stream-json", "limit auth"]);
    let bytes = ran.stdout.as_bytes();
    let lost = Turn::of(
        ProviderKind::Scripted,
        bytes,
        Timestamp::UNIX_EPOCH,
        &TimeZone::UTC,
    );
    let ended = judge(ExitFacts::Status(1), &lost, None, false);
    let by = FailedBy::LoginLost;
    let detail = Some("authentication_failed".to_owned());
    assert_eq!(ended, Ended::Failed { by, detail });
}

#[test]
fn a_limit_is_remembered_by_the_server_and_reported_with_its_reset() {
    let agent = Agent::new(&[]);
    assert_eq!(agent.run(&["-p", "limit quota 3600"]).status, 1);
    let failure = agent.events().remove(2);
    assert_eq!(failure["hook_event_name"], "StopFailure");
    assert_eq!(
        (&failure["error"], &failure["limit"]),
        (&json!("rate_limit"), &json!("quota"))
    );
    let resets_at: Timestamp = failure["resets_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        agent.run(&["-p", "say hi"]).status,
        1,
        "the account is used up"
    );
    let again = agent
        .events()
        .into_iter()
        .rev()
        .find(|event| event["error"] == "rate_limit");
    let again: Timestamp = again.unwrap()["resets_at"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(again, resets_at);
    assert_eq!(agent.requests("turn"), ["one ok", "one limited"]);
}

#[test]
fn an_old_login_is_refreshed_once_and_starts_that_race_for_it_waste_the_token() {
    let agent = Agent::new(&["--expires-in", "30"]);
    let account = agent.sandbox.path("service/one.json");
    let mut server: Value = serde_json::from_slice(&std::fs::read(account).unwrap()).unwrap();
    server["refresh_latency_seconds"] = 0.3.into();
    agent.sandbox.write("service/one.json", server.to_string());
    let mut racing: Vec<_> = (0..3)
        .map(|_| {
            agent
                .command(&["-p", "say hi"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in &mut racing {
        assert!(
            child.wait().unwrap().success(),
            "the loser reloads what the winner wrote"
        );
    }
    let refreshes = agent.requests("refresh");
    assert_eq!(
        refreshes.iter().filter(|line| *line == "one ok").count(),
        1,
        "{refreshes:?}"
    );
    let before = refreshes.len();
    assert_eq!(agent.run(&["-p", "say hi"]).status, 0);
    assert_eq!(
        agent.requests("refresh").len(),
        before,
        "a fresh login is left alone"
    );
}

#[test]
fn a_revoked_login_ends_the_turn_as_an_authentication_failure() {
    let agent = Agent::new(&[]);
    assert_eq!(agent.run(&["-p", "limit auth"]).status, 1);
    assert_eq!(agent.run(&["-p", "say hi"]).status, 1);
    let failures: Vec<_> = agent
        .events()
        .into_iter()
        .filter(|event| event["error"] == "authentication_failed")
        .collect();
    assert_eq!(failures.len(), 2);
}

#[test]
fn a_token_from_the_environment_or_the_project_moves_the_account() {
    let mut agent = Agent::new(&[]);
    let home = agent.sandbox.path("other");
    let service = agent.sandbox.path("service");
    let mut login = agent.command(&["login", "--account", "two", "--service"]);
    login.arg(&service).env("SCRIPTED_HOME", &home);
    assert!(Ran::of(&mut login).status == 0);
    let other: Value =
        serde_json::from_slice(&std::fs::read(home.join("login.json")).unwrap()).unwrap();
    let planted = json!({"env": {"SCRIPTED_TOKEN": other["token"]}});
    let project = agent
        .sandbox
        .write(".scripted/settings.json", planted.to_string());
    assert_eq!(agent.run(&["-p", "say hi"]).status, 0);
    std::fs::remove_file(project).unwrap();
    agent
        .sandbox
        .set("SCRIPTED_TOKEN", other["token"].as_str().unwrap());
    assert_eq!(agent.run(&["-p", "say hi"]).status, 0);
    assert_eq!(agent.requests("turn"), ["two ok", "two ok"]);
}

#[test]
fn hooks_inherit_descriptors_and_tools_do_not() {
    let agent = Agent::new(&[]);
    let service = agent.sandbox.path("service");
    let seen = agent.sandbox.path("seen.txt");
    let hook = format!(
        "test -e /proc/self/fd/7 && echo hook >> '{}'; cat > /dev/null",
        seen.display()
    );
    agent.settings(&json!({
        "service": service,
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": hook}]}]},
    }));
    let run = |script: &str| {
        let mut shell = Sandbox::tool("/bin/sh");
        let inner = agent.command(&["-p", script]);
        shell
            .arg("-c")
            .arg("exec 7</dev/null; exec \"$@\"")
            .arg("sh")
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(agent.sandbox.path(""))
            .env_clear();
        for (name, value) in inner.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        Ran::of(&mut shell)
    };
    let ran = run("spawn test -e /proc/self/fd/7 || echo tool has none");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "tool has none\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "hook\n");
}

#[test]
fn a_terminal_session_takes_lines_as_prompts_and_may_move_to_another_conversation() {
    let agent = Agent::new(&[]);
    let mut child = agent
        .command(&["--session-id", "s-1", "say first"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"session\nsay second\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "first\nsecond\n");
    let starts: Vec<Value> = agent
        .events()
        .into_iter()
        .filter(|event| event["hook_event_name"] == "SessionStart")
        .collect();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[1]["source"], "clear");
    assert_ne!(starts[1]["session_id"], "s-1");
}

#[test]
fn a_script_with_a_mistake_does_nothing_and_says_which() {
    let agent = Agent::new(&[]);
    let ran = agent.run(&["-p", "write out.txt x; fix the bug"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("`fix the bug`"), "{}", ran.stderr);
    assert!(!agent.sandbox.path("out.txt").exists());
    for (script, status) in [("exit 7", 7), ("crash", 128 + 9)] {
        assert_eq!(agent.run(&["-p", script]).status, status);
    }
}

#[test]
fn the_page_shows_every_instruction_that_the_agent_names() {
    let agent = Agent::new(&[]);
    let ran = agent.run(&["-p", "help"]);
    let (_, words) = ran.stderr.split_once("begins with ").unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scripted.md");
    let page = std::fs::read_to_string(page).unwrap();
    let known: Vec<&str> = words
        .split([',', ' ', '\n'])
        .filter(|word| !word.is_empty() && *word != "or")
        .collect();
    assert!(known.len() > 10, "{known:?}");
    for word in known {
        assert!(
            page.contains(&format!("`{word}")),
            "docs/scripted.md has no `{word}`"
        );
    }
}
