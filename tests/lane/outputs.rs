//! What the real CLIs print in a headless turn, against what was kept of it: when a format drifts, it is seen
//! here, and the reader is not left to guess. Also what the permissions of a role really allow.

use std::path::Path;

use agent_fleet::fleet::model::Assignment;
use agent_fleet::fleet::state::{Mode, Role};
use agent_fleet::fleet::turn::event::End;
use agent_fleet::fleet::turn::transcript::Transcript;
use agent_fleet::fleet::turn::{Ended, ExitFacts, FailedBy, Turn, arguments, judge, permissions};
use agent_fleet::id::ProviderKind;
use agent_fleet::quota::limit::{Limit, Reset};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::ran::Ran;
use crate::wait::until;
use crate::worker::{TURN, Worker};
use crate::world::{Job, World, account};

const TOOL: &str =
    r#"LAB:[{"shell":"echo hello from the tool; exit 3"},{"text":"First line\nsecond line"}]"#;
const HELD: &str = r#"LAB:[{"shell":"tail -f /dev/null"},{"text":"late"}]"#;

fn kind(cli: Cli) -> ProviderKind {
    cli.name().parse().expect("a provider")
}

/// The worker arguments of a role's turn; `permissions` replaces the role's own.
fn line(cli: Cli, role: Role, own: Option<&[&str]>, prompt: &str) -> Vec<String> {
    let provider = kind(cli);
    let own = own.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
    let assignment = Assignment {
        provider,
        pool: cli.name().parse().expect("a pool"),
        model: None,
        effort: None,
        family: None,
        permissions: own.unwrap_or_else(|| permissions(provider, role)),
    };
    let line = arguments(&assignment, Mode::Headless, Some(prompt));
    let text = |word: std::ffi::OsString| word.into_string().expect("UTF-8");
    line.into_iter().map(text).collect()
}

fn read(cli: Cli, bytes: &[u8]) -> Turn {
    let said = SignedDuration::try_from_secs_f64(now()).expect("this age of the world");
    let said = Timestamp::from_duration(said).expect("this age of the world");
    Turn::of(kind(cli), bytes, said, &TimeZone::UTC)
}

/// The transcript with every number as one `#`: ids and times differ from run to run.
fn transcript(cli: Cli, bytes: &[u8]) -> String {
    let mut transcript = Transcript::new(kind(cli), Timestamp::UNIX_EPOCH, &TimeZone::UTC);
    let text = transcript.feed(bytes) + &transcript.finish();
    let mut masked = String::new();
    for letter in text.chars() {
        match (letter.is_ascii_digit(), masked.ends_with('#')) {
            (true, true) => {}
            (true, false) => masked.push('#'),
            (false, _) => masked.push(letter),
        }
    }
    masked
}

/// What is the same in every run.
fn gist(turn: &Turn) -> String {
    let windows: Vec<&str> = turn.windows.iter().map(|one| one.id.as_str()).collect();
    let failure = turn.failure.as_ref();
    let failure = failure.map(|one| (one.limit, one.word.as_str(), one.reset.is_some()));
    format!(
        "session {} end {:?} answer {:?} denied {:?} failure {failure:?} windows {windows:?}",
        turn.session.is_some(),
        turn.end,
        turn.answer,
        turn.denied
    )
}

/// The live output reads as the kept one does.
#[track_caller]
fn as_kept(cli: Cli, name: &str, ran: &Ran) -> Turn {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fleet/turns");
    let kept = std::fs::read(root.join(format!("{}/{name}.jsonl", cli.name()))).expect("kept");
    let (live, was) = (read(cli, ran.stdout.as_bytes()), read(cli, &kept));
    assert_eq!(gist(&live), gist(&was), "{name}: {}", ran.stdout);
    if was.limit().is_none() {
        let told = transcript(cli, ran.stdout.as_bytes());
        assert_eq!(told, transcript(cli, &kept), "{name}: {}", ran.stdout);
    }
    live
}

