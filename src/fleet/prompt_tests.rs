use camino::{Utf8Path, Utf8PathBuf};

use super::{Continued, OPEN, Place, Template, Templates, check, finished};
use crate::env::{Context, Variables, World};
use crate::fleet::model::PlannedStep;
use crate::fleet::report;
use crate::fleet::trial::plan;
use crate::id::fleet::WorkerId;

fn step(more: &str) -> PlannedStep {
    let text = format!("[[step]]\nid = \"parse\"\n{more}\n");
    let compiled = plan(&text, &["claude:a"], "").unwrap();
    compiled.plan.steps.first().unwrap().clone()
}

fn worker() -> WorkerId {
    "parse".parse().unwrap()
}

fn place(worker: &WorkerId) -> Place<'_> {
    Place {
        worker,
        workspace: Utf8Path::new("/repo"),
        report: Utf8Path::new(".fleet/runs/r/reports/parse.md"),
    }
}

#[test]
fn a_worker_is_told_its_work_its_files_its_checks_and_how_to_report() {
    let step = step(
        "text = '''\nParse it.\n\n```script\nwrite a {{id}}\n```\n'''\ncontext = \"Mind {{files}}.\"\nfiles = [\"src/a.rs\", \"src/b.rs\"]\n\
         [step.accept]\nartifacts = [{ path = \"out\", min_chars = 9, contains = [\"x\"] }]\ncommands = [\"cargo test\"]",
    );
    let worker = worker();
    let prompt = Templates::built_in().step(&step, &["Tabs.".to_owned()], place(&worker));
    for wanted in [
        "# Step `parse`\n",
        "Parse it.\n\n```script\nwrite a {{id}}\n```\n",
        "## What the lead adds\n\nMind {{files}}.\n",
        "## What is decided already\n\n- Tabs.\n",
        "- `src/a.rs`\n- `src/b.rs`\n",
        "- the file `out` is there, with at least 9 characters, and contains `x`\n- `cargo test` ends with status 0\n",
        "write `.fleet/runs/r/reports/parse.md`",
        "Never commit, stage,",
    ] {
        assert!(prompt.contains(wanted), "{wanted}\n---\n{prompt}");
    }
    assert!(!prompt.contains("\n\n\n"), "{prompt}");
    assert!(!prompt.contains("Rules of"), "{prompt}");
    // What is quoted of the form of a report must not be read as one.
    assert!(finished(&prompt, &"p".into()).is_ok());
}

#[test]
fn a_step_that_only_reads_answers_in_its_last_message() {
    let step = step("text = \"Why?\"\nkind = \"investigate\"");
    let worker = worker();
    let prompt = Templates::built_in().step(&step, &[], place(&worker));
    assert!(
        prompt.contains("changes no file") && prompt.contains("last message"),
        "{prompt}"
    );
    assert!(!prompt.contains("reports/parse.md"), "{prompt}");
}

#[test]
fn a_reviewer_sees_work_change_and_report_and_a_continued_worker_what_was_done() {
    let step = step("text = \"Do it.\"\nworktree = true");
    let worker = worker();
    let place = place(&worker);
    let review = Templates::built_in().review(&step, &[], place, Utf8Path::new("/d.diff"));
    for wanted in [
        "Do it.",
        "`/d.diff`",
        "reports/parse.md",
        "Verdict: approve",
        "change nothing yourself",
    ] {
        assert!(review.contains(wanted), "{wanted}\n---\n{review}");
    }
    let from = Continued {
        prompt: Utf8Path::new("/p.md"),
        handoff: Utf8Path::new("/h.md"),
        diff: Utf8Path::new("/d.diff"),
    };
    let handoff = Templates::built_in().handoff(&step, place, from);
    for wanted in ["You continue", "`/p.md`", "`/h.md`", "`/d.diff`"] {
        assert!(handoff.contains(wanted), "{wanted}\n---\n{handoff}");
    }
}

#[test]
fn the_built_in_templates_pass_their_own_check() {
    for template in Template::ALL {
        assert_eq!(
            check(*template, template.built_in()),
            Ok(()),
            "{template:?}"
        );
        assert!(!template.built_in().contains(OPEN));
    }
    // Somebody who copies the choice instead of choosing has reported nothing.
    assert_eq!(
        report::status("Status: needs-verification|blocked").map(|status| format!("{status:?}")),
        Some("Other(\"needs-verification|blocked\")".to_owned())
    );
}

#[test]
fn a_checkout_has_templates_and_rules_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(directory.path()).unwrap();
    let world = World {
        arguments: Vec::new(),
        variables: [("HOME", root.as_str())].into_iter().collect::<Variables>(),
        directory: None,
        executable: None,
    };
    let context = Context::resolve(&world, None).unwrap();
    let put = |name: &str, text: &str| {
        let path = root.join(".fleet").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::store::replace::replace(
            &path,
            text.as_bytes(),
            crate::store::replace::Durability::Volatile,
        )
        .unwrap();
    };
    put("rules.md", "Say {{please}}.\n");
    put(
        "templates/implementation.md",
        "{{text}} | {{files}}\n\n{{context}}\n\n{{rules}}\n{{ report_format }}\n",
    );
    put("templates/report.md", "Report to {{report}}\n");
    let templates = Templates::load(&context, root).unwrap();
    let worker = worker();
    let prompt = templates.step(&step("text = \"T\"\nworktree = true"), &[], place(&worker));
    assert_eq!(
        prompt,
        "T | Anything in the workspace: it is a git worktree of this step alone.\n\n\
         ## Rules of this repository\n\nSay {{please}}.\nReport to .fleet/runs/r/reports/parse.md\n"
    );
    put(
        "templates/implementation.md",
        "x\n{{text}} {{fils}} {{report_format}}\n",
    );
    let error = Templates::load(&context, root).unwrap_err();
    assert_eq!(error.code.name, "settings_invalid");
    let problems = error.details.get("diagnostics").unwrap().to_string();
    assert!(
        problems.contains(
            "`{{fils}}` is nothing that `implementation.md` is given; did you mean `{{files}}`?"
        ),
        "{problems}"
    );
    assert!(problems.contains("must hold `{{files}}`"), "{problems}");
    std::fs::remove_dir_all(root.join(".fleet/templates")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join(".fleet/templates")).unwrap();
    assert!(
        Templates::load(&context, root)
            .unwrap_err()
            .message
            .contains("is a link")
    );
}

#[test]
fn what_the_lead_left_open_is_not_launched() {
    let path = Utf8PathBuf::from("/p.md");
    let error = finished("a\n<!-- LEAD: say more -->\n", &path).unwrap_err();
    assert_eq!(error.code.name, "prompt_invalid");
    assert!(error.message.starts_with("`/p.md:2`"), "{error}");
}
