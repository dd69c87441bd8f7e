//! What the program that runs the graph does: downloads, rows with the paths of this machine, held-out questions, the
//! report.

use std::path::{Path, PathBuf};

use futures::future::try_join_all;
use paravt_nano::{Curriculum, Skill};
use paravt_suite::backend::{Backend, CallId, Generation, Request};
use paravt_suite::message::Content;

use crate::error::Error;
use crate::host::{Event, Host, Outcome, Reporting};
use crate::slot::Key;
use crate::target::{Fetch, Item, Target};
use crate::work::{Role, StageContext, Work};

impl Work for Fetch {
    fn title(&self) -> String {
        match &self.items[..] {
            [Item { target: Target::Model(id), .. }] => format!("{id}, where it is not here"),
            _ => format!("{} GB of data and models that are not here", Fetch::gb(self)),
        }
    }

    /// The files are verified against the hub's hashes.
    fn key(&self) -> Option<Key> {
        Some(Key::new("fetched", self))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        Ok(context.host.fetch(self, context.folder)?)
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        vec![("command", self.command())]
    }

    fn gb(&self) -> Option<f64> {
        Some(self.disk_gb() as f64)
    }

    fn missing(&self, host: &mut dyn Host) -> Result<Option<String>, Error> {
        Ok(host.missing(self)?)
    }

    fn prints(&self) -> bool {
        true
    }
}

/// Writes the training rows with the paths of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Materialize;

impl Work for Materialize {
    fn title(&self) -> String {
        "training rows with the paths of this machine, each medium opened once".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new("materialized-1", "plain paths"))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        Ok(context.host.materialize(context.folder)?)
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let command = "paravt-bench data materialize --rows <snapshot of ParaVT-Parquet> --media <paravt-source> --out <output>";
        vec![("command", command.to_owned())]
    }

    fn prints(&self) -> bool {
        true
    }
}

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

impl Work for Reporting {
    fn role(&self) -> Role {
        Role::Report
    }

    fn title(&self) -> String {
        match (&self.page, &self.paper_rows[..]) {
            (Some(page), _) => page.display().to_string(),
            (None, []) => "page in report/, and printed".to_owned(),
            (None, [row]) => format!("beside the published row {row}"),
            (None, rows) => format!("beside {} published rows", rows.len()),
        }
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let runs: Vec<PathBuf> = context.runs.iter().filter(|folder| folder.is_dir()).cloned().collect();
        if runs.is_empty() {
            (context.event)(Event::Note(
                "no report: none of the chosen evaluations has a result; --only takes them beside it",
            ));
            return Ok(Outcome::Complete);
        }
        (context.event)(Event::Busy("reading the records and writing the report"));
        Ok(context.host.report(self, &runs)?)
    }

    fn prints(&self) -> bool {
        true
    }
}
