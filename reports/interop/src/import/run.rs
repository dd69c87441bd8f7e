//! A log as a run of this suite, scored by the corrected rules.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use paravt_reports::{ReportError, Run, Training};
use paravt_suite::backend::{BackendInfo, Usage};
use paravt_suite::data::HubSource;
use paravt_suite::evaluate::RunConfig;
use paravt_suite::journal::{Journal, write_summary};
use paravt_suite::message::Role;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{Source, native};
use paravt_suite::record::{
    Measured, ModelCall, Outcome, RECORD_VERSION, Record, RecordedMessage, RecordedPart, SampleError,
    SampleErrorClass, Score, Transcript,
};
use paravt_suite::reference::Tag;
use paravt_suite::run::{Host, Inputs, Manifest, RUN_VERSION, Selection, Sizes};
use paravt_suite::sample::{Gold, Question, QuestionKind, Sample};
use paravt_suite::scoring::{Scorer as _, Strict};
use paravt_suite::summary::group_sizes;
use paravt_suite::task::{Breakdown, Metric, TaskSpec, letters};
use regex::Regex;

use super::log::{Log, Row};
use crate::names::file_name;

/// Blocks that no answer is in: those of the tool calls that video agents write.
const TAGS: [Tag; 3] =
    [("<tool_call>", "</tool_call>"), ("<tool_code>", "</tool_code>"), ("<video_zoom>", "</video_zoom>")];
/// Name of the step whose reply a row holds.
const STEP: &str = "turn0";
/// Stands where the hash of a protocol is in runs of this suite.
const PROTOCOL: &str = "imported";

/// A log as a run.
pub struct Imported {
    /// Records by the corrected rules, one for each row that could be scored.
    pub run: Run,
    /// For each record, the position of its row in the log.
    pub rows: Vec<usize>,
    /// Rows without a gold answer, which nothing can score.
    pub without_gold: usize,
    /// Rows whose sample occurred before.
    pub duplicates: usize,
    /// Rows of no sample of the split.
    pub unknown: usize,
}

/// The split that a log is of.
#[derive(Debug, Clone, Copy)]
pub struct Split<'a> {
    pub spec: &'a TaskSpec,
    pub samples: &'a [Sample],
    /// For each row its sample; see [`join`](super::join()).
    pub joined: &'a [Option<Sample>],
}

