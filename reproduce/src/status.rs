//! How far a recipe is, from the folder of its results alone: while it runs, after it was killed, on another machine.

use std::path::{Path, PathBuf};

use paravt_files::{quote, quote_path};
use paravt_suite::journal::{self, JournalError, Stored};
use paravt_suite::redact;
use paravt_suite::task::Task as _;
use paravt_train::log::FILE as CURVES;
use serde::{Deserialize, Serialize};

use crate::attempts::{self, Attempt};
use crate::error::Error;
use crate::graph::{Graph, Stage};
use crate::slot;

/// File in the folder of a recipe that lists its stages as they were run last.
const LIST: &str = "recipe.json";
/// Name of the logs of this program.
const LOG: &str = "run.log";

/// The stages of a recipe, as [`LIST`] has them.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    recipe: String,
    /// The command, without values that may hold a secret or a path.
    command: Vec<String>,
    stages: Vec<Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    name: String,
    /// Below the folder of the recipe.
    folder: PathBuf,
    gpus: usize,
    splits: Vec<String>,
    /// Samples of an evaluation.
    #[serde(default)]
    samples: usize,
}

/// How far a recipe is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    pub recipe: String,
    /// The command that ran it last, without values that may hold a secret or a path.
    pub command: Vec<String>,
    /// Whether a process works on it now.
    pub is_running: bool,
    /// The stages whose results are kept, in order.
    pub stages: Vec<StageStatus>,
    /// Seconds that the evaluations still take, fewest and most, if their samples take as long as those of the fastest and of
    /// the slowest evaluation so far.
    pub left: Option<(f64, f64)>,
}

/// How far a stage is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageStatus {
    /// Its name, with its seed where it has one.
    pub name: String,
    pub state: Reached,
    /// When its first attempt began, in seconds since 1970.
    pub began: Option<f64>,
    /// Seconds of work on it, in all attempts.
    pub seconds: f64,
    pub attempts: usize,
    pub gpus: usize,
    /// Of an evaluation, samples with a record and all samples.
    pub samples: Option<(usize, usize)>,
    /// What is there of it: samples, as in `12/20, 1 failed`, or steps.
    pub progress: Option<String>,
    /// The error that ended its last attempt, or the last one of a sample.
    pub error: Option<String>,
    /// Logs that tell more, below the folder of the recipe.
    pub logs: Vec<PathBuf>,
}

/// State of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Nothing was done.
    NotBegun,
    /// It is being worked on.
    Running,
    Done,
    /// Samples are missing or failed.
    Incomplete,
    /// The user stopped it.
    Interrupted,
    /// An error ended it.
    Failed,
    /// Its process ended without a word: a signal, no memory, the machine.
    Killed,
}

/// What stands for a value that may hold a secret or a path.
const MASK: char = '…';

impl Status {
    /// The command that continues the recipe in a folder, quoted for a shell, and the flags that it needs besides: their
    /// values were not kept.
    pub fn resume_command(&self, out: &Path) -> (String, Vec<&str>) {
        let (mut words, mut open) = (Vec::new(), Vec::new());
        let mut given = self.command.iter().map(String::as_str).peekable();
        while let Some(word) = given.next() {
            let value = given.next_if(|next| word.starts_with("--") && !next.starts_with("--"));
            match word {
                // Once is enough.
                "--out" | "--redo" | "--from" | "--yes" | "--until" | "--merge-shards" => {}
                _ if value.is_some_and(|value| value.contains(MASK)) => open.push(word),
                _ => words.extend([word].into_iter().chain(value)),
            }
        }
        let mut line: Vec<String> = words.into_iter().map(quote).collect();
        line.extend(["--out".to_owned(), quote_path(out)]);
        (line.join(" "), open)
    }
}

