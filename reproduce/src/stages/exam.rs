//! Held-out rows of the curriculum, asked of the model that was trained on it.

use std::path::PathBuf;

use futures::future::try_join_all;
use paravt_nano::{Curriculum, Skill};
use paravt_suite::backend::{Backend, CallId, Generation, Request};
use paravt_suite::message::Content;

use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Asks a model rows of the curriculum that it was not trained on.
#[derive(Debug, Clone)]
pub struct Exam {
    pub model: PathBuf,
    /// Rows of each kind.
    pub rows: usize,
}

impl Work for Exam {
    fn title(&self) -> String {
        format!("{} held-out rows of each kind, answered greedily", self.rows)
    }

    fn key(&self) -> Option<Key> {
        None
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        (context.event)(Event::Started);
        context.host.examine(&self.model, self.rows)?;
        Ok(Outcome::Complete)
    }

    fn prints(&self) -> bool {
        true
    }
}

/// Rows that it was not trained on, of each kind, answered greedily: how many answers are right to the
/// letter, of `rows`.
///
/// # Errors
/// A row that cannot be made, or a backend that fails.
pub async fn examine(backend: &dyn Backend, rows: usize) -> Result<Vec<(&'static str, usize)>, Error> {
    let mut lessons = Curriculum::new(u64::MAX);
    let mut found = Vec::new();
    for skill in Skill::ALL {
        let mut asked = Vec::new();
        for number in 0..rows {
            let mut messages = lessons.row(skill)?.messages;
            let Some(Content::Text(wanted)) = messages.pop().map(|message| message.content) else { continue };
            let id = CallId::new(format!("{}-{number}", skill.as_str()), "turn0");
            let generation = Generation::greedy(256);
            asked.push((Request::new(id, messages, generation), wanted));
        }
        let answers = try_join_all(asked.iter().map(|(request, _)| backend.complete(request))).await?;
        let right = answers.iter().zip(&asked).filter(|(answer, (_, wanted))| answer.text == *wanted);
        found.push((skill.as_str(), right.count()));
    }
    Ok(found)
}