/// The run of a log. `split` is known where its rows were found in one; else the file alone says what was asked.
/// `expected` is the number of rows that the evaluation was to have, where the user says.
pub fn run(log: &Log, split: Option<Split<'_>>, expected: Option<usize>) -> Imported {
    let shared = shared_letters(log);
    let (mut records, mut rows, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let (mut without_gold, mut duplicates, mut unknown) = (0, 0, 0);
    let task = split.map_or_else(|| task_name(log), |split| split.spec.name.clone());
    for (place, row) in log.rows.iter().enumerate() {
        let sample = match split {
            Some(split) => match &split.joined[place] {
                Some(sample) => sample.clone(),
                None => {
                    unknown += 1;
                    continue;
                }
            },
            None => match sample(row, &task, &shared) {
                Some(sample) => sample,
                None => {
                    without_gold += 1;
                    continue;
                }
            },
        };
        let epoch = row.epoch.saturating_sub(1);
        if !seen.insert((sample.uid.clone(), epoch)) {
            duplicates += 1;
            continue;
        }
        rows.push(place);
        records.push(record(row, sample, epoch));
    }
    let samples: Vec<Sample> = match split {
        Some(split) => split.samples.to_vec(),
        None => {
            let mut known = HashSet::new();
            let new = |record: &&Record| known.insert(record.sample.uid.clone());
            records.iter().filter(new).map(|record| record.sample.clone()).collect()
        }
    };
    let repeat = records.iter().map(|record| record.epoch + 1).max().unwrap_or(1);
    let spec = split.map_or_else(|| spec(&task, log, &samples), |split| split.spec.clone());
    // What a user or a file expects counts every repetition.
    let once = |rows: usize| rows.div_ceil(repeat);
    let asked = expected.map(once).or_else(|| split.map(|split| split.samples.len()));
    let distinct = records.iter().filter(|record| record.epoch == 0).count();
    let all = asked.or_else(|| log.expected.map(once)).unwrap_or(0).max(distinct);
    let mut manifest = manifest(log, spec, &samples, all);
    manifest.plan.repeat = repeat;
    let run = Run {
        path: PathBuf::from(log.name()),
        manifest,
        records,
        torn_bytes: 0,
        training: Training::default(),
    };
    Imported { run, rows, without_gold, duplicates, unknown }
}

/// The name of the data set, which is also that of a folder.
fn task_name(log: &Log) -> String {
    file_name(log.task.as_deref().filter(|task| !task.is_empty()).unwrap_or("imported"))
}

/// The letters from A to the last one that is a gold answer of the file, at least A to D: for rows whose options the
/// file does not show.
fn shared_letters(log: &Log) -> String {
    let golds = log.rows.iter().filter_map(|row| letter(row.gold.as_deref()?));
    let last = golds.max().map_or(0, |last| last as usize - 'A' as usize + 1);
    letters(last.max(4))
}

/// The text as one capital letter.
fn letter(text: &str) -> Option<char> {
    let text = text.trim().trim_matches(['(', ')', '.']);
    let mut chars = text.chars();
    chars.next().filter(|c| c.is_ascii_uppercase() && chars.next().is_none())
}

/// Options that a prompt lists as `A. …`, `(B) …` on lines of their own, from A on.
fn listed_options(prompt: &str) -> Vec<String> {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*\(?([A-Z])[.):]\s*(\S.*?)\s*$").expect("literal pattern"));
    let mut found = Vec::new();
    for line in LINE.captures_iter(prompt) {
        if usize::from(line[1].as_bytes()[0] - b'A') == found.len() {
            found.push(line[2].to_owned());
        }
    }
    found
}

/// The row as a sample; `None` without a gold answer.
fn sample(row: &Row, task: &str, shared: &str) -> Option<Sample> {
    let gold = row.gold.as_deref().map(str::trim).filter(|gold| !gold.is_empty())?;
    let options = if row.options.is_empty() { listed_options(&row.question) } else { row.options.clone() };
    let own = if options.len() > 1 { letters(options.len()) } else { shared.to_owned() };
    let gold = gold_of(row, gold, &options, &own);
    let question = Question {
        stem: row.question.clone(),
        options,
        letters: if matches!(gold, Gold::Choice { .. }) { own } else { String::new() },
        subtitles: None,
    };
    // Without a video each question is a cluster of its own.
    let video = row.video.as_deref().and_then(|video| video.rsplit('/').next()).unwrap_or(&row.id);
    let mut sample = Sample::new(
        task,
        row.id.clone(),
        row.row.unwrap_or(row.place - 1),
        PathBuf::from(video),
        question,
        gold,
    );
    sample.tags = row.tags.clone();
    Some(sample)
}

fn gold_of(row: &Row, gold: &str, options: &[String], letters: &str) -> Gold {
    static INTERVAL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^\s*[\[(]?\s*(\d+(?:\.\d+)?)\s*(?:,|-|to)\s*(\d+(?:\.\d+)?)\s*[\])]?\s*$")
            .expect("literal pattern")
    });
    let option = || {
        let position = options.iter().position(|option| option.trim() == gold)?;
        letters.chars().nth(position)
    };
    let choice = letter(gold).filter(|found| letters.contains(*found)).or_else(option);
    let interval = || {
        let found = INTERVAL.captures(gold)?;
        Some(Gold::Interval { start: found[1].parse().ok()?, end: found[2].parse().ok()? })
    };
    let number = || Some(Gold::Number { answer: gold.parse().ok().filter(|value: &f64| value.is_finite())? });
    let text = || Gold::Text { answer: gold.to_owned(), counted: true };
    match (row.kind, choice) {
        (Some(QuestionKind::Choice), _) => {
            Gold::Choice { answer: choice.map_or(gold.to_owned(), String::from) }
        }
        (Some(QuestionKind::Grounding), _) => interval().unwrap_or_else(text),
        (Some(QuestionKind::Number), _) => number().unwrap_or_else(text),
        (Some(QuestionKind::Open), _) => text(),
        (None, Some(letter)) => Gold::Choice { answer: letter.to_string() },
        (None, None) => interval().unwrap_or_else(text),
    }
}

/// The row as a record: a failure is an error, whatever score the harness gave it.
fn record(row: &Row, sample: Sample, epoch: usize) -> Record {
    let said = row.response.clone().unwrap_or_default();
    let failure = row.failure().map(str::to_owned);
    let failure = failure.or_else(|| row.is_empty().then(|| "no answer in the file".to_owned()));
    let usage = |(prompt_tokens, completion_tokens)| {
        Usage { prompt_tokens, completion_tokens, reasoning_tokens: None }.in_range()
    };
    let score = match &failure {
        Some(_) => Score { outcome: Outcome::Error, value: 0.0, prediction: None, rule: None },
        None => Strict { tags: &TAGS }.score_sample(&sample, &said),
    };
    let final_text = if failure.is_some() { String::new() } else { said };
    let text = |text: &str| vec![RecordedPart::Text { text: text.to_owned() }];
    let mut messages = vec![RecordedMessage::new(Role::User, text(&sample.question.stem))];
    if failure.is_none() {
        messages.push(RecordedMessage::new(Role::Assistant, text(&final_text)));
    }
    let call = ModelCall {
        step: STEP.to_owned(),
        text: final_text.clone(),
        usage: row.tokens.and_then(usage),
        ..ModelCall::default()
    };
    Record {
        version: RECORD_VERSION,
        profile: Profile::Strict,
        protocol: PROTOCOL.to_owned(),
        sample,
        epoch,
        transcript: Transcript {
            messages,
            calls: vec![call],
            final_text,
            truncated: row.is_truncated,
            ..Transcript::default()
        },
        score,
        agent_score: None,
        error: failure.map(|message| SampleError {
            class: SampleErrorClass::Api,
            message,
            step: STEP.to_owned(),
        }),
        measured: Measured { call_seconds: vec![0.0], call_retries: vec![0], ..Measured::default() },
    }
}

