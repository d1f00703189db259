//! What people and workers write for fleets: settings, plans and reports.

use std::collections::BTreeSet;

use super::on_ground;
use crate::fleet::plan::compile::{Ground, compile};
use crate::fleet::plan::graph;
use crate::fleet::plan::text::{Form, parse};
use crate::fleet::report;
use crate::fleet::scope::path::{self, Case};
use crate::fleet::settings::Settings;
use crate::fleet::settings::layer::{self, Known, Layer, Whose};
use crate::fleet::settings::pools::Pools;
use crate::registry::schema::Registry;
use crate::registry::validate;

/// Accounts of every provider.
const ACCOUNTS: &str = "version = 1\n\
    [profiles.a]\nprovider = \"claude\"\nhome = \"/fuzz/a\"\npools = [\"a\"]\nenabled = true\n\
    [profiles.b]\nprovider = \"codex\"\nhome = \"/fuzz/b\"\npools = [\"b\"]\nenabled = true\n\
    [profiles.s]\nprovider = \"scripted\"\nhome = \"/fuzz/s\"\npools = [\"s\"]\nenabled = true\n";

/// A checkout's file never reaches the host, the accounts or the sandbox; what is taken of it is taken of a person's
/// too, and merges into itself.
pub fn fleet_settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    on_ground(|ground| {
        let known = Known {
            registry: &Registry::default(),
            roots: &ground.context.roots,
        };
        let person = layer::parse(text, Whose::Person, known);
        let Ok(checkout) = layer::parse(text, Whose::Checkout, known) else {
            return;
        };
        assert_eq!(person, Ok(checkout.clone()));
        assert_eq!(checkout.on_event, None);
        assert!(checkout.permissions.is_empty());
        let entries = || checkout.tiers.values().flatten();
        assert!(entries().all(|entry| entry.pool.is_none()));
        assert!(
            checkout
                .providers
                .values()
                .all(|rules| rules.pool.is_none())
        );
        for name in entries()
            .flat_map(|entry| [&entry.model, &entry.effort, &entry.family])
            .flatten()
        {
            assert!(
                !name.starts_with('-') && !name.contains(['"', '\'', ' ', '\n']),
                "{name}"
            );
        }
        assert_eq!(checkout.clone().over(checkout.clone()), checkout);
        assert_eq!(checkout.clone().over(Layer::default()), checkout);
        drop(Settings::of(checkout));
    });
}

/// A plan that is taken can be worked through, is the same when it is read back, and lets nobody review its own
/// family.
pub fn fleet_plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let form = if text.starts_with('{') {
        Form::Json
    } else {
        Form::Toml
    };
    let text = match parse(text, form) {
        Ok(text) => text,
        Err(problem) => {
            assert!(problem.line > 0 && problem.column > 0, "{problem:?}");
            return;
        }
    };
    on_ground(|ground| {
        let registry = validate::parse(ACCOUNTS, &ground.context.roots)
            .expect("good accounts")
            .registry;
        let settings = Settings::of(Layer::default());
        let pools = Pools::of(&registry);
        let ground = Ground {
            settings: &settings,
            pools: &pools,
            file: &path::check,
            case: Case::Sensitive,
        };
        let Ok(compiled) = compile(&text, ground) else {
            return;
        };
        let plan = compiled.plan;
        let json = serde_json::to_vec(&plan).expect("a plan is JSON");
        assert_eq!(
            serde_json::from_slice::<crate::fleet::model::Plan>(&json).ok(),
            Some(plan.clone())
        );
        let mut placed = BTreeSet::new();
        for step in graph::order(&plan) {
            assert!(
                step.needs.iter().all(|need| placed.contains(need)),
                "{step:?}"
            );
            assert!(placed.insert(step.id.clone()), "{step:?}");
            assert_eq!(step.review_required, !step.reviewers.is_empty(), "{step:?}");
            for reviewer in &step.reviewers {
                assert!(reviewer.family.is_some(), "{step:?}");
                assert_ne!(reviewer.family, step.assignment.family, "{step:?}");
            }
        }
        assert_eq!(placed.len(), plan.steps.len());
        graph::serialised(&plan, Case::Sensitive);
    });
}

/// A report can be accepted exactly when it has a status, and says so then; what is quoted decides nothing.
pub fn fleet_report(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let accepted = report::verified(text, "evidence");
    assert_eq!(accepted.is_some(), report::status(text).is_some());
    if let Some(accepted) = accepted {
        assert_eq!(report::status(&accepted), Some(report::Status::Verified));
    }
    if let Some(review) = report::verdict(text) {
        assert!(text.contains(&review.findings));
    }
    let quoted = format!("~~~~~~~~\n{}\n", text.replace('~', "-"));
    assert_eq!(report::status(&quoted), None);
    assert_eq!(report::verdict(&quoted), None);
}
