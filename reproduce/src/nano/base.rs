//! The base checkpoint: a small model that sees, lists, recalls and calls the tool, made from nothing.

use futures::future::try_join_all;
use paravt_nano::{Curriculum, Kind};
use paravt_suite::backend::{Backend, CallId, Generation, Request};
use paravt_suite::message::{Content, Message};
use paravt_train::data::Conversations;
use paravt_train::sft::SftConfig;

use crate::error::{Error, RecipeError};
use crate::graph::{Graph, Work};
use crate::options::GraphOptions;
use crate::recipe_file;

/// The endless curriculum of a seed.
pub(crate) struct Lessons {
    pub(crate) seed: u64,
}

impl Conversations for Lessons {
    fn count(&self) -> Option<usize> {
        None
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        let row = Curriculum::at(self.seed, number);
        row.map(|row| row.messages)
            .map_err(|error| paravt_train::Error::Settings(format!("lesson {number}: {error}")))
    }
}

/// Rows of each kind that the finished checkpoint is asked.
const EXAM: usize = 50;

/// Its stages: random weights, training, held-out rows.
pub fn graph(config: &SftConfig, options: &GraphOptions) -> Graph {
    let title = "paravt-nano-base: the checkpoint that the embedded recipe starts from";
    let mut graph = Graph::new("paravt-nano-base", title, &options.out, &options.stages);
    let fresh = graph.add("fresh", None, &[], Work::Fresh(config.seed));
    let base = graph.add("base", None, &[fresh], Work::Curriculum(config.clone()));
    graph.add("exam", None, &[base], Work::Exam(EXAM));
    graph
}

/// Rows that it was not trained on, of each kind, answered greedily: how many answers are right to the
/// letter, of `rows`.
///
/// # Errors
/// A row that cannot be made, or a backend that fails.
pub async fn examine(backend: &dyn Backend, rows: usize) -> Result<Vec<(&'static str, usize)>, Error> {
    let mut lessons = Curriculum::new(u64::MAX);
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let mut asked = Vec::new();
        for number in 0..rows {
            let mut messages = lessons.row(kind)?.messages;
            let Some(Content::Text(wanted)) = messages.pop().map(|message| message.content) else { continue };
            let id = CallId { sample: format!("{}-{number}", kind.as_str()), step: "turn0".to_owned() };
            let generation = Generation::greedy(256);
            asked.push((Request::new(id, messages, generation), wanted));
        }
        let answers = try_join_all(asked.iter().map(|(request, _)| backend.complete(request))).await?;
        let right = answers.iter().zip(&asked).filter(|(answer, (_, wanted))| answer.text == *wanted);
        found.push((kind.as_str(), right.count()));
    }
    Ok(found)
}

/// The recipe of the checkpoint in this build.
///
/// # Errors
/// It is damaged: a bug.
pub fn recipe() -> Result<SftConfig, RecipeError> {
    recipe_file::parse("recipe paravt-nano-base", include_str!("../../recipes/paravt-nano-base.toml"))
}
