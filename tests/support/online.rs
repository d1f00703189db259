//! Claude and Codex profiles on the stand-in CLI whose servers are an [`Https`]: the built-in readers with all
//! their layers.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::https::{Answer, Asked, CA, Https};
use super::sandbox::{Ran, Sandbox};

/// The pool of all profiles.
pub(crate) const POOL: &str = "crew";

pub(crate) const PROFILE: &str = "/api/oauth/profile";
pub(crate) const CLAUDE_USAGE: &str = "/api/oauth/usage";
pub(crate) const CODEX_USAGE: &str = "/backend-api/wham/usage";

/// A sandbox with `claude-1`, `claude-2`, `codex-1`, …, logged in, provisioned and enabled.
#[derive(Debug)]
pub(crate) struct Online {
    pub sandbox: Sandbox,
    pub https: Https,
    pub project: PathBuf,
}

/// The true answer to a request: account N has used N times ten percent.
pub(crate) fn truth(asked: &Asked) -> Answer {
    let number = asked.token.split('-').nth(2).unwrap_or_default().to_owned();
    let used: f64 = number.parse().map_or(0.0, |number: f64| number * 10.0);
    let resets = "2100-01-01T00:00:00Z";
    Answer::json(&match asked.path.as_str() {
        PROFILE => json!({
            "account": {"uuid": format!("account-{number}"), "email": "someone@lab.invalid"},
            "organization": {"uuid": "organization"},
        }),
        CLAUDE_USAGE => json!({
            "five_hour": {"utilization": used, "resets_at": resets},
            "seven_day": {"utilization": used, "resets_at": resets},
        }),
        CODEX_USAGE => json!({
            "user_id": format!("user-{number}"), "account_id": format!("account-{number}"),
            "rate_limit": {"allowed": true, "limit_reached": false,
                "primary_window": {"used_percent": used, "limit_window_seconds": 18000, "reset_at": 4_102_444_800_i64},
                "secondary_window": {"used_percent": used, "limit_window_seconds": 604_800, "reset_at": 4_102_444_800_i64}},
        }),
        _ => return Answer::status(404),
    })
}

/// 429 to everything, with this `retry-after`.
pub(crate) fn throttled(retry_after: Option<&'static str>) -> impl Fn(&Asked) -> Answer + Send {
    move |_| match retry_after {
        Some(wait) => Answer::status(429).header("retry-after", wait),
        None => Answer::status(429),
    }
}

/// 200 after a while.
pub(crate) fn slow(milliseconds: u64) -> impl Fn(&Asked) -> Answer + Send {
    move |asked| truth(asked).after(Duration::from_millis(milliseconds))
}

impl Online {
    /// A world with these profiles.
    pub(crate) fn new(ids: &[&str]) -> Self {
        let https = Https::new(truth);
        let mut sandbox = Sandbox::new();
        sandbox.set("HTTPS_PROXY", https.url());
        sandbox.set("SSL_CERT_FILE", CA);
        let project = sandbox.git_project("project");
        let providers = ["claude", "codex"].map(|provider| {
            format!(
                "[providers.{provider}]\nbinary = \"{}\"\nbase_home = false\ndesktop_identity_file = false\n",
                env!("CARGO_BIN_EXE_fake-provider"),
            )
        });
        let world = Self {
            sandbox,
            https,
            project,
        };
        let profiles = ids.iter().map(|id| {
            format!(
                "[profiles.\"{id}\"]\nprovider = \"{}\"\nhome = \"{}\"\npools = [\"{POOL}\"]\nenabled = true\n",
                provider(id),
                world.home(id).display(),
            )
        });
        let registry: String = std::iter::once("version = 1\n".to_owned())
            .chain(providers)
            .chain(profiles)
            .collect();
        world.sandbox.write("config/accounts.toml", registry);
        for id in ids {
            world.log_in(id, "first");
        }
        for provider in ["claude", "codex"] {
            let project = world.project.to_str().expect("UTF-8");
            let register = ["project", "register", "--provider", provider, project];
            world.sandbox.run(register).success();
        }
        world
            .sandbox
            .run(["profile", "provision", "--all"])
            .success();
        world
    }

    pub(crate) fn home(&self, id: &str) -> PathBuf {
        let path = format!("share/accounts/{}/{id}", provider(id));
        self.sandbox.path(path)
    }

    /// Puts a login into a home: other tokens of the same account for each `word`.
    pub(crate) fn log_in(&self, id: &str, word: &str) {
        let number = id.rsplit('-').next().unwrap_or_default();
        self.log_in_as(id, number, word);
    }

    /// Puts a login of account `number` into a home.
    pub(crate) fn log_in_as(&self, id: &str, number: &str, word: &str) {
        let token = format!("synthetic-access-{number}-{word}");
        let (file, login) = if provider(id) == "claude" {
            let login = json!({"claudeAiOauth": {"accessToken": token, "refreshToken": format!("{token}-refresh"),
                "expiresAt": 4_102_444_800_000_i64, "scopes": ["user:inference", "user:profile"]}});
            (".credentials.json", login)
        } else {
            let login = json!({"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "2026-11-30T08:00:00Z",
                "tokens": {"id_token": "none", "access_token": token, "refresh_token": format!("{token}-refresh"),
                "account_id": format!("account-{number}")}});
            ("auth.json", login)
        };
        let path = self.home(id).join(file);
        self.sandbox.write(path, login.to_string());
    }

    /// Runs a command line whose words have no spaces.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.sandbox.run(line.split(' '))
    }

    /// The row of a profile in `quota show`, and its row alone.
    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        self.run(&format!("quota show {id}")).success()["quota"][0].clone()
    }

    /// The arguments of a dry run over the pool.
    pub(crate) fn dry_run(&self) -> Vec<String> {
        let project = self.project.to_str().expect("UTF-8");
        let line = [
            "choose",
            "--dry-run",
            "--task",
            "t",
            "--pool",
            POOL,
            "--workspace",
            project,
        ];
        line.map(str::to_owned).to_vec()
    }

    /// Moves the clock this far from the machine's.
    pub(crate) fn later(&mut self, seconds: i64) {
        self.sandbox
            .set("AGENT_FLEET_TEST_NOW", format!("{seconds:+}"));
    }
}

fn provider(id: &str) -> &str {
    id.split('-').next().unwrap_or_default()
}
