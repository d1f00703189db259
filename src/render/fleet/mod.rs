//! Runs of the fleet on a page.

mod lead;
mod steering;
mod watch;

use jiff::Timestamp;

use super::page::{Page, Role, nothing, or_nothing, paint};
use super::{Human, words};
use crate::contract::fleet::{RunStatus, StepStatus, WorkerStatus};

/// A state in the colour of what it asks of a person.
fn state(word: &str, reason: Option<&String>) -> String {
    let role = match word {
        "verified" | "done" | "running" | "parked" => Role::Good,
        "failed" | "blocked" | "stop_failed" | "unknown" | "start_blocked" => Role::Bad,
        "reported" | "checking" | "changes_requested" | "limited" | "exited" | "stopping"
        | "paused" => Role::Warning,
        _ => return told(word, reason),
    };
    paint(role, &told(word, reason))
}

fn told(word: &str, reason: Option<&String>) -> String {
    match reason {
        Some(reason) => format!("{word} ({})", words::plain(reason)),
        None => word.to_owned(),
    }
}

fn step(step: &StepStatus) -> Vec<String> {
    let works_in = if step.worktree {
        "a worktree of its own".to_owned()
    } else {
        let names: Vec<String> = step
            .files
            .iter()
            .map(|file| words::plain(file.as_str()))
            .collect();
        names.join(" ")
    };
    let needs: Vec<String> = step.needs.iter().map(ToString::to_string).collect();
    vec![
        paint(Role::Literal, step.id.as_str()),
        state(&step.state, step.reason.as_ref()),
        step.tier.clone(),
        needs.join(" "),
        works_in,
    ]
}

fn worker(worker: &WorkerStatus, now: Timestamp) -> Vec<String> {
    vec![
        paint(Role::Literal, worker.name.as_str()),
        state(&worker.state, worker.reason.as_ref()),
        or_nothing(worker.profile.as_ref()),
        or_nothing(worker.model.as_ref()),
        worker
            .held_until
            .map_or_else(nothing, |at| words::due(now, at)),
        words::plain(&worker.report),
    ]
}

impl Human for RunStatus {
    fn page(&self, now: Timestamp) -> Page {
        let mut page = Page::new().fields(&[
            ("run", paint(Role::Literal, self.run.as_str())),
            ("state", state(&self.state, self.reason.as_ref())),
            ("checkout", words::plain(self.repository.as_str())),
            ("begun", words::ago(now, self.created)),
            (
                "workers",
                format!("{} of at most {} run", self.active, self.max_parallel),
            ),
        ]);
        let steps = self.steps.iter().map(step).collect();
        page = page.gap().table(
            &["step", "state", "tier", "needs", "works in"],
            steps,
            "no plan yet",
        );
        if !self.workers.is_empty() {
            let rows = self.workers.iter().map(|one| worker(one, now)).collect();
            page = page.gap().table(
                &["worker", "state", "account", "model", "free", "report"],
                rows,
                "",
            );
        }
        for hold in &self.holds {
            let why = hold
                .reason
                .as_ref()
                .map(|why| format!(": {}", words::plain(why)))
                .unwrap_or_default();
            page = page
                .gap()
                .heading(&format!("launches are held ({}){why}", hold.scope));
        }
        for one in &self.not_read {
            page = page.gap().heading(&format!(
                "not read: {}: {}",
                words::plain(&one.what),
                words::plain(&one.why)
            ));
        }
        self.next.iter().fold(page, |page, next| page.next(next))
    }
}
