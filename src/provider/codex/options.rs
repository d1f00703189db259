//! Every option and subcommand of Codex that we know, with the verdict on it.
//!
//! From the help of 0.171. What is not here is refused as unknown.

use crate::provider::argument::{Arity, Rule, Verdict, long, short};
use Arity::{Flag, List, Value};
use Verdict::{Allowed, Never, Policy};

const SESSION: Verdict =
    Never("it picks another conversation; use `agent-fleet resume` to continue the task's own");
const ELSEWHERE: Verdict = Never("it moves the work out of the leased workspace");
const ROUTE: Verdict = Never("it sends the work to another model provider than the leased account");
const SERVER: Verdict = Never("it hands the session to another server, which no lease covers");
const TRUST: Verdict = Never("agent-fleet decides what is trusted, for this launch only");
const WRITES: Verdict = Policy("it names a file that Codex writes or reads outside its sandbox");
const TAGGED: Verdict = Policy("it changes what the server is asked for");

/// The option table. `--config`, `--enable` and `--disable` are judged by their values as well.
pub const RULES: &[Rule] = &[
    short(b'V', &["--version"], Flag, Allowed),
    short(b'a', &["--ask-for-approval"], Value, Allowed),
    short(b'c', &["--config"], Value, Allowed),
    short(b'h', &["--help"], Flag, Allowed),
    short(b'i', &["--image"], List, Allowed),
    short(b'm', &["--model"], Value, Allowed),
    short(b's', &["--sandbox"], Value, Allowed),
    long(&["--approve-for-me"], Flag, Allowed),
    long(&["--base"], Value, Allowed),
    long(&["--color"], Value, Allowed),
    long(&["--commit"], Value, Allowed),
    long(
        &["--dangerously-bypass-approvals-and-sandbox", "--yolo"],
        Flag,
        Allowed,
    ),
    long(&["--disable"], Value, Allowed),
    long(&["--enable"], Value, Allowed),
    long(&["--json", "--experimental-json"], Flag, Allowed),
    long(&["--no-alt-screen"], Flag, Allowed),
    long(&["--no-daemon"], Flag, Allowed),
    long(&["--search"], Flag, Allowed),
    long(&["--skip-git-repo-check"], Flag, Allowed),
    long(&["--strict-config"], Flag, Allowed),
    long(&["--title"], Value, Allowed),
    long(&["--uncommitted"], Flag, Allowed),
    // The registry may allow these.
    short(b'o', &["--output-last-message"], Value, WRITES),
    long(
        &["--add-dir"],
        Value,
        Policy("it lets the worker write outside the leased workspace"),
    ),
    long(&["--cyber-access-program"], Value, TAGGED),
    long(
        &["--ignore-rules"],
        Flag,
        Policy("it drops the rules about which commands may run"),
    ),
    long(&["--output-schema"], Value, WRITES),
    long(&["--thread-source"], Value, TAGGED),
    // Nothing allows these.
    short(b'C', &["--cd"], Value, ELSEWHERE),
    short(
        b'p',
        &["--profile"],
        Value,
        Never("it lays another configuration over the home's"),
    ),
    long(&["--all"], Flag, SESSION),
    long(&["--dangerously-bypass-hook-trust"], Flag, TRUST),
    long(
        &["--ephemeral"],
        Flag,
        Never("it writes no transcript, and without one the session cannot be resumed"),
    ),
    long(
        &["--ignore-user-config"],
        Flag,
        Never("it drops the home's configuration"),
    ),
    long(&["--include-non-interactive"], Flag, SESSION),
    long(&["--last"], Flag, SESSION),
    long(&["--local-provider"], Value, ROUTE),
    long(&["--oss"], Flag, ROUTE),
    long(&["--remote"], Value, SERVER),
    long(&["--remote-auth-token-env"], Value, SERVER),
    long(&["--trust"], Flag, TRUST),
    long(&["--worktree"], Flag, ELSEWHERE),
];

/// Options that only `codex exec` knows.
pub const EXEC_ONLY: &[&str] = &[
    "--color",
    "--cyber-access-program",
    "--ignore-rules",
    "--json",
    "--output-last-message",
    "--output-schema",
    "--skip-git-repo-check",
    "--thread-source",
];

/// Options that only the terminal knows, with what does the same in `codex exec`.
pub const TERMINAL_ONLY: &[(&str, &str)] = &[
    ("--ask-for-approval", "use `-c approval_policy=…`"),
    ("--no-alt-screen", "leave it out"),
    ("--search", "use `-c web_search=live`"),
];

/// Options that only `codex exec review` knows.
pub const REVIEW_ONLY: &[&str] = &["--base", "--commit", "--title", "--uncommitted"];

const LOGIN: &str = "it changes or asks about logins; use `agent-fleet profile`";
const SESSIONS: &str =
    "it works on other conversations; use `agent-fleet resume` for the task's own";
const SERVES: &str = "it starts or drives a server, which no lease covers";
const ADMIN: &str = "it changes the CLI, its settings or its data";

/// Words that Codex takes for a subcommand, `exec` and `review` apart.
pub const SUBCOMMANDS: &[(&str, &str)] = &[
    ("a", "it applies changes of another session"),
    ("agents", SESSIONS),
    ("app", SERVES),
    ("app-server", SERVES),
    ("apply", "it applies changes of another session"),
    ("archive", SESSIONS),
    ("cloud", "it runs in the cloud, which no lease covers"),
    ("completion", "it prints a shell script only"),
    ("debug", ADMIN),
    ("delete", SESSIONS),
    (
        "doctor",
        "it may renew the login; use `agent-fleet profile status`",
    ),
    ("exec-server", SERVES),
    ("features", ADMIN),
    ("fork", SESSIONS),
    (
        "help",
        "it prints help only; run the provider's CLI for that",
    ),
    ("login", LOGIN),
    ("logout", LOGIN),
    ("mcp", ADMIN),
    ("mcp-server", SERVES),
    ("migrate-nfs-db", ADMIN),
    ("migrate-rollouts", ADMIN),
    ("plugin", ADMIN),
    ("queue", SESSIONS),
    ("remote-control", SERVES),
    ("resume", SESSIONS),
    ("sandbox", "it runs a command without a session"),
    ("unarchive", SESSIONS),
    ("update", ADMIN),
];
