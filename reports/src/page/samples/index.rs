//! Columns of the sample list.

use std::collections::BTreeMap;

use paravt_suite::record::{Outcome, Record, ToolCall, ToolOutcome};
use serde::Serialize;

use super::CHUNK;
use crate::contrast::{Contrast, Pair};
use crate::page::names::Names;
use crate::pairs::RIGHT;
use crate::rows::video_length;
use crate::runs::Run;

/// Characters of a question and of an answer in the list; the transcript has all of them.
const QUESTION: usize = 240;
const ANSWER: usize = 40;

/// Everything that the list is filtered and sorted by.
#[derive(Serialize)]
pub(super) struct Index {
    /// Samples of one chunk of transcripts.
    chunk: usize,
    runs: Vec<RunEntry>,
    /// Names of error classes, and labels of the breakdowns as `tag: label`.
    errors: Vec<String>,
    tags: Vec<String>,
    questions: Questions,
    samples: Samples,
}

#[derive(Serialize)]
struct RunEntry {
    split: String,
    title: String,
    name: String,
    /// The run that the first comparison with this one as B has as A.
    against: Option<usize>,
}

/// One entry per question and gold answer; several runs share it.
#[derive(Default, Serialize)]
struct Questions {
    uid: Vec<String>,
    text: Vec<String>,
    gold: Vec<String>,
    /// Numbers of `tags`.
    tags: Vec<Vec<usize>>,
}

/// One entry per record, those of one question one after the other.
#[derive(Default, Serialize)]
struct Samples {
    question: Vec<usize>,
    run: Vec<usize>,
    /// 0 right, 1 wrong, 2 unparsed, 3 error.
    result: Vec<u8>,
    value: Vec<f64>,
    answer: Vec<String>,
    calls: Vec<usize>,
    seconds: Vec<f64>,
    /// Length of the video in seconds, as far as the record shows it.
    length: Vec<Option<f64>>,
    /// 1 truncated, 2 frame loss, 4 dropped calls, 8 forced answer, 16 failed or malformed call.
    loss: Vec<u8>,
    /// Number of `errors`.
    error: Vec<Option<usize>>,
}

/// Numbers of texts in the order in which they come first.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, text: String) -> usize {
        let next = self.0.len();
        *self.0.entry(text).or_insert(next)
    }

    fn texts(self) -> Vec<String> {
        let mut texts: Vec<(String, usize)> = self.0.into_iter().collect();
        texts.sort_by_key(|(_, number)| *number);
        texts.into_iter().map(|(text, _)| text).collect()
    }
}

/// The index, and the records in its order.
pub(super) fn index<'a>(runs: &[&'a Run], names: &Names, contrasts: &[Contrast]) -> (Index, Vec<&'a Record>) {
    let (mut errors, mut tags) = (Numbers::default(), Numbers::default());
    let (mut questions, mut samples) = (Questions::default(), Samples::default());
    let ordered = by_question(runs);
    let mut last = None;
    for (run, record) in &ordered {
        let key = (&record.sample.task, question_key(record));
        if last.as_ref() != Some(&key) {
            questions.push(record, &mut tags);
            last = Some(key);
        }
        let error = record.error.as_ref().map(|error| errors.of(error.class.as_str().to_owned()));
        samples.push(questions.uid.len() - 1, *run, record, error);
    }
    // One in the same split: a sample's partner has its name there.
    let of_split = |pair: &&Pair| {
        let [a, b] = pair.positions.map(|run| runs.get(run).map(|run| &run.manifest.task.name));
        a == b
    };
    let pairs = || contrasts.iter().flat_map(|contrast| &contrast.pairs).filter(of_split);
    let entry = |(number, run): (usize, &&Run)| RunEntry {
        split: run.manifest.task.name.clone(),
        title: run.manifest.task.title.clone(),
        name: names.of(number).to_owned(),
        against: pairs().find(|pair| pair.positions[1] == number).map(|pair| pair.positions[0]),
    };
    let runs = runs.iter().enumerate().map(entry).collect();
    let (errors, tags) = (errors.texts(), tags.texts());
    let records = ordered.into_iter().map(|(_, record)| record).collect();
    (Index { chunk: CHUNK, runs, errors, tags, questions, samples }, records)
}

/// What makes two records answers to the same question.
fn question_key(record: &Record) -> (usize, &str, &str, String) {
    let sample = &record.sample;
    (sample.row, &sample.uid, &sample.question.stem, sample.gold.to_string())
}

/// All records with the number of their run: by split in the order of the runs, by question, by run.
fn by_question<'a>(runs: &[&'a Run]) -> Vec<(usize, &'a Record)> {
    let split =
        |run: usize| runs.iter().position(|other| other.manifest.task.name == runs[run].manifest.task.name);
    let of_run = |(run, all): (usize, &&'a Run)| all.records.iter().map(move |record| (run, record));
    let mut ordered: Vec<(usize, &Record)> = runs.iter().enumerate().flat_map(of_run).collect();
    ordered.sort_by_cached_key(|(run, record)| (split(*run), question_key(record), *run));
    ordered
}

impl Questions {
    fn push(&mut self, record: &Record, tags: &mut Numbers) {
        let sample = &record.sample;
        self.uid.push(sample.uid.clone());
        self.text.push(short(&sample.question.stem, QUESTION));
        self.gold.push(short(&sample.gold.to_string(), ANSWER));
        let labels =
            sample.tags.iter().flat_map(|(tag, labels)| labels.iter().map(move |label| (tag, label)));
        let flags = sample.flags.iter().map(|flag| format!("flag: {flag}"));
        let texts = labels.map(|(tag, label)| format!("{tag}: {label}")).chain(flags);
        self.tags.push(texts.map(|text| tags.of(text)).collect());
    }
}

impl Samples {
    fn push(&mut self, question: usize, run: usize, record: &Record, error: Option<usize>) {
        let (score, transcript) = (&record.score, &record.transcript);
        let rounded = |value: f64, digits: f64| (digits * value).round() / digits;
        self.question.push(question);
        self.run.push(run);
        self.result.push(match score.outcome {
            Outcome::Scored => u8::from(score.value < RIGHT),
            Outcome::Unparsed => 2,
            Outcome::Error => 3,
        });
        self.value.push(rounded(score.value, 1000.0));
        self.answer.push(short(score.prediction.as_deref().unwrap_or_default(), ANSWER));
        self.calls.push(transcript.tool_calls.len());
        self.seconds.push(rounded(record.measured.seconds, 100.0));
        self.length.push(video_length(record).map(|length| rounded(length, 10.0)));
        let bad = |call: &ToolCall| {
            let outcome = &call.outcome;
            matches!(
                outcome,
                ToolOutcome::CropFailed { .. }
                    | ToolOutcome::Malformed { .. }
                    | ToolOutcome::CodeFailed { .. }
            )
        };
        let flags = [
            transcript.truncated,
            transcript.frame_loss.is_some(),
            transcript.dropped_calls > 0,
            transcript.forced,
            transcript.tool_calls.iter().any(bad),
        ];
        self.loss.push(flags.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit).sum());
        self.error.push(error);
    }
}

fn short(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
