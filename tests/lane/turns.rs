//! From `init` to a finished turn with a tool call, on the leased account alone.

use crate::cli::Cli;
use crate::lab::{Plan, now};
use crate::terminal::Terminal;
use crate::world::{Job, World, account, text};

/// One tool call and a last word that the prompt itself does not show (`\u0046` is an F).
fn prompt(task: &str) -> String {
    format!(r#"LAB:[{{"shell":"echo made > {task}.made"}},{{"text":"\u0046INISHED {task}"}}]"#)
}

fn rules(project: &std::path::Path) {
    World::write(
        &project.join("CLAUDE.md"),
        "Rule: claude-rule-of-this-project.\n",
    );
    World::write(
        &project.join("AGENTS.md"),
        "Rule: codex-rule-of-this-project.\n",
    );
}

/// Two tasks, chosen before either runs, so that both accounts get one.
fn headless(cli: Cli) {
    let world = World::enabled(&Plan::default(), 2, &["project"]);
    let project = world.project("project");
    rules(&project);
    let jobs = ["one", "two"].map(|task| Job::new(task, cli.name(), &project));
    let mut used: Vec<u32> = jobs
        .iter()
        .map(|job| account(&text(&world.choose(job).success(), "profile")))
        .collect();
    for (job, &leased) in jobs.iter().zip(&used) {
        let since = now();
        let (_, output) = world.turn(cli, job, &prompt(&job.task));
        assert!(
            output.contains(&format!("FINISHED {}", job.task)),
            "{output}"
        );
        assert!(
            project.join(format!("{}.made", job.task)).exists(),
            "the tool ran somewhere else"
        );
        let asked = world.only(cli, leased, since);
        let rule = format!("{}-rule-of-this-project", cli.name());
        assert!(
            asked
                .iter()
                .any(|request| request.body.to_string().contains(&rule)),
            "the project's own instructions did not reach the model"
        );
    }
    used.sort_unstable();
    assert_eq!(
        used,
        [1, 2],
        "the second task did not go to the idle account"
    );
}

/// Codex's own screen starts a daemon that keeps the first login it saw, unless it is told not to.
fn no_daemon(world: &World, cli: Cli, account: u32) {
    for folder in ["app-server-daemon", "packages/app-server-daemon", "daemon"] {
        let path = world.home(cli, account).join(folder);
        assert!(!path.exists(), "a daemon was started: {}", path.display());
    }
}

fn terminal(cli: Cli) {
    let world = World::enabled(&Plan::default(), 2, &["project"]);
    let project = world.project("project");
    rules(&project);
    let jobs = ["one", "two"].map(|task| Job::new(task, cli.name(), &project));
    let used = jobs
        .each_ref()
        .map(|job| account(&text(&world.choose(job).success(), "profile")));
    assert_ne!(
        used[0], used[1],
        "the second task did not go to the idle account"
    );
    for (job, leased) in jobs.iter().zip(used) {
        let since = now();
        let screen = Terminal::start(
            &world,
            &job.task,
            &world.exec(job, &cli.terminal(&prompt(&job.task))),
        );
        screen.wait_for(&format!("FINISHED {}", job.task));
        assert!(
            project.join(format!("{}.made", job.task)).exists(),
            "the tool ran somewhere else"
        );
        screen.terminate();
        no_daemon(&world, cli, leased);
        let asked = world.only(cli, leased, since);
        let rule = format!("{}-rule-of-this-project", cli.name());
        assert!(
            asked
                .iter()
                .any(|request| request.body.to_string().contains(&rule)),
            "the project's own instructions did not reach the model"
        );
    }
}

#[test]
fn headless_claude_works_on_the_leased_account_alone() {
    headless(Cli::Claude);
}

#[test]
fn headless_codex_works_on_the_leased_account_alone() {
    headless(Cli::Codex);
}

#[test]
fn claude_on_its_screen_works_on_the_leased_account_alone() {
    terminal(Cli::Claude);
}

#[test]
fn codex_on_its_screen_works_on_the_leased_account_alone() {
    terminal(Cli::Codex);
}
