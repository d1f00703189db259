//! Accounts, settings, plans and workers for unit tests.

use std::path::{Path, PathBuf};

use crate::env::Roots;
use crate::error::Result;
use crate::fleet::model::{Assignment, Mode, Role, SCHEMA, Worker, WorkerState};
use crate::fleet::plan::compile::{Compiled, Ground, compile};
use crate::fleet::plan::text::{Form, parse};
use crate::fleet::scope::path::{self, Case};
use crate::fleet::settings::Settings;
use crate::fleet::settings::layer::{self, Known, Layer, Whose};
use crate::fleet::settings::pools::Pools;
use crate::registry::schema::Registry;
use crate::registry::validate;

/// Roots where nothing is.
pub(crate) fn roots() -> Roots {
    Roots {
        home: "/h".into(),
        config: "/h/.config/agent-fleet/accounts.toml".into(),
        state: "/h/state".into(),
        share: "/h/share".into(),
    }
}

/// A registry of profiles, each `provider:pool`.
pub(crate) fn registry(profiles: &[&str]) -> Registry {
    let tables = profiles.iter().enumerate().map(|(at, profile)| {
        let (provider, pool) = profile.split_once(':').unwrap();
        format!(
            "[profiles.p{at}]\nprovider = \"{provider}\"\nhome = \"/h/{at}\"\npools = [\"{pool}\"]\nenabled = true\n"
        )
    });
    let text = std::iter::once("version = 1\n".to_owned())
        .chain(tables)
        .collect::<String>();
    match validate::parse(&text, &roots()) {
        Ok(parsed) => parsed.registry,
        Err(problem) => panic!("{problem:?}\n{text}"),
    }
}

/// What a file says, or its problems with their lines.
pub(crate) fn layer(text: &str, whose: Whose) -> Result<Layer, String> {
    let known = Known {
        registry: &Registry::default(),
        roots: &roots(),
    };
    layer::parse(text, whose, known).map_err(|problems| {
        let lines = problems
            .iter()
            .map(|problem| format!("{}: {}", problem.line, problem.message));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// The settings of a person's file.
pub(crate) fn settings(text: &str) -> Settings {
    Settings::of(layer(text, Whose::Person).unwrap())
}

/// A plan of TOML text on these profiles and settings.
pub(crate) fn plan(text: &str, profiles: &[&str], own: &str) -> Result<Compiled, String> {
    let text = parse(text, Form::Toml)
        .map_err(|problem| format!("{}: {}", problem.line, problem.message))?;
    let settings = settings(own);
    let pools = Pools::of(&registry(profiles));
    compile(&text, ground(&settings, &pools)).map_err(|error| error.message)
}

/// A ground on which every path that may be owned is a file.
pub(crate) fn ground<'a>(settings: &'a Settings, pools: &'a Pools) -> Ground<'a> {
    Ground {
        settings,
        pools,
        file: &path::check,
        case: Case::Sensitive,
    }
}

/// The files of `fixtures/fleet/<folder>` whose name begins so, with their texts.
pub(crate) fn fixtures(folder: &str, start: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/fleet")
        .join(folder);
    let mut found: Vec<(PathBuf, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(start)
        })
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{start}");
    found
}

/// The TOML examples of a section of docs/fleet.md.
pub(crate) fn examples(section: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks: Vec<String> = section
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect();
    assert!(!blocks.is_empty(), "{section}");
    blocks
}

/// A worker of a step of the same name, or of a reviewer's step, in its first launch.
pub(crate) fn worker(name: &str, state: WorkerState, assignment: &Assignment) -> Worker {
    let step = name.strip_suffix("-review");
    Worker {
        schema: SCHEMA,
        name: name.parse().unwrap(),
        role: step.map_or(Role::Implementation, |_| Role::Review),
        step: step.unwrap_or(name).parse().unwrap(),
        task: format!("0123456789abcdef.r.{name}").parse().unwrap(),
        assignment: assignment.clone(),
        mode: Mode::Headless,
        state,
        reason: None,
        launch: 1,
        token: "t".to_owned(),
        session: None,
        profile: None,
        held_until: None,
        reviewed_diff: None,
        queue: Vec::new(),
        taken: Vec::new(),
    }
}
