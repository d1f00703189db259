//! What a lead's verbs answer, on a page.

use jiff::Timestamp;

use super::or_nothing;
use crate::contract::fleet::lead::{
    AccountForecast, FleetDoctor, FleetSettings, HoldChanged, LaunchRow, LaunchRows, PlanForecast,
    PreparedPrompt, SkillsInstalled, StepDiff, StepForecast, StepMerged, TierWorker, TreeCheck,
};
use crate::render::page::{Page, Role, nothing, paint};
use crate::render::{Human, doctor, words};

fn names<T: ToString>(all: &[T]) -> String {
    let names: Vec<String> = all
        .iter()
        .map(|one| words::plain(&one.to_string()))
        .collect();
    names.join(" ")
}

impl Human for PlanForecast {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.steps.iter().map(|step| forecast(step, now)).collect();
        let columns = [
            "step",
            "wave",
            "tier",
            "provider",
            "model",
            "account",
            "wait",
            "reviewer",
            "waits for",
        ];
        let page = Page::new().table(&columns, rows, "no step");
        let stuck = self.steps.iter().filter_map(|step| {
            let why = step.account.why.as_ref()?;
            Some(format!("{}: {}", step.id, words::plain(why)))
        });
        stuck.fold(page, Page::line)
    }
}

fn forecast(step: &StepForecast, now: Timestamp) -> Vec<String> {
    let mut waits: Vec<String> = step.needs.iter().map(ToString::to_string).collect();
    waits.extend(step.beside.iter().map(|other| format!("({other})")));
    vec![
        paint(Role::Literal, step.id.as_str()),
        step.wave.to_string(),
        step.tier.clone(),
        step.provider.to_string(),
        or_nothing(step.model.as_ref()),
        or_nothing(step.account.profile.as_ref()),
        wait(&step.account, now),
        step.reviewer
            .as_ref()
            .map_or_else(nothing, |reviewer| reviewer.provider.to_string()),
        waits.join(" "),
    ]
}

fn wait(account: &AccountForecast, now: Timestamp) -> String {
    match (account.wait_seconds, account.retry_at, &account.code) {
        (Some(0), ..) => "none".to_owned(),
        (_, Some(at), _) => words::due(now, at),
        (Some(seconds), None, _) => words::span(seconds),
        (None, None, Some(code)) => paint(Role::Bad, code),
        (None, None, None) => nothing(),
    }
}

impl Human for PreparedPrompt {
    fn page(&self, _: Timestamp) -> Page {
        let page = Page::new().line(words::plain(self.path.as_str()));
        if self.open {
            return page.line("it still has places for you to fill in, and is not launched before");
        }
        page.next(&format!(
            "agent-fleet fleet launch {} --run {}",
            self.step, self.run
        ))
    }
}

impl Human for LaunchRows {
    fn page(&self, now: Timestamp) -> Page {
        if self.rows.is_empty() {
            return Page::new()
                .line("NONE nothing is ready")
                .next(&format!("agent-fleet fleet status --run {}", self.run));
        }
        let rows = self.rows.iter().map(|row| launch(row, now));
        rows.fold(Page::new(), Page::line)
    }
}

fn launch(row: &LaunchRow, now: Timestamp) -> String {
    let step = paint(Role::Literal, row.step.as_str());
    if let (Some(worker), Some(number)) = (&row.worker, row.launch) {
        let word = paint(Role::Good, "LAUNCHED");
        return format!("{word} {step} (worker {worker}, launch {number})");
    }
    let word = paint(Role::Warning, "SKIPPED");
    let code = row.code.as_deref().unwrap_or_default();
    let why = words::plain(row.why.as_deref().unwrap_or_default());
    let due = row
        .retry_at
        .map_or_else(String::new, |at| format!(" ({})", words::due(now, at)));
    format!("{word} {step} {code}: {why}{due}")
}

impl Human for TreeCheck {
    fn page(&self, _: Timestamp) -> Page {
        let count = words::count(self.repositories, "repository");
        Page::new().line(if self.accepted {
            format!(
                "HEAD and index count for the run `{}` as they are now ({count})",
                self.run
            )
        } else {
            format!(
                "HEAD and index are as they were when the run `{}` began ({count})",
                self.run
            )
        })
    }
}

