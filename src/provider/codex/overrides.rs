//! What would replace a Codex home's login: configuration of home and machine, and the home's `.env`.
//!
//! A project's own `.codex/config.toml` and `.env` have no say over login or route (run with 0.171), so they
//! are not read. The home's `.env` is: its proxy wins over the caller's (run with 0.171), its keys do not.

use camino::Utf8Path;
use toml::{Table, Value};

use super::home::CONFIG;
use crate::contract::profile::OverrideScope;
use crate::provider::home::found::{Found, Place};
use crate::provider::overrides::Override;

/// Keys that move the login, the route or the account, wherever they stand.
const KEYS: [(&str, &str); 7] = [
    ("chatgpt_base_url", "sends the login's token to that host"),
    (
        "forced_chatgpt_workspace_id",
        "deletes a login of another workspace",
    ),
    ("forced_login_method", "deletes a login of another kind"),
    ("model_providers", "sends the work to another provider"),
    ("openai_base_url", "sends the work to another host"),
    ("oss_provider", "sends the work to another provider"),
    ("profile", "lays another configuration over this one"),
];
/// Variables of the home's `.env` that move the route, in either case.
const VARIABLES: [&str; 7] = [
    "ALL_PROXY",
    "CODEX_CA_CERTIFICATE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Everything that would replace the login of `home`.
pub fn overrides(home: &Utf8Path) -> Vec<Override> {
    search(home, Utf8Path::new("/etc/codex"))
}

fn search(home: &Utf8Path, machine: &Utf8Path) -> Vec<Override> {
    let mut found = Found::default();
    for (scope, path) in [
        (OverrideScope::Home, home.join(CONFIG)),
        // Without effect in 0.171; that of a machine wins over the home's.
        (OverrideScope::Home, home.join("managed_config.toml")),
        (OverrideScope::Machine, machine.join(CONFIG)),
        (OverrideScope::Machine, machine.join("managed_config.toml")),
        // It moved the provider and the hosts as well (run with 0.171).
        (OverrideScope::Machine, machine.join("requirements.toml")),
    ] {
        let place = Place { scope, path: &path };
        if let Some(table) = found.toml(place) {
            configuration(&mut found, place, &table);
        }
    }
    let path = home.join(".env");
    let place = Place {
        scope: OverrideScope::Home,
        path: &path,
    };
    if let Some(bytes) = found.read(place) {
        for name in names(&String::from_utf8_lossy(&bytes)) {
            if VARIABLES.iter().any(|key| key.eq_ignore_ascii_case(name)) {
                found.key(place, name, "changes the route to the server");
            }
        }
    }
    found.all()
}

fn configuration(found: &mut Found, place: Place<'_>, table: &Table) {
    for (key, effect) in KEYS {
        if table.get(key).is_some_and(says_something) {
            found.key(place, key, effect);
        }
    }
    let other = |key: &str, usual: &str| {
        table
            .get(key)
            .is_some_and(|value| value.as_str() != Some(usual))
    };
    if other("cli_auth_credentials_store", "file") {
        let effect = "looks for the login outside the home";
        found.key(place, "cli_auth_credentials_store", effect);
    }
    if other("model_provider", "openai") {
        found.key(
            place,
            "model_provider",
            "sends the work to another provider",
        );
    }
}

fn says_something(value: &Value) -> bool {
    value.as_str() != Some("") && value.as_table().is_none_or(|table| !table.is_empty())
}

/// The names that a file of `NAME=value` lines sets.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, _) = line.split_once('=')?;
        (!line.starts_with('#')).then(|| name.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::search;
    use crate::provider::home::tests::World;

    fn sources(world: &World) -> Vec<String> {
        search(&world.path("home"), &world.path("etc"))
            .into_iter()
            .map(|found| found.source)
            .collect()
    }

    #[test]
    fn keys_are_found_in_every_file_and_no_value_is_shown() {
        let world = World::new();
        assert_eq!(sources(&world), [""; 0]);
        for file in [
            "home/config.toml",
            "home/managed_config.toml",
            "etc/config.toml",
            "etc/managed_config.toml",
            "etc/requirements.toml",
        ] {
            for (text, key) in [
                (
                    "openai_base_url = \"https://planted.invalid\"",
                    "openai_base_url",
                ),
                ("model_provider = \"planted\"", "model_provider"),
                (
                    "[model_providers.planted]\nbase_url = \"x\"",
                    "model_providers",
                ),
                (
                    "cli_auth_credentials_store = \"keyring\"",
                    "cli_auth_credentials_store",
                ),
                ("forced_login_method = \"api\"", "forced_login_method"),
                ("profile = \"planted\"", "profile"),
            ] {
                let path = world.write(file, text);
                assert_eq!(sources(&world), [format!("{path}: {key}")]);
            }
            let path = world.write(file, "planted = ");
            assert_eq!(sources(&world), [format!("{path}: it is not TOML")]);
            world.write(file, "model = \"x\"\nmodel_provider = \"openai\"\ncli_auth_credentials_store = \"file\"\n");
        }
        assert_eq!(sources(&world), [""; 0]);
    }

    #[test]
    fn a_route_in_the_home_s_env_file_is_found() {
        let world = World::new();
        let text = "# HTTPS_PROXY=x\nFOO=HTTPS_PROXY\nexport https_proxy = http://planted\nCODEX_API_KEY=k\n";
        let path = world.write("home/.env", text);
        assert_eq!(sources(&world), [format!("{path}: https_proxy")]);
    }
}
