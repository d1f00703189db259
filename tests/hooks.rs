//! `hook`, `statusline` and `which`: what provider CLIs and workers call, whatever they pass.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent_fleet::env::{Context, Variables, World};
use agent_fleet::id::ProviderKind;
use agent_fleet::lease::holder::Holder;
use agent_fleet::lease::{Choice, Granted, Hold, LeaseStore as _, Request, TableStore};

use crate::support::sandbox::{Ran, Sandbox};

/// A world whose environment is that of a worker.
fn worker() -> Sandbox {
    let mut sandbox = Sandbox::new();
    for (name, value) in [
        ("AGENT_FLEET_TASK_ID", "a task"),
        ("AGENT_FLEET_PROFILE", "claude-1"),
        ("AGENT_FLEET_PROVIDER", "claude"),
        ("AGENT_FLEET_POOL", "crew"),
        ("AGENT_FLEET_WORKSPACE", "/project"),
        ("AGENT_FLEET_GENERATION", "7"),
    ] {
        sandbox.set(name, value);
    }
    sandbox
}

fn with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    // A hook may end without reading all of it.
    drop(stdin.write_all(input));
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[track_caller]
fn silent(ran: &Ran) {
    let said = (ran.status, ran.stdout.as_str(), ran.stderr.as_str());
    assert_eq!(said, (0, "", ""), "a hook must say nothing and exit 0");
}

fn evidence(sandbox: &Sandbox) -> Vec<serde_json::Value> {
    let path = sandbox.path("state/evidence/claude.jsonl");
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).expect("a line of evidence is JSON"))
        .collect()
}

#[test]
fn a_hook_says_nothing_and_exits_zero_whatever_it_is_given() {
    let sandbox = worker();
    for arguments in [
        &["hook"][..],
        &["hook", "no-such-event"],
        &["hook", ""],
        &["hook", "stop", "--format", "nonsense", "--bogus"],
        &["hook", "turn-end", "{\"type\":\"agent-turn-complete\"}"],
        &["hook", "turn-end", "not json", "more"],
        &["hook", "--format=nonsense"],
    ] {
        silent(&sandbox.run(arguments));
    }
    let huge = format!(
        "{{\"session_id\":\"s\",\"tool_input\":\"{}\"}}",
        "x".repeat(3 << 20)
    );
    let nested = "[".repeat(100_000);
    for input in [
        b"".as_slice(),
        b"\xff\xfe",
        b"{\"session_id\":",
        huge.as_bytes(),
        nested.as_bytes(),
    ] {
        silent(&with_input(&mut sandbox.command(["hook", "stop"]), input));
    }
    let last = evidence(&sandbox);
    assert_eq!(last.len(), 8, "one line for each known event: {last:?}");
    assert!(
        last.iter().any(|line| line["session"] == "s"),
        "the huge input was not understood"
    );
}

#[test]
fn a_hook_in_a_broken_world_says_nothing_either() {
    let mut sandbox = worker();
    sandbox.write("file", "");
    for (name, value) in [
        ("AGENT_FLEET_STATE_DIR", "relative/path"),
        ("AGENT_FLEET_STATE_DIR", "/proc/no/such"),
        ("AGENT_FLEET_CONFIG", "/dev/null/x"),
        ("AGENT_FLEET_GENERATION", "not a number"),
        ("AGENT_FLEET_TASK_ID", ""),
        ("HOME", ""),
    ] {
        sandbox.set(name, value);
        silent(&with_input(
            &mut sandbox.command(["hook", "session-start"]),
            b"{}",
        ));
        silent(&with_input(&mut sandbox.command(["hook"]), b"{}"));
    }
}

