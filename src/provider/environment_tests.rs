//! What reaches a worker and what does not.

use std::ffi::{OsStr, OsString};

use super::{EXCEPTIONS, MINIMAL, NAMES, PREFIXES, reason, scrubbed_names, worker};
use crate::env::Variables;
use crate::registry::schema::WorkerEnvironment;

/// Every variable that was measured to change the account, the route or the session, or that the binaries
/// name among their credentials.
const IDENTITY: &[&str] = &[
    "AGENT_PROXY_AUTH_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_AWS_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CONFIG_DIR",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FEDERATION_RULE_ID",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
    "ANTHROPIC_ORGANIZATION_ID",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_UNIX_SOCKET",
    "CLAUDECODE",
    "CLAUDE_CODE_ACCOUNT_UUID",
    "CLAUDE_CODE_API_BASE_URL",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_CUSTOM_OAUTH_URL",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_HOST_AUTH_ENV_VAR",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "CLAUDE_CODE_OAUTH_SCOPES",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_USER_EMAIL",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_ENV_FILE",
    "CLAUDE_LOCAL_OAUTH_API_BASE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
    "CLAUDE_SESSION_INGRESS_TOKEN_FILE",
    "CLAUDE_TRUSTED_DEVICE_TOKEN",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_APP_SERVER_LOGIN_ISSUER",
    "CODEX_EXEC_SERVER_URL",
    "CODEX_GITHUB_PERSONAL_ACCESS_TOKEN",
    "CODEX_GUARDIAN_DECISIONS_API_KEY",
    "CODEX_HOME",
    "CODEX_OSS_BASE_URL",
    "CODEX_OSS_PORT",
    "CODEX_REFRESH_TOKEN_URL_OVERRIDE",
    "CODEX_REVOKE_TOKEN_URL_OVERRIDE",
    "CODEX_SESSION_ID",
    "CODEX_SQLITE_HOME",
    "CODEX_THREAD_ID",
    "DYLD_INSERT_LIBRARIES",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_IDENTITY_TOKEN_SOURCE",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
    "USE_LOCAL_OAUTH",
    "USE_STAGING_OAUTH",
];

fn variables(names: &[&str]) -> Variables {
    names
        .iter()
        .map(|name| (*name, "synthetic-value"))
        .collect()
}

fn names(environment: &[(OsString, OsString)]) -> Vec<&str> {
    environment
        .iter()
        .filter_map(|(name, _)| name.to_str())
        .collect()
}

#[test]
fn nothing_that_names_an_account_a_route_or_a_session_reaches_a_worker() {
    let variables = variables(IDENTITY);
    for policy in [WorkerEnvironment::Inherit, WorkerEnvironment::Minimal] {
        assert_eq!(worker(&variables, policy, None), [], "{policy:?}");
    }
    assert_eq!(scrubbed_names(&variables).len(), IDENTITY.len());
}

#[test]
fn inherit_keeps_the_toolchain_the_proxy_and_the_certificates() {
    let kept = [
        "ANT_HOME",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_PROFILE",
        "BUN_INSTALL",
        "CODEX_CA_CERTIFICATE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HOME",
        "HTTPS_PROXY",
        "LD_LIBRARY_PATH",
        "MCP_TIMEOUT",
        "NODE_EXTRA_CA_CERTS",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "PATH",
        "SSL_CERT_FILE",
        "XDG_RUNTIME_DIR",
        "claude_config_dir",
        "https_proxy",
    ];
    let variables = variables(&kept);
    assert_eq!(
        names(&worker(&variables, WorkerEnvironment::Inherit, None)),
        kept
    );
    assert_eq!(scrubbed_names(&variables), []);
}

#[test]
fn minimal_keeps_its_list_and_nothing_else() {
    let mut all = MINIMAL.to_vec();
    all.extend(["LC_ALL", "XDG_RUNTIME_DIR"]);
    all.sort_unstable();
    let mut given = all.clone();
    given.extend([
        "AWS_PROFILE",
        "CARGO_HOME",
        "SSH_AUTH_SOCK",
        "ANTHROPIC_API_KEY",
    ]);
    let environment = worker(&variables(&given), WorkerEnvironment::Minimal, None);
    assert_eq!(names(&environment), all);
}

#[test]
fn the_user_comes_from_the_user_database() {
    let variables = variables(&["USER", "HOME"]);
    let environment = worker(
        &variables,
        WorkerEnvironment::Inherit,
        Some(OsStr::new("worker")),
    );
    let user = |name: &str| {
        environment
            .iter()
            .filter(|(given, _)| given == name)
            .map(|(_, value)| value.to_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(user("USER"), ["worker"]);
    assert_eq!(user("LOGNAME"), ["worker"]);
    assert_eq!(user("HOME"), ["synthetic-value"]);
    let unknown = worker(&variables, WorkerEnvironment::Inherit, None);
    assert_eq!(names(&unknown), ["HOME", "USER"]);
}

#[test]
fn scrubbed_names_carry_no_values_and_leave_ours_out() {
    let variables = variables(&["AGENT_FLEET_CONFIG", "OPENAI_API_KEY", "PATH"]);
    let scrubbed = scrubbed_names(&variables);
    assert_eq!(scrubbed.len(), 1);
    assert!(!format!("{scrubbed:?}").contains("synthetic-value"));
}

#[test]
fn the_tables_are_sorted_disjoint_and_reasoned() {
    assert!(PREFIXES.is_sorted() && NAMES.is_sorted() && MINIMAL.is_sorted());
    for (name, why) in NAMES.iter().chain(PREFIXES).chain(EXCEPTIONS) {
        assert!(why.len() > 10, "{name} has no reason");
    }
    for (name, _) in NAMES {
        assert!(
            !PREFIXES.iter().any(|(prefix, _)| name.starts_with(prefix)),
            "{name} is covered by a prefix"
        );
    }
    for name in MINIMAL {
        assert_eq!(reason(OsStr::new(name)), None, "{name} is in both lists");
    }
}
