use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use proptest::prelude::*;

use super::add::{Progress, Steer, add, drop, steer};
use super::compile::Ground;
use super::graph::{self, Broken};
use super::text::{Form, PlanText, parse};
use super::{dry, load};
use crate::env::{Context, Variables, World};
use crate::fleet::model::{
    Accept, Assignment, Mode, Options, Plan, PlannedStep, ReviewMode, SCHEMA, StepKind,
    StepProgress, StepState, Tier,
};
use crate::fleet::scope::path::Case;
use crate::fleet::settings::pools::Pools;
use crate::fleet::settings::route::Routing;
use crate::fleet::trial::{examples, fixtures, ground, plan, registry, settings};
use crate::id::ProviderKind;
use crate::id::fleet::StepId;

const BOTH: &[&str] = &["claude:a", "codex:b", "scripted:s"];

fn id(name: &str) -> StepId {
    name.parse().unwrap()
}

#[test]
fn every_valid_plan_is_taken() {
    for (path, text) in fixtures("valid", "plan") {
        let compiled = plan(&text, BOTH, "");
        assert!(compiled.is_ok(), "{}: {compiled:?}", path.display());
    }
    for example in examples("The plan file") {
        let compiled = plan(&example, BOTH, "");
        assert!(compiled.is_ok(), "{example}: {compiled:?}");
    }
}