impl Reached {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotBegun => "not begun",
            Self::Running => "running",
            Self::Done => "done",
            Self::Incomplete => "incomplete",
            Self::Interrupted => "stopped",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// Lists the stages of a graph in its folder, before it is run.
pub(crate) fn list(graph: &Graph, command: &[String]) -> Result<(), Error> {
    let listed = |stage: &Stage| {
        let folder = stage.folder()?.strip_prefix(&graph.out).ok()?.to_owned();
        let asked = stage.evaluation();
        let tasks = asked.and_then(|asked| paravt_tasks::select(&asked.splits).ok()).unwrap_or_default();
        let limit = asked.and_then(|asked| asked.limit).unwrap_or(usize::MAX);
        Some(Listed {
            name: stage.label(),
            folder,
            gpus: stage.work().gpus(),
            splits: asked.map(|asked| asked.splits.clone()).unwrap_or_default(),
            samples: tasks.iter().map(|task| task.spec().expected_rows.min(limit)).sum(),
        })
    };
    let stages = graph.stages().iter().filter_map(listed).collect();
    let list = List { recipe: graph.recipe.clone(), command: command.to_vec(), stages };
    let text = serde_json::to_string_pretty(&list).expect("plain data");
    let path = graph.out.join(LIST);
    let written = paravt_files::write_atomic(&path, format!("{text}\n").as_bytes());
    written.map_err(|source| Error::Write { path, source })
}

/// Keeps the error that ended an attempt at the stage of a folder; `None` removes that of an earlier one.
pub(crate) fn note_error(folder: &Path, error: Option<&str>) -> std::io::Result<()> {
    let path = folder.join(slot::ERROR);
    match error {
        Some(error) => paravt_files::write_atomic(&path, format!("{}\n", redact::urls(error)).as_bytes()),
        None => paravt_files::remove(&path),
    }
}

/// Reads how far the recipe of a folder is; `None` for a folder of no recipe.
///
/// # Errors
/// The list of its stages cannot be read.
pub fn read(out: &Path) -> Result<Option<Status>, Error> {
    let path = out.join(LIST);
    let list = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice::<List>(&text).map_err(std::io::Error::from),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    };
    let list = list.map_err(|source| Error::Read { path, source })?;
    let is_running = slot::is_locked(out);
    let attempts: Vec<Vec<Attempt>> =
        list.stages.iter().map(|listed| attempts::read(&out.join(&listed.folder))).collect();
    // One stage is worked on at a time: of several attempts without an end, those before the latest were killed.
    let open = attempts.iter().filter_map(|of| of.last()).filter(|last| last.ended.is_none() && is_running);
    let now = open.map(|last| last.began).reduce(f64::max);
    let stages = list.stages.into_iter().zip(attempts).map(|(listed, attempts)| {
        let is_worked_on = now.is_some() && attempts.last().map(|last| last.began) == now;
        stage(out, listed, &attempts, is_worked_on)
    });
    let stages: Vec<StageStatus> = stages.collect();
    let left = left(&stages);
    Ok(Some(Status { recipe: list.recipe, command: list.command, is_running, stages, left }))
}

/// Fewest samples of an evaluation that say something of others.
const FEWEST: usize = 5;

/// See [`Status::left`].
fn left(stages: &[StageStatus]) -> Option<(f64, f64)> {
    let counted = || stages.iter().filter_map(|stage| Some((stage, stage.samples?)));
    let open = counted().filter(|(stage, _)| stage.state != Reached::Done);
    let samples: usize = open.map(|(_, (done, all))| all.saturating_sub(done)).sum();
    let paces = counted().filter(|(_, (done, _))| *done >= FEWEST);
    let paces = paces.map(|(stage, (done, _))| (stage.seconds / done as f64, stage.seconds / done as f64));
    let (fastest, slowest) = paces.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (samples > 0).then_some((samples as f64 * fastest, samples as f64 * slowest))
}

fn stage(out: &Path, listed: Listed, attempts: &[Attempt], is_worked_on: bool) -> StageStatus {
    let folder = out.join(&listed.folder);
    let last = attempts.last();
    let is_open = last.is_some_and(|last| last.ended.is_none());
    let state = match last.and_then(|last| last.outcome.as_deref()) {
        _ if slot::is_done(&folder) => Reached::Done,
        _ if is_open && is_worked_on => Reached::Running,
        _ if is_open => Reached::Killed,
        None if !folder.is_dir() => Reached::NotBegun,
        Some("interrupted") => Reached::Interrupted,
        Some("failed") => Reached::Failed,
        _ => Reached::Incomplete,
    };
    let now = (state == Reached::Running).then(attempts::now);
    let seconds = attempts::seconds(&folder, now);
    let (mut counted, progress, failed) = match listed.splits.is_empty() {
        true => (None, step(&folder), None),
        false => samples(&folder, &listed.splits),
    };
    if !listed.splits.is_empty() {
        counted.get_or_insert((0, listed.samples));
    }
    let error = std::fs::read_to_string(folder.join(slot::ERROR)).ok().map(|text| text.trim_end().to_owned());
    let logs = match state {
        Reached::Done | Reached::NotBegun => Vec::new(),
        _ => logs(out, &listed),
    };
    StageStatus {
        name: listed.name,
        state,
        began: attempts.first().map(|first| first.began),
        seconds,
        attempts: attempts.len(),
        gpus: listed.gpus,
        samples: counted,
        progress,
        error: error.or(failed),
        logs,
    }
}

