use proptest::prelude::*;

use super::Settings;
use super::layer::{Entry, Layer, ProviderLayer, Whose};
use super::permission;
use crate::env::{Context, Variables, World};
use crate::fleet::model::{Going, Options, ReviewMode, Role, Tier};
use crate::fleet::trial::{examples, fixtures, layer, roots, settings};
use crate::id::ProviderKind;
use crate::registry::schema::Registry;

#[test]
fn every_valid_file_is_taken() {
    for (path, text) in fixtures("valid", "settings-person") {
        assert!(layer(&text, Whose::Person).is_ok(), "{}", path.display());
    }
    for (path, text) in fixtures("valid", "settings-checkout") {
        let said = layer(&text, Whose::Checkout);
        assert!(said.is_ok(), "{}: {said:?}", path.display());
    }
    for example in examples("Settings") {
        assert!(layer(&example, Whose::Person).is_ok(), "{example}");
    }
}

#[test]
fn every_invalid_file_is_refused_for_its_reasons() {
    for (path, text) in fixtures("invalid", "settings") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let whose = if name.starts_with("settings-checkout") {
            Whose::Checkout
        } else {
            Whose::Person
        };
        let problems = layer(&text, whose).unwrap_err();
        let wanted: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# refused: "))
            .collect();
        assert_eq!(problems.lines().collect::<Vec<_>>(), wanted, "{name}");
    }
}

#[test]
fn nothing_a_checkout_says_reaches_the_host_or_the_accounts() {
    for text in [
        "on_event = [\"touch\", \"/tmp/x\"]",
        "on_event = []",
        "[permissions.implementation]\nclaude = [\"--dangerously-skip-permissions\"]",
        "[permissions.review]\ncodex = [\"--sandbox\", \"read-only\"]",
        "[permissions]",
        "[[tiers.heavy]]\nprovider = \"claude\"\npool = \"work\"",
        "[providers.claude]\npool = \"work\"",
        "[[tiers.heavy]]\nprovider = \"claude\"\nmodel = \"--settings=/tmp/x\"",
        "[[tiers.heavy]]\nprovider = \"codex\"\neffort = 'high\"\nsandbox_mode=\"danger-full-access'",
        "[defaults]\nrouting = \"agents=claude:--settings=x\"",
        "[defaults]\nmax_parallel = 10000",
    ] {
        assert!(layer(text, Whose::Checkout).is_err(), "{text}");
    }
    let person = layer(
        "on_event = [\"notify\"]\n[permissions.review]\nclaude = [\"--tools\", \"Read\"]",
        Whose::Person,
    )
    .unwrap();
    let checkout = layer("[defaults]\nmax_parallel = 2", Whose::Checkout).unwrap();
    let settings = Settings::of(checkout.over(person));
    assert_eq!(settings.on_event, ["notify"]);
    assert_eq!(
        permission::arguments(&settings, Role::Review, ProviderKind::Claude),
        ["--tools", "Read"]
    );
    assert_eq!(settings.options.max_parallel, 2);
}

#[test]
fn files_are_read_from_both_places_and_never_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let home = camino::Utf8Path::from_path(directory.path()).unwrap();
    let world = World {
        arguments: Vec::new(),
        variables: [("HOME", home.as_str())].into_iter().collect::<Variables>(),
        directory: None,
        executable: None,
    };
    let context = Context::resolve(&world, None).unwrap();
    let registry = Registry::default();
    let root = home.join("checkout");
    let load = || super::load(&context, &registry, &root);
    let write = |path: &camino::Utf8Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::store::replace::replace(
            path,
            text.as_bytes(),
            crate::store::replace::Durability::Volatile,
        )
        .unwrap();
    };
    assert_eq!(load().unwrap(), Settings::of(Layer::default()));
    write(
        &super::own_file(&context.roots),
        "[defaults]\nmax_parallel = 2\nreview = \"cross-all\"\n",
    );
    write(
        &root.join(".fleet/fleet.toml"),
        "[defaults]\nmax_parallel = 3\n",
    );
    let settings = load().unwrap();
    assert_eq!(settings.options.max_parallel, 3);
    assert_eq!(settings.options.review, ReviewMode::CrossAll);
    write(
        &root.join(".fleet/fleet.toml"),
        "\n[defaults]\nmax_paralel = 3\nmax_attempts = 0\n",
    );
    let error = load().unwrap_err();
    assert_eq!(error.code.name, "settings_invalid");
    let message = format!(
        "`{root}/.fleet/fleet.toml:3`: unknown key `defaults.max_paralel`; did you mean `max_parallel`? (and 1 more problem)"
    );
    assert_eq!(error.message, message);
    assert_eq!(error.hint, Some(format!("vi +3 {root}/.fleet/fleet.toml")));
    std::fs::remove_file(root.join(".fleet/fleet.toml")).unwrap();
    write(&home.join("elsewhere"), "");
    std::os::unix::fs::symlink(home.join("elsewhere"), root.join(".fleet/fleet.toml")).unwrap();
    let error = load().unwrap_err();
    assert!(error.message.contains("is a link"), "{error}");
}