#[test]
fn every_invalid_plan_is_refused_for_its_reason() {
    let mut wrong = Vec::new();
    for (path, text) in fixtures("invalid", "plan") {
        let wanted = text.lines().next().unwrap().strip_prefix("# refused: ");
        let refused = plan(&text, BOTH, "").unwrap_err();
        if Some(refused.as_str()) != wanted {
            wrong.push(format!("{}: {refused}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_says_the_same_as_toml() {
    let toml = "review = \"off\"\nmax_parallel = 2\ndecisions = [\"one\"]\n\
        [[step]]\nid = \"a\"\ntext = \"do\"\nfiles = [\"x\"]\n[step.accept]\nartifacts = [\"x\", { path = \"y\", min_chars = 3 }]\ncommands = [\"true\"]\n";
    let json = r#"{"review":"off","max_parallel":2,"decisions":["one"],"step":[{"id":"a","text":"do","files":["x"],
        "accept":{"artifacts":["x",{"path":"y","min_chars":3}],"commands":["true"]}}]}"#;
    assert_eq!(
        parse(toml, Form::Toml).unwrap(),
        parse(json, Form::Json).unwrap()
    );
    let wrong = parse(
        "{\n  \"step\": [\n    {\"id\": \"a\", \"fils\": []}\n  ]\n}",
        Form::Json,
    )
    .unwrap_err();
    assert_eq!(wrong.line, 3);
    assert!(wrong.message.contains("unknown field `fils`"), "{wrong:?}");
}

#[test]
fn the_plan_says_how_it_is_run_and_the_settings_the_rest() {
    let text = "accept = \"program\"\n[[step]]\nid = \"a\"\ntext = \"x\"\nworktree = true\ntier = \"heavy\"\nmode = \"terminal\"\n\
        [[step]]\nid = \"b\"\ntext = \"x\"\nworktree = true\n[[step]]\nid = \"c\"\ntext = \"x\"\nkind = \"investigate\"\ntier = \"heavy\"\n";
    let compiled = plan(
        text,
        BOTH,
        "[defaults]\naccept = \"lead\"\nreview = \"cross-heavy\"\n",
    )
    .unwrap();
    assert_eq!(compiled.options.accept, Accept::Program);
    assert_eq!(compiled.options.review, ReviewMode::CrossHeavy);
    let [a, b, c] = compiled.plan.steps.as_slice() else {
        panic!("{compiled:?}");
    };
    assert!(a.review_required && !b.review_required && !c.review_required);
    assert_eq!(a.mode, Mode::Terminal);
    assert_eq!(a.reviewers.first().unwrap().provider, ProviderKind::Codex);
    assert_eq!(
        a.reviewers.first().unwrap().permissions.first().unwrap(),
        "--sandbox=read-only"
    );
    // What only reads may not write.
    assert_ne!(c.assignment.permissions, b.assignment.permissions);
    let off = text.replace("mode = \"terminal\"", "review = false");
    let off = plan(&off, BOTH, "[defaults]\nreview = \"cross-all\"\n").unwrap();
    let required: Vec<bool> = off
        .plan
        .steps
        .iter()
        .map(|step| step.review_required)
        .collect();
    assert_eq!(required, [false, true, false]);
    let alone = plan(text, &["claude:a"], "[defaults]\nreview = \"cross-all\"\n").unwrap_err();
    assert!(
        alone.contains("step `a` needs a review by another model family than `anthropic`"),
        "{alone}"
    );
}

#[test]
fn a_cycle_is_named_step_by_step() {
    let (a, b, c, d) = (id("a"), id("b"), id("c"), id("d"));
    let check = |steps: &[(&StepId, &[StepId])]| graph::check(steps);
    let cycle = check(&[
        (&a, std::slice::from_ref(&b)),
        (&b, &[d.clone(), c.clone()]),
        (&c, std::slice::from_ref(&b)),
        (&d, &[]),
    ]);
    let cycle = cycle.unwrap_err();
    assert_eq!(
        cycle.to_string(),
        "these steps wait for each other: `b` needs `c` needs `b`"
    );
    assert_eq!(
        check(&[(&a, std::slice::from_ref(&a))]),
        Err(Broken::Cycle(vec![a.clone(), a.clone()]))
    );
    assert_eq!(
        check(&[(&a, &[]), (&a, &[])]),
        Err(Broken::Twice(a.clone()))
    );
    assert!(matches!(
        check(&[(&a, std::slice::from_ref(&b))]),
        Err(Broken::Unknown { .. })
    ));
}

const CHAIN: &str = "[[step]]\nid = \"light\"\ntext = \"x\"\nfiles = [\"src/a\"]\ntier = \"light\"\n\
    [[step]]\nid = \"late\"\ntext = \"x\"\nfiles = [\"src/b\"]\ntier = \"heavy\"\nneeds = [\"light\"]\n\
    [[step]]\nid = \"heavy\"\ntext = \"x\"\nfiles = [\"src/a/c\", \"src/d\"]\ntier = \"heavy\"\n";

#[test]
fn a_dry_run_shows_order_waves_and_what_shares_files() {
    let compiled = plan(CHAIN, BOTH, "").unwrap();
    let rows: Vec<(String, usize, usize)> = dry::rows(&compiled.plan, Case::Sensitive)
        .iter()
        .map(|row| (row.step.id.to_string(), row.wave, row.beside.len()))
        .collect();
    let wanted = [("heavy", 0, 1), ("light", 0, 1), ("late", 1, 0)];
    assert_eq!(
        rows,
        wanted.map(|(name, wave, beside)| (name.to_owned(), wave, beside))
    );
}

/// What may be changed of a running plan is tried on this.
struct Running {
    plan: Plan,
    progress: Progress,
}

impl Running {
    fn new(states: &[(&str, StepState)]) -> Self {
        let progress = states.iter().map(|(name, state)| {
            let progress = StepProgress {
                state: *state,
                ..StepProgress::default()
            };
            (id(name), progress)
        });
        Self {
            plan: plan(CHAIN, BOTH, "").unwrap().plan,
            progress: progress.collect(),
        }
    }

    fn add(&self, text: &str) -> Result<Plan, String> {
        let text = parse(text, Form::Toml).unwrap();
        let (settings, pools) = (settings(""), Pools::of(&registry(BOTH)));
        let run = (&Options::default(), &Routing::Auto);
        add(
            &self.plan,
            &self.progress,
            &text,
            run,
            ground(&settings, &pools),
        )
        .map_err(|error| error.message)
    }

    fn drop(&self, name: &str) -> Result<StepState, String> {
        match drop(&self.plan, &self.progress, &id(name), "not wanted") {
            Ok(progress) => Ok(progress.state),
            Err(error) => Err(error.message),
        }
    }
}

#[test]
fn a_step_that_is_added_waits_for_those_whose_files_it_writes() {
    let new = |needs: &str, file: &str| {
        format!("[[step]]\nid = \"new\"\ntext = \"x\"\nfiles = [\"{file}\"]\nneeds = [{needs}]\n")
    };
    let running = Running::new(&[("light", StepState::Running)]);
    let refused = running.add(&new("", "src/a")).unwrap_err();
    assert!(
        refused.contains("which `light` is not verified with"),
        "{refused}"
    );
    // Through another need as well.
    assert!(running.add(&new("\"late\", \"heavy\"", "src/a")).is_ok());
    assert!(running.add(&new("", "src/other")).is_ok());
    let done = Running::new(&[
        ("light", StepState::Verified),
        ("heavy", StepState::Dropped),
    ]);
    let grown = done.add(&new("\"light\"", "src/a")).unwrap();
    assert_eq!(grown.steps.len(), 4);
    assert_eq!(grown.steps[..3], done.plan.steps[..]);
    assert!(
        done.add(&new("\"heavy\"", "src/z"))
            .unwrap_err()
            .contains("which is dropped")
    );
    assert!(
        done.add("[[step]]\nid = \"late\"\ntext = \"x\"\nworktree = true\n")
            .unwrap_err()
            .contains("twice")
    );
    assert!(
        done.add(&format!("review = \"off\"\n{}", new("", "z")))
            .unwrap_err()
            .contains("leave out `review`")
    );
    // Files of a failed step are as it left them.
    let failed = Running::new(&[("light", StepState::Failed)]);
    assert!(failed.add(&new("", "src/a")).is_err());
}

#[test]
fn only_what_nobody_waits_for_is_dropped() {
    let running = Running::new(&[("heavy", StepState::Running)]);
    assert_eq!(running.drop("late"), Ok(StepState::Dropped));
    assert!(
        running
            .drop("light")
            .unwrap_err()
            .contains("drop `late` first")
    );
    assert!(running.drop("heavy").unwrap_err().contains("is running"));
    assert!(running.drop("none").unwrap_err().contains("no step `none`"));
    // What failed gives its files free.
    let failed = Running::new(&[("late", StepState::Failed)]);
    assert_eq!(failed.drop("late"), Ok(StepState::Dropped));
    let gone = Running::new(&[("late", StepState::Dropped)]);
    assert_eq!(gone.drop("light"), Ok(StepState::Dropped));
}

#[test]
fn steering_concerns_later_launches_and_keeps_reviews_across_families() {
    let own = settings("");
    let pools = Pools::of(&registry(BOTH));
    let ground: Ground<'_> = ground(&own, &pools);
    let text = "review = \"cross-all\"\n[[step]]\nid = \"a\"\ntext = \"x\"\nworktree = true\n";
    let plan = plan(text, BOTH, "").unwrap().plan;
    let to = |provider: Option<ProviderKind>| Steer {
        provider,
        ..Steer::default()
    };
    let worked = StepProgress {
        state: StepState::Running,
        author_families: vec!["anthropic".to_owned()],
        ..StepProgress::default()
    };
    let progress = Progress::from([(id("a"), worked.clone())]);
    let steer_to = |progress: &Progress, to: Steer| {
        steer(&plan, progress, &id("a"), to, &Routing::Auto, ground)
    };
    let steered = steer_to(&progress, to(Some(ProviderKind::Codex))).unwrap();
    let step = steered.steps.first().unwrap();
    assert_eq!(step.assignment.provider, ProviderKind::Codex);
    let reviewers: Vec<ProviderKind> = step.reviewers.iter().map(|one| one.provider).collect();
    assert_eq!(reviewers, [ProviderKind::Scripted]);
    let back = steer_to(&progress, to(None)).unwrap();
    assert_eq!(
        back.steps.first().unwrap().assignment,
        plan.steps.first().unwrap().assignment
    );
    let over = StepProgress {
        state: StepState::Verified,
        ..worked
    };
    let over = Progress::from([(id("a"), over)]);
    assert!(steer_to(&over, to(None)).is_err());
}

#[test]
fn tickets_are_files_of_the_checkout() {
    let directory = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(directory.path()).unwrap();
    let world = World {
        arguments: Vec::new(),
        variables: [("HOME", root.as_str())].into_iter().collect::<Variables>(),
        directory: None,
        executable: None,
    };
    let context = Context::resolve(&world, None).unwrap();
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        crate::store::replace::replace(
            &path,
            text.as_bytes(),
            crate::store::replace::Durability::Volatile,
        )
        .unwrap();
        path
    };
    let path = write(
        "plan.toml",
        "[[step]]\nid = \"a\"\nticket = \"a.md\"\nworktree = true\n",
    );
    let missing = load(&context, &path, root).unwrap_err();
    assert!(
        missing.message.contains("step `a`: there is no file"),
        "{missing}"
    );
    write("a.md", "do it\n");
    let read = load(&context, &path, root).unwrap();
    assert_eq!(read.steps.first().unwrap().text.as_deref(), Some("do it\n"));
    let wrong = write("wrong.toml", "\n[[step]]\nid = \"../a\"\n");
    let error = load(&context, &wrong, root).unwrap_err();
    assert!(
        error.message.starts_with(&format!("`{wrong}:3`: `id`: ")),
        "{error}"
    );
    assert_eq!(error.code.name, "plan_invalid");
    assert!(
        load(&context, &root.join("none.toml"), root)
            .unwrap_err()
            .message
            .contains("no plan file")
    );
}

