//! What answers a served evaluation: which weights, which engine, from which environment. Kept beside the result, so that
//! answers of two models or engines are not taken for those of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environments::Record;

use crate::error::Error;
use crate::servers::{Engine, Fleet};

/// Facts by name, as they also stand among the details of a run's backend. One that is not known is absent.
pub type Provenance = BTreeMap<String, String>;

// Among [`BackendInfo::PROVENANCE`]: commit of the model on the hub, SHA-256 over the names and hashes of its files, name and
// version of the engine's package, hash of what its environment was made from, and of how its servers are started.
const COMMIT: &str = "weights_commit";
const FILES: &str = "weights_files_sha256";
const ENGINE: &str = "engine_version";
const ENVIRONMENT: &str = "environment_sha256";
const COMMAND: &str = "server_command_sha256";
/// File in the folder of an evaluation.
const FILE: &str = "provenance.json";
/// Endings of the files of a model that an engine reads.
const READ: [&str; 7] = ["json", "safetensors", "bin", "jinja", "txt", "model", "py"];

/// What answers for a fleet whose model is in a folder, as far as that is known.
///
/// # Errors
/// A file of the model cannot be read.
pub(crate) fn of(fleet: &Fleet, model: Option<&Path>) -> Result<Provenance, Error> {
    let mut facts = Provenance::new();
    if let Some(folder) = model {
        let hash = hash(folder).map_err(|source| Error::Read { path: folder.to_owned(), source })?;
        facts.insert(FILES.to_owned(), hash);
        facts.extend(paravt_hub::checkpoint::commit(folder).map(|commit| (COMMIT.to_owned(), commit)));
    }
    facts.extend(engine(fleet).map(|engine| (ENGINE.to_owned(), engine)));
    let environment = fleet.venv.as_deref().and_then(Record::read);
    facts.extend(environment.map(|record| (ENVIRONMENT.to_owned(), record.key)));
    facts.extend(fleet.command_hash().map(|hash| (COMMAND.to_owned(), hash)));
    Ok(facts)
}

/// SHA-256 over the names and hashes of the files of a model. A blob of the hub's cache is named by its hash, which was
/// compared when it came.
fn hash(folder: &Path) -> std::io::Result<String> {
    let sums = std::fs::read(folder.join(paravt_engines::SUMS)).unwrap_or_default();
    let sums: BTreeMap<String, String> = serde_json::from_slice(&sums).unwrap_or_default();
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_read = path.extension().is_some_and(|end| READ.iter().any(|read| end == *read));
        if !is_read || !path.is_file() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let blob = std::fs::read_link(&path).ok().and_then(|to| blob(&to));
        let hash = match blob.or_else(|| sums.get(&name).cloned()) {
            Some(hash) => hash,
            None => paravt_files::sha256_file(&path)?,
        };
        lines.push(format!("{name} {hash}\n"));
    }
    lines.sort();
    Ok(paravt_files::sha256(lines.concat()))
}

/// The hash of a blob that a link leads to.
fn blob(to: &Path) -> Option<String> {
    let is_blob = to.parent()?.file_name()? == "blobs";
    Some(to.file_name()?.to_str()?.to_owned()).filter(|_| is_blob)
}

/// Name and version of the package that serves, from what was installed beside the program: no Python is started.
pub(crate) fn engine(fleet: &Fleet) -> Option<String> {
    let package = Some(fleet.serve.engine.as_str()).filter(|_| fleet.serve.engine != Engine::Candle)?;
    let program = PathBuf::from(fleet.program()?);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let venv = fleet.venv.iter().map(|venv| venv.join("bin"));
    // Joined with a folder, an absolute path stays what it is.
    let places = venv.chain(std::env::split_paths(&path)).map(|folder| folder.join(&program));
    let found = places.into_iter().find(|place| place.is_file())?;
    let root = found.parent()?.parent()?.join("lib");
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let pythons = entries(root).filter(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    let packages =
        pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.path().join(name)));
    let mut installed = packages.flat_map(entries).filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.strip_suffix(".dist-info")?.strip_prefix(package)?.strip_prefix('-')?;
        Some(format!("{package} {version}"))
    });
    installed.next()
}

