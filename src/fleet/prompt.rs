//! What a worker is told: templates of ours or of the checkout, filled once.
//!
//! A prompt is a file; argv only points at it ([`pointer`](super::turn::pointer)). Filling is one pass over the template, so that `{{…}}` in a
//! step's text or in the rules is content, and a ```` ```script ```` block reaches a scripted worker byte for byte.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::settings::file::{DIRECTORY, of_checkout, refusal};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::model::{PlannedStep, StepKind};
use crate::id::fleet::WorkerId;
use crate::registry::key::nearest;
use crate::registry::validate::Diagnostic;
use crate::sys::shell;

/// What a lead still has to write into a prompt; a prompt that holds it is not launched.
pub const OPEN: &str = "<!-- LEAD:";

/// Where a checkout keeps what every prompt has to say.
pub const RULES: &str = "rules.md";

macro_rules! templates {
    ($($(#[$doc:meta])* $variant:ident = $file:literal, holds $names:expr, needs $needs:expr;)+) => {
        /// A template.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Template { $($(#[$doc])* $variant,)+ }

        impl Template {
            /// Every template.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Name of its file in `.fleet/templates`.
            pub fn file(self) -> &'static str {
                match self { $(Self::$variant => $file,)+ }
            }

            /// The one that is built in.
            pub fn built_in(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("templates/", $file)),)+ }
            }

            /// Names that may stand in `{{…}}`.
            pub fn names(self) -> &'static [&'static str] {
                match self { $(Self::$variant => $names,)+ }
            }

            /// Names without which the worker would not know what to do.
            pub fn needs(self) -> &'static [&'static str] {
                match self { $(Self::$variant => $needs,)+ }
            }
        }
    };
}

const STEP: &[&str] = &[
    "id",
    "worker",
    "workspace",
    "text",
    "context",
    "decisions",
    "files",
    "rules",
    "checks",
    "report_format",
    "report",
];

templates! {
    /// A step that changes something.
    Implementation = "implementation.md", holds STEP, needs &["text", "files", "report_format"];
    /// A step that only reads.
    Investigation = "investigation.md", holds STEP, needs &["text"];
    /// A review.
    Review = "review.md",
        holds &["id", "worker", "workspace", "text", "context", "decisions", "files", "rules", "checks", "report", "diff"],
        needs &["text", "diff"];
    /// How a report is written; part of the first.
    Report = "report.md", holds &["id", "worker", "workspace", "report"], needs &["report"];
    /// A step that goes on in another conversation.
    Handoff = "handoff.md",
        holds &["id", "worker", "workspace", "prompt", "handoff", "diff"],
        needs &["prompt", "handoff"];
}

/// What prompts of a checkout are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    own: BTreeMap<Template, String>,
    rules: Option<String>,
}

/// For whom a prompt is, and where.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The worker.
    pub worker: &'a WorkerId,
    /// Where it works.
    pub workspace: &'a Utf8Path,
    /// Its report; for a review the author's.
    pub report: &'a Utf8Path,
}

/// What a conversation goes on from.
#[derive(Clone, Copy, Debug)]
pub struct Continued<'a> {
    /// The step's first prompt.
    pub prompt: &'a Utf8Path,
    /// What was done and said so far.
    pub handoff: &'a Utf8Path,
    /// What was changed so far.
    pub diff: &'a Utf8Path,
}

/// The names of a template with their values.
type Values<'a> = BTreeMap<&'static str, String>;

impl Templates {
    /// Those of ours, without rules.
    pub fn built_in() -> Self {
        Self {
            own: BTreeMap::new(),
            rules: None,
        }
    }

    /// Those of a checkout where it has some; `root` is its canonical root.
    ///
    /// Fails with `settings_invalid` when a template names what it cannot be given, or leaves out what it must say.
    pub fn load(context: &Context, root: &Utf8Path) -> Result<Self> {
        let directory = Utf8Path::new(DIRECTORY);
        let mut own = BTreeMap::new();
        for template in Template::ALL {
            let relative = directory.join("templates").join(template.file());
            let Some(text) = of_checkout(context, root, &relative)? else {
                continue;
            };
            check(*template, &text).map_err(|problems| {
                refusal(
                    context,
                    code::SETTINGS_INVALID,
                    &root.join(&relative),
                    &problems,
                )
            })?;
            own.insert(*template, text);
        }
        Ok(Self {
            own,
            rules: of_checkout(context, root, &directory.join(RULES))?,
        })
    }

    fn text(&self, template: Template) -> &str {
        self.own
            .get(&template)
            .map_or_else(|| template.built_in(), String::as_str)
    }

    /// The first prompt of a step.
    pub fn step(&self, step: &PlannedStep, decisions: &[String], place: Place<'_>) -> String {
        let template = match step.kind {
            StepKind::Change => Template::Implementation,
            StepKind::Investigate => Template::Investigation,
        };
        let mut values = self.values(step, decisions, place);
        let report = fill(self.text(Template::Report), &values);
        values.insert("report_format", report.trim_end().to_owned());
        fill(self.text(template), &values)
    }

    /// The prompt of a review; `diff` is the file with the change.
    pub fn review(
        &self,
        step: &PlannedStep,
        decisions: &[String],
        place: Place<'_>,
        diff: &Utf8Path,
    ) -> String {
        let mut values = self.values(step, decisions, place);
        values.insert("diff", diff.to_string());
        fill(self.text(Template::Review), &values)
    }