fn step(name: usize, needs: &BTreeSet<usize>, tier: Tier, files: &[u8]) -> PlannedStep {
    PlannedStep {
        id: id(&format!("s{name}")),
        kind: StepKind::Change,
        text: String::new(),
        context: None,
        needs: needs.iter().map(|need| id(&format!("s{need}"))).collect(),
        files: files
            .iter()
            .map(|file| Utf8PathBuf::from(format!("d/{file}")))
            .collect(),
        worktree: false,
        tier,
        mode: Mode::Headless,
        assignment: Assignment {
            provider: ProviderKind::Scripted,
            pool: "p".parse().unwrap(),
            model: None,
            effort: None,
            family: None,
            permissions: Vec::new(),
        },
        alternatives: Vec::new(),
        reviewers: Vec::new(),
        accept: super::text::AcceptText::default().acceptance(),
        review_required: false,
    }
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let one = (
        prop::collection::btree_set(0..8_usize, 0..3),
        prop::sample::select(Tier::ALL.to_vec()),
        prop::collection::vec(0..4_u8, 0..3),
    );
    prop::collection::vec(one, 1..8).prop_map(|steps| {
        let steps = steps.into_iter().enumerate();
        Plan {
            schema: SCHEMA,
            steps: steps
                .map(|(name, (needs, tier, files))| step(name, &needs, tier, &files))
                .collect(),
            decisions: Vec::new(),
        }
    })
}

