//! Model folders by name: from disk, the hub's cache, or the hub.

use std::path::{Path, PathBuf};

use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Cache, Repo, RepoType};

use crate::error::Error;

/// The folder of a model: a path, or `owner/name` on the hub at a revision (branch, tag or commit).
///
/// What the hub's cache holds whole is not asked for again; `HF_HUB_OFFLINE=1` asks for nothing.
///
/// # Errors
/// No such folder, and no such model in the cache or on the hub.
pub fn resolve(model: &str, revision: &str) -> Result<PathBuf, Error> {
    let path = Path::new(model);
    if path.is_dir() {
        if !path.join("config.json").exists() {
            return Err(Error::file(path, "not a model folder: config.json is missing"));
        }
        return Ok(path.to_owned());
    }
    let is_name =
        model.split('/').count() == 2 && !model.starts_with(['.', '/', '~']) && !model.ends_with('/');
    if !is_name {
        return Err(Error::file(path, "neither a folder nor a model on the hub (owner/name)"));
    }
    let repo = Repo::with_revision(model.to_owned(), RepoType::Model, revision.to_owned());
    if let Some(folder) = cached(&repo) {
        return Ok(folder);
    }
    let fail = |message: String| Error::file(path, message);
    if std::env::var_os("HF_HUB_OFFLINE").is_some_and(|value| value == "1") {
        return Err(fail(format!(
            "revision {revision} is not whole in the hub's cache, and HF_HUB_OFFLINE is 1"
        )));
    }
    let api = ApiBuilder::from_env().with_progress(true).build().map_err(|error| fail(error.to_string()))?;
    let api = api.repo(repo);
    let info = api.info().map_err(|error| fail(format!("no such folder, and the hub says: {error}")))?;
    let wanted = |name: &str| {
        !name.contains('/')
            && [".json", ".safetensors", ".jinja", ".txt"].iter().any(|end| name.ends_with(end))
    };
    let mut folder = None;
    for file in info.siblings.iter().map(|file| file.rfilename.as_str()).filter(|name| wanted(name)) {
        let found = api.get(file).map_err(|error| fail(format!("{file}: {error}")))?;
        folder = found.parent().map(Path::to_owned);
    }
    folder.ok_or_else(|| fail("the hub has no model files under this name".to_owned()))
}

/// The commit of a model in the hub's cache, whose folder is `…/snapshots/COMMIT`.
pub fn commit(folder: &Path) -> Option<String> {
    let is_snapshot = folder.parent()?.file_name()? == "snapshots";
    Some(folder.file_name()?.to_str()?.to_owned()).filter(|_| is_snapshot)
}

/// A snapshot whose configuration and every weight file are there.
fn cached(repo: &Repo) -> Option<PathBuf> {
    let cache = Cache::from_env().repo(repo.clone());
    let folder = cache.get("config.json")?.parent()?.to_owned();
    cache.get("tokenizer.json")?;
    match cache.get("model.safetensors.index.json") {
        None => cache.get("model.safetensors").map(|_| folder),
        Some(index) => {
            let json: serde_json::Value = serde_json::from_slice(&std::fs::read(index).ok()?).ok()?;
            let mut shards = json["weight_map"].as_object()?.values();
            shards
                .all(|shard| shard.as_str().is_some_and(|shard| folder.join(shard).is_file()))
                .then_some(folder)
        }
    }
}