#[test]
fn a_caller_that_never_closes_its_pipe_does_not_hold_a_hook_for_ever() {
    let sandbox = worker();
    let began = Instant::now();
    let mut child = sandbox
        .command(["hook", "stop"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let open = child.stdin.take();
    assert!(child.wait().expect("it ends").success());
    assert!(began.elapsed() < Duration::from_secs(8));
    drop(open);
}

#[test]
fn an_event_without_a_lease_is_foreign_and_moves_no_session() {
    let sandbox = worker();
    let start = br#"{"session_id":"0199-x","transcript_path":"/t.jsonl","source":"startup","prompt":"secret words"}"#;
    silent(&with_input(
        &mut sandbox.command(["hook", "session-start"]),
        start,
    ));
    let lines = evidence(&sandbox);
    assert_eq!(lines[0]["foreign"], true);
    assert_eq!(lines[0]["reason"], "startup");
    assert!(
        !lines[0].to_string().contains("secret"),
        "message text was kept"
    );
    let error = sandbox
        .run(["session", "status", "--task", "a task"])
        .refused("not_found");
    assert_eq!(
        error["error"],
        "no recorded provider session for task: a task"
    );
    let list = sandbox.run(["session", "list"]).success();
    assert_eq!(list["sessions"], serde_json::json!([]));
    sandbox
        .run(["session", "remove", "--task", "a task"])
        .refused("not_found");
}

/// Makes this test the process of a lease of the worker's task, so that what it starts is the worker's own.
fn hold_lease(sandbox: &mut Sandbox) -> Granted {
    let text = |path: &str| sandbox.path(path).into_os_string();
    let variables: Variables = [
        ("HOME", text("home")),
        ("AGENT_FLEET_CONFIG", text("config/accounts.toml")),
        ("AGENT_FLEET_STATE_DIR", text("state")),
        ("AGENT_FLEET_SHARE_DIR", text("share")),
    ]
    .into_iter()
    .collect();
    let world = World {
        arguments: Vec::new(),
        variables,
        directory: None,
        executable: None,
    };
    let context = Context::resolve(&world, None).expect("a context");
    let deadline = context.clock.deadline(Duration::from_secs(8));
    let request = Request {
        task: "a task".parse().expect("a task"),
        workspace: "/project".into(),
        pool: Some("crew".parse().expect("a pool")),
        provider: None,
        profile: None,
        labels: BTreeMap::new(),
        hold: Hold::Now(Holder::current().expect("this process")),
    };
    let granted = TableStore::open(&context, deadline)
        .expect("a lease store")
        .reserve(&request, &mut |_| {
            Ok(Choice::Take {
                profile: "claude-1".parse().expect("a profile"),
                provider: ProviderKind::Claude,
                cap: 2,
            })
        })
        .expect("a lease");
    sandbox.set(
        "AGENT_FLEET_GENERATION",
        granted.lease.generation.to_string(),
    );
    granted
}

#[test]
fn a_worker_s_own_events_move_its_session_and_reach_those_who_wait() {
    let mut sandbox = worker();
    let _lease = hold_lease(&mut sandbox);
    sandbox.set("AGENT_FLEET_TURN_END", sandbox.path("turn-end"));
    sandbox.set("AGENT_FLEET_EVENTS", sandbox.path("events"));
    for (event, session) in [
        ("session-start", "first"),
        ("stop", "first"),
        ("session-start", "cleared"),
    ] {
        let input = format!("{{\"session_id\":\"{session}\",\"source\":\"startup\"}}");
        silent(&with_input(
            &mut sandbox.command(["hook", event]),
            input.as_bytes(),
        ));
    }
    let answer = sandbox
        .run(["session", "status", "--task", "a task"])
        .success();
    assert_eq!(
        (&answer["session_id"], &answer["session_event_seq"]),
        (&"cleared".into(), &2.into())
    );
    assert_eq!(
        (&answer["profile"], &answer["workspace"]),
        (&"claude-1".into(), &"/project".into())
    );
    assert!(sandbox.path("turn-end").exists());
    let told = std::fs::read_dir(sandbox.path("events/new"))
        .expect("a maildir")
        .count();
    assert_eq!(told, 3);
    // A `claude` between the hook and the lease's process is a worker of nobody's, in the same environment.
    let nested = sandbox.path("bin/claude");
    Sandbox::copy_program("/bin/sh", &nested);
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let mut command = sandbox.command(["version"]);
    let variables: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = Sandbox::tool(&nested);
    command
        .env_clear()
        .envs(variables)
        .args(["-c", &format!("'{program}' hook session-start; true")]);
    silent(&with_input(
        &mut command,
        b"{\"session_id\":\"nested\",\"source\":\"startup\"}",
    ));
    let last = evidence(&sandbox).pop().expect("a line");
    assert_eq!(
        (&last["session"], &last["foreign"]),
        (&"nested".into(), &true.into())
    );
    let input = br#"{"rate_limits":{"five_hour":{"used_percentage":12,"resets_at":1900000000}}}"#;
    for _ in 0..3 {
        let ran = with_input(&mut sandbox.command(["statusline"]), input);
        assert_eq!(ran.stdout, "a task · claude-1 · 88% left\n");
    }
    let windows = evidence(&sandbox)
        .into_iter()
        .filter(|line| line["event"] == "windows");
    assert_eq!(
        windows.count(),
        1,
        "unchanged windows are recorded once a minute"
    );
    let answer = sandbox
        .run(["session", "status", "--task", "a task"])
        .success();
    assert_eq!(answer["session_id"], "cleared");
    sandbox
        .run(["session", "remove", "--task", "a task"])
        .success();
    sandbox
        .run(["session", "status", "--task", "a task"])
        .refused("not_found");
}

#[test]
fn the_status_line_prints_the_worker_and_then_the_person_s_own() {
    let sandbox = worker();
    let home = sandbox.path("claude home");
    sandbox.write(
        "claude home/agent-fleet.json",
        r#"{"status_line":"cat; echo; ls /proc/self/fd | wc -l"}"#,
    );
    let input = br#"{"rate_limits":{"five_hour":{"used_percentage":12,"resets_at":1900000000}}}"#;
    let arguments = [
        "statusline".into(),
        "--home".into(),
        home.clone().into_os_string(),
    ];
    let ran = with_input(&mut sandbox.command(&arguments), input);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!((ran.status, lines[0]), (0, "a task · claude-1 · 88% left"));
    assert_eq!(
        lines[1].as_bytes(),
        input,
        "the person's command gets the same input"
    );
    assert_eq!(lines[2], "4", "0 to 2 and the listing's own");
    let program = env!("CARGO_BIN_EXE_agent-fleet");
    let again = format!(
        r#"{{"status_line":"{program} statusline --home '{}'"}}"#,
        home.display()
    );
    sandbox.write("claude home/agent-fleet.json", again);
    let ran = with_input(&mut sandbox.command(&arguments), input);
    assert_eq!(
        ran.stdout.lines().count(),
        1,
        "it called itself: {}",
        ran.stdout
    );
    sandbox.write(
        "claude home/agent-fleet.json",
        r#"{"status_line":"sleep 20"}"#,
    );
    let began = Instant::now();
    let ran = with_input(&mut sandbox.command(&arguments), b"not json");
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 1));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn which_names_the_worker_and_refuses_outside_one() {
    let sandbox = worker();
    let answer = sandbox.run(["which"]).success();
    assert_eq!(answer["task"], "a task");
    assert_eq!(answer["generation"], 7);
    assert_eq!(answer["identity_fingerprint"], serde_json::Value::Null);
    Sandbox::new().run(["which"]).refused("not_found");
}
