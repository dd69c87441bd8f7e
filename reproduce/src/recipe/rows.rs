//! A recipe of several rows, each a recipe of its own: their graphs as one, in which what they share is done once.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Method, Recipe};
use crate::error::{Error, RecipeError};
use crate::graph::{Graph, Stage, StageId};
use crate::host::{Check, Reporting};
use crate::needs::Preflight;
use crate::options::GraphOptions;
use crate::target::{Fetch, Target};
use crate::work::{Role, Work};

/// Work of several rows that is done once.
struct Shared {
    name: String,
    /// The first row that has it.
    row: String,
    work: Arc<dyn Work>,
    inputs: BTreeSet<String>,
    deviations: Vec<String>,
}

impl Recipe {
    /// Reads the recipes of its rows; `folder` is that of its file.
    pub(super) fn with_rows(mut self, folder: &std::path::Path) -> Result<Self, RecipeError> {
        let bare = Self {
            name: self.name.clone(),
            title: self.title.clone(),
            rows: self.rows.clone(),
            source: self.source.clone(),
            ..Self::default()
        };
        if self != bare {
            let message = "a recipe with `rows` has but a `name` and a `title`: what its rows do stands in their recipes";
            return Err(self.invalid(message));
        }
        for name in &self.rows {
            let row = Self::of(super::file::find(name, folder, false)?, true)?;
            if row.does(Method::is_launched) || row.is_in_process() {
                return Err(row.invalid(super::NO_ROW));
            }
            if self.row_recipes.iter().any(|known| known.name == row.name) {
                return Err(self.invalid(format!("`rows` has {} twice", row.name)));
            }
            self.row_recipes.push(row);
        }
        Ok(self)
    }

    /// The stages of its rows: first what they share, then the model of each, then row by row.
    ///
    /// # Errors
    /// A row that is not there, and as of [`graph`](Self::graph).
    pub(super) fn graph_of_rows(&self, options: &GraphOptions) -> Result<Graph, Error> {
        let mut graphs: Vec<(&str, Graph)> = Vec::new();
        for row in self.chosen(options)? {
            graphs.push((&row.name, row.graph(&GraphOptions { rows: Vec::new(), ..options.clone() })?));
        }
        let shared = self.shared(&graphs)?;
        let mut joined = Graph::new(&self.name, &self.title, &options.out, &options.stages);
        let (mut made, mut evaluations) = (BTreeMap::new(), Vec::new());
        let mut own: Vec<BTreeMap<&str, StageId>> = vec![BTreeMap::new(); graphs.len()];
        for one in shared.iter().filter(|one| one.work.role() == Role::Preflight) {
            add_shared(&mut joined, one, &shared, &mut made);
        }
        // The texts of agents are looked at before those that they are filled into.
        for (row, graph) in &graphs {
            let agents: Vec<&Stage> = graph.stages().iter().filter(|stage| is_agents(stage)).collect();
            for stage in &agents {
                let name = if agents.len() == 1 { "protocol" } else { stage.name() };
                joined.adopt(row, name, stage, &ids(graph, stage, &[&made]));
            }
        }
        for one in &shared {
            add_shared(&mut joined, one, &shared, &mut made);
        }
        for ((row, graph), own) in graphs.iter().zip(&mut own) {
            for stage in graph.stages() {
                let models = stage.kind().map(models).filter(|models| !models.items.is_empty());
                if let Some(models) = models {
                    let id = joined.adopt(
                        row,
                        stage.name(),
                        &stage.with_work(Arc::new(models)),
                        &ids(graph, stage, &[&made]),
                    );
                    own.insert(stage.name(), id);
                }
            }
        }
        for ((row, graph), own) in graphs.iter().zip(&mut own) {
            for stage in graph.stages().iter().filter(|stage| is_own(stage) && !is_agents(stage)) {
                let labelled = labelled(row, stage);
                let inputs = ids(graph, stage, &[&made, own]);
                let id = joined.adopt(row, stage.name(), labelled.as_ref().unwrap_or(stage), &inputs);
                own.insert(stage.name(), id);
                evaluations.extend(stage.evaluation().map(|_| id));
            }
        }
        let rows: BTreeSet<&String> =
            evaluations.iter().filter_map(|id| joined[*id].evaluation()?.config.paper_row.as_ref()).collect();
        let report = Reporting { page: None, paper_rows: rows.into_iter().cloned().collect() };
        joined.add("report", None, &evaluations, report);
        Ok(joined)
    }

    /// The recipes of its rows that are chosen, in the order of the choice.
    fn chosen(&self, options: &GraphOptions) -> Result<Vec<&Self>, RecipeError> {
        if options.rows.is_empty() {
            return Ok(self.row_recipes.iter().collect());
        }
        let named = |name: &String| {
            let known = || self.row_recipes.iter().map(|row| row.name.as_str());
            self.row_recipes.iter().find(|row| row.name == *name).ok_or_else(|| {
                let hint = paravt_suite::nearest::hint(paravt_suite::nearest::nearest(name, known()));
                let known = known().collect::<Vec<_>>().join(", ");
                RecipeError::invalid(
                    "--rows",
                    format!("{} has no row `{name}`; it has {known}{hint}", self.name),
                )
            })
        };
        options.rows.iter().map(named).collect()
    }

