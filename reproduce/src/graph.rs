//! A recipe as a graph of stages, each with its work, its inputs and the folder of its result.

use std::any::Any;
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host::Evaluation;
use crate::needs::Estimate;
use crate::servers::Fleet;
use crate::slot::Slot;
use crate::work::Work;

/// A stage of one graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageId(usize);

/// The stages of a recipe, each after those it builds on.
#[derive(Debug, Clone)]
pub struct Graph {
    pub recipe: String,
    /// One line about the recipe.
    pub title: String,
    /// Folder of everything that is made.
    pub out: PathBuf,
    /// Folder of the stages' results.
    root: PathBuf,
    stages: Vec<Stage>,
}

/// One stage.
#[derive(Debug, Clone)]
pub struct Stage {
    name: String,
    /// Names that `--only` also knows the stage by.
    tags: Vec<String>,
    /// Row of a table that it is made for; `None` where all rows share it.
    row: Option<String>,
    /// Seed of the training that the stage belongs to; `None` where all seeds share it.
    seed: Option<u64>,
    inputs: Vec<StageId>,
    work: Arc<dyn Work>,
    slot: Option<Slot>,
    deviations: Vec<String>,
    estimate: Estimate,
}

impl Graph {
    /// A graph without stages. `stages` is the name of the folder of their results below `out`.
    pub fn new(recipe: &str, title: &str, out: &Path, stages: &str) -> Self {
        Self {
            recipe: recipe.to_owned(),
            title: title.to_owned(),
            out: out.to_owned(),
            root: out.join(stages),
            stages: Vec::new(),
        }
    }

    /// Appends a stage that builds on `inputs`.
    pub fn add(&mut self, name: &str, seed: Option<u64>, inputs: &[StageId], work: impl Work) -> StageId {
        self.push(name, seed, inputs, Arc::new(work), &[])
    }

    /// Appends a stage of any kind; its result depends on these places, too.
    pub(crate) fn push(
        &mut self,
        name: &str,
        seed: Option<u64>,
        inputs: &[StageId],
        work: Arc<dyn Work>,
        places: &[String],
    ) -> StageId {
        let slot = work.key().map(|mut key| {
            if !places.is_empty() {
                key.settings = serde_json::json!({ "settings": key.settings, "places": places });
            }
            let before: Vec<&Slot> = inputs.iter().filter_map(|input| self[*input].slot.as_ref()).collect();
            Slot::new(&self.root, name, &before, &key)
        });
        self.stages.push(Stage {
            name: name.to_owned(),
            tags: Vec::new(),
            row: None,
            seed,
            inputs: inputs.to_vec(),
            slot,
            deviations: Vec::new(),
            estimate: Estimate { gb: work.gb(), hours: None },
            work,
        });
        StageId(self.stages.len() - 1)
    }

    /// Appends a stage of the graph of a row, under the row's name before its own.
    pub(crate) fn adopt(&mut self, row: &str, name: &str, stage: &Stage, inputs: &[StageId]) -> StageId {
        let name = format!("{row}.{name}");
        let id = self.push(&name, stage.seed, inputs, Arc::clone(&stage.work), &[]);
        self.tag(id, &stage.tags.iter().map(String::as_str).chain([row]).collect::<Vec<_>>());
        self.stages[id.0].row = Some(row.to_owned());
        self.deviates(id, &stage.deviations);
        self.estimate(id, stage.estimate);
        id
    }

    /// Makes `--only` know a stage by further names.
    pub fn tag(&mut self, stage: StageId, tags: &[&str]) {
        self.stages[stage.0].tags.extend(tags.iter().map(|&tag| tag.to_owned()));
    }

    /// Notes what a stage does otherwise than the published code.
    pub fn deviates(&mut self, stage: StageId, from_release: &[impl ToString]) {
        self.stages[stage.0].deviations.extend(from_release.iter().map(ToString::to_string));
    }