impl Human for StepDiff {
    fn page(&self, _: Timestamp) -> Page {
        match (&self.output, &self.text) {
            (Some(path), _) => Page::new().line(format!(
                "{} changed, written to {}",
                words::count(self.files.len(), "file"),
                words::plain(path.as_str())
            )),
            (None, Some(text)) if !text.is_empty() => {
                text.lines().map(words::plain).fold(Page::new(), Page::line)
            }
            (None, _) => Page::new().line(paint(Role::Faint, "nothing changed")),
        }
    }
}

impl Human for StepMerged {
    fn page(&self, _: Timestamp) -> Page {
        let place = match &self.branch {
            Some(branch) => format!("the branch `{}`", words::plain(branch)),
            None => "the checkout".to_owned(),
        };
        let said = match self.outcome.as_str() {
            "merged" => format!("merged into {place}: {}", names(&self.files)),
            "already" => "it was merged already".to_owned(),
            _ => "the worktree holds no change".to_owned(),
        };
        let page = Page::new().line(said);
        if self.worktree_removed {
            return page;
        }
        page.line(format!(
            "the worktree {} stays",
            words::plain(self.worktree.as_str())
        ))
    }
}

impl Human for HoldChanged {
    fn page(&self, now: Timestamp) -> Page {
        let hold = &self.hold;
        let word = if self.held { "held" } else { "released" };
        let step = hold
            .step
            .as_ref()
            .map_or_else(String::new, |step| format!(" {step}"));
        let until = match hold.expires {
            Some(at) if self.held => format!(", {}", words::due(now, at)),
            _ => String::new(),
        };
        let why = hold
            .reason
            .as_ref()
            .map_or_else(String::new, |why| format!(": {}", words::plain(why)));
        Page::new().line(format!("{word} ({}{step}{until}){why}", hold.scope))
    }
}

impl Human for FleetSettings {
    fn page(&self, _: Timestamp) -> Page {
        let mut page = Page::new().fields(&[
            ("max_parallel", self.max_parallel.to_string()),
            ("review", self.review.clone()),
            ("accept", self.accept.clone()),
            ("on_failure", self.on_failure.clone()),
            ("max_attempts", self.max_attempts.to_string()),
            ("continue", self.r#continue.clone()),
            ("sticky_max", words::span(self.sticky_max_seconds)),
            ("routing", words::plain(&self.routing)),
            ("prefer", names(&self.prefer)),
        ]);
        let mut rows = Vec::new();
        for (tier, settings) in &self.tiers {
            rows.extend(settings.workers.iter().map(|worker| tier_row(tier, worker)));
        }
        let columns = ["tier", "provider", "pool", "model", "effort", "family"];
        page = page
            .gap()
            .table(&columns, rows, "no tier has a worker here");
        for (tier, settings) in &self.tiers {
            if let Some(problem) = &settings.problem {
                page = page.line(format!("{tier}: {}", words::plain(problem)));
            }
        }
        let rows = self.providers.iter().map(|one| {
            vec![
                paint(Role::Literal, one.provider.name()),
                or_nothing(one.family.as_ref()),
                one.max.to_string(),
                or_nothing(one.pool.as_ref()),
                names(&one.implementation_permissions),
            ]
        });
        let columns = ["provider", "family", "max", "pool", "permissions"];
        page.gap().table(&columns, rows.collect(), "no provider")
    }
}

fn tier_row(tier: &str, worker: &TierWorker) -> Vec<String> {
    vec![
        tier.to_owned(),
        paint(Role::Literal, worker.provider.name()),
        worker.pool.to_string(),
        or_nothing(worker.model.as_ref()),
        or_nothing(worker.effort.as_ref()),
        or_nothing(worker.family.as_ref()),
    ]
}

impl Human for FleetDoctor {
    fn page(&self, _: Timestamp) -> Page {
        let page = Page::new().line(doctor::verdict(self.healthy, &self.counts));
        let page = doctor::group(page.gap(), "fleet", &self.checks);
        match &self.next {
            Some(next) => page.gap().next(&words::plain(next)),
            None => page,
        }
    }
}

impl Human for SkillsInstalled {
    fn page(&self, _: Timestamp) -> Page {
        let rows = self.skills.iter().map(|skill| {
            vec![
                or_nothing(skill.provider.as_ref()),
                skill.outcome.clone(),
                words::plain(skill.path.as_str()),
            ]
        });
        Page::new().table(
            &["provider", "page", "file"],
            rows.collect(),
            "nothing was written",
        )
    }
}
