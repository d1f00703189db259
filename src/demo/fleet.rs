//! The steps of the demo of a fleet: a plan of three steps, a usage limit on the way, a review, and what is left.

use serde_json::Value;

use super::step::{Step, enroll, expect, served};
use super::world::Tour;

/// The steps in their order; each builds on those before.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "accounts",
        title: "Three accounts",
        why: "one pool, one model for the work, one of another family to review it",
        run: accounts,
    },
    Step {
        name: "plan",
        title: "A plan",
        why: "what is to be done, which files each step may change, and what waits for what",
        run: plan,
    },
    Step {
        name: "run",
        title: "Run it",
        why: "one worker per step, each on an account of its own, until every step is verified",
        run,
    },
    Step {
        name: "limit",
        title: "The usage limit on the way",
        why: "another account went on where the first one stopped",
        run: limit,
    },
    Step {
        name: "review",
        title: "The review",
        why: "nobody verifies what a model of the same family wrote",
        run: review,
    },
    Step {
        name: "results",
        title: "What is left",
        why: "changed files to look at; nothing staged, nothing committed",
        run: results,
    },
];

const RUN: &str = "tour";

const SETTINGS: &str = r#"[[tiers.standard]]
provider = "scripted"
model = "red-large"

[[tiers.review]]
provider = "scripted"
model = "blue-small"

[providers.scripted.model_families]
red-large = "red"
blue-small = "blue"
"#;

/// The lexer's worker meets a limit unless it was handed over to; the second half is written by whoever goes on.
const PLAN: &str = r#"[[step]]
id = "lexer"
files = ["lexer.txt"]
text = """
Write the lexer. (What scripted workers do stands in a block.)

```script
unless lexer.txt write lexer.txt the first half of the lexer
unless .fleet/runs/tour/evidence/lexer.2.handoff.md limit quota 3600
spawn echo the second half of the lexer >> lexer.txt
say Status: needs-verification
```
"""

[[step]]
id = "parser"
needs = ["lexer"]
files = ["parser.txt"]
review = true
accept.commands = ["grep -q 'second half' parser.txt"]
text = """
Write the parser, on top of the lexer.

```script
spawn cp lexer.txt parser.txt
say Status: needs-verification
```
```script review
answer
Verdict: approve
The parser holds both halves of the lexer.
```
"""

[[step]]
id = "notes"
needs = ["lexer"]
worktree = true
text = """
Say in notes.txt how it works.

```script
write notes.txt it works in two halves
say Status: needs-verification
```
"""
"#;

fn status(tour: &Tour<'_>) -> Result<Value, String> {
    tour.world().json(&["fleet", "status", "--run", RUN])
}

/// The row of a list that has this name.
fn named<'a>(list: &'a Value, key: &str, name: &str) -> Result<&'a Value, String> {
    let rows = list.as_array().into_iter().flatten();
    let mut found = rows.filter(|row| row[key] == name);
    found.next().ok_or_else(|| format!("no `{name}` in {list}"))
}

fn accounts(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    enroll(tour, &[("ada", "20"), ("bob", "45"), ("cyd", "60")])?;
    Ok("three different accounts, each proved")
}

fn plan(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    for (file, text) in [(".fleet/fleet.toml", SETTINGS), ("plan.toml", PLAN)] {
        tour.world()
            .write(file, text)
            .map_err(|error| error.message)?;
        tour.file(file)?;
    }
    tour.show(&["fleet", "plan", "--file", "plan.toml", "--dry-run"], 0)?;
    let runs = tour.world().json(&["fleet", "list"])?;
    expect("the runs", &runs["runs"], &Value::Array(Vec::new()))?;
    Ok("three steps; two wait for the first, and the last works in a git worktree of its own")
}

fn run(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    tour.show(&["fleet", "run", "plan.toml", "--run", RUN], 0)?;
    let status = status(tour)?;
    expect("the run", &status["state"], &"done".into())?;
    for step in ["lexer", "parser", "notes"] {
        let step = named(&status["steps"], "id", step)?;
        expect("a step", &step["state"], &"verified".into())?;
        expect("failed attempts", &step["attempts"], &0.into())?;
    }
    Ok("three steps verified, in the order of their needs")
}

fn limit(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    tour.show(&["fleet", "history", "lexer"], 0)?;
    tour.head(".fleet/runs/tour/evidence/lexer.2.handoff.md", 3)?;
    let lexer = tour.file("lexer.txt")?;
    expect(
        "the lexer",
        &lexer.as_str(),
        &"the first half of the lexer\nthe second half of the lexer\n",
    )?;
    let status = status(tour)?;
    let worker = named(&status["workers"], "name", "lexer")?;
    expect(
        "launches of the lexer's worker",
        &worker["launch"],
        &2.into(),
    )?;
    let paid = served(tour)?;
    expect("who paid first", &paid.first(), &Some(&"ada".to_owned()))?;
    let later = paid.iter().skip(1).filter(|account| *account == "ada");
    expect("turns on the account at its limit", &later.count(), &0)?;
    expect(
        "the account that went on",
        &worker["profile"].as_str(),
        &paid.get(1).map(String::as_str),
    )?;
    Ok(
        "ada's worker wrote the first half, another account's the second, and nothing was done twice",
    )
}

fn review(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    tour.show(&["fleet", "logs", "parser-review"], 0)?;
    let status = status(tour)?;
    let reviewer = named(&status["workers"], "name", "parser-review")?;
    expect("its part", &reviewer["role"], &"review".into())?;
    expect("its model", &reviewer["model"], &"blue-small".into())?;
    expect("its verdict", &reviewer["report"], &"approve".into())?;
    let author = named(&status["workers"], "name", "parser")?;
    expect("the author's model", &author["model"], &"red-large".into())?;
    Ok("a blue model approved what a red one wrote, bound to exactly that change")
}

fn results(tour: &mut Tour<'_>) -> Result<&'static str, String> {
    tour.show(&["fleet", "diff", "notes"], 0)?;
    tour.show(&["fleet", "merge", "notes"], 0)?;
    let notes = tour.file("notes.txt")?;
    expect("the notes", &notes.as_str(), &"it works in two halves\n")?;
    let left = tour.git(&["status", "--short"])?;
    let left: Vec<&str> = left.lines().collect();
    expect(
        "what git sees",
        &left,
        &vec![
            "?? .fleet/",
            "?? lexer.txt",
            "?? notes.txt",
            "?? parser.txt",
            "?? plan.toml",
        ],
    )?;
    let commits = tour.git(&["log", "--format=%s"])?;
    expect("the commits", &commits.as_str(), &"Begin")?;
    Ok("the person decides what is committed")
}
