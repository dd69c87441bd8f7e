//! Hashes the sources that make a stage's result, so that a stage names the code that made it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

fn main() -> std::io::Result<()> {
    // From the environment, not `env!`: a build folder may be shared by several checkouts.
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    println!("cargo::rerun-if-changed=build.rs");
    let mut tasks: Vec<PathBuf> = std::fs::read_dir(root.join("tasks"))?
        .map(|entry| entry.map(|entry| Path::new("tasks").join(entry.file_name())))
        .collect::<std::io::Result<_>>()?;
    tasks.sort();
    let nano = PathBuf::from("reproduce/nano");
    let world = vec![nano.clone()];
    let training = vec![nano.clone(), PathBuf::from("reproduce/train")];
    let evaluation = [vec![nano, PathBuf::from("backends/candle")], tasks].concat();
    for (name, crates) in [("WORLD", world), ("TRAINING", training), ("EVALUATION", evaluation)] {
        let mut hash = Sha256::new();
        // Dependencies compute too.
        add(&root, &root.join("Cargo.lock"), &mut hash)?;
        walk(&root, &root.join("reproduce/src"), &mut hash)?;
        for folder in with_dependencies(&root, crates)? {
            let folder = root.join(folder);
            add(&root, &folder.join("Cargo.toml"), &mut hash)?;
            walk(&root, &folder.join("src"), &mut hash)?;
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        println!("cargo::rustc-env=PARAVT_CODE_{name}={hash}");
    }
    Ok(())
}

/// These crates of the workspace and those that they are built from, as folders below `root`.
fn with_dependencies(root: &Path, crates: Vec<PathBuf>) -> std::io::Result<BTreeSet<PathBuf>> {
    let members = section(&root.join("Cargo.toml"), "[workspace.dependencies]")?;
    let mut found = BTreeSet::new();
    let mut open = crates;
    while let Some(folder) = open.pop() {
        for (name, _) in section(&root.join(&folder).join("Cargo.toml"), "[dependencies]")? {
            let member = members.iter().find(|(member, _)| *member == name);
            let path = member.and_then(|(_, value)| value.split("path = \"").nth(1)?.split('"').next());
            open.extend(path.map(PathBuf::from).filter(|path| !found.contains(path)));
        }
        found.insert(folder);
    }
    Ok(found)
}

/// Crates of a section of a manifest and what stands behind their names. By lines: a TOML parser here would be
/// compiled for the host before anything else.
fn section(manifest: &Path, header: &str) -> std::io::Result<Vec<(String, String)>> {
    println!("cargo::rerun-if-changed={}", manifest.display());
    let text = std::fs::read_to_string(manifest)?;
    let lines = text.lines().skip_while(|line| line.trim() != header).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let entry = |line: &str| {
        let end = line.find(['.', ' ', '='])?;
        Some((line[..end].to_owned(), line[end..].to_owned()))
    };
    Ok(lines.filter(|line| !line.starts_with('#')).filter_map(entry).collect())
}

fn walk(root: &Path, folder: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(root, &path, hash)?;
        } else {
            add(root, &path, hash)?;
        }
    }
    Ok(())
}

fn add(root: &Path, path: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = std::fs::read(path)?;
    let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    for part in [name.as_bytes(), &bytes] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    Ok(())
}