#[test]
fn permissions_that_workers_may_not_have_are_refused_when_they_are_read() {
    for (provider, arguments) in [
        ("claude", "[\"--settings\", \"{}\"]"),
        ("claude", "[\"--permission-mode\"]"),
        ("claude", "[\"--permission-mode\", \"plan\", \"a prompt\"]"),
        ("claude", "[\"--permission-mode\", \"--\"]"),
        ("codex", "[\"-c\", \"model_provider=x\"]"),
        ("codex", "[\"--ask-for-approval\", \"never\"]"),
        ("codex", "[\"resume\"]"),
        ("scripted", "[\"--resume\", \"x\"]"),
    ] {
        let text = format!("[permissions.review]\n{provider} = {arguments}");
        let problems = layer(&text, Whose::Person).unwrap_err();
        let named = format!("2: `permissions.review.{provider}` must not be passed to a worker: ");
        assert!(problems.starts_with(&named), "{text}: {problems}");
    }
}

#[test]
fn what_is_built_in_passes_the_grammar() {
    let known = super::layer::Known {
        registry: &Registry::default(),
        roots: &roots(),
    };
    for kind in ProviderKind::ALL {
        for role in Role::ALL {
            let arguments = crate::fleet::turn::permissions(kind, *role);
            assert_eq!(
                permission::check(kind, &arguments, known),
                Ok(()),
                "{kind} {role}"
            );
        }
    }
}

#[test]
fn what_is_said_reaches_the_options() {
    let settings = settings(
        "[defaults]\ncontinue = \"sticky\"\nsticky_max = \"1h 30m\"\nprefer = [\"codex\"]",
    );
    assert_eq!(settings.options.going, Going::Sticky);
    assert_eq!(settings.options.sticky_max_seconds, 5400);
    assert_eq!(settings.prefer, [ProviderKind::Codex]);
    assert_eq!(Settings::of(Layer::default()).options, Options::default());
}

fn any_layer() -> impl Strategy<Value = Layer> {
    let entry = (0..3_usize, "[a-c]").prop_map(|(at, model)| Entry {
        model: Some(model),
        ..Entry::plain(ProviderKind::ALL[at])
    });
    let tiers = prop::collection::btree_map(
        prop::sample::select(Tier::ALL.to_vec()),
        prop::collection::vec(entry, 1..3),
        0..3,
    );
    let provider = (
        prop::option::of("[a-c]"),
        prop::collection::btree_map("[a-c]", "[a-c]", 0..3),
        prop::option::of(1..9_u32),
    )
        .prop_map(|(family, model_families, max)| ProviderLayer {
            family,
            model_families,
            max,
            pool: None,
        });
    let providers = prop::collection::btree_map(
        prop::sample::select(ProviderKind::ALL.to_vec()),
        provider,
        0..3,
    );
    (
        prop::option::of(1..9_u32),
        tiers,
        providers,
        prop::option::of(Just(vec!["x".to_owned()])),
    )
        .prop_map(|(max_parallel, tiers, providers, on_event)| {
            let mut layer = Layer {
                tiers,
                providers,
                on_event,
                ..Layer::default()
            };
            layer.choices.max_parallel = max_parallel;
            layer
        })
}

proptest! {
    #[test]
    fn layers_merge_like_tables(one in any_layer(), two in any_layer(), three in any_layer()) {
        prop_assert_eq!(one.clone().over(Layer::default()), one.clone());
        prop_assert_eq!(Layer::default().over(one.clone()), one.clone());
        prop_assert_eq!(one.clone().over(one.clone()), one.clone());
        prop_assert_eq!(
            one.clone().over(two.clone()).over(three.clone()),
            one.clone().over(two.clone().over(three))
        );
        let merged = one.clone().over(two.clone());
        for (tier, entries) in &merged.tiers {
            prop_assert_eq!(Some(entries), one.tiers.get(tier).or_else(|| two.tiers.get(tier)));
        }
        for (kind, provider) in &one.providers {
            for (model, family) in &provider.model_families {
                prop_assert_eq!(merged.providers[kind].model_families.get(model), Some(family));
            }
        }
        for (kind, provider) in &two.providers {
            for model in provider.model_families.keys() {
                prop_assert!(merged.providers[kind].model_families.contains_key(model));
            }
        }
    }
}
