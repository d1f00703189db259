//! Plans: what a person writes, what is frozen of it, and what may be changed later.

pub mod add;
pub mod compile;
pub mod dry;
pub mod graph;
pub mod text;

#[cfg(test)]
mod tests;

use camino::Utf8Path;

use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::fleet::settings::file::refusal;
use crate::store::read;
use crate::sys::shell;
use text::{Form, PlanText, StepText};

/// Reads a plan file and the tickets that it names; `root` is the checkout.
///
/// Fails with `plan_invalid`, naming file, line and key.
pub fn load(context: &Context, path: &Utf8Path, root: &Utf8Path) -> Result<PlanText> {
    let form = match path.extension() {
        Some("json") => Form::Json,
        _ => Form::Toml,
    };
    let missing = || {
        Error::new(
            code::PLAN_INVALID,
            format!("there is no plan file `{path}`"),
        )
        .hint(format!("ls -l {}", shell::quote(path.as_str())))
    };
    let text = content(path)?.ok_or_else(missing)?;
    let mut plan = text::parse(&text, form)
        .map_err(|problem| refusal(context, code::PLAN_INVALID, path, &[problem]))?;
    for step in &mut plan.steps {
        attach(step, root)?;
    }
    Ok(plan)
}

/// Puts the content of a step's ticket in the place of its name.
fn attach(step: &mut StepText, root: &Utf8Path) -> Result<()> {
    // With both, compiling refuses it.
    let (Some(ticket), None) = (&step.ticket, &step.text) else {
        return Ok(());
    };
    let path = root.join(ticket);
    let missing = || {
        let message = format!(
            "step `{}`: there is no file `{path}` for its `ticket`: what is kept elsewhere has to be written to a file first",
            step.id
        );
        Error::new(code::PLAN_INVALID, message)
            .hint(format!("ls -l {}", shell::quote(path.as_str())))
    };
    step.text = Some(content(&path)?.ok_or_else(missing)?);
    step.ticket = None;
    Ok(())
}

/// The text of a file, `None` when there is none.
fn content(path: &Utf8Path) -> Result<Option<String>> {
    let Some(bytes) = read::optional(path)? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|_| {
        Error::new(
            code::PLAN_INVALID,
            format!("the text of `{path}` is not UTF-8"),
        )
        .hint(format!("file {}", shell::quote(path.as_str())))
    })
}
