//! What would replace a profile's login, wherever it stands, and what becomes of it.
//!
//! Each provider lists its own places and keys; this is the one question that status, doctor and launches
//! ask. Files refuse the worker, by file and key. A variable of the caller's never reaches a worker, so it
//! refuses nothing, and is named all the same: it explains why another program is on another account.
//!
//! Values are never part of an answer. Limits: what a worker's own tool writes while it runs is not found
//! here; each provider's command line says how that is kept without effect.

use std::fs;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::{Login, LoginKind, conveyance};
use crate::contract::profile::{AuthOverride, OverrideScope};
use crate::env::Context;
use crate::registry::schema::{Profile, Registry};
use crate::store::read;
use crate::sys::shell;

/// Something that would replace the home's login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Whose it is.
    pub scope: OverrideScope,
    /// Where: a path and the key in it, or `environment: ` and the variable.
    pub source: String,
    /// The file alone, to be edited; `None` for a variable.
    pub file: Option<Utf8PathBuf>,
    /// What it would do, as a clause.
    pub effect: &'static str,
}

impl Override {
    /// Whether a worker is refused because of it; else it is only kept from workers.
    pub fn refuses(&self) -> bool {
        self.scope != OverrideScope::Environment
    }

    /// What a person types: a key is taken out of its file, a whole file is put aside. `None` for a variable.
    pub fn cure(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let quoted = shell::quote(file.as_str());
        Some(if self.source == file.as_str() {
            let aside = format!("{file}.aside");
            format!("mv -n {quoted} {}", shell::quote(&aside))
        } else {
            format!("${{EDITOR:-vi}} {quoted}")
        })
    }
}

impl From<Override> for AuthOverride {
    fn from(found: Override) -> Self {
        Self {
            refuses: found.refuses(),
            scope: found.scope,
            source: found.source,
            file: found.file,
            effect: found.effect.to_owned(),
        }
    }
}

/// Everything in the home, these workspaces and the machine that would replace the login of `profile`.
pub fn of(profile: &Profile, workspaces: &[&Utf8Path]) -> Vec<Override> {
    let mut all = super::of(profile.provider).overrides(&profile.home, workspaces);
    all.extend(second_login(profile));
    all
}

/// A login in the home of a profile whose credential we keep: the CLI would go on with it if it could not read ours.
pub fn second_login(profile: &Profile) -> Option<Override> {
    let provider = super::of(profile.provider);
    let path = profile.home.join(provider.credential_file());
    if !conveyance::is_ours(profile) || fs::symlink_metadata(&path).is_err() {
        return None;
    }
    let bytes = read::optional(&path).ok().flatten().unwrap_or_default();
    let blank = |login: Login| login.kind == LoginKind::Blank;
    (!provider.parse_login(&bytes).is_ok_and(blank)).then(|| Override {
        scope: OverrideScope::Home,
        source: path.to_string(),
        file: Some(path),
        effect: "is another login than the one that is kept for the profile",
    })
}

/// Everything that would replace the login of `profile`: in its home, on the machine, in the workspace, and
/// in the caller's environment. Without a workspace, in every project that its workers may work in.
///
/// Reads a few small local files; no network, no process.
pub fn found(
    context: &Context,
    registry: &Registry,
    profile: &Profile,
    workspace: Option<&Utf8Path>,
) -> Vec<Override> {
    let provider = super::of(profile.provider);
    let workspaces = workspace.map_or_else(|| registry.trusted(profile.provider), |one| vec![one]);
    let mut all = of(profile, &workspaces);
    let ambient = provider.ambient().into_iter().filter(|(name, _)| {
        let value = context.variables.raw(name).map(Path::new);
        // Inside a worker of this very profile they are ours.
        value.is_some_and(|value| !value.starts_with(&profile.home))
    });
    all.extend(ambient.map(|(name, effect)| Override {
        scope: OverrideScope::Environment,
        source: format!("environment: {name}"),
        file: None,
        effect,
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::found;
    use crate::contract::profile::OverrideScope;
    use crate::id::ProviderKind;
    use crate::provider::home::tests::World;
    use crate::registry::schema::Project;

    #[test]
    fn a_variable_of_the_caller_s_is_named_and_refuses_nothing() {
        let world = World::new();
        let mut parts = world.parts(ProviderKind::Claude, &[], &[]);
        let home = parts.profile.home.clone();
        let inside = home.join("no-anthropic-profiles").into_string();
        parts.context.variables = [
            ("ANTHROPIC_API_KEY", "synthetic"),
            ("CLAUDE_CODE_OAUTH_TOKEN", ""),
            ("CLAUDE_CONFIG_DIR", home.as_str()),
            ("ANTHROPIC_CONFIG_DIR", inside.as_str()),
            ("HTTPS_PROXY", "http://proxy:3128"),
        ]
        .into_iter()
        .collect();
        let all = found(&parts.context, &parts.registry, &parts.profile, None);
        let [one] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!(one.source, "environment: ANTHROPIC_API_KEY");
        assert_eq!(one.scope, OverrideScope::Environment);
        assert!(!one.refuses());
        assert!(!format!("{all:?}").contains("synthetic"));
    }

    #[test]
    fn without_a_workspace_every_registered_project_is_looked_at() {
        let world = World::new();
        let mut parts = world.parts(ProviderKind::Claude, &[], &[]);
        for name in ["a", "b"] {
            world.write(
                &format!("{name}/.claude/settings.json"),
                r#"{"apiKeyHelper":"x"}"#,
            );
            parts.registry.projects.push(Project {
                path: world.path(name),
                provider: (name == "b").then_some(ProviderKind::Codex),
            });
        }
        let look = |workspace| found(&parts.context, &parts.registry, &parts.profile, workspace);
        let other = world.path("c");
        assert_eq!(look(Some(&other)), []);
        let all = look(None);
        let [one] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert!(one.source.contains("/a/"), "{all:?}");
        assert!(one.refuses() && one.scope == OverrideScope::Project);
    }
}