/// The last step of a training.
fn step(folder: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        step: usize,
    }
    let text = std::fs::read_to_string(folder.join(CURVES)).ok()?;
    let last = text.lines().rev().find_map(|line| serde_json::from_str::<Line>(line).ok())?;
    Some(format!("step {}", last.step))
}

/// Samples with a record and all samples, the same in words with the failed ones, and the last failure.
fn samples(folder: &Path, splits: &[String]) -> (Option<(usize, usize)>, Option<String>, Option<String>) {
    let (mut records, mut failed, mut last, mut all) = (0, 0, None, 0);
    for split in splits {
        let run = folder.join(split);
        let Ok(manifest) = journal::read_manifest(&run) else { continue };
        all += manifest.expected_records();
        // One that is damaged is named by what reads it.
        let Ok((read, errors, latest)) = counted(&run) else { continue };
        records += read;
        failed += errors;
        last = latest.map(|message| format!("a sample failed: {message}")).or(last);
    }
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let is_begun = all > 0;
    (is_begun.then_some((records, all)), is_begun.then(|| format!("{records}/{all}{failures}")), last)
}

/// Records of a run, failed ones among them, and the last one's message.
fn counted(run: &Path) -> Result<(usize, usize, Option<String>), JournalError> {
    let (mut records, mut failed, mut last) = (0, 0, None);
    Stored::find(run)?.each(|part| {
        records += part.len();
        for error in part.into_iter().filter_map(|record| record.error) {
            failed += 1;
            last = Some(error.message);
        }
    })?;
    Ok((records, failed, last))
}

