//! Profiles that get their login by the real CLIs' own logins, through our command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::ran::Ran;
use crate::world::{Job, World};

/// A world with a project, and accounts 1 and 2 of each provider in homes that nobody has added.
pub(crate) fn world() -> World {
    let mut world = World::new(
        &Plan {
            accounts: 2,
            ..Plan::default()
        },
        &["project"],
    );
    world.set("AGENT_FLEET_TEST_SECOND_PROOF", "200");
    world
}

/// Adds a profile in the pool of its provider; its home is where it is by default.
pub(crate) fn add(world: &World, cli: Cli, id: &str) {
    let line = ["profile", "add", id, "--provider", cli.name()];
    drop(Ran::of(world.command(line).args(["--pool", cli.name()])).success());
}

/// Who the person at codex's page is.
pub(crate) fn person(world: &World, account: u32) {
    world
        .lab
        .set(&json!({"device": {"account": account, "pending_polls": 1, "interval": 1}}));
}

/// `profile enroll` with the person's browser, which answers at once as this account.
pub(crate) fn with_browser(world: &World, id: &str, account: u32) -> Ran {
    in_browser(world, &["profile", "enroll", id], account)
}

fn in_browser(world: &World, line: &[&str], account: u32) -> Ran {
    let script = world.lab.path("browser");
    World::write(
        &script,
        &format!(
            "#!/usr/bin/env python3\nimport sys, urllib.parse, urllib.request\n\
             q = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)\n\
             back = q['redirect_uri'][0].replace('localhost', '127.0.0.1') + '?' + urllib.parse.urlencode({{'code': 'code_LAB{account:04}', 'state': q['state'][0]}})\n\
             urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(back).read()\n"
        ),
    );
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("a file of ours");
    Ran::of(world.command(line).env("BROWSER", script))
}

/// `profile enroll` of a Claude profile over ssh: no browser; the person pastes the code of this account.
pub(crate) fn with_code(world: &World, id: &str, account: u32) -> Ran {
    let mut command: Command = world.command(["profile", "enroll", id]);
    paste(command.env("BROWSER", "/bin/false"), account)
}

/// Runs a command that asks for Claude's code, and pastes the one of this account.
pub(crate) fn paste(command: &mut Command, account: u32) -> Ran {
    let mut child = command
        .env("CLAUDE_CODE_FULL_SIGN_IN_LINK", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("platform.claude.com") || !said.contains("state=") {
        let read = stderr.read_line(&mut said).expect("text");
        assert!(read > 0, "no link was shown: {said}");
    }
    let state: String = said
        .rsplit("state=")
        .next()
        .unwrap_or_default()
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || "-_".contains(*letter))
        .collect();
    writeln!(stdin, "code_LAB{account:04}#{state}").expect("it reads");
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        while stderr.read_line(&mut rest).is_ok_and(|read| read > 0) {}
        rest
    });
    let output = child.wait_with_output().expect("the program ends");
    drop(stdin);
    let mut ran = Ran::ended(&output);
    ran.stderr = said + &rest.join().expect("text");
    ran
}

/// The credential file of a profile.
pub(crate) fn credential(world: &World, cli: Cli, id: &str) -> PathBuf {
    world
        .lab
        .path(format!("share/accounts/{}/{id}", cli.name()))
        .join(file(cli))
}

/// The credential file of an account's profile below a share root.
pub(crate) fn credential_below(share: &Path, cli: Cli, account: u32) -> PathBuf {
    let home = format!("accounts/{0}/{0}-{account}", cli.name());
    share.join(home).join(file(cli))
}

/// The credential file of a CLI, relative to its home.
pub(crate) fn file(cli: Cli) -> &'static str {
    match cli {
        Cli::Claude => ".credentials.json",
        Cli::Codex => "auth.json",
    }
}

/// Which file it is, and what is in it.
pub(crate) fn kept(path: &Path) -> (u64, Vec<u8>) {
    let inode = std::fs::metadata(path).expect("a credential").ino();
    (inode, std::fs::read(path).expect("a credential"))
}

/// Nothing of a login is left but in the homes.
pub(crate) fn nothing_left(world: &World) {
    for folder in ["state/staging", "state/transactions"] {
        let entries = std::fs::read_dir(world.lab.path(folder));
        let left: Vec<_> = entries.into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The profile works at once, on this account and no other.
fn works(world: &World, cli: Cli, id: &str, account: u32, enrolled: &Value) {
    assert_eq!(enrolled["outcome"], "promoted", "{enrolled}");
    assert_eq!(
        enrolled["hint"],
        format!("agent-fleet profile enable {id}"),
        "{enrolled}"
    );
    drop(world.run(["profile", "enable", id]).success());
    let since = now();
    let job = Job::new("first", cli.name(), &world.project("project"));
    let (profile, _) = world.turn(cli, &job, r#"LAB:{"text":"hello"}"#);
    assert_eq!(profile, id);
    assert_eq!(world.only(cli, account, since).len(), 1);
    nothing_left(world);
}

#[test]
fn codex_logs_in_by_a_browser_and_works_at_once() {
    let world = world();
    add(&world, Cli::Codex, "codex-7");
    let line = ["profile", "enroll", "codex-7", "--browser"];
    let enrolled = in_browser(&world, &line, 7).success();
    works(&world, Cli::Codex, "codex-7", 7, &enrolled);
}

#[test]
fn claude_logs_in_by_a_browser_and_works_at_once() {
    let world = world();
    add(&world, Cli::Claude, "claude-6");
    let enrolled = with_browser(&world, "claude-6", 6).success();
    works(&world, Cli::Claude, "claude-6", 6, &enrolled);
    let noted = world
        .lab
        .path("share/accounts/claude/claude-6/.claude.json");
    let noted = std::fs::read_to_string(noted).expect("Claude's notes");
    assert!(noted.contains("oauthAccount"), "{noted}");
}
