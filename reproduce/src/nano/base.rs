//! The base checkpoint: a small model that sees, lists, recalls and calls the tool, made from nothing.

use paravt_train::checkpoint::FINAL;
use paravt_train::sft::SftConfig;

use super::stages::folder;
use crate::error::RecipeError;
use crate::graph::Graph;
use crate::options::GraphOptions;
use crate::recipe_file;
use crate::stages::{Curriculum, Exam, Generated};

/// Rows of each kind that the finished checkpoint is asked.
const EXAM: usize = 50;

/// Its stages: random weights, training, held-out rows.
pub fn graph(config: &SftConfig, options: &GraphOptions) -> Graph {
    let title = "paravt-nano-base: the checkpoint that the embedded recipe starts from";
    let mut graph = Graph::new("paravt-nano-base", title, &options.out, &options.stages);
    let fresh = graph.add("fresh", None, &[], Generated::Fresh(config.seed));
    let curriculum = Curriculum { config: config.clone(), fresh: folder(&graph, fresh) };
    let base = graph.add("base", None, &[fresh], curriculum);
    let exam = Exam { model: folder(&graph, base).join(FINAL), rows: EXAM };
    graph.add("exam", None, &[base], exam);
    graph
}

/// The recipe of the checkpoint in this build.
///
/// # Errors
/// It is damaged: a bug.
pub fn recipe() -> Result<SftConfig, RecipeError> {
    recipe_file::parse("recipe paravt-nano-base", include_str!("../../recipes/paravt-nano-base.toml"))
}