/// Logs of a stage that are there: of the programs that it ran, and of this one.
fn logs(out: &Path, listed: &Listed) -> Vec<PathBuf> {
    let scratch = listed.folder.join("scratch");
    let entries = std::fs::read_dir(out.join(&scratch)).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| scratch.join(entry.file_name())).collect();
    logs.retain(|path| path.extension().is_some_and(|end| end == "log"));
    logs.sort();
    // Of eight servers, the first one's.
    let server = listed.splits.iter().take(1).map(|_| PathBuf::from("servers/server-0.log"));
    let runs = listed.splits.iter().map(|split| listed.folder.join(split).join(LOG));
    let all = logs.into_iter().chain(server).chain(runs).chain([PathBuf::from(LOG)]);
    all.filter(|path| out.join(path).is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphOptions, Recipe};

    #[test]
    fn the_next_command_can_be_pasted() {
        let words = "paravt-bench reproduce paravt-8b --redo mlvu --yes --until serve --limit 20 --hf-home … --own-engine --notify … --out …";
        let command = words.split(' ').map(str::to_owned).collect();
        let status =
            Status { recipe: "paravt-8b".into(), command, is_running: false, stages: Vec::new(), left: None };
        let (command, open) = status.resume_command(Path::new("my runs"));
        assert_eq!(command, "paravt-bench reproduce paravt-8b --limit 20 --own-engine --out 'my runs'");
        assert_eq!(open, ["--hf-home", "--notify"]);
        let command = ["paravt-bench", "reproduce", "it's $(id).toml", "--label=-x", "--label", "a\nb"];
        let status = Status { command: command.map(str::to_owned).to_vec(), ..status };
        let (command, _) = status.resume_command(Path::new("-out"));
        assert_eq!(
            command,
            r"paravt-bench reproduce 'it'\''s $(id).toml' --label=-x --label $'a\nb' --out ./-out"
        );
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        let stage = |state, seconds, samples| StageStatus {
            name: "with-tool-mlvu".into(),
            state,
            began: None,
            seconds,
            attempts: 1,
            gpus: 8,
            samples: Some(samples),
            progress: None,
            error: None,
            logs: Vec::new(),
        };
        let done = stage(Reached::Done, 200.0, (100, 100));
        let running = stage(Reached::Running, 50.0, (10, 30));
        let open = stage(Reached::NotBegun, 0.0, (0, 200));
        assert_eq!(left(&[done.clone(), running.clone(), open.clone()]), Some((440.0, 1100.0)));
        assert_eq!(left(std::slice::from_ref(&open)), None, "nothing was timed");
        assert_eq!(left(&[done]), None, "nothing is left");
        assert_eq!(left(&[stage(Reached::Running, 9.0, (4, 30)), open]), None, "four samples say nothing");
    }

    #[test]
    fn states_follow_from_the_attempts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
        let graph = Recipe::load("paravt-8b-train").unwrap();
        let graph = graph.graph(&GraphOptions { gpus: vec!["0".into(); 8], ..GraphOptions::new(dir.path()) });
        let graph = graph.unwrap();
        list(&graph, &["paravt-bench".to_owned()]).unwrap();
        let folder = |name: &str| {
            graph.stages().iter().find(|stage| stage.name() == name).and_then(Stage::folder).unwrap()
        };
        let lines = |name: &str, lines: &[&str]| {
            std::fs::create_dir_all(folder(name)).unwrap();
            std::fs::write(folder(name).join(".attempts.jsonl"), lines.join("\n") + "\n").unwrap();
        };
        let began = "{\"began\":0.0,\"pid\":1}";
        let ended = |how: &str| format!("{{\"ended\":7200.0,\"outcome\":\"{how}\"}}");
        lines("fetch", &[began, &ended("complete")]);
        std::fs::write(folder("fetch").join("stage.json"), "{}").unwrap();
        lines("sft", &[began, &ended("failed")]);
        std::fs::write(folder("sft").join(CURVES), "{\"step\":1}\n{\"step\":31,\"loss\":1.5}\n{\"st")
            .unwrap();
        std::fs::create_dir_all(folder("sft").join("scratch")).unwrap();
        std::fs::write(folder("sft").join("scratch/sft.log"), "").unwrap();
        note_error(folder("sft"), Some("out of memory at http://me:secret@host/x")).unwrap();
        lines("merge", &[began, &ended("interrupted")]);
        lines("rl", &[began]);

        let status = read(dir.path()).unwrap().unwrap();
        let of = |name: &str| status.stages.iter().find(|stage| stage.name == name).unwrap();
        let states = ["fetch", "sft", "merge", "rl", "with-tool-mlvu"].map(|name| of(name).state.as_str());
        assert_eq!(states, ["done", "failed", "stopped", "killed", "not begun"]);
        let sft = of("sft");
        assert_eq!((sft.seconds, sft.gpus, sft.progress.as_deref()), (7200.0, 8, Some("step 31")));
        let error = sft.error.as_deref().unwrap();
        assert!(error.starts_with("out of memory") && !error.contains("secret"), "{error}");
        assert!(sft.logs[0].ends_with("scratch/sft.log") && sft.logs.len() == 1, "{:?}", sft.logs);
        assert_eq!((of("with-tool-mlvu").gpus, of("fetch").gpus), (8, 0));

        // A process that holds the folder works on what has no end yet.
        let _lock = slot::lock(dir.path()).unwrap();
        let status = read(dir.path()).unwrap().unwrap();
        assert!(status.is_running && status.stages.iter().any(|one| one.state == Reached::Running));
        // Of two without an end, the earlier one was killed, and does not count to now.
        lines("merge", &["{\"began\":5.0,\"pid\":2}"]);
        let status = read(dir.path()).unwrap().unwrap();
        let of = |name: &str| status.stages.iter().find(|stage| stage.name == name).unwrap();
        assert_eq!([of("merge").state, of("rl").state], [Reached::Running, Reached::Killed]);
        note_error(folder("sft"), None).unwrap();
        note_error(folder("sft"), None).unwrap();
        assert!(!folder("sft").join(slot::ERROR).exists());
    }
}