    /// What the rows share.
    fn shared(&self, graphs: &[(&str, Graph)]) -> Result<Vec<Shared>, RecipeError> {
        let mut shared: Vec<Shared> = Vec::new();
        for (row, graph) in graphs {
            for stage in graph.stages().iter().filter(|stage| !is_own(stage) && !is_report(stage)) {
                let inputs = graph.inputs(stage).map(|input| input.name().to_owned());
                let work = of_all(stage, &self.name);
                let Some(known) = shared.iter_mut().find(|known| known.name == stage.name()) else {
                    shared.push(Shared {
                        name: stage.name().to_owned(),
                        row: (*row).to_owned(),
                        work,
                        inputs: inputs.collect(),
                        deviations: stage.deviations().to_vec(),
                    });
                    continue;
                };
                known.work = join(&known.work, &work).ok_or_else(|| {
                    let (name, first) = (&known.name, &known.row);
                    self.invalid(format!(
                        "`rows`: {first} and {row} differ in the stage `{name}`; run them apart"
                    ))
                })?;
                known.inputs.extend(inputs);
                known.deviations.extend(stage.deviations().iter().cloned());
                known.deviations.dedup();
            }
        }
        Ok(shared)
    }
}

/// Whether every row has it for itself: the texts of its agent, its servers and its evaluations. What fails there leaves the
/// other rows as they are.
fn is_own(stage: &Stage) -> bool {
    matches!(stage.work().role(), Role::Serve | Role::Evaluate) || is_agents(stage)
}

fn is_agents(stage: &Stage) -> bool {
    matches!(stage.kind(), Some(Check::AgentProtocol(_)))
}

fn is_report(stage: &Stage) -> bool {
    stage.work().role() == Role::Report
}

/// Where the inputs of a stage are in the joined graph.
fn ids<'a>(graph: &'a Graph, stage: &'a Stage, made: &[&BTreeMap<&str, StageId>]) -> Vec<StageId> {
    let of =
        |input: &Stage| made.iter().filter_map(|made| made.get(input.name()).copied()).collect::<Vec<_>>();
    graph.inputs(stage).flat_map(of).collect()
}

/// Adds shared work after what it builds on.
fn add_shared<'a>(
    joined: &mut Graph,
    one: &'a Shared,
    all: &'a [Shared],
    made: &mut BTreeMap<&'a str, StageId>,
) {
    if made.contains_key(one.name.as_str()) {
        return;
    }
    for input in all.iter().filter(|other| one.inputs.contains(&other.name)) {
        add_shared(joined, input, all, made);
    }
    let inputs: Vec<StageId> =
        one.inputs.iter().filter_map(|input| made.get(input.as_str()).copied()).collect();
    let id = joined.push(&one.name, None, &inputs, Arc::clone(&one.work), &[]);
    joined.deviates(id, &one.deviations);
    made.insert(&one.name, id);
}

/// An evaluation under the names of its row and its run: rows differ in so much that a report would name them by all of it.
fn labelled(row: &str, stage: &Stage) -> Option<Stage> {
    let mut asked = stage.evaluation()?.clone();
    asked.config.label = Some(format!("{row} {}", stage.family().unwrap_or(stage.name())));
    Some(stage.with_work(Arc::new(asked)))
}

/// What of a row's fetch is its own: its model. One that cannot be had then ends its row alone.
fn models(fetch: &Fetch) -> Fetch {
    let is_model = |target: &Target| matches!(target, Target::Model(_));
    let items = fetch.items.iter().filter(|item| is_model(&item.target)).cloned().collect();
    Fetch { items, ..*fetch }
}

/// The work of a stage as all rows have it.
fn of_all(stage: &Stage, table: &str) -> Arc<dyn Work> {
    if let Some(fetch) = stage.kind::<Fetch>() {
        let own = models(fetch);
        let items = fetch.items.iter().filter(|item| !own.items.contains(item)).cloned().collect();
        return Arc::new(Fetch { items, ..*fetch });
    }
    match stage.kind() {
        Some(Check::Machine(needed)) => {
            let needed = Preflight { recipe: table.to_owned(), ..(**needed).clone() };
            Arc::new(Check::Machine(Box::new(needed)))
        }
        _ => stage.shared_work(),
    }
}

/// The work of two rows as one; `None` where they differ.
fn join(a: &Arc<dyn Work>, b: &Arc<dyn Work>) -> Option<Arc<dyn Work>> {
    fn kind<T: Work>(work: &Arc<dyn Work>) -> Option<&T> {
        (&**work as &dyn Any).downcast_ref()
    }
    if let (Some(a), Some(b)) = (kind::<Fetch>(a), kind::<Fetch>(b)) {
        return Some(Arc::new(a.with(b)));
    }
    let check = match (kind::<Check>(a), kind::<Check>(b)) {
        (Some(Check::Machine(a)), Some(Check::Machine(b))) if a.needs == b.needs => {
            Check::Machine(Box::new(Preflight { fetch: a.fetch.with(&b.fetch), ..(**a).clone() }))
        }
        (Some(Check::Data(a)), Some(Check::Data(b))) => {
            Check::Data(a.iter().chain(b.iter().filter(|split| !a.contains(split))).cloned().collect())
        }
        (Some(a), Some(b)) if a == b => a.clone(),
        (None, None) if a.key().is_some() && a.key() == b.key() => return Some(Arc::clone(a)),
        _ => return None,
    };
    Some(Arc::new(check))
}
