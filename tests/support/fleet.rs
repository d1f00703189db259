//! Codex profiles on the stand-in provider and reader: real homes, real exec, a worker of our own.

use std::path::PathBuf;

use super::sandbox::Sandbox;

/// The pool of all profiles.
pub(crate) const POOL: &str = "crew";

/// A sandbox with equal profiles, provisioned and enabled.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// The hermetic home, roots and program.
    pub sandbox: Sandbox,
    project: PathBuf,
    profiles: Vec<String>,
}

impl Fleet {
    /// `count` profiles with `slots` slots each.
    pub(crate) fn new(count: usize, slots: u32) -> Self {
        let sandbox = Sandbox::new();
        let project = sandbox.git_project("project");
        let profiles: Vec<String> = (1..=count)
            .map(|number| format!("codex-{number}"))
            .collect();
        let mut registry = format!(
            "version = 1\n[providers.codex]\nbinary = \"{}\"\nbase_home = false\nquota_reader = \"{}\"\n",
            env!("CARGO_BIN_EXE_fake-provider"),
            env!("CARGO_BIN_EXE_fake-reader"),
        );
        for id in &profiles {
            let home = sandbox.path(format!("share/accounts/codex/{id}"));
            let home = home.display();
            registry.push_str(
                &[
                    format!("[profiles.\"{id}\"]\nprovider = \"codex\"\nhome = \"{home}\"\n"),
                    format!("pools = [\"{POOL}\"]\nenabled = true\nmax_concurrent = {slots}\n"),
                ]
                .concat(),
            );
        }
        sandbox.write("config/accounts.toml", registry);
        let fleet = Self {
            sandbox,
            project,
            profiles,
        };
        let workspace = fleet.workspace();
        let register = ["project", "register", "--provider", "codex", &workspace];
        fleet.sandbox.run(register).success();
        fleet
            .sandbox
            .run(["profile", "provision", "--all"])
            .success();
        fleet
    }

    /// The profiles' ids.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = &String> {
        self.profiles.iter()
    }

    fn workspace(&self) -> String {
        self.project.to_str().expect("UTF-8").to_owned()
    }

    fn terms(&self, words: &[&str], task: &str) -> Vec<String> {
        let workspace = self.workspace();
        let mut line = words.to_vec();
        line.extend(["--task", task, "--pool", POOL, "--workspace", &workspace]);
        line.into_iter().map(str::to_owned).collect()
    }

    /// The arguments of `lease choose` for a task.
    pub(crate) fn choose(&self, task: &str) -> Vec<String> {
        self.terms(&["lease", "choose"], task)
    }

    /// The arguments of `exec` of the stand-in with a prompt.
    pub(crate) fn exec(&self, task: &str, prompt: &str) -> Vec<String> {
        let mut line = self.terms(&["exec"], task);
        line.extend(["--", "exec", prompt].map(str::to_owned));
        line
    }
}
