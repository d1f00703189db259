//! Every option and subcommand of Claude Code that we know, with the verdict on it.
//!
//! From the help and the binary of 2.1.332. What is not here is refused as unknown. Order: allowed, those
//! that `worker_options` can allow, those that nothing allows.

use crate::provider::argument::{Arity, Rule, Verdict, long, short};
use Arity::{Flag, List, Optional, Value};
use Verdict::{Allowed, Never, Policy};

const SESSION: Verdict =
    Never("it picks another conversation; use `agent-fleet resume` to continue the task's own");
const ELSEWHERE: Verdict = Never("it moves the work out of the leased workspace");
const BACKGROUND: Verdict =
    Never("it leaves the work to a background or remote session that no lease covers");
const SETTINGS: Verdict =
    Never("it changes which settings count, and settings can replace the leased account");
const HOST: Verdict = Never("it hands the session to another program, which no lease covers");
const UNRECORDED: Verdict =
    Never("it switches off the hooks or the transcript by which the session is known and resumed");
const READS: Verdict = Policy("it opens files outside the leased workspace");
const EXTENDS: Verdict = Policy("it loads programs or instructions from outside the workspace");
const OUTSIDE: Verdict = Policy("it connects the worker to a program outside the lease");
const BILLED: Verdict = Policy("it changes what the server is asked for");

/// The option table.
pub const RULES: &[Rule] = &[
    short(b'p', &["--print"], Flag, Allowed),
    short(b'd', &["--debug"], Optional, Allowed),
    short(b'h', &["--help"], Flag, Allowed),
    short(b'n', &["--name"], Value, Allowed),
    short(b'v', &["--version"], Flag, Allowed),
    long(&["--agent"], Value, Allowed),
    long(&["--allow-dangerously-skip-permissions"], Flag, Allowed),
    long(&["--allowedTools", "--allowed-tools"], List, Allowed),
    long(&["--append-system-prompt"], Value, Allowed),
    long(&["--append-system-prompt-file"], Value, Allowed),
    long(&["--autocompact"], Value, Allowed),
    long(&["--ax-screen-reader"], Flag, Allowed),
    long(&["--brief"], Flag, Allowed),
    long(&["--dangerously-skip-permissions"], Flag, Allowed),
    long(&["--disable-slash-commands"], Flag, Allowed),
    long(&["--disallowedTools", "--disallowed-tools"], List, Allowed),
    long(&["--effort"], Value, Allowed),
    long(&["--exclude-dynamic-system-prompt-sections"], Flag, Allowed),
    long(&["--fallback-model"], Value, Allowed),
    long(&["--forward-subagent-text"], Flag, Allowed),
    long(&["--include-hook-events"], Flag, Allowed),
    long(&["--include-partial-messages"], Flag, Allowed),
    long(&["--json-schema"], Value, Allowed),
    long(&["--max-budget-usd"], Value, Allowed),
    long(&["--max-turns"], Value, Allowed),
    long(&["--model"], Value, Allowed),
    long(&["--no-chrome"], Flag, Allowed),
    long(&["--output-format"], Value, Allowed),
    long(&["--permission-mode"], Value, Allowed),
    long(&["--permission-prompts"], Value, Allowed),
    long(&["--prompt-suggestions"], Optional, Allowed),
    long(&["--replay-user-messages"], Flag, Allowed),
    long(&["--strict-mcp-config"], Flag, Allowed),
    long(&["--system-prompt"], Value, Allowed),
    long(&["--system-prompt-file"], Value, Allowed),
    long(&["--system-prompt-snapshot"], Value, Allowed),
    long(&["--tools"], List, Allowed),
    long(&["--verbose"], Flag, Allowed),
    // The registry may allow these.
    long(&["--add-dir"], List, READS),
    long(&["--agents"], Value, EXTENDS),
    long(&["--betas"], List, BILLED),
    long(&["--channels"], List, OUTSIDE),
    long(&["--chrome"], Flag, OUTSIDE),
    long(&["--dangerously-load-development-channels"], List, OUTSIDE),
    long(
        &["--debug-file"],
        Value,
        Policy("it writes a file outside the workspace"),
    ),
    long(
        &["--file"],
        List,
        Policy("it downloads files with the account's login"),
    ),
    long(&["--ide"], Flag, OUTSIDE),
    // Measured: one of its control messages moved the running worker to another account.
    long(
        &["--input-format"],
        Value,
        Policy("control messages on its input can replace the worker's settings and login"),
    ),
    long(&["--max-thinking-tokens"], Value, BILLED),
    long(&["--mcp-config"], List, EXTENDS),
    long(&["--permission-prompt-tool"], Value, OUTSIDE),
    long(&["--plugin-dir"], Value, EXTENDS),
    long(&["--plugin-dir-no-mcp"], Value, EXTENDS),
    long(&["--plugin-url"], Value, EXTENDS),
    long(&["--workload"], Value, BILLED),
    // Nothing allows these.
    short(b'c', &["--continue"], Flag, SESSION),
    short(b'r', &["--resume"], Optional, SESSION),
    short(b'w', &["--worktree"], Optional, ELSEWHERE),
    long(&["--agent-id"], Value, HOST),
    long(&["--agent-name"], Value, HOST),
    long(&["--agents-view-if-allowed"], Flag, BACKGROUND),
    long(&["--attach-serve"], Value, HOST),
    long(&["--await-claim"], Flag, HOST),
    long(&["--await-initialize"], Flag, HOST),
    long(
        &["--bare"],
        Flag,
        Never("it ignores the home's login and its hooks"),
    ),
    long(&["--bg", "--background"], Flag, BACKGROUND),
    long(&["--client-data-url"], Value, SETTINGS),
    long(&["--cloud", "--remote"], Optional, BACKGROUND),
    long(&["--correlation-id"], Value, BACKGROUND),
    long(&["--cowork"], Flag, SETTINGS),
    long(&["--cwd"], Value, ELSEWHERE),
    long(&["--daemon-worker"], Flag, BACKGROUND),
    long(
        &["--desktop"],
        Flag,
        Never("it opens the Desktop app, which has its own account"),
    ),
    long(&["--enable-auth-status"], Flag, HOST),
    long(&["--environment"], Value, BACKGROUND),
    long(&["--exec"], Value, BACKGROUND),
    long(&["--fork-session"], Flag, SESSION),
    long(&["--forward-home-settings"], Value, SETTINGS),
    long(&["--from-pr"], Optional, SESSION),
    long(&["--gateway-json"], Flag, HOST),
    long(&["--handle-uri"], Value, SESSION),
    long(&["--hold-repository-while-parked"], Flag, HOST),
    long(&["--host-auth-is-org-sign-in"], Flag, HOST),
    long(&["--ignore-persisted-trust"], Flag, SETTINGS),
    long(&["--init"], Flag, UNRECORDED),
    long(&["--init-only"], Flag, UNRECORDED),
    long(&["--maintenance"], Flag, UNRECORDED),
    long(&["--managed-settings"], Value, SETTINGS),
    long(&["--managed-settings-in-initialize"], Flag, SETTINGS),
    long(&["--messaging-socket-path"], Value, HOST),
    long(&["--no-session-persistence"], Flag, UNRECORDED),
    long(&["--on-branch"], Value, BACKGROUND),
    long(&["--parent-session-id"], Value, SESSION),
    long(&["--pool"], Value, BACKGROUND),
    long(&["--project-config-root"], Value, SETTINGS),
    long(&["--remote-control", "--rc"], Optional, BACKGROUND),
    long(&["--remote-control-session-name-prefix"], Value, BACKGROUND),
    long(&["--reply-on-resume"], Flag, SESSION),
    // It reads as harmless, and ignores the home's settings, our hooks among them (measured).
    long(&["--restricted"], Flag, UNRECORDED),
    long(&["--resume-drops-turn"], Value, SESSION),
    long(&["--resume-session-at"], Value, SESSION),
    long(&["--rewind-files"], Value, SESSION),
    long(&["--routine"], Value, BACKGROUND),
    long(&["--runner-declares"], Value, HOST),
    long(&["--safe-mode"], Flag, UNRECORDED),
    long(&["--sdk-url"], Value, HOST),
    long(&["--session-began-as-copy"], Value, SESSION),
    long(
        &["--session-id"],
        Value,
        Never("agent-fleet chooses the session id"),
    ),
    long(&["--session-mirror"], Flag, HOST),
    long(&["--session-tunnel"], Flag, HOST),
    long(&["--setting-sources"], Value, SETTINGS),
    long(&["--settings"], Value, SETTINGS),
    long(&["--team-name"], Value, HOST),
    long(&["--teleport"], Optional, SESSION),
    long(&["--tmux"], Flag, ELSEWHERE),
    long(&["--trust-workspace"], Flag, SETTINGS),
    long(&["--trusted-folder"], Value, SETTINGS),
    long(
        &["--update", "--upgrade"],
        Flag,
        Never("a worker may not replace the CLI"),
    ),
];

