//! The hashes by which Codex trusts our hooks.
//!
//! Codex runs a hook only when the hash of its definition is trusted, and says nothing when it is not. The
//! hash depends on event, command and timeout, not on the home, so it is learned from `codex app-server` in
//! a throw-away home: on a live home that command would refresh the login. What it said is kept in
//! `share/hooks/codex.json` with the stat identity of the binary that said it; after an update of Codex the
//! next launch asks again, once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::hooks::{FILE, HOOKS};
use crate::env::Context;
use crate::error::{Error, Result, code};
use crate::provider::home::{hooks, load, unusable};
use crate::store::replace::{Durability, create, replace};
use crate::store::{directory, read, seal};
use crate::sys::filesystem::Identity;
use crate::sys::spawn::{self, Program};

/// How long Codex may take to name the hashes; it takes a quarter of a second.
const LIMIT: Duration = Duration::from_secs(15);

/// The hashes of our hooks, as one binary named them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The binary.
    pub binary: Identity,
    /// The path of this program in the hooks' commands.
    pub program: Utf8PathBuf,
    /// Hash by our word for the event.
    pub hashes: BTreeMap<String, String>,
}

/// Where the hashes are kept.
pub fn path(context: &Context) -> Utf8PathBuf {
    context.roots.share.join("hooks/codex.json")
}

/// The hashes that are kept for hooks that call `program`; nothing when there are none, the file is
/// damaged, or a hook is missing.
pub fn stored(context: &Context, program: &Utf8Path) -> Option<Trusted> {
    let bytes = read::optional(path(context)).ok()??;
    let text = seal::open(std::str::from_utf8(&bytes).ok()?.trim_end())?;
    let trusted: Trusted = serde_json::from_str(text).ok()?;
    let complete = HOOKS
        .iter()
        .all(|hook| trusted.hashes.contains_key(hook.verb));
    (complete && trusted.program == program).then_some(trusted)
}

/// The hashes as this binary names them: those that are kept when it named them, else asked for and kept.
pub fn learn(context: &Context, binary: &Path, program: &Utf8Path) -> Result<Trusted> {
    let identity = fs::metadata(binary)
        .map(|found| Identity::from(&found))
        .map_err(|error| Error::io("look at", binary, &error))?;
    if let Some(kept) = stored(context, program).filter(|kept| kept.binary == identity) {
        return Ok(kept);
    }
    let trusted = Trusted {
        binary: identity,
        program: program.to_owned(),
        hashes: ask(context, binary, program)?,
    };
    let text = serde_json::to_string(&trusted)
        .map_err(|error| Error::internal(format!("cannot serialise: {error}")))?;
    let path = path(context);
    if let Some(parent) = path.parent() {
        directory::establish(parent)?;
    }
    replace(
        &path,
        (seal::line(&text) + "\n").as_bytes(),
        Durability::Durable,
    )?;
    Ok(trusted)
}

/// What a launch passes in `hooks.state`: the key of each of our hooks in this home, and its hash.
pub fn entries(
    context: &Context,
    binary: &Path,
    program: &Utf8Path,
    home: &Utf8Path,
) -> Result<Vec<(String, String)>> {
    let file = home.join(FILE);
    let document = load(&file)?;
    let positions =
        hooks::positions(&document, &HOOKS, program).map_err(|reason| unusable(&file, &reason))?;
    let trusted = learn(context, binary, program)?;
    let entry = |(hook, (group, index)): (hooks::Hook, hooks::Position)| {
        let event = hook.verb.replace('-', "_");
        let hash = trusted.hashes.get(hook.verb)?.clone();
        Some((format!("{file}:{event}:{group}:{index}"), hash))
    };
    Ok(positions.into_iter().filter_map(entry).collect())
}

