//! The world of the first public contract: stand-ins for provider and reader, and workers that are held.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::sandbox::{Ran, Sandbox};

const AMBIENT: [&str; 4] = [
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
];

/// Two profiles, one of each provider.
pub(super) struct World {
    /// The hermetic home, roots and program.
    pub(super) sandbox: Sandbox,
    project: PathBuf,
    /// Where the Desktop app says whose it is.
    pub(super) desktop: PathBuf,
}

impl World {
    pub(super) fn new() -> Self {
        let mut sandbox = Sandbox::new();
        let project = sandbox.git_project("project");
        let desktop = sandbox.write(
            "desktop/config.json",
            r#"{"lastKnownAccountUuid":"desktop-captain-account"}"#,
        );
        let logins = sandbox.path("logins").into_os_string();
        sandbox.set("FAKE_LOGINS", logins);
        for name in AMBIENT {
            sandbox.set(name, "ambient-synthetic-value");
        }
        let registry = registry(&sandbox, &desktop);
        sandbox.write("config/accounts.toml", registry);
        let world = Self {
            sandbox,
            project,
            desktop,
        };
        for provider in ["claude", "codex"] {
            world
                .run(&[
                    "project",
                    "register",
                    "--provider",
                    provider,
                    world.workspace(),
                ])
                .success();
        }
        world.run(&["profile", "provision", "--all"]).success();
        world
    }

    pub(super) fn workspace(&self) -> &str {
        self.project
            .to_str()
            .expect("the test world is well formed")
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.sandbox.run(arguments)
    }

    pub(super) fn choose_claude(&self) -> Ran {
        self.run(&[
            "choose",
            "--task",
            "claude-choice",
            "--pool",
            "claude-crew",
            "--provider",
            "claude",
            "--profile",
            "claude-1",
            "--workspace",
            self.workspace(),
            "--dry-run",
        ])
    }

    pub(super) fn exec(&self, task: &str, pool: &str, profile: &str, prompt: &[&str]) -> Ran {
        let mut words = vec![
            "exec",
            "--task",
            task,
            "--pool",
            pool,
            "--profile",
            profile,
            "--workspace",
            self.workspace(),
            "--",
        ];
        words.extend(prompt);
        self.run(&words)
    }
}

fn registry(sandbox: &Sandbox, desktop: &std::path::Path) -> String {
    let fake = env!("CARGO_BIN_EXE_fake-provider");
    let reader = env!("CARGO_BIN_EXE_fake-reader");
    let home = |id: &str| {
        sandbox
            .path(format!("share/accounts/{}/{id}", id.trim_end_matches("-1")))
            .display()
            .to_string()
    };
    format!(
        r#"version = 1

[providers.claude]
binary = "{fake}"
base_home = false
desktop_identity_file = "{desktop}"
quota_reader = "{reader}"

[providers.codex]
binary = "{fake}"
base_home = false
quota_reader = "{reader}"

[profiles."claude-1"]
provider = "claude"
home = "{claude}"
pools = ["claude-crew", "claude-manual"]
enabled = true
max_concurrent = 2

[profiles."codex-1"]
provider = "codex"
home = "{codex}"
pools = ["codex-crew", "codex-manual"]
enabled = true
max_concurrent = 3
"#,
        desktop = desktop.display(),
        claude = home("claude-1"),
        codex = home("codex-1"),
    )
}

/// The first line that the stand-in printed.
pub(super) fn seen(ran: &Ran) -> Value {
    assert_eq!(
        ran.status, 0,
        "stdout: {}\nstderr: {}",
        ran.stdout, ran.stderr
    );
    serde_json::from_str(ran.stdout.lines().next().unwrap_or_default())
        .expect("the stand-in prints JSON")
}

/// Asserts that nothing of the environment that pays reached the worker.
pub(super) fn no_ambient(seen: &Value) {
    for name in AMBIENT {
        assert!(
            seen["variables"].get(name).is_none(),
            "{name} reached the worker"
        );
    }
}

/// A live worker that ends when `release` is written.
pub(super) struct Held {
    /// Its process.
    pub(super) child: Child,
    release: PathBuf,
}

impl World {
    pub(super) fn hold(&self, task: &str) -> Held {
        let release = self.sandbox.path(format!("release-{task}"));
        let prompt = format!("hold-worker {}", release.display());
        let child = self
            .sandbox
            .command([
                "exec",
                "--task",
                task,
                "--pool",
                "codex-crew",
                "--workspace",
                self.workspace(),
                "--",
                "exec",
                &prompt,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the worker starts");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let leases = self.run(&["lease", "list"]).success();
            let running = leases["leases"]
                .as_array()
                .expect("the test world is well formed")
                .iter()
                .any(|lease| lease["task"] == *task && lease["state"] == "running");
            if running {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the worker never bound its lease"
            );
            std::thread::yield_now();
        }
        Held { child, release }
    }
}

impl Held {
    pub(super) fn end(mut self, sandbox: &Sandbox) {
        sandbox.write(
            self.release
                .file_name()
                .expect("the test world is well formed")
                .to_str()
                .expect("the test world is well formed"),
            "",
        );
        self.child.wait().expect("the worker ends");
    }
}