/// Whether steps can be taken one after the other, by trying.
fn can_be_worked_through(plan: &Plan) -> bool {
    let mut done: BTreeSet<&StepId> = BTreeSet::new();
    loop {
        let next = plan.steps.iter().find(|step| {
            !done.contains(&step.id) && step.needs.iter().all(|need| done.contains(need))
        });
        match next {
            Some(step) => done.insert(&step.id),
            None => return done.len() == plan.steps.len(),
        };
    }
}

proptest! {
    #[test]
    fn a_graph_is_refused_exactly_when_it_cannot_be_worked_through(plan in any_plan()) {
        let steps: Vec<(&StepId, &[StepId])> = plan.steps.iter().map(|step| (&step.id, step.needs.as_slice())).collect();
        let checked = graph::check(&steps);
        prop_assert_eq!(checked.is_ok(), can_be_worked_through(&plan));
        if let Err(Broken::Cycle(cycle)) = &checked {
            for pair in cycle.windows(2) {
                let step = plan.step(&pair[0]).unwrap();
                prop_assert!(step.needs.contains(&pair[1]), "{:?}", cycle);
            }
            prop_assert_eq!(cycle.first(), cycle.last());
        }
        if checked.is_err() {
            return Ok(());
        }
        let order = graph::order(&plan);
        prop_assert_eq!(order.len(), plan.steps.len());
        for (at, step) in order.iter().enumerate() {
            let earlier: BTreeSet<&StepId> = order[..at].iter().map(|step| &step.id).collect();
            prop_assert!(graph::before(&plan, step).is_subset(&earlier));
            // Whatever was free as well is not heavier.
            for later in &order[at..] {
                let free = later.needs.iter().all(|need| earlier.contains(need));
                prop_assert!(!free || step.tier <= later.tier);
            }
        }
        for (one, other, file) in graph::serialised(&plan, Case::Sensitive) {
            let (one, other) = (plan.step(one).unwrap(), plan.step(other).unwrap());
            prop_assert!(one.files.iter().any(|path| path == file));
            prop_assert!(!graph::before(&plan, one).contains(&other.id));
            prop_assert!(!graph::before(&plan, other).contains(&one.id));
        }
    }

    #[test]
    fn no_text_of_a_plan_is_a_panic(text in "(?s)(\\[\\[step\\]\\]\nid = \"[a-b]\"\n)?.{0,60}") {
        for form in [Form::Toml, Form::Json] {
            if let Err(problem) = parse(&text, form) {
                prop_assert!(problem.line >= 1 && problem.line <= text.lines().count() + 1);
            }
        }
    }
}

#[test]
fn an_empty_text_is_an_empty_plan() {
    assert_eq!(parse("", Form::Toml).unwrap(), PlanText::default());
}

#[test]
fn a_step_whose_reviewer_could_not_have_its_name_is_refused() {
    let of = |ids: &[&str]| {
        let steps = ids
            .iter()
            .map(|id| format!("[[step]]\nid = \"{id}\"\ntext = \"t\"\nworktree = true\n"));
        plan(&steps.collect::<String>(), &["claude:crew"], "")
    };
    assert!(of(&[&"n".repeat(57)]).is_ok());
    assert!(of(&[&"n".repeat(58)]).unwrap_err().contains("too long"));
    let taken = of(&["a", "a-review"]).unwrap_err();
    assert!(taken.contains("which is another step"), "{taken}");
}