/// Writes an imported run as a run directory.
///
/// # Errors
/// The directory holds a run, or cannot be written.
pub fn write(dir: &Path, run: &Run) -> Result<(), ReportError> {
    let mut journal = Journal::create(dir, &run.manifest)?;
    journal.append(&run.records)?;
    Ok(write_summary(dir, &run.summary()?)?)
}

/// The constants of a data set of which the file alone tells.
fn spec(task: &str, log: &Log, samples: &[Sample]) -> TaskSpec {
    let mut kinds: Vec<QuestionKind> = samples.iter().map(|sample| sample.gold.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let metric = match kinds[..] {
        [QuestionKind::Grounding] => Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] },
        [QuestionKind::Choice | QuestionKind::Open] | [] => Metric::Accuracy { macro_over: None },
        _ => Metric::Score { macro_over: None, merged: BTreeMap::new() },
    };
    let tags: std::collections::BTreeSet<&String> =
        samples.iter().flat_map(|sample| sample.tags.keys()).collect();
    let breakdown = |tag: &String| Breakdown { tag: tag.clone(), title: tag.clone(), order: Vec::new() };
    let videos: HashSet<&PathBuf> = samples.iter().map(|sample| &sample.video).collect();
    TaskSpec {
        name: task.to_owned(),
        title: task.to_owned(),
        hub: HubSource {
            repos: Vec::new(),
            config: None,
            split: String::new(),
            revision: None,
            annotations: log.name(),
            media: Vec::new(),
            license: String::new(),
            gated: false,
        },
        expected_rows: samples.len(),
        paper_rows: samples.len(),
        expected_videos: videos.len(),
        metric,
        breakdowns: tags.into_iter().map(breakdown).collect(),
    }
}

fn manifest(log: &Log, task: TaskSpec, samples: &[Sample], expected: usize) -> Manifest {
    let protocol = native::protocol();
    // What was sent is not known: the plan has the profile by which the answers are scored, and defaults.
    let plan = RunConfig { profile: Some(Profile::Strict), ..RunConfig::default() };
    let plan = plan.plan(&protocol).expect("the defaults of the suite's own protocol");
    let open_ended = samples.iter().filter(|sample| sample.gold.is_excluded_from_headline()).count();
    let groups = group_sizes(&task, samples);
    let model = log.model.clone().unwrap_or_else(|| "unknown".to_owned());
    Manifest {
        version: RUN_VERSION,
        id: None,
        binary: concat!("paravt-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        command: Vec::new(),
        task,
        quirks: Vec::new(),
        offers_tool: false,
        plan,
        protocol_hash: PROTOCOL.to_owned(),
        protocol: PROTOCOL.to_owned(),
        protocol_source: Source {
            repository: log.tool.as_str().to_owned(),
            commit: String::new(),
            files: BTreeMap::new(),
            pinned: false,
        },
        fidelity: None,
        data: log.files.clone(),
        data_revision: None,
        inputs: Inputs::default(),
        constants: BTreeMap::new(),
        backend: BackendInfo { name: PROTOCOL.to_owned(), model, details: BTreeMap::new() },
        memory: None,
        imported: Some(log.tool.as_str().to_owned()),
        doubtful: Vec::new(),
        label: Some(log.model.clone().unwrap_or_else(|| log.name())),
        paper_row: None,
        selection: Selection {
            split_rows: expected,
            sizes: Sizes { expected, open_ended, groups },
            limit: None,
            ids: None,
            shard: None,
            whole: None,
        },
        host: Host { platform: String::new(), cpu: None, cores: 0, gpus: None, ffmpeg: String::new() },
        continued_by: Vec::new(),
        started_at: 0.0,
        ended_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golds_have_the_kind_that_their_text_has() {
        let options = ["left".to_owned(), "right".to_owned()];
        let gold = |text: &str, kind| gold_of(&Row { kind, ..Row::default() }, text, &options, "AB");
        assert_eq!(gold("B", None), Gold::Choice { answer: "B".to_owned() });
        assert_eq!(gold("right", None), Gold::Choice { answer: "B".to_owned() });
        assert_eq!(gold("[1.5, 20]", None), Gold::Interval { start: 1.5, end: 20.0 });
        assert_eq!(gold("4", Some(QuestionKind::Number)), Gold::Number { answer: 4.0 });
        assert_eq!(gold("a cat", None), Gold::Text { answer: "a cat".to_owned(), counted: true });
    }

    #[test]
    fn options_are_read_from_a_prompt() {
        let prompt = "Which?\nA. one\n B) two \n(C) three\nAnswer with the letter.\nA. again";
        assert_eq!(listed_options(prompt), ["one", "two", "three"]);
    }
}
