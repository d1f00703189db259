use super::{Facts, Routing, Wish, assign, reviewers};
use crate::fleet::model::{Assignment, Role, Tier};
use crate::fleet::settings::family;
use crate::fleet::settings::pools::Pools;
use crate::fleet::trial::{registry, settings};
use crate::id::ProviderKind;

#[test]
fn a_routing_is_written_as_it_is_read() {
    for text in [
        "auto",
        "single:codex",
        "agents=claude:opus,codex",
        "agents=claude",
    ] {
        assert_eq!(text.parse::<Routing>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "single:",
        "single:x",
        "agents=",
        "agents=claude:",
        "agents=claude,,codex",
        "auto ",
        "any",
    ] {
        assert!(text.parse::<Routing>().is_err(), "{text}");
    }
}

#[test]
fn a_family_is_resolved_in_the_order_of_what_is_nearest() {
    let settings = settings(
        "[providers.claude]\nfamily = \"mixed\"\n[providers.claude.model_families]\nopus = \"anthropic\"",
    );
    let rules = settings.provider(ProviderKind::Claude);
    let tier = Some((Some("opus"), "told"));
    let of = |step, model, tier| family::resolve(step, model, tier, rules);
    assert_eq!(
        of(Some("mine"), Some("opus"), tier).as_deref(),
        Some("mine")
    );
    assert_eq!(of(None, Some("opus"), tier).as_deref(), Some("anthropic"));
    assert_eq!(
        of(None, Some("x"), Some((Some("x"), "told"))).as_deref(),
        Some("told")
    );
    assert_eq!(of(None, Some("x"), tier), None);
    assert_eq!(of(Some("unknown"), Some("opus"), tier), None);
}

fn wish(tier: Tier) -> Wish {
    Wish {
        step: "a".parse().unwrap(),
        tier,
        role: Role::Implementation,
        provider: None,
        model: None,
        effort: None,
        family: None,
    }
}

fn short(assignment: &Assignment) -> String {
    format!(
        "{}/{}/{}/{}/{}",
        assignment.provider,
        assignment.pool,
        assignment.model.as_deref().unwrap_or("-"),
        assignment.effort.as_deref().unwrap_or("-"),
        assignment.family.as_deref().unwrap_or("-")
    )
}

/// What is assigned, and what the tier offers beside it.
fn assigned(
    own: &str,
    profiles: &[&str],
    routing: &str,
    wish: &Wish,
) -> Result<Vec<String>, String> {
    let settings = settings(own);
    let pools = Pools::of(&registry(profiles));
    let routing = routing.parse().unwrap();
    let facts = Facts {
        settings: &settings,
        routing: &routing,
        pools: &pools,
    };
    match assign(facts, wish) {
        Ok((first, more)) => Ok(std::iter::once(&first).chain(&more).map(short).collect()),
        Err(refused) => Err(refused.to_string()),
    }
}

#[test]
fn without_any_file_one_pool_is_enough() {
    let standard = wish(Tier::Standard);
    for (profiles, wanted) in [
        (&["claude:main"][..], "claude/main/-/-/anthropic"),
        (&["codex:other"], "codex/other/-/-/openai"),
        (&["scripted:demo"], "scripted/demo/-/-/scripted"),
        (&["codex:b", "claude:a"], "claude/a/-/-/anthropic"),
    ] {
        assert_eq!(assigned("", profiles, "auto", &standard).unwrap(), [wanted]);
    }
    let nobody = assigned("", &[], "auto", &standard).unwrap_err();
    assert!(
        nobody.starts_with("step `a` needs claude or codex or scripted"),
        "{nobody}"
    );
    let several = assigned("", &["claude:a", "claude:b"], "auto", &standard).unwrap_err();
    assert!(
        several.contains("`a`, `b`") && several.contains("[providers.claude]"),
        "{several}"
    );
    let named = assigned(
        "[providers.claude]\npool = \"b\"",
        &["claude:a", "claude:b"],
        "auto",
        &standard,
    );
    assert_eq!(named.unwrap(), ["claude/b/-/-/anthropic"]);
    let gone = assigned(
        "[providers.claude]\npool = \"c\"",
        &["claude:a"],
        "auto",
        &standard,
    );
    assert!(gone.unwrap_err().contains("the pool `c`"));
}

const TIER: &str = "[[tiers.heavy]]\nprovider = \"claude\"\nmodel = \"opus\"\neffort = \"high\"\n\
    [[tiers.heavy]]\nprovider = \"codex\"\nmodel = \"gpt\"\n\
    [[tiers.heavy]]\nprovider = \"claude\"\nmodel = \"sonnet\"\n";
const BOTH: &[&str] = &["claude:a", "codex:b"];

#[test]
fn a_tier_is_taken_in_its_order_and_only_it_lists_others() {
    let heavy = wish(Tier::Heavy);
    let all = [
        "claude/a/opus/high/anthropic",
        "codex/b/gpt/-/openai",
        "claude/a/sonnet/-/anthropic",
    ];
    assert_eq!(assigned(TIER, BOTH, "auto", &heavy).unwrap(), all);
    assert_eq!(
        assigned(TIER, &["codex:b"], "auto", &heavy).unwrap(),
        [all[1]]
    );
    assert_eq!(
        assigned(TIER, BOTH, "single:codex", &heavy).unwrap(),
        [all[1]]
    );
    assert_eq!(
        assigned(TIER, BOTH, "agents=codex,claude:sonnet", &heavy).unwrap(),
        [all[2], all[1]]
    );
    assert_eq!(
        assigned(TIER, BOTH, "agents=claude:haiku", &heavy).unwrap(),
        ["claude/a/haiku/high/anthropic"]
    );
    assert_eq!(
        assigned(TIER, &["scripted:s"], "single:scripted", &heavy).unwrap(),
        ["scripted/s/-/-/scripted"]
    );
}

#[test]
fn what_a_step_names_is_taken_or_refused() {
    let named = |provider: Option<ProviderKind>, model: Option<&str>, effort: Option<&str>| Wish {
        provider,
        model: model.map(str::to_owned),
        effort: effort.map(str::to_owned),
        ..wish(Tier::Heavy)
    };
    let codex = Some(ProviderKind::Codex);
    let of = |routing: &str, wish: Wish| assigned(TIER, BOTH, routing, &wish);
    assert_eq!(
        of("auto", named(None, Some("gpt"), None)).unwrap(),
        ["codex/b/gpt/-/openai"]
    );
    assert_eq!(
        of("auto", named(codex, Some("x"), Some("low"))).unwrap(),
        ["codex/b/x/low/openai"]
    );
    assert_eq!(
        of("auto", named(None, None, Some("max"))).unwrap(),
        [
            "claude/a/opus/max/anthropic",
            "codex/b/gpt/-/openai",
            "claude/a/sonnet/max/anthropic"
        ]
    );
    let refused = |routing: &str, wish: Wish| of(routing, wish).unwrap_err();
    assert!(refused("auto", named(None, Some("x"), None)).contains("name its `provider`"));
    assert!(refused("single:claude", named(codex, None, None)).contains("leaves out"));
    assert!(refused("agents=codex:gpt", named(None, Some("x"), None)).contains("names another"));
    let own = Wish {
        family: Some("own".to_owned()),
        ..named(codex, None, None)
    };
    assert_eq!(of("auto", own).unwrap(), ["codex/b/gpt/-/own"]);
}

fn reviewing(
    own: &str,
    profiles: &[&str],
    routing: &str,
    author: Option<&str>,
) -> Result<Vec<String>, String> {
    let settings = settings(own);
    let pools = Pools::of(&registry(profiles));
    let routing = routing.parse().unwrap();
    let facts = Facts {
        settings: &settings,
        routing: &routing,
        pools: &pools,
    };
    match reviewers(facts, &"a".parse().unwrap(), &[author.map(str::to_owned)]) {
        Ok(found) => Ok(found.iter().map(short).collect()),
        Err(refused) => Err(refused.to_string()),
    }
}

#[test]
fn a_reviewer_is_of_another_family_that_is_known() {
    let anthropic = Some("anthropic");
    assert_eq!(
        reviewing("", BOTH, "auto", anthropic).unwrap(),
        ["codex/b/-/-/openai"]
    );
    // Another provider with the same models crosses nothing.
    let same = "[providers.codex]\nfamily = \"anthropic\"";
    assert!(
        reviewing(same, BOTH, "auto", anthropic)
            .unwrap_err()
            .contains("[[tiers.review]]")
    );
    let unknown = "[providers.codex]\nfamily = \"unknown\"";
    assert!(reviewing(unknown, BOTH, "auto", anthropic).is_err());
    assert!(
        reviewing("", BOTH, "auto", None)
            .unwrap_err()
            .contains("name its `family`")
    );
    assert!(reviewing("", BOTH, "single:claude", anthropic).is_err());
    let pools = &["claude:a", "codex:b", "codex:c"];
    assert!(
        reviewing("", pools, "auto", anthropic)
            .unwrap_err()
            .contains("`b`, `c`")
    );
    let demo = "[providers.scripted.model_families]\nred = \"red\"\nblue = \"blue\"\n\
        [[tiers.review]]\nprovider = \"scripted\"\nmodel = \"red\"\n\
        [[tiers.review]]\nprovider = \"scripted\"\nmodel = \"blue\"\n";
    assert_eq!(
        reviewing(demo, &["scripted:s"], "auto", Some("red")).unwrap(),
        ["scripted/s/blue/-/blue"]
    );
}

#[test]
fn a_tier_for_which_nobody_is_left_names_who_could_be_listed() {
    let none = "[defaults]\nprefer = []\n";
    let heavy = wish(Tier::Heavy);
    let refused = assigned(none, &["claude:crew"], "auto", &heavy).unwrap_err();
    for name in ["`claude`", "`codex`", "`scripted`", "[[tiers.heavy]]"] {
        assert!(refused.contains(name), "{refused}");
    }
    let named = Wish {
        provider: Some(ProviderKind::Claude),
        ..heavy
    };
    assert!(assigned(none, &["claude:crew"], "auto", &named).is_ok());
}
