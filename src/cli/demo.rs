//! `agent-fleet demo`.

use std::io::IsTerminal as _;

use super::{App, Outcome, output};
use crate::demo::{self, Options, Report, Told};
use crate::error::Result;
use crate::render::page::{Page, Role, paint};
use crate::render::{Format, View};

#[derive(Debug, clap::Args)]
pub(super) struct DemoArguments {
    /// Show a fleet: a plan of three steps with a usage limit and a review, on scripted workers; needs git
    #[arg(long)]
    fleet: bool,
    /// Leave the throw-away world where it is, and say where
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(app: &App, arguments: &DemoArguments) -> Result<Outcome> {
    let watched = app.format == Format::Human;
    let options = Options {
        keep: arguments.keep,
        colour: watched && std::io::stdout().is_terminal(),
        fleet: arguments.fleet,
    };
    let mut said = Ok(());
    let mut say = |text: &str| {
        if watched && said.is_ok() {
            said = output::say(text);
        }
    };
    say(&opening().text());
    let report = demo::run(&app.context, options, &mut |told| say(&page(told).text()))?;
    said?;
    output::say(View::with_page(&report, || closing(&report), app.format)?.text())?;
    Ok(Outcome::Done(u8::from(!report.ok)))
}

fn opening() -> Page {
    Page::new()
        .line("A throw-away world with pretend accounts. Nothing of yours is read or changed.")
}

fn page(told: Told<'_>) -> Page {
    match told {
        Told::Step(number, title, why) => Page::new().gap().line(format!(
            "{}  {}",
            paint(Role::Heading, &format!("{number}. {title}")),
            paint(Role::Faint, why)
        )),
        Told::Command(line) => Page::new().line(format!(
            "   {} {}",
            paint(Role::Faint, "$"),
            paint(Role::Literal, line)
        )),
        Told::Output(text) => text.lines().fold(Page::new(), |page, line| {
            page.line(format!("   {line}").trim_end())
        }),
        Told::Good(text) => {
            Page::new().line(format!("   {} {text}", paint(Role::Good, "\u{2713}")))
        }
        Told::Bad(text) => Page::new().line(format!("   {} {text}", paint(Role::Bad, "\u{2717}"))),
    }
}

fn closing(report: &Report) -> Page {
    let seconds: f64 = report.steps.iter().map(|step| step.seconds).sum();
    let mut page = Page::new().gap();
    page = if report.ok {
        page.line(format!(
            "{} {} steps in {seconds:.1} s, each checked.",
            paint(Role::Good, "All as told:"),
            report.steps.len()
        ))
    } else {
        page.line(format!(
            "{} this is a bug in agent-fleet; `agent-fleet demo --keep` leaves the world to look at.",
            paint(Role::Bad, "Not as told:")
        ))
    };
    if let Some(root) = &report.kept {
        page = page.line(format!("The world is in {root}"));
    }
    if report.ok {
        page = page.line("With accounts of your own:");
        for command in &report.next {
            page = page.line(format!("   {}", paint(Role::Literal, command)));
        }
    }
    page
}
