//! What would replace a Codex home's login: configuration of home and machine, and the home's `.env`.
//!
//! A project's own `.codex/config.toml` and `.env` have no say over login or route (run with 0.171), so they
//! are not read. The home's `.env` is: its proxy wins over the caller's (run with 0.171), its keys do not.

use camino::Utf8Path;
use toml::{Table, Value};

use super::home::CONFIG;
use crate::provider::Override;
use crate::provider::home::found::Found;

/// Keys that move the login, the route or the account, wherever they stand.
const KEYS: [&str; 7] = [
    "chatgpt_base_url",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "model_providers",
    "openai_base_url",
    "oss_provider",
    "profile",
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
    for path in [
        home.join(CONFIG),
        home.join("managed_config.toml"),
        machine.join(CONFIG),
        machine.join("managed_config.toml"),
    ] {
        if let Some(table) = found.toml(&path) {
            configuration(&mut found, &path, &table);
        }
    }
    let path = home.join(".env");
    if let Some(bytes) = found.read(&path) {
        for name in names(&String::from_utf8_lossy(&bytes)) {
            if VARIABLES.iter().any(|key| key.eq_ignore_ascii_case(name)) {
                found.key(&path, name);
            }
        }
    }
    found.all()
}

fn configuration(found: &mut Found, path: &Utf8Path, table: &Table) {
    for key in KEYS {
        if table.get(key).is_some_and(says_something) {
            found.key(path, key);
        }
    }
    let other = |key: &str, usual: &str| {
        table
            .get(key)
            .is_some_and(|value| value.as_str() != Some(usual))
    };
    if other("cli_auth_credentials_store", "file") {
        found.key(path, "cli_auth_credentials_store");
    }
    if other("model_provider", "openai") {
        found.key(path, "model_provider");
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