    /// What a stage does otherwise than the published code, with the stages that do their work within it.
    pub fn deviations(&self, stage: &Stage) -> Vec<String> {
        let within = self.inputs(stage).filter(|input| input.slot.is_none());
        let all = within.chain([stage]).flat_map(|stage| &stage.deviations);
        all.cloned().collect()
    }

    /// Notes the size and time of a stage, as far as they are given.
    pub fn estimate(&mut self, stage: StageId, Estimate { gb, hours }: Estimate) {
        let known = &mut self.stages[stage.0].estimate;
        *known = Estimate { gb: gb.or(known.gb), hours: hours.or(known.hours) };
    }

    /// All stages in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Where all stages are.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StageId> {
        (0..self.stages.len()).map(StageId)
    }

    /// The stages that a stage builds on.
    pub fn inputs(&self, stage: &Stage) -> impl Iterator<Item = &Stage> {
        stage.inputs.iter().map(|input| &self[*input])
    }

    /// All evaluations with the folders of their runs.
    pub fn evaluations(&self) -> impl Iterator<Item = (&Stage, &Evaluation, &Path)> {
        self.stages.iter().filter_map(|stage| Some((stage, stage.evaluation()?, stage.folder()?)))
    }
}

impl Index<StageId> for Graph {
    type Output = Stage;

    fn index(&self, id: StageId) -> &Stage {
        &self.stages[id.0]
    }
}

impl Stage {
    /// Its name; the same for each seed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seed of the training that it belongs to; `None` where all seeds share it.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Row of a table that it is made for.
    pub fn row(&self) -> Option<&str> {
        self.row.as_deref()
    }

    /// Its name without that of its row.
    pub(crate) fn name_in_row(&self) -> &str {
        self.row().and_then(|row| self.name.strip_prefix(row)?.strip_prefix('.')).unwrap_or(&self.name)
    }

    /// Where the stages that it builds on are in the graph.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|input| input.0)
    }

    /// What it does.
    pub fn work(&self) -> &dyn Work {
        &*self.work
    }

    /// The same stage with other work.
    pub(crate) fn with_work(&self, work: Arc<dyn Work>) -> Self {
        Self { estimate: Estimate { gb: work.gb(), ..self.estimate }, work, ..self.clone() }
    }

    /// What it does, for another graph.
    pub(crate) fn shared_work(&self) -> Arc<dyn Work> {
        Arc::clone(&self.work)
    }

    /// What it does, where that is of a kind.
    pub fn kind<T: Work>(&self) -> Option<&T> {
        (self.work() as &dyn Any).downcast_ref()
    }

    /// Its evaluation, where it is one.
    pub fn evaluation(&self) -> Option<&Evaluation> {
        self.kind()
    }

    /// The servers that are started for it, where it is an evaluation of this program's own servers.
    pub(crate) fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.evaluation()?.fleet.as_ref()
    }

    /// Where its result is kept; `None` for a stage that is done every time.
    pub fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }

    /// Folder of its result; `None` for a stage that is done every time.
    pub fn folder(&self) -> Option<&Path> {
        self.slot.as_ref().map(Slot::folder)
    }

    /// What it does otherwise than the published code.
    pub fn deviations(&self) -> &[String] {
        &self.deviations
    }

    /// Its size and time as far as they are known beforehand.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Whether `--only NAME` means this stage.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.tags.iter().any(|tag| tag == name)
    }

    /// Whether `--only` with these names means this stage: without names it means every one.
    pub fn is_among(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| self.is_called(name))
    }

    /// Its name, with its seed where it has one.
    pub fn label(&self) -> String {
        self.seed.map_or_else(|| self.name.clone(), |seed| format!("{}, seed {seed}", self.name))
    }

    /// Of an evaluation of one split, the name of its run, which it shares with those of the other splits.
    pub(crate) fn family(&self) -> Option<&str> {
        self.tags.first().filter(|_| self.evaluation().is_some_and(Evaluation::is_served)).map(String::as_str)
    }

    /// Its name and one line about it.
    pub fn line(&self) -> String {
        let seed = self.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        format!("{:<18} {}{seed}", self.name, self.work.title())
    }
}