/// Asks the binary in a throw-away home that holds nothing but our hooks.
fn ask(context: &Context, binary: &Path, program: &Utf8Path) -> Result<BTreeMap<String, String>> {
    let failed = |why: String| {
        Error::new(
            code::PROVIDER_FAILED,
            format!(
                "`{}` did not name the hashes of our hooks: {why}",
                binary.display()
            ),
        )
        .hint("agent-fleet config get providers.codex.binary")
    };
    directory::ensure(&context.roots.state)?;
    let home = tempfile::Builder::new()
        .prefix("codex-hooks-")
        .tempdir_in(&context.roots.state)
        .map_err(|error| Error::io("make a directory in", &context.roots.state, &error))?;
    let mut document = Map::new();
    hooks::install(&mut document, &HOOKS, program).map_err(Error::internal)?;
    let config = "cli_auth_credentials_store = \"file\"\n\n[features]\ndaemon_auto_start = false\n\n[analytics]\nenabled = false\n";
    for (name, text) in [
        (FILE, Value::Object(document).to_string()),
        ("config.toml", config.to_owned()),
    ] {
        let path = home.path().join(name);
        create(&path, text.as_bytes()).map_err(|error| Error::io("write", &path, &error))?;
    }
    let client = json!({"name": "agent-fleet", "title": "agent-fleet", "version": env!("CARGO_PKG_VERSION")});
    let requests = [
        json!({"id": 0, "method": "initialize", "params": {"clientInfo": client}}),
        json!({"method": "initialized"}),
        json!({"id": 1, "method": "hooks/list", "params": {"cwds": [home.path()]}}),
    ];
    let place = home.path().as_os_str();
    let talk = Program {
        path: binary.to_owned(),
        arguments: vec!["app-server".into()],
        environment: [
            ("HOME", place),
            ("CODEX_HOME", place),
            ("CODEX_SQLITE_HOME", place),
            ("PATH", "/usr/bin:/bin".as_ref()),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec(),
        directory: Some(home.path().to_owned()),
        input: requests
            .map(|request| format!("{request}\n"))
            .concat()
            .into_bytes(),
    };
    let deadline = context.clock.deadline(LIMIT);
    let ended = spawn::converse(&talk, &|output| answer(output).is_some(), &deadline)
        .map_err(|error| failed(error.to_string()))?;
    let answer = answer(&ended.stdout).ok_or_else(|| failed("it did not answer".to_owned()))?;
    hashes(&answer, program).map_err(failed)
}

/// The answer to the request with id 1, once it is there.
fn answer(output: &[u8]) -> Option<Value> {
    output
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find(|message| message.get("id") == Some(&json!(1)))
}

/// The hash of each of our hooks, found by its command.
fn hashes(answer: &Value, program: &Utf8Path) -> Result<BTreeMap<String, String>, String> {
    let listed: Vec<&Value> = answer
        .pointer("/result/data")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|place| place.get("hooks").and_then(Value::as_array))
        .flatten()
        .collect();
    HOOKS
        .iter()
        .map(|hook| {
            let command = hook.command(program);
            let hash = listed
                .iter()
                .find(|entry| entry.get("command") == Some(&json!(command)))
                .and_then(|entry| entry.get("currentHash"))
                .and_then(Value::as_str)
                .filter(|hash| hash.starts_with("sha256:"))
                .ok_or_else(|| format!("it did not list our hook for {}", hook.event))?;
            Ok((hook.verb.to_owned(), hash.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HOOKS, answer, hashes};
    use camino::Utf8Path;
    use serde_json::json;

    #[test]
    fn hashes_are_found_by_command_and_a_missing_one_is_named() {
        let program = Utf8Path::new("/share dir/bin/agent-fleet");
        let mut listed: Vec<_> = HOOKS
            .iter()
            .map(|hook| json!({"command": hook.command(program), "currentHash": format!("sha256:{}", hook.verb)}))
            .collect();
        listed.insert(0, json!({"command": "theirs", "currentHash": "sha256:x"}));
        let message = json!({"id": 1, "result": {"data": [{"cwd": "/w", "hooks": listed}]}});
        let output = format!("{{\"id\":0}}\nnot json\n{message}\n{{\"id\":");
        let found = hashes(&answer(output.as_bytes()).unwrap(), program).unwrap();
        assert_eq!(found["session-start"], "sha256:session-start");
        assert_eq!(found.len(), HOOKS.len());
        let other = hashes(&message, Utf8Path::new("/other/agent-fleet")).unwrap_err();
        assert!(other.contains("SessionStart"), "{other}");
        assert_eq!(answer(b"{\"id\":0}\n"), None);
    }
}
