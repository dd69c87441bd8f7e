//! The documents and comments name files that exist, and commands that the program has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, changelog and everything in `suite/docs`.
pub(crate) fn documents() -> Vec<PathBuf> {
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
            // `ci/servers/served MODEL DATA` is a command, `tasks/NAME` a pattern.
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
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let is_command = |word: &str| {
        let help =
            std::process::Command::new(env!("CARGO_BIN_EXE_paravt-bench")).args([word, "--help"]).output();
        help.unwrap().status.success()
    };
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for (index, found) in text.match_indices("paravt-bench ") {
            let word = text[index + found.len()..].split(|c: char| !c.is_ascii_lowercase()).next().unwrap();
            // In a sentence, or a flag.
            if !text[..index].ends_with(['`', '\n']) || word.is_empty() {
                continue;
            }
            let known = *known.entry(word.to_owned()).or_insert_with(|| is_command(word));
            assert!(known, "{}: no command `{word}`", document.display());
        }
    }
}

#[test]
fn flags_of_the_documents_are_flags_of_their_commands() {
    let mut seen = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap().replace("\\\n", " ");
        for line in text.lines().filter(|line| line.trim_start().starts_with("paravt-bench ")) {
            // Without a comment, what a pipe takes, and what a shell does after it.
            let line = line.split([';', '|', '#', '>']).next().unwrap_or_default();
            let mut words = line.split_whitespace().skip(1).peekable();
            let mut command = crate::common::bench();
            while let Some(word) = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
                command.arg(word);
                // Two words at most, and only of commands that have others below them.
                if !["data", "protocol"].contains(&word) {
                    break;
                }
            }
            let help = command.arg("--help").output().unwrap();
            let help = String::from_utf8(help.stdout).unwrap();
            for flag in words.filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                seen += 1;
                let known =
                    help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == flag);
                assert!(known, "{}: `{line}`: no flag {flag}", document.display());
            }
        }
    }
    assert!(seen > 60, "the documents give {seen} flags: this test has lost its subject");
}

/// Names of the properties of a JSON schema and of its definitions.
fn properties(schema: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    let Some(object) = schema.as_object() else {
        schema.as_array().into_iter().flatten().for_each(|schema| properties(schema, found));
        return;
    };
    if let Some(named) = object.get("properties").and_then(serde_json::Value::as_object) {
        found.extend(named.keys().cloned());
    }
    object.values().for_each(|schema| properties(schema, found));
}

#[test]
fn every_field_of_a_record_is_explained() {
    let docs = root().join("suite/docs");
    let schema = std::fs::read_to_string(docs.join("record.schema.json")).unwrap();
    let mut fields = std::collections::BTreeSet::new();
    properties(&serde_json::from_str(&schema).unwrap(), &mut fields);
    assert!(fields.len() > 60, "{fields:?}");
    let page = std::fs::read_to_string(docs.join("records.md")).unwrap();
    let record = page.split("## Manifest").next().unwrap();
    // `calls[].usage` explains `usage`.
    let words: Vec<&str> = record.lines().flat_map(quoted).flat_map(|text| text.rsplit('.').next()).collect();
    let unexplained: Vec<&String> = fields.iter().filter(|field| !words.contains(&field.as_str())).collect();
    assert!(unexplained.is_empty(), "records.md does not name {unexplained:?}");
}

/// Every file of the repository that git tracks and that has comments.
fn sources() -> Vec<PathBuf> {
    let listed =
        std::process::Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let has_comments = |path: &&str| {
        [".rs", ".py", ".toml", ".yml"].iter().any(|end| path.ends_with(end))
            || path.starts_with("ci/") && !path.contains('.')
    };
    let found: Vec<PathBuf> = listed
        .split('\0')
        .filter(has_comments)
        .map(|path| root().join(path))
        .filter(|path| path.is_file())
        .collect();
    assert!(found.len() > 400, "{} files", found.len());
    found
}

/// The comment of a line, if it has one.
fn comment(line: &str) -> Option<&str> {
    let mark = ["//", "#"].into_iter().find(|mark| {
        let start = line.trim_start();
        start.starts_with(mark) && !start.starts_with("#[") && !start.starts_with("#!")
    })?;
    line.trim_start().strip_prefix(mark)
}

/// What looks like a path in a text: with a slash, letters, digits and `._-`, and without the full stop of a sentence.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
    parts.map(|part| part.trim_end_matches(['.', '-'])).filter(|part| part.contains('/'))
}

#[test]
fn comments_cite_files_of_the_tree() {
    // Files of the work on the tree that are not part of it.
    let outside = [concat!("..", "/shared"), "spec/", "reviews/", "shared/"];
    let folders = ["suite/", "tasks/", "backends/", "reports/", "reproduce/", "ci/"];
    // A file of another project is cited with its name.
    let others = ["lmms-eval", "ParaVT", "AReaL", "transformers", "vllm", "torch"];
    let mut seen = 0;
    for source in sources() {
        let text = std::fs::read_to_string(&source).unwrap();
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else { continue };
            let is_of_another = others.iter().any(|project| comment.contains(project));
            for path in paths(comment) {
                let place = format!("{}:{}: {path}", source.display(), number + 1);
                assert!(!outside.iter().any(|start| path.starts_with(start)), "{place}");
                let in_tree = folders.iter().any(|folder| path.starts_with(folder));
                // A file of another repository has its own folders; a pattern has capitals.
                let is_pattern = path.chars().any(char::is_uppercase) && !path.ends_with(".md");
                if !in_tree || is_of_another || is_pattern || !path.rsplit('/').next().unwrap().contains('.')
                {
                    continue;
                }
                seen += 1;
                assert!(root().join(path).exists(), "{place} does not exist");
            }
        }
    }
    assert!(seen > 20, "comments name {seen} files: this test has lost its subject");
}

/// Citations `FILE:LINES` of the release in the documents, with the file's path in its repository.
fn cited_lines() -> Vec<(String, usize)> {
    let mut cited = Vec::new();
    for document in ["suite/docs/quirks.md", "suite/docs/training.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for quoted in text.lines().flat_map(quoted) {
            let Some((file, lines)) = quoted.split_once(':') else { continue };
            let last = lines.rsplit('-').next().unwrap().parse::<usize>();
            let file = file
                .replacen("SFT/", "paravt/sft/lmms-engine/src/lmms_engine/", 1)
                .replacen("RL/", "paravt/rl/", 1);
            let is_of_release = file.starts_with("paravt/") || file.starts_with("requirements/");
            if let (Ok(last), true) = (last, is_of_release) {
                cited.push((file, last));
            }
        }
    }
    cited
}

/// Runs where `PARAVT_RELEASE` names a repository of ParaVT on this machine.
#[test]
fn cited_lines_of_the_release_exist() {
    let cited = cited_lines();
    assert!(cited.len() > 60, "the documents cite {} places", cited.len());
    let Some(repository) = std::env::var_os("PARAVT_RELEASE") else { return };
    for (file, last) in cited {
        let mut git = std::process::Command::new("git");
        let shown =
            git.arg("-C").arg(&repository).arg("show").arg(format!("cf55249:{file}")).output().unwrap();
        assert!(shown.status.success(), "{file}: {}", String::from_utf8_lossy(&shown.stderr));
        let lines = shown.stdout.iter().filter(|byte| **byte == b'\n').count();
        assert!(last <= lines, "{file}:{last}: the file has {lines} lines");
    }
}
