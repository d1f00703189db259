//! What of the caller's environment a worker may see.
//!
//! Workers need the person's toolchain, so `inherit` keeps everything but what names an account, a route to
//! a provider, a session or a workspace, and what loads code into the provider; `minimal` keeps a short
//! list. Names are compared with their case: `http_proxy` and `HTTP_PROXY` are two variables.
//!
//! Limits: `AWS_*`, `GOOGLE_*`, `CLOUDSDK_*` and `CLOUD_ML_REGION` stay, bearer tokens included: they count
//! only with a switch to another provider, and every switch is a `CLAUDE_CODE_USE_…` that goes. `OTEL_*`
//! and `MCP_*` stay: they reach the person's own collector and servers. `LD_LIBRARY_PATH` stays, because
//! toolchains need it.

use std::ffi::{OsStr, OsString};

use crate::env::Variables;
use crate::registry::schema::WorkerEnvironment;

/// Whole families of names that go, each with the reason.
pub const PREFIXES: &[(&str, &str)] = &[
    ("AGENT_FLEET_", "ours: set anew for the worker"),
    ("ANTHROPIC_", "logins, hosts and models of Claude Code"),
    (
        "ANT_CLAUDE_CODE_",
        "sends metrics with the login to another host",
    ),
    ("ANT_OTEL_", "sends traces of the session to another host"),
    ("BUN_INSPECT", "lets a debugger into Claude Code"),
    ("BUN_JSC_", "changes the engine that runs Claude Code"),
    ("CCR_", "proxy, tokens and session of a cloud runner"),
    ("CLAUDE", "logins, hosts and sessions of Claude Code"),
    ("CODEX_", "logins, hosts and sessions of Codex"),
    ("DYLD_", "loads code into the provider"),
    ("OPENAI_", "logins and hosts of Codex"),
    ("SCRIPTED_", "login and home of the scripted provider"),
];

/// Single names that go, each with the reason.
pub const NAMES: &[(&str, &str)] = &[
    (
        "AGENT_PROXY_AUTH_TOKEN",
        "login of a proxy for model requests",
    ),
    ("AGENT_PROXY_URL", "sends model requests through that proxy"),
    ("AI_AGENT", "marks the children of another agent's session"),
    (
        "BETA_TRACING_ENDPOINT",
        "sends traces of the session to another host",
    ),
    (
        "BUN_BE_BUN",
        "makes the claude binary run as another program",
    ),
    (
        "BUN_CONFIG_VERBOSE_FETCH",
        "prints requests with their tokens",
    ),
    ("BUN_OPTIONS", "loads code into Claude Code"),
    (
        "ENABLE_SESSION_BACKGROUNDING",
        "lets a session leave its process and so its lease",
    ),
    (
        "ENABLE_SESSION_PERSISTENCE",
        "decides whether the session can be resumed",
    ),
    ("ENVIRONMENT_SERVICE_KEY", "login of a self-hosted runner"),
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "points git at another repository than the workspace",
    ),
    (
        "GIT_COMMON_DIR",
        "points git at another repository than the workspace",
    ),
    (
        "GIT_DIR",
        "points git at another repository than the workspace",
    ),
    (
        "GIT_INDEX_FILE",
        "points git at another index than the workspace's",
    ),
    (
        "GIT_OBJECT_DIRECTORY",
        "points git at another repository than the workspace",
    ),
    ("GIT_PREFIX", "names the caller's directory"),
    ("GIT_WORK_TREE", "points git at another workspace"),
    ("LD_AUDIT", "loads code into the provider"),
    ("LD_PRELOAD", "loads code into the provider"),
    ("LOCAL_BRIDGE", "connects the session to a local server"),
    ("NODE_OPTIONS", "loads code into the provider"),
    ("NODE_REPL_EXTERNAL_MODULE", "loads code into the provider"),
    (
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "lets anyone in between read the login's token",
    ),
    ("OLDPWD", "names the caller's directory"),
    ("PWD", "names the caller's directory"),
    ("SDK_NATIVE_BIN", "names another provider binary"),
    (
        "SELF_HOSTED_RUNNER_AGENT_PROXY_URL",
        "sends model requests through that proxy",
    ),
    ("SESSION_INGRESS_URL", "sends the session to another host"),
    ("USE_LOCAL_OAUTH", "another server for the login"),
    ("USE_STAGING_OAUTH", "another server for the login"),
    (
        "VITALS_EMITTER_BIN",
        "a program that the provider would run",
    ),
    (
        "VOICE_STREAM_BASE_URL",
        "sends the login's token to that host",
    ),
];

/// Names that stay although a prefix covers them.
pub const EXCEPTIONS: &[(&str, &str)] = &[(
    "CODEX_CA_CERTIFICATE",
    "certificates that Codex trusts, needed behind a company proxy",
)];

/// What `minimal` keeps: the shell's basics, proxies and certificates, and the operator's word that the
/// machine is a sandbox (Claude Code as root asks for it).
pub const MINIMAL: &[&str] = &[
    "ALL_PROXY",
    "CODEX_CA_CERTIFICATE",
    "COLORTERM",
    "CURL_CA_BUNDLE",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IS_SANDBOX",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_ENV_PROXY",
    "NO_PROXY",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Families that `minimal` keeps.
pub const MINIMAL_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The environment that a worker starts from, in name order; the provider's variables and ours come on top.
///
/// `user` is the login name of the user database for `USER` and `LOGNAME`: on macOS it names the keychain
/// item. Without one the caller's own stay.
pub fn worker(
    variables: &Variables,
    policy: WorkerEnvironment,
    user: Option<&OsStr>,
) -> Vec<(OsString, OsString)> {
    let mut kept: Vec<(OsString, OsString)> = variables
        .iter()
        .filter(|(name, _)| match policy {
            WorkerEnvironment::Inherit => reason(name).is_none(),
            WorkerEnvironment::Minimal => reason(name).is_none() && is_minimal(name),
        })
        .filter(|(name, _)| user.is_none() || (*name != "USER" && *name != "LOGNAME"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if let Some(user) = user {
        for name in ["LOGNAME", "USER"] {
            kept.push((name.into(), user.to_owned()));
        }
    }
    kept.sort_unstable();
    kept
}

/// Why a variable does not reach workers; `None` for one that `inherit` keeps.
pub fn reason(name: &OsStr) -> Option<&'static str> {
    let bytes = name.as_encoded_bytes();
    if EXCEPTIONS.iter().any(|(kept, _)| name == *kept) {
        return None;
    }
    let single = NAMES.iter().find(|(scrubbed, _)| name == *scrubbed);
    single
        .or_else(|| {
            PREFIXES
                .iter()
                .find(|(prefix, _)| bytes.starts_with(prefix.as_bytes()))
        })
        .map(|(_, reason)| *reason)
}

/// The variables that workers will not see, with the reason; never their values. Ours are left out.
pub fn scrubbed_names(variables: &Variables) -> Vec<(String, &'static str)> {
    variables
        .iter()
        .filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"AGENT_FLEET_"))
        .filter_map(|(name, _)| Some((name.to_string_lossy().into_owned(), reason(name)?)))
        .collect()
}

fn is_minimal(name: &OsStr) -> bool {
    MINIMAL.iter().any(|kept| name == *kept)
        || MINIMAL_PREFIXES
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
