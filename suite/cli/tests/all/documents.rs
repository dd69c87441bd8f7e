//! The documents name files that exist, and commands that the program has.

use std::path::{Path, PathBuf};

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, changelog and everything in `suite/docs`.
fn documents() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("suite/docs")).unwrap();
    let pages =
        docs.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    pages.chain([root().join("README.md")]).collect()
}

/// Texts between back quotes in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn relative_links_lead_to_files() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        for (index, _) in text.match_indices("](") {
            let target = &text[index + 2..];
            let target = &target[..target.find(')').unwrap()];
            let file = target.split('#').next().unwrap();
            if target.contains("://") || file.is_empty() {
                continue;
            }
            assert!(folder.join(file).exists(), "{}: no file {file}", document.display());
        }
    }
}

#[test]
fn paths_of_the_tree_exist() {
    let folders = ["suite/", "tasks/", "backends/", "reports/", "reproduce/", "ci/"];
    let mut seen = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for path in text.lines().flat_map(quoted) {
            // `ci/served MODEL DATA` is a command, `tasks/NAME` a pattern.
            let path = path.split_whitespace().next().unwrap_or_default();
            let pattern = path.contains(['<', '*', '{', '…'])
                || path.chars().any(char::is_uppercase) && !path.ends_with(".md");
            if pattern || !folders.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            seen += 1;
            assert!(root().join(path).exists(), "{}: no {path}", document.display());
        }
    }
    assert!(seen > 40, "the documents name {seen} paths: this test has lost its subject");
}

#[test]
fn commands_of_the_documents_are_commands_of_the_program() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_paravt-bench")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for (index, found) in text.match_indices("paravt-bench ") {
            let word = text[index + found.len()..].split(|c: char| !c.is_ascii_lowercase()).next().unwrap();
            // In a sentence, or a flag.
            if !text[..index].ends_with(['`', '\n']) || word.is_empty() {
                continue;
            }
            let known = help.lines().any(|line| line.split_whitespace().next() == Some(word));
            assert!(known, "{}: no command `{word}`", document.display());
        }
    }
}
