//! VLMEvalKit: predictions as one `.tsv` per run, which its `load` and the `evaluate` of its data sets read.
//!
//! Columns are those of its own files: `index`, the columns of the data set, `prediction` (VLMEvalKit e8e78f0
//! `vlmeval/dataset/videomme.py`, `longvideobench.py`, `mlvu.py`). Texts hold line breaks and are quoted, as its writer
//! quotes them.

use std::collections::BTreeSet;

use paravt_suite::record::Record;
use paravt_suite::sample::Gold;

use super::ExportError;
use super::evaluation::{Evaluation, has_answer, question};
use super::folder::Folder;
use crate::names::file_name;

/// Texts that pandas, which VLMEvalKit reads with, takes for a missing value (its documented defaults).
const MISSING: [&str; 20] = [
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Splits that VLMEvalKit has, with its name, in which `{n}` is the number of frames, and what its evaluation compares
/// with.
const KNOWN: [(&str, &str, Answer); 4] = [
    ("videomme", "Video-MME_{n}frame", Answer::Letter),
    ("videomme_wsub", "Video-MME_{n}frame_subs", Answer::Letter),
    ("longvideobench", "LongVideoBench_{n}frame", Answer::Letter),
    ("mlvu", "MLVU_MCQ", Answer::Option),
];

/// What the column `answer` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The letter, or the gold answer of other questions.
    Letter,
    /// The text of the right option.
    Option,
}

pub(super) fn write(evaluations: &[Evaluation<'_>], folder: &mut Folder) -> Result<(), ExportError> {
    for evaluation in evaluations {
        let records: Vec<&Record> =
            evaluation.run.records.iter().filter(|record| has_answer(record)).collect();
        let (dataset, answer) = dataset(evaluation);
        let model = file_name(&evaluation.model);
        let name = format!("{model}/{model}_{dataset}.tsv");
        let table = table(&records, answer).map_err(|error| ExportError::Io {
            path: folder.path(&name),
            source: std::io::Error::other(error),
        })?;
        folder.put(&name, &table)?;
        note(evaluation, &records, folder);
    }
    Ok(())
}

/// Its name of the data set, and what the column `answer` holds.
fn dataset(evaluation: &Evaluation<'_>) -> (String, Answer) {
    let frames = evaluation.run.manifest.plan.nframes.to_string();
    let known = KNOWN.iter().find(|(split, ..)| *split == evaluation.task());
    known.map_or_else(
        || (file_name(evaluation.task()), Answer::Letter),
        |(_, name, answer)| (name.replace("{n}", &frames), *answer),
    )
}

/// The rows with their header.
fn table(records: &[&Record], answer: Answer) -> Result<Vec<u8>, csv::Error> {
    let tags: BTreeSet<&String> = records.iter().flat_map(|record| record.sample.tags.keys()).collect();
    let quoted = csv::QuoteStyle::NonNumeric;
    let mut writer = csv::WriterBuilder::new().delimiter(b'\t').quote_style(quoted).from_writer(Vec::new());
    let fixed = ["index", "uid", "video", "question", "candidates", "answer", "correct_choice"];
    let columns = fixed.into_iter().chain(tags.iter().map(|tag| tag.as_str())).chain(["prediction"]);
    writer.write_record(columns)?;
    for record in records {
        let sample = &record.sample;
        let right = right_option(record);
        let option = right.and_then(|index| sample.question.options.get(index));
        let gold = option.filter(|_| answer == Answer::Option).cloned();
        let fixed = [
            sample.row.to_string(),
            sample.uid.clone(),
            sample.video.display().to_string(),
            question(sample),
            // A list of JSON strings is a list of Python strings, which VLMEvalKit evaluates.
            serde_json::to_string(&sample.question.options).expect("strings serialise"),
            gold.unwrap_or_else(|| sample.gold.to_string()),
            right.map(|index| index.to_string()).unwrap_or_default(),
        ];
        let labels =
            tags.iter().map(|tag| sample.tags.get(*tag).map(|labels| labels.join(", ")).unwrap_or_default());
        let prediction = record.transcript.final_text.clone();
        writer.write_record(fixed.into_iter().chain(labels).chain([prediction]))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// Position of the right option, from 0.
fn right_option(record: &Record) -> Option<usize> {
    match &record.sample.gold {
        Gold::Choice { answer } => {
            record.sample.question.letters.find(answer.as_str()).filter(|_| answer.len() == 1)
        }
        _ => None,
    }
}

/// Says what the file lacks and what VLMEvalKit will misread.
fn note(evaluation: &Evaluation<'_>, records: &[&Record], folder: &mut Folder) {
    let (all, name) = (evaluation.run.records.len(), evaluation.name());
    if records.len() < all {
        let failed = all - records.len();
        folder.note(format!("{name}: of {all} samples left out: {failed} without an answer"));
    }
    let misread =
        records.iter().filter(|record| MISSING.contains(&record.transcript.final_text.as_str())).count();
    if misread > 0 {
        folder.note(format!(
            "{name}: {misread} answers are texts such as `None` or nothing at all, which VLMEvalKit's reader takes for \
             a missing prediction"
        ));
    }
}
