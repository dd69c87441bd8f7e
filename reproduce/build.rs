//! Hashes the sources that make a stage's result, so that a stage names the code that made it.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Folders of the workspace whose sources make each kind of result.
const WORLD: [&str; 4] = ["suite", "suite/media", "reproduce", "reproduce/nano"];
const TRAINING: [&str; 7] = [
    "suite",
    "suite/media",
    "reproduce",
    "reproduce/nano",
    "reproduce/train",
    "backends/candle",
    "backends/qwen-vl",
];
const EVALUATION: [&str; 12] = [
    "suite",
    "suite/media",
    "reproduce",
    "reproduce/nano",
    "backends/candle",
    "backends/qwen-vl",
    "tasks/videomme",
    "tasks/longvideobench",
    "tasks/lvbench",
    "tasks/mlvu",
    "tasks/mmvu",
    "tasks/charades-sta",
];

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo::rerun-if-changed=build.rs");
    for (name, folders) in [("WORLD", &WORLD[..]), ("TRAINING", &TRAINING), ("EVALUATION", &EVALUATION)] {
        let mut hash = Sha256::new();
        // Dependencies compute too.
        add(&root, &root.join("Cargo.lock"), &mut hash)?;
        for folder in folders {
            let folder = root.join(folder);
            add(&root, &folder.join("Cargo.toml"), &mut hash)?;
            walk(&root, &folder.join("src"), &mut hash)?;
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        println!("cargo::rustc-env=PARAVT_CODE_{name}={hash}");
    }
    Ok(())
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