/// What was kept beside the result in a folder; nothing for one that an older version made.
pub fn read(folder: &Path) -> Provenance {
    let text = std::fs::read(folder.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Keeps it beside the result in a folder.
///
/// # Errors
/// The file cannot be written.
pub fn write(folder: &Path, facts: &Provenance) -> std::io::Result<()> {
    paravt_files::write_atomic(&folder.join(FILE), format!("{:#}\n", serde_json::json!(facts)).as_bytes())
}

/// Facts that are known on both sides and differ, in words.
pub fn differences(before: &Provenance, now: &Provenance) -> Vec<String> {
    let both = before.iter().filter_map(|(name, then)| Some((name, then, now.get(name)?)));
    both.filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("{name} was {then}, now {now}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(folder: &Path) -> Fleet {
        let serve = toml::from_str("engine = \"vllm\"").unwrap();
        Fleet { model: "owner/model".to_owned(), serve, gpus: Vec::new(), venv: Some(folder.join("venv")) }
    }

    #[test]
    fn a_snapshot_an_engine_and_an_environment_have_their_facts() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path());
        assert!(!of(&fleet, None).unwrap().contains_key(COMMIT));

        let venv = folder.path().join("venv");
        std::fs::create_dir_all(venv.join("lib/python3.12/site-packages/vllm-0.17.1+cpu.dist-info")).unwrap();
        std::fs::create_dir_all(venv.join("lib/python3.12/site-packages/vllm_extra-3.dist-info")).unwrap();
        std::fs::create_dir_all(venv.join("bin")).unwrap();
        std::fs::write(venv.join("bin/vllm"), "").unwrap();
        let hub = folder.path().join("models--owner--model");
        let snapshot = hub.join("snapshots").join("a".repeat(40));
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(hub.join("blobs")).unwrap();
        let link = |blob: &str| {
            std::fs::write(hub.join("blobs").join(blob), "weights").unwrap();
            let _ = std::fs::remove_file(snapshot.join("model.safetensors"));
            std::os::unix::fs::symlink(format!("../../blobs/{blob}"), snapshot.join("model.safetensors"))
                .unwrap();
        };
        link("one");
        let first = of(&fleet, Some(&snapshot)).unwrap();
        assert_eq!((first[COMMIT].as_str(), first[ENGINE].as_str()), (&*"a".repeat(40), "vllm 0.17.1+cpu"));
        link("two");
        let second = of(&fleet, Some(&snapshot)).unwrap();
        let found = differences(&first, &second);
        assert!(matches!(&found[..], [one] if one.starts_with(FILES)), "{found:?}");
        let mut longer = fleet.clone();
        longer.serve.command = Some("vllm serve {model} --max-model-len 9000".to_owned());
        longer.model = "owner/model2".to_owned();
        let found = differences(&second, &of(&longer, Some(&snapshot)).unwrap());
        assert!(matches!(&found[..], [one] if one.starts_with(COMMAND)), "{found:?}");
        longer.serve.command = Some("vllm serve {model} --dtype bfloat16".to_owned());
        assert_eq!(of(&longer, Some(&snapshot)).unwrap(), second);
        // README.md is not hashed; a regular file such as config.json is hashed by its content.
        std::fs::write(snapshot.join("README.md"), "new").unwrap();
        assert_eq!(of(&fleet, Some(&snapshot)).unwrap(), second);
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert_ne!(of(&fleet, Some(&snapshot)).unwrap(), second);
    }

    #[test]
    fn what_is_not_known_is_no_difference() {
        let folder = tempfile::tempdir().unwrap();
        let one = Provenance::from([(COMMIT.to_owned(), "a".to_owned())]);
        assert_eq!(read(folder.path()), Provenance::new());
        write(folder.path(), &one).unwrap();
        assert_eq!(read(folder.path()), one);
        assert_eq!(differences(&Provenance::new(), &one), Vec::<String>::new());
        let other = Provenance::from([(COMMIT.to_owned(), "b".to_owned())]);
        assert_eq!(differences(&one, &other), ["weights_commit was a, now b"]);
    }
}
