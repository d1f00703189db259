//! What follows `--` of `agent-fleet exec` and `agent-fleet resume` for a worker's turn. Pure.
//!
//! The same for both: our own grammar puts options where a resumed conversation takes them (`codex exec -s …
//! resume ID`, since `codex exec resume` knows no `-s`; measured with 0.171: a resumed turn with these
//! arguments wrote inside its workspace and not outside). The prompt stands last behind `--` and is one line
//! that points to a file, so nothing of the work is in argv.

use std::ffi::OsString;

use crate::fleet::model::Assignment;
use crate::fleet::state::{Mode, Role};
use crate::id::ProviderKind;
use crate::id::fleet::WorkerId;

/// The prompt of a turn: where the work is written down, and who it is for. `file` is relative to the
/// workspace, or absolute.
pub fn pointer(file: &str, worker: &WorkerId) -> String {
    format!("Read {file} and follow it exactly. You are fleet worker {worker}.")
}

/// The permission arguments of a role where the settings name none: nothing is left to the CLIs' own
/// defaults, which differ between modes and versions.
///
/// Measured with the real CLIs (Claude Code 2.1.332, Codex 0.171):
///
/// | | tried | happened |
/// |---|---|---|
/// | Claude, implementation | edit in the workspace | written |
/// | | edit outside of it | denied, status 0 |
/// | | any command, `python3 -c 1` | run; with `acceptEdits` alone it is denied, and with `auto` a model decides |
/// | Claude, review | `git diff`, `ls`, `cat`, `grep` | run: Claude itself knows that they only read |
/// | | `python3 -c 1`, `git log > file` | denied, status 0 |
/// | | an edit | there is no such tool |
/// | Codex, implementation | write in the workspace, also in a resumed turn | written |
/// | | write outside of it | `Read-only file system` from the sandbox of the kernel |
/// | Codex, review | any write | the same |
///
/// Limits: Claude's commands run without a sandbox (its own needs settings and `bwrap`, no argument turns it
/// on), so what they write outside the workspace is held off by the operating system's users alone; what they
/// write inside is seen by the scope check. The scripted agent asks nobody for anything.
pub fn permissions(provider: ProviderKind, role: Role) -> Vec<String> {
    let words: &[&str] = match (provider, role) {
        (ProviderKind::Claude, Role::Implementation) => {
            &["--permission-mode=acceptEdits", "--allowedTools=Bash"]
        }
        (ProviderKind::Claude, Role::Review) => {
            &["--permission-mode=dontAsk", "--tools=Bash,Glob,Grep,Read"]
        }
        (ProviderKind::Codex, Role::Implementation) => &[
            "--sandbox=workspace-write",
            "--config=approval_policy=never",
        ],
        (ProviderKind::Codex, Role::Review) => {
            &["--sandbox=read-only", "--config=approval_policy=never"]
        }
        (ProviderKind::Scripted, Role::Implementation | Role::Review) => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The arguments of one turn; `prompt` is that of [`pointer()`], and `None` where a person types.
pub fn arguments(assignment: &Assignment, mode: Mode, prompt: Option<&str>) -> Vec<OsString> {
    let headless: &[&str] = match assignment.provider {
        // Nobody can be asked: said here, since the terminal, where somebody can, does not know the option.
        ProviderKind::Claude => &[
            "--print",
            "--output-format=stream-json",
            "--verbose",
            "--permission-prompts=none",
        ],
        ProviderKind::Codex => &["exec", "--json"],
        ProviderKind::Scripted => &["--print", "--output-format=stream-json"],
    };
    let mut line: Vec<OsString> = Vec::new();
    match mode {
        Mode::Headless => line.extend(headless.iter().map(Into::into)),
        Mode::Terminal => {}
    }
    let mut option = |text: String| line.push(text.into());
    if let Some(model) = &assignment.model {
        option(format!("--model={model}"));
    }
    match (assignment.provider, &assignment.effort) {
        (ProviderKind::Claude, Some(effort)) => option(format!("--effort={effort}")),
        (ProviderKind::Codex, Some(effort)) => {
            option(format!("--config=model_reasoning_effort={effort:?}"));
        }
        (ProviderKind::Scripted, Some(_)) | (_, None) => {}
    }
    line.extend(assignment.permissions.iter().map(Into::into));
    if let Some(prompt) = prompt {
        line.extend(["--".into(), prompt.into()]);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{arguments, permissions, pointer};
    use crate::env::{Context, Variables, World};
    use crate::fleet::model::Assignment;
    use crate::fleet::state::{Mode, Role};
    use crate::id::ProviderKind::{self, Claude, Codex, Scripted};
    use crate::provider::{self, Invocation};
    use crate::registry::validate::defaults;

    fn assignment(provider: ProviderKind, role: Role, named: bool) -> Assignment {
        Assignment {
            provider,
            pool: "p".parse().unwrap(),
            model: named.then(|| "a-model".to_owned()),
            effort: named.then(|| "high".to_owned()),
            family: None,
            permissions: permissions(provider, role),
        }
    }

    fn read(assignment: &Assignment, mode: Mode) -> Invocation {
        let prompt = pointer("prompts/a b.md", &"lexer-review".parse().unwrap());
        let line = arguments(assignment, mode, Some(&prompt));
        let kind = assignment.provider;
        let world = World {
            arguments: Vec::new(),
            variables: [("HOME", "/home/person")]
                .into_iter()
                .collect::<Variables>(),
            directory: None,
            executable: None,
        };
        let context = Context::resolve(&world, None).unwrap();
        let settings = defaults(kind, &context.roots);
        let read = provider::of(kind).parse_arguments(&line, &settings);
        let read = read.unwrap_or_else(|refused| panic!("{line:?}: {refused}"));
        assert_eq!(read.prompt.as_deref(), Some(prompt.as_ref()), "{line:?}");
        read
    }

    #[test]
    fn our_own_grammar_takes_every_turn_that_we_ask_for() {
        for provider in [Claude, Codex, Scripted] {
            for role in [Role::Implementation, Role::Review] {
                for named in [true, false] {
                    let assignment = assignment(provider, role, named);
                    let headless = read(&assignment, Mode::Headless);
                    assert_eq!(headless.mode, provider::Mode::Headless);
                    assert_eq!(headless.model().is_some(), named);
                    let terminal = read(&assignment, Mode::Terminal);
                    assert_eq!(terminal.mode, provider::Mode::Terminal);
                    assert_eq!(terminal.model(), headless.model());
                }
            }
        }
    }

    #[test]
    fn effort_and_permissions_reach_the_cli_as_its_own_options() {
        let options = |provider, role| {
            let read = read(&assignment(provider, role, true), Mode::Headless);
            let options = read.options.iter();
            let options = options.map(|one| format!("{} {:?}", one.name, one.values));
            options.collect::<Vec<_>>().join("\n")
        };
        let claude = options(Claude, Role::Review);
        assert!(
            claude.contains("--effort [\"high\"]") && claude.contains("--tools"),
            "{claude}"
        );
        let codex = options(Codex, Role::Review);
        assert!(codex.contains("--sandbox [\"read-only\"]"), "{codex}");
        assert!(
            codex.contains("model_reasoning_effort=\\\"high\\\""),
            "{codex}"
        );
    }
}
