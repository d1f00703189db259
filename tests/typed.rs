//! Every command that a page, a hint or a comment tells people to type exists, with its flags.

use std::path::{Path, PathBuf};

use clap::Command;

/// Words after our name in sentences that begin with it.
const PROSE: &[&str] = &["chooses", "decides"];

/// Where a command is written: file, line, and the text after `agent-fleet `.
#[derive(Debug)]
struct Typed {
    place: String,
    text: String,
}

#[test]
fn every_command_that_is_told_to_be_typed_exists() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let definition = agent_fleet::cli::definition();
    let mut found = Vec::new();
    for name in ["README.md", "docs", "src"] {
        collect(&root.join(name), &mut found);
    }
    assert!(found.len() > 50, "only {} commands found", found.len());
    let wrong: Vec<String> = found
        .iter()
        .filter_map(|typed| {
            check(&definition, &typed.text)
                .err()
                .map(|why| format!("  {}: agent-fleet {}: {why}", typed.place, typed.text))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn collect(path: &Path, found: &mut Vec<Typed>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a directory") {
            collect(&entry.expect("an entry").path(), found);
        }
        return;
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    let (Some("rs" | "md"), Ok(text)) = (ending, std::fs::read_to_string(path)) else {
        return;
    };
    let mut fenced = false;
    let mut refused = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = line.starts_with("```sh") || line.starts_with("```console");
            refused = line == "```console refused";
        }
        if refused {
            continue;
        }
        for (start, _) in line.match_indices("agent-fleet ") {
            let before = line[..start].trim_end().chars().next_back();
            let quoted = matches!(line[..start].chars().next_back(), Some('"' | '`'));
            let typed = fenced && matches!(before, None | Some('$' | '(' | ';' | '&' | '|'));
            if !(quoted || typed) {
                continue;
            }
            let rest = &line[start + "agent-fleet ".len()..];
            let text = rest.split(['"', '`', '#', ')', ';']).next().unwrap_or(rest);
            let first = text.split_whitespace().next();
            if first.is_some_and(|word| PROSE.contains(&word)) {
                continue;
            }
            found.push(Typed {
                place: format!("{}:{}", path.display(), index + 1),
                text: text.trim().to_owned(),
            });
        }
    }
}

/// Follows the words to a command and looks up its flags. What stands after ` -- ` is the worker's.
fn check(root: &Command, text: &str) -> Result<(), String> {
    let mut command = root;
    let mut value_follows = false;
    for word in text.split_whitespace() {
        if word == "--" || takes_the_rest(command) {
            return Ok(());
        }
        if std::mem::take(&mut value_follows) {
            continue;
        }
        let word = word.trim_matches(|letter| matches!(letter, '[' | ']' | '…' | ',' | '\\'));
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split(['=', ']']).next().unwrap_or(flag);
            if matches!(name, "help" | "version") {
                continue;
            }
            let argument = command
                .get_arguments()
                .find(|argument| argument.get_long() == Some(name))
                .ok_or_else(|| format!("no flag --{name}"))?;
            value_follows = !flag.contains('=') && argument.get_action().takes_values();
        } else if command.has_subcommands()
            && word.starts_with(|letter: char| letter.is_alphabetic())
        {
            let mut found = command;
            for word in word.split('|') {
                found = command
                    .find_subcommand(word)
                    .ok_or_else(|| format!("no command `{word}`"))?;
            }
            command = found;
        }
    }
    Ok(())
}

/// Whether all further words are the command's own, unread.
fn takes_the_rest(command: &Command) -> bool {
    command
        .get_arguments()
        .any(clap::Arg::is_trailing_var_arg_set)
}

#[test]
fn every_usage_of_the_contract_exists() {
    // A mapping is no command.
    let later = ["resume_explicit"];
    let root = agent_fleet::cli::definition();
    for (key, usage) in agent_fleet::contract::document::COMMANDS {
        let checked = check(&root, usage);
        assert!(
            checked.is_ok() != later.contains(key),
            "{key}: `{usage}`: {checked:?}"
        );
    }
}

#[test]
fn no_hint_leaves_words_for_the_reader_to_fill_in() {
    let mut wrong = Vec::new();
    let mut directories = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let lines = text.lines().filter(|line| line.contains("hint(\""));
            let open = lines.filter(|line| line.contains('…') || line.contains(" <"));
            wrong.extend(open.map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_wrong_word_and_a_wrong_flag_are_found() {
    let root = agent_fleet::cli::definition();
    assert!(check(&root, "--format json contract --schema").is_ok());
    assert!(check(&root, "contract --skema").is_err());
    assert!(check(&root, "kontract").is_err());
}
