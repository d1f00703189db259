use super::TARGETS;
use std::path::Path;

fn root(below: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_kept_input_holds_what_is_promised() {
    for (name, target) in TARGETS {
        let directory = root("fixtures/fuzz").join(name);
        let inputs = names(&directory);
        assert!(!inputs.is_empty(), "{name} has no input");
        for input in inputs {
            println!("{name}/{input}");
            target(&std::fs::read(directory.join(input)).unwrap());
        }
        target(b"");
    }
}

#[test]
fn each_target_has_its_inputs_and_its_one_line() {
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&root("fixtures/fuzz")), known);
    let folder = root("tests/fuzz");
    // The package goes without.
    if !folder.exists() {
        return;
    }
    let files: Vec<String> = known.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&folder.join("fuzz_targets")), files);
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for name in known {
        let path = format!("fuzz_targets/{name}.rs");
        let text = std::fs::read_to_string(folder.join(&path)).unwrap();
        let line = format!("fuzz_target!(|bytes: &[u8]| agent_fleet::fuzz::{name}(bytes));\n");
        assert!(text.ends_with(&line), "{path}: {text}");
        let entry = format!("[[bin]]\nname = \"{name}\"\npath = \"{path}\"\n");
        assert!(manifest.contains(&entry), "{name} is not in the manifest");
    }
}