    /// The prompt of a step that goes on in another conversation.
    pub fn handoff(&self, step: &PlannedStep, place: Place<'_>, from: Continued<'_>) -> String {
        let mut values = whose(step, place);
        values.insert("prompt", from.prompt.to_string());
        values.insert("handoff", from.handoff.to_string());
        values.insert("diff", from.diff.to_string());
        fill(self.text(Template::Handoff), &values)
    }

    fn values(&self, step: &PlannedStep, decisions: &[String], place: Place<'_>) -> Values<'_> {
        let mut values = whose(step, place);
        values.insert("text", step.text.trim_end().to_owned());
        values.insert(
            "context",
            section("What the lead adds", step.context.as_deref()),
        );
        let decided: Vec<String> = decisions.iter().map(|one| format!("- {one}")).collect();
        let decided = Some(decided.join("\n")).filter(|text| !text.is_empty());
        values.insert(
            "decisions",
            section("What is decided already", decided.as_deref()),
        );
        values.insert("files", files(step));
        values.insert(
            "rules",
            section("Rules of this repository", self.rules.as_deref()),
        );
        let checks = checks(step);
        values.insert("checks", section("What will be checked", checks.as_deref()));
        values
    }
}

fn whose(step: &PlannedStep, place: Place<'_>) -> Values<'static> {
    BTreeMap::from([
        ("id", step.id.to_string()),
        ("worker", place.worker.to_string()),
        ("workspace", place.workspace.to_string()),
        ("report", place.report.to_string()),
    ])
}

/// A heading with a text; nothing without one.
fn section(heading: &str, text: Option<&str>) -> String {
    match text
        .map(str::trim_end)
        .filter(|text| !text.trim().is_empty())
    {
        Some(text) => format!("## {heading}\n\n{text}"),
        None => String::new(),
    }
}

fn files(step: &PlannedStep) -> String {
    if step.worktree {
        return "Anything in the workspace: it is a git worktree of this step alone.".to_owned();
    }
    if step.files.is_empty() {
        return "Nothing: this step only reads.".to_owned();
    }
    let names: Vec<String> = step
        .files
        .iter()
        .map(|file| format!("- `{file}`"))
        .collect();
    format!(
        "Only these files, which need not all be there yet:\n\n{}",
        names.join("\n")
    )
}

/// What the program checks, in words.
fn checks(step: &PlannedStep) -> Option<String> {
    let mut lines = Vec::new();
    for artifact in &step.accept.artifacts {
        let mut line = format!("- the file `{}` is there", artifact.path);
        if let Some(least) = artifact.min_chars {
            line.extend([", with at least ", &least.to_string(), " characters"]);
        }
        if !artifact.contains.is_empty() {
            let texts: Vec<String> = artifact
                .contains
                .iter()
                .map(|text| format!("`{text}`"))
                .collect();
            line.extend([", and contains ", &texts.join(" and ")]);
        }
        lines.push(line);
    }
    for command in &step.accept.commands {
        lines.push(format!("- `{command}` ends with status 0"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// One pass over a template: each `{{name}}` is replaced by its value, which is not looked at again. A line that holds
/// nothing but a name without a value goes, with the empty line after it.
fn fill(template: &str, values: &Values<'_>) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    let mut lines = template.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let alone = line
            .trim()
            .strip_prefix("{{")
            .and_then(|rest| rest.strip_suffix("}}"))
            .and_then(|name| values.get(name.trim()));
        if alone.is_some_and(String::is_empty) {
            lines.next_if(|next| next.trim().is_empty());
            continue;
        }
        let mut rest = line;
        while let Some((before, name, after)) = placeholder(rest) {
            filled.push_str(before);
            match values.get(name.trim()) {
                Some(value) => filled.push_str(value),
                // Checked when the template was read.
                None => filled.extend(["{{", name, "}}"]),
            }
            rest = after;
        }
        filled.push_str(rest);
    }
    let end = filled.trim_end().len();
    filled.truncate(end);
    filled.push('\n');
    filled
}

/// The first `{{name}}` of a line: what stands before it, the name, what follows.
fn placeholder(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

/// What is wrong with a template.
fn check(template: Template, text: &str) -> Result<(), Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let mut held: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some((before, name, after)) = placeholder(rest) {
            let column = line.len() - rest.len() + before.len() + 1;
            rest = after;
            let name = name.trim();
            held.push(name);
            if template.names().contains(&name) {
                continue;
            }
            let shown: String = name.chars().take(40).collect();
            let mut message = format!(
                "`{{{{{shown}}}}}` is nothing that `{}` is given",
                template.file()
            );
            if let Some(meant) = nearest(template.names().iter().copied(), name) {
                message = format!("{message}; did you mean `{{{{{meant}}}}}`?");
            }
            problems.push(Diagnostic {
                line: index + 1,
                column,
                message: crate::withheld::withhold(&message).into_owned(),
            });
        }
    }
    for name in template.needs().iter().filter(|name| !held.contains(*name)) {
        problems.push(Diagnostic {
            line: 1,
            column: 1,
            message: format!("`{}` must hold `{{{{{name}}}}}`", template.file()),
        });
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Refuses a prompt in which the lead left something open; `path` is its file.
pub fn finished(prompt: &str, path: &Utf8PathBuf) -> Result<()> {
    let Some(line) = prompt.lines().position(|line| line.contains(OPEN)) else {
        return Ok(());
    };
    let message = format!(
        "`{path}:{}`: `{OPEN}` marks what the lead still has to write",
        line + 1
    );
    Err(Error::new(code::PROMPT_INVALID, message)
        .hint(format!("grep -n LEAD {}", shell::quote(path.as_str())))
        .detail("path", path.as_str()))
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