const LOGIN: &str = "it changes or asks about logins; use `agent-fleet profile`";
const JOBS: &str = "it works on background sessions, which no lease covers";
const ADMIN: &str = "it changes the CLI, its settings or its data";
const SERVES: &str = "it serves other programs instead of working on the task";

/// Words that Claude Code takes for a subcommand when they are the first word.
pub const SUBCOMMANDS: &[(&str, &str)] = &[
    ("agents", JOBS),
    ("attach", JOBS),
    ("auth", LOGIN),
    ("auto-mode", ADMIN),
    ("bridge", SERVES),
    ("daemon", JOBS),
    ("design-login", LOGIN),
    (
        "doctor",
        "it may renew the login; use `agent-fleet profile status`",
    ),
    ("edit-chrome-settings", ADMIN),
    ("edit-hook", ADMIN),
    ("edit-memory-settings", ADMIN),
    ("edit-permission-rules", ADMIN),
    ("edit-sandbox-settings", ADMIN),
    ("edit-skill-overrides", ADMIN),
    ("error", ADMIN),
    ("export", ADMIN),
    ("gateway", SERVES),
    (
        "help",
        "it prints help only; run the provider's CLI for that",
    ),
    ("import", ADMIN),
    ("import-conversations", ADMIN),
    ("install", ADMIN),
    ("kill", JOBS),
    ("log", ADMIN),
    ("logs", JOBS),
    (
        "mcp",
        "it changes the home's MCP servers and may renew the login",
    ),
    ("plugin", ADMIN),
    ("plugins", ADMIN),
    ("project", ADMIN),
    ("purge", ADMIN),
    ("rc", SERVES),
    ("remote", SERVES),
    ("remote-control", SERVES),
    ("respawn", JOBS),
    ("rm", JOBS),
    ("sandbox", ADMIN),
    ("self-hosted-agent-proxy", SERVES),
    ("self-hosted-runner", SERVES),
    ("setup-token", LOGIN),
    ("stop", JOBS),
    ("sync", SERVES),
    ("ultrareview", "it runs in the cloud, which no lease covers"),
    ("update", ADMIN),
    ("upgrade", ADMIN),
    ("workspace-trust", ADMIN),
    ("worktree-hook", ADMIN),
];
