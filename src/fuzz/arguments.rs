//! What workers may pass to both CLIs, and the command line that is made of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::provider::argument::Verdict;
use crate::provider::claude::grammar as claude;
use crate::provider::codex::configuration::PINNED;
use crate::provider::codex::grammar as codex;
use crate::provider::{Conversation, Invocation, LaunchFacts, Mode};

/// What a registry may add.
const ADDED: [&str; 3] = ["--add-dir", "--new:list", "--newer:optional"];

/// One argument per line. The first line's first byte says what the registry adds and how it is launched.
fn read(bytes: &[u8]) -> Option<(Vec<OsString>, Vec<String>, LaunchFacts)> {
    let (how, rest) = bytes.split_first()?;
    let arguments = rest
        .split(|byte| *byte == b'\n')
        .map(|line| OsString::from_vec(line.to_vec()))
        .collect();
    let added = if how & 1 == 0 { &[][..] } else { &ADDED[..] };
    let conversation = if how & 2 == 0 {
        Conversation::New {
            id: "6e1c3f0a-0000-4000-8000-000000000001".to_owned(),
        }
    } else {
        Conversation::Resume {
            id: "--bg".to_owned(),
        }
    };
    let facts = LaunchFacts {
        binary: "/opt/provider".into(),
        home: "/homes/one".into(),
        workspace: "/srv/tree".into(),
        project: "/srv/tree".into(),
        conversation,
        program: "/share/bin/agent-fleet".into(),
        may_spend: false,
    };
    let added = added.iter().map(|&entry| entry.to_owned()).collect();
    Some((arguments, added, facts))
}

type Spread = (Mode, Vec<(String, Option<OsString>)>, Option<OsString>);

/// An invocation with each value as an option of its own, which is how command lines spell it.
fn spread(invocation: &Invocation) -> Spread {
    let options = invocation.options.iter().flat_map(|option| {
        let count = option.values.len().max(1);
        (0..count).map(|at| (option.name.clone(), option.values.get(at).cloned()))
    });
    (
        invocation.mode,
        options.collect(),
        invocation.prompt.clone(),
    )
}

/// Each argument before `--` is an option that passes, or a word of `ours`.
fn nothing_refused(line: &[OsString], ours: &[&str], passes: impl Fn(&[u8]) -> bool) {
    for argument in line {
        if argument == "--" {
            return;
        }
        if ours.iter().any(|word| argument == *word) {
            continue;
        }
        let bytes = argument.as_bytes();
        let name = bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
        assert!(
            bytes.starts_with(b"--") && passes(name),
            "{} in {line:?}",
            argument.display()
        );
    }
}

/// What passes is rebuilt in a form that means the same, with nothing in it that is refused.
pub fn arguments_claude(bytes: &[u8]) {
    let Some((arguments, added, facts)) = read(bytes) else {
        return;
    };
    let Ok(invocation) = claude::parse(&arguments, &added) else {
        return;
    };
    let line = claude::command_line(&invocation, &facts, "{}");
    let headless = invocation.mode == Mode::Headless;
    let (ours, theirs) = line.split_at(usize::from(headless) + 5);
    assert_eq!(
        ours.first().is_some_and(|first| first == "--print"),
        headless
    );
    let table = claude::table(&added);
    nothing_refused(theirs, &[], |name| table.long(name).is_ok());
    let mut again = theirs.to_vec();
    again.splice(0..0, headless.then(|| OsString::from("--print")));
    let again = claude::parse(&again, &added).expect("what passed passes again");
    assert_eq!(spread(&again), spread(&invocation), "{line:?}");
}

/// The same for Codex.
pub fn arguments_codex(bytes: &[u8]) {
    let Some((arguments, added, facts)) = read(bytes) else {
        return;
    };
    let Ok(invocation) = codex::parse(&arguments, &added) else {
        return;
    };
    let Ok(line) = codex::command_line(&invocation, &facts, &[]) else {
        let review = |option: &crate::provider::AllowedOption| option.name == codex::REVIEW;
        assert!(invocation.options.iter().any(review), "{invocation:?}");
        return;
    };
    let headless = invocation.mode == Mode::Headless;
    assert_eq!(line[0] == "exec", headless, "{line:?}");
    let (ours, theirs) = line.split_at(1 + 2 * (PINNED.len() + 4));
    let pairs = ours[1..].as_chunks::<2>().0;
    assert!(pairs.iter().all(|[option, _]| option == "-c"), "{line:?}");
    let mut theirs = theirs.to_vec();
    if let Conversation::Resume { id } = &facts.conversation {
        let end = theirs.iter().position(|argument| argument == "--");
        let words = &theirs[..end.unwrap_or(theirs.len())];
        let at = words.iter().position(|argument| argument == "resume");
        let at = at.expect("a conversation that is resumed");
        assert_eq!(
            theirs.get(at + 1).map(OsString::as_os_str),
            Some(OsStr::new(id))
        );
        theirs.drain(at..at + 2);
    }
    let table = codex::table(&added);
    nothing_refused(&theirs, &[codex::REVIEW], |name| table.long(name).is_ok());
    theirs.splice(0..0, headless.then(|| OsString::from("exec")));
    let again = codex::parse(&theirs, &added).expect("what passed passes again");
    let sorted = |invocation: &Invocation| {
        let (mode, mut options, prompt) = spread(invocation);
        // A review's own options follow the word; the others keep their order.
        options.sort_by_key(|(name, _)| {
            let own = crate::provider::codex::options::REVIEW_ONLY.contains(&name.as_str());
            (name == codex::REVIEW, own)
        });
        (mode, options, prompt)
    };
    assert_eq!(sorted(&again), sorted(&invocation), "{line:?}");
    let rules = crate::provider::codex::options::RULES;
    for option in &invocation.options {
        let rule = rules.iter().find(|rule| rule.names[0] == option.name);
        let never =
            |rule: &crate::provider::argument::Rule| matches!(rule.verdict, Verdict::Never(_));
        assert!(!rule.is_some_and(never), "{option:?} passed");
    }
}
