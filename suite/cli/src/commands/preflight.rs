//! Whether this machine has what a recipe needs: for `doctor --for` and the first stage of a recipe.

use std::path::Path;

use paravt_fetch::{FetchError, Hub, RepoType, Silent, Source, is_offline};
use paravt_reproduce::preflight::{
    Asked, Dataset, Machine, RepoState, Report, Repository, examine as compare, probe,
};
use paravt_reproduce::{Item, Preflight, Target};
use paravt_suite::data::DataRoot;

use crate::commands::data::fetch;

/// Compares this machine with what a recipe needs. Of the splits only `selected` ones count, where they are given.
pub(crate) fn examine(
    preflight: &Preflight,
    out: &Path,
    root: &DataRoot,
    selected: Option<&[String]>,
) -> anyhow::Result<(Report, Machine)> {
    let is_selected = |item: &&Item| match &item.target {
        Target::Task(name) => selected.is_none_or(|names| names.contains(name)),
        Target::Training | Target::Model(_) => true,
    };
    let (mut datasets, mut repositories, mut open, mut lacking) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for item in preflight.fetch.items.iter().filter(is_selected) {
        let missing = item.target.missing(root)?;
        if missing.is_some() {
            lacking.push(item.clone());
            open.extend(item.target.sources()?);
        } else if let Target::Model(id) = &item.target {
            repositories.push(Repository { id: id.clone(), state: RepoState::Local });
        }
        if !matches!(item.target, Target::Model(_)) {
            let is_fetched = preflight.is_fetched && !is_offline();
            datasets.push(Dataset { name: item.target.name(), missing, is_fetched });
        }
    }
    let data = root.data.clone().unwrap_or_else(|| root.hf_home.clone());
    let needs = preflight.needs_for(if preflight.is_fetched { &lacking } else { &[] });
    let mut has_token = false;
    if needs.hub && !open.is_empty() {
        let hub = Hub::of_environment(&data, fetch::FEW)?;
        has_token = hub.has_token();
        repositories.extend(asked(&hub, &open)?);
    }
    let asked = Asked { out: out.to_owned(), data, has_token, repositories, datasets };
    let machine = probe(&needs, asked);
    Ok((compare(&preflight.recipe, &needs, &machine), machine))
}

/// Asks the hub for each repository once.
fn asked(hub: &Hub, sources: &[Source]) -> anyhow::Result<Vec<Repository>> {
    let runtime = crate::launch::runtime()?;
    let mut found: Vec<Repository> = Vec::new();
    for Source { kind, repos, annotations, .. } in sources {
        let id = &repos[0];
        if found.iter().any(|other| other.id == *id) {
            continue;
        }
        // A file that the repository is known to have, by its whole name.
        let file = annotations.first().filter(|name| !name.contains('*')).map(String::as_str);
        let file = file.unwrap_or(if *kind == RepoType::Model { "config.json" } else { "README.md" });
        let state = if is_offline() {
            RepoState::Unreachable("HF_HUB_OFFLINE is 1: nothing is asked of the hub".to_owned())
        } else {
            match runtime.block_on(hub.access(*kind, id, "main", file, &Silent)) {
                Ok(()) => RepoState::Open,
                Err(error @ FetchError::Access { .. }) => RepoState::Refused(error.to_string()),
                Err(error @ FetchError::NotFound { .. }) => RepoState::NotFound(error.to_string()),
                Err(error) => RepoState::Unreachable(error.to_string()),
            }
        };
        let unreachable = matches!(state, RepoState::Unreachable(_));
        found.push(Repository { id: id.clone(), state });
        // The others would say the same, each after its tries.
        if unreachable {
            break;
        }
    }
    Ok(found)
}
