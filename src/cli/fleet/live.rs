//! What a run looks like while `fleet run` drives it.
//!
//! On a terminal the status is drawn in place. For programs each change of a step or a worker is a line, and for
//! people without a terminal a line in words. Nobody has to look: a reader that goes away ends nothing.

use std::collections::BTreeMap;

use super::super::output::{tell, tell_raw};
use super::super::screen::Screen;
use super::super::watch::{Row, changes};
use super::App;
use crate::contract::fleet::RunStatus;
use crate::error::Result;
use crate::fleet::board::Board;
use crate::fleet::show;
use crate::render::{self, Format, View, words};

/// What differs at each look without anything having changed.
const VOLATILE: &[&str] = &["report_age_seconds"];

/// A view of a run that changes with it.
#[derive(Debug)]
pub(super) struct Live {
    screen: Option<Screen>,
    /// What programs were told.
    rows: Vec<Row>,
    /// What people were told, by kind and name.
    said: BTreeMap<(&'static str, String), String>,
    /// The page that was drawn last.
    page: String,
}

impl Live {
    pub(super) fn new(app: &App) -> Self {
        let screen = match app.format {
            Format::Human => Screen::of_stdout(&app.context.variables),
            Format::Json | Format::Toon => None,
        };
        Self {
            screen,
            rows: Vec::new(),
            said: BTreeMap::new(),
            page: String::new(),
        }
    }

    /// Tells what is different now.
    pub(super) fn tell(&mut self, app: &App, board: &Board) -> Result<()> {
        let status = show::status(&app.context, board)?;
        let now = app.context.clock.now();
        match (app.format, &self.screen) {
            (Format::Human, Some(screen)) => {
                let view = View::new(&status, now, app.format)?;
                if view.text() != self.page {
                    view.text().clone_into(&mut self.page);
                    screen.draw(&self.page)?;
                }
            }
            (Format::Human, None) => drop(tell(&self.said(&status))?),
            (Format::Json | Format::Toon, _) => {
                let rows = rows(&status)?;
                let mut text = String::new();
                for change in changes(&self.rows, &rows, now) {
                    text.push_str(&render::data(&change, app.format)?);
                }
                self.rows = rows;
                tell(&text)?;
            }
        }
        Ok(())
    }

    /// Takes the drawn page away, so that the last one can be whole.
    pub(super) fn clear(&self) -> Result<()> {
        if self.screen.is_some() && !self.page.is_empty() {
            tell_raw("\u{1b}[H\u{1b}[J")?;
        }
        Ok(())
    }

    fn said(&mut self, status: &RunStatus) -> String {
        let steps = status
            .steps
            .iter()
            .map(|step| ("step", step.id.to_string(), &step.state, &step.reason));
        let workers = status.workers.iter().map(|worker| {
            (
                "worker",
                worker.name.to_string(),
                &worker.state,
                &worker.reason,
            )
        });
        let mut text = String::new();
        for (kind, name, state, reason) in steps.chain(workers) {
            let why = reason
                .as_ref()
                .map_or_else(String::new, |reason| format!(" ({})", words::plain(reason)));
            let line = format!("{kind} {name}: {state}{why}\n");
            let before = self.said.insert((kind, name), line.clone());
            if before.as_ref() != Some(&line) {
                text.push_str(&line);
            }
        }
        text
    }
}

fn rows(status: &RunStatus) -> Result<Vec<Row>> {
    let steps = status
        .steps
        .iter()
        .map(|step| Row::new("step", step.id.as_str(), step, VOLATILE));
    let workers = status
        .workers
        .iter()
        .map(|worker| Row::new("worker", worker.name.as_str(), worker, VOLATILE));
    steps.chain(workers).collect()
}