/// The turn of a task that runs until its tool does, and is then sent a signal.
fn signalled(world: &World, cli: Cli, job: &Job, signal: Signal) -> Ran {
    let arguments = line(cli, Role::Implementation, None, HELD);
    let worker = Worker::start(world, &job.task, &mut world.exec(job, &arguments));
    until("a tool at work", TURN, || {
        let seen = worker.stdout();
        if seen.contains("tail -f") {
            Ok(())
        } else {
            Err(seen)
        }
    });
    let pid = i32::try_from(worker.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), signal).expect("the worker is ours to end");
    worker.finish()
}

fn outputs(cli: Cli) {
    let world = World::enabled(&Plan::default(), 8, &["project"]);
    let project = world.project("project");
    let job = |task: &str| Job::new(task, cli.name(), &project);
    let turn = |task: &str, own: Option<&[&str]>, prompt: &str| {
        let job = job(task);
        let arguments = line(cli, Role::Implementation, own, prompt);
        Worker::start(&world, &job.task, &mut world.exec(&job, &arguments)).finish()
    };
    let good = |name: &str, prompt: &str| {
        let ran = turn(name, None, prompt);
        let live = as_kept(cli, name, &ran);
        let ended = judge(ExitFacts::Status(ran.status), &live, None, false);
        assert_eq!(ended, Ended::Succeeded, "{name}: {}", ran.stderr);
    };
    good("success", r#"LAB:{"text":"First line\nsecond line"}"#);
    good("tool", TOOL);
    // The same conversation goes on with the same arguments.
    let arguments = line(cli, Role::Implementation, None, r#"LAB:{"text":"again"}"#);
    let mut resumed = world.resume(&job("success"), &arguments);
    let resumed = Worker::start(&world, "resumed", &mut resumed).finish();
    let live = read(cli, resumed.stdout.as_bytes());
    assert_eq!(
        (live.answer.as_deref(), live.end),
        (Some("again"), Some(End::Completed))
    );

    if cli == Cli::Claude {
        let asking: &[&str] = &["--permission-mode=acceptEdits"];
        let prompt = r#"LAB:[{"shell":"python3 -c 1"},{"text":"It was not allowed"}]"#;
        let ran = turn("denial", Some(asking), prompt);
        let live = as_kept(cli, "denial", &ran);
        let tools = vec!["Bash".to_owned()];
        assert_eq!(
            judge(ExitFacts::Status(ran.status), &live, None, false),
            Ended::Denied { tools }
        );
        assert_eq!(ran.status, 0, "a denial has a status of its own now");
    }

    let ran = turn(
        "error",
        None,
        r#"LAB:{"error":{"status":400,"message":"boom"}}"#,
    );
    let live = as_kept(cli, "error", &ran);
    let ended = judge(ExitFacts::Status(ran.status), &live, None, false);
    let by = FailedBy::Request;
    assert!(
        matches!(ended, Ended::Failed { by: found, .. } if found == by),
        "{ended:?}"
    );

    let interrupted = signalled(&world, cli, &job("sigint"), Signal::INT);
    let live = read(cli, interrupted.stdout.as_bytes());
    let exit = ExitFacts::Status(interrupted.status);
    assert_ne!(live.end, Some(End::Completed));
    assert_eq!(judge(exit, &live, None, true), Ended::Interrupted);
    let ended = signalled(&world, cli, &job("sigterm"), Signal::TERM);
    let live = read(cli, ended.stdout.as_bytes());
    assert_eq!(live.end, None, "{}", ended.stdout);
    let exit = ExitFacts::Status(ended.status);
    assert_eq!(judge(exit, &live, None, true), Ended::Interrupted);

    let since = now();
    let ran = turn("limit", None, r#"LAB:{"usage_limit":{"resets_in":7200}}"#);
    let live = as_kept(cli, "limit", &ran);
    let ended = judge(ExitFacts::Status(ran.status), &live, None, false);
    let Ended::Limited {
        kind: Limit::Quota,
        until: Some(reset),
    } = ended
    else {
        panic!("{ended:?}: {}", ran.stdout);
    };
    let late = |reset: Reset| reset.at.as_duration().as_secs_f64() - since - 7200.0;
    // Codex says the minute alone here, and the rest in its rollout.
    let said = late(reset);
    assert!((-120.0..180.0).contains(&said), "{said} s late");
    let mut exact = live;
    let profile = world.session(&job("limit"))["profile"].clone();
    let account = account(profile.as_str().expect("a profile"));
    let path = |path: std::path::PathBuf| camino::Utf8PathBuf::from_path_buf(path).expect("UTF-8");
    let (home, workspace) = (path(world.home(cli, account)), path(project.clone()));
    let began = SignedDuration::try_from_secs_f64(since).expect("this age of the world");
    let began = Timestamp::from_duration(began).expect("this age of the world");
    exact.refine_by_transcript(kind(cli), &home, &workspace, None, began, &TimeZone::UTC);
    let failure = exact.failure.as_ref().expect("a failure");
    let reset = failure.reset.expect("a reset");
    assert!(
        !reset.guessed && (-3.0..60.0).contains(&late(reset)),
        "{reset:?}"
    );

    let lost = job("auth");
    drop(world.choose(&lost).success());
    let revoked = json!({"revoked": true, "refresh_error": "refresh_token_invalidated"});
    world
        .lab
        .set(&json!({"accounts": {"1": revoked, "2": revoked}}));
    let ran = turn("auth", None, r#"LAB:{"text":"x"}"#);
    let live = as_kept(cli, "auth", &ran);
    let ended = judge(ExitFacts::Status(ran.status), &live, None, false);
    let by = FailedBy::LoginLost;
    assert!(
        matches!(ended, Ended::Failed { by: found, .. } if found == by),
        "{ended:?}"
    );
}

#[test]
fn what_claude_prints_of_a_turn_reads_as_it_did() {
    outputs(Cli::Claude);
}

#[test]
fn what_codex_prints_of_a_turn_reads_as_it_did() {
    outputs(Cli::Codex);
}

/// An implementation writes in its workspace and not outside, a review nowhere; neither asks, both answer.
fn roles(cli: Cli) {
    let world = World::enabled(&Plan::default(), 4, &["project"]);
    let project = world.project("project");
    let (inside, outside) = (project.join("inside.txt"), world.lab.path("outside.txt"));
    let judged = |task: &str, role: Role, step: &serde_json::Value| {
        let job = Job::new(task, cli.name(), &project);
        let prompt = format!("LAB:{}", json!([step, {"text": "My final word"}]));
        let arguments = line(cli, role, None, &prompt);
        let ran = Worker::start(&world, task, &mut world.exec(&job, &arguments)).finish();
        let turn = read(cli, ran.stdout.as_bytes());
        assert_eq!(
            turn.answer.as_deref(),
            Some("My final word"),
            "{task}: {}",
            ran.stdout
        );
        judge(ExitFacts::Status(ran.status), &turn, None, false)
    };
    let write = |path: &Path| json!({"write": {"path": path, "content": "x"}});
    let role = Role::Implementation;
    assert_eq!(judged("inside", role, &write(&inside)), Ended::Succeeded);
    assert!(inside.exists(), "an implementation cannot write");
    assert_eq!(
        judged("tests", role, &json!({"shell": "python3 -c 1"})),
        Ended::Succeeded
    );
    let ended = judged("outside", role, &write(&outside));
    assert!(!outside.exists(), "an implementation wrote outside");
    assert_eq!(
        matches!(ended, Ended::Denied { .. }),
        cli == Cli::Claude,
        "{ended:?}"
    );
    let new = project.join("new.txt");
    let role = Role::Review;
    assert_eq!(
        judged(
            "look",
            role,
            &json!({"shell": "cat inside.txt; git status"})
        ),
        Ended::Succeeded
    );
    let ended = judged(
        "touch",
        role,
        &json!({"shell": format!("python3 -c \"open('{}', 'w')\"", new.display())}),
    );
    assert!(!new.exists(), "a review wrote");
    assert_eq!(
        matches!(ended, Ended::Denied { .. }),
        cli == Cli::Claude,
        "{ended:?}"
    );
}

#[test]
fn claudes_roles_can_do_their_work_and_no_more() {
    roles(Cli::Claude);
}

#[test]
fn codexs_roles_can_do_their_work_and_no_more() {
    roles(Cli::Codex);
}
