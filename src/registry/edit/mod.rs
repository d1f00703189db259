//! Changing the registry: locked, comment-preserving, and never to something invalid.
//!
//! Each change holds the maintenance locks of the providers it concerns and the registry lock, reads the
//! file anew, edits its text, judges the result as a whole and only then replaces the file durably. A file
//! that cannot be read or judged valid is never touched; nor is one that someone else (an editor holds no
//! lock of ours) changed in between. A registry that is a link stays one: its target is replaced.

mod document;
mod frame;

pub use document::{Document, Stuck};

use super::schema::Registry;
use super::validate::{self, Diagnostic, Invalid};
use super::{file, install};
use crate::clock::ROUTINE;
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::id::ProviderKind;
use crate::store::lock::{Guard, Locks, Mode, Name};
use crate::store::replace::{Durability, replace};

impl From<Stuck> for Error {
    fn from(stuck: Stuck) -> Self {
        Self::new(
            code::CONFIG_INVALID,
            format!("the registry has a form that cannot be edited: {}", stuck.0),
        )
        .hint("agent-fleet config list")
    }
}

/// The locks of maintenance, held until dropped: no selection of these providers runs meanwhile.
#[must_use = "maintenance ends as soon as this is dropped"]
#[derive(Debug)]
pub struct Maintenance {
    _guards: Vec<Guard>,
}

/// Takes the maintenance locks of some providers. Refuses with `maintenance_busy`.
pub fn maintain(context: &Context, of: &[ProviderKind], purpose: &str) -> Result<Maintenance> {
    let locks = Locks::of(context);
    Ok(Maintenance {
        _guards: locks.maintenance_of(of, purpose)?,
    })
}

/// What a change left behind.
#[derive(Debug)]
pub struct Changed<T> {
    /// What the change answered.
    pub answer: T,
    /// The registry now in force.
    pub registry: Registry,
    /// Keys that this version does not know.
    pub notes: Vec<Diagnostic>,
}

/// Changes the registry under maintenance.
///
/// Fails with the codes of reading it, `usage` with every problem when the result would be invalid, or
/// `maintenance_busy` when someone else changed the file at the same moment. Nothing is written then.
pub fn change<T>(
    context: &Context,
    _under: &Maintenance,
    edit: impl FnOnce(&Registry, &mut Document) -> Result<T>,
) -> Result<Changed<T>> {
    apply(context, Check::Install, edit)
}

/// Ties the registry to the state root in force, whatever it was tied to before, and returns the id.
pub fn adopt(context: &Context, _under: &Maintenance) -> Result<Changed<String>> {
    apply(context, Check::Nothing, |_, document| {
        let id = install::ensure(context)?;
        document.set(&[], "install_id", &super::value::Value::Text(id.clone()))?;
        Ok(id)
    })
}

#[derive(Clone, Copy)]
enum Check {
    Install,
    Nothing,
}

fn apply<T>(
    context: &Context,
    check: Check,
    edit: impl FnOnce(&Registry, &mut Document) -> Result<T>,
) -> Result<Changed<T>> {
    let locks = Locks::of(context);
    let deadline = context.clock.deadline(ROUTINE);
    let _lock = locks.take(&Name::Registry, Mode::Exclusive, &deadline)?;
    let source = file::read(context)?;
    let before = file::parse(context, &source.text)?;
    match check {
        Check::Install => install::check(context, &before.registry)?,
        Check::Nothing => {}
    }
    let mut document = Document::parse(&source.text)?;
    let answer = edit(&before.registry, &mut document)?;
    let text = document.text();
    if text == source.text {
        return Ok(Changed {
            answer,
            registry: before.registry,
            notes: before.notes,
        });
    }
    let after = validate::parse(&text, &context.roots).map_err(|invalid| refused(&invalid))?;
    if file::identity(&context.roots)? != source.identity {
        return Err(Error::new(
            code::MAINTENANCE_BUSY,
            format!(
                "the registry `{}` was changed by someone else at the same moment; nothing was written",
                context.roots.config
            ),
        )
        .hint("agent-fleet config list"));
    }
    let target = context
        .roots
        .config
        .canonicalize_utf8()
        .map_err(|error| Error::io("write the registry", &context.roots.config, &error))?;
    replace(&target, text.as_bytes(), Durability::Durable)?;
    Ok(Changed {
        answer,
        registry: after.registry,
        notes: after.notes,
    })
}

/// A change that would make the registry invalid: the caller's input is at fault, not the file.
fn refused(invalid: &Invalid) -> Error {
    let diagnostics = match invalid {
        Invalid::Problems(problems) => problems.clone(),
        Invalid::Newer(_) => Vec::new(),
    };
    let problems: Vec<&str> = diagnostics
        .iter()
        .map(|found| found.message.as_str())
        .collect();
    let first = problems.first().unwrap_or(&"its version is not ours");
    Error::new(
        code::USAGE,
        format!("the registry was not changed: {first}"),
    )
    .hint("agent-fleet config list")
    .detail("problems", problems)
}
