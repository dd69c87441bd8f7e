//! Whether this machine has what a recipe needs: for `doctor --for` and the first stage of a recipe.

use std::path::Path;

use paravt_fetch::{FetchError, Hub, Kind, Silent, is_offline, training};
use paravt_preflight::{Asked, Dataset, Machine, RepoState, Report, Repository, examine as compare, probe};
use paravt_reproduce::{Item, Preflight, Target};
use paravt_suite::data::{DataRoot, HubSource};
use paravt_suite::task::Task as _;

use crate::commands::data::fetch;
use crate::registry;

/// A repository that would be asked, and a file that it has.
struct Source {
    kind: Kind,
    id: String,
    file: String,
}

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
        let missing = fetch::missing(&item.target, root)?;
        if missing.is_some() {
            lacking.push(item.clone());
            open.extend(sources(&item.target)?);
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

/// The repositories of a target.
fn sources(target: &Target) -> anyhow::Result<Vec<Source>> {
    Ok(match target {
        Target::Model(id) => {
            vec![Source { kind: Kind::Model, id: id.clone(), file: "config.json".to_owned() }]
        }
        Target::Training => {
            let ids = training().into_iter().filter_map(|source| source.repos.into_iter().next());
            ids.map(|id| Source { kind: Kind::Dataset, id, file: "README.md".to_owned() }).collect()
        }
        Target::Task(name) => {
            let tasks = registry::select_tasks(std::slice::from_ref(name))?;
            let source = |hub: &HubSource| Source {
                kind: Kind::Dataset,
                id: hub.repos[0].clone(),
                file: hub.annotations.clone(),
            };
            tasks.into_iter().map(|task| source(&task.spec().hub)).collect()
        }
    })
}

/// Asks the hub for each repository once.
fn asked(hub: &Hub, sources: &[Source]) -> anyhow::Result<Vec<Repository>> {
    let runtime = crate::launch::runtime()?;
    let mut found: Vec<Repository> = Vec::new();
    for Source { kind, id, file } in sources {
        if found.iter().any(|other| other.id == *id) {
            continue;
        }
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
