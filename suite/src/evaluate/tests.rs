//! The front door on a made-up task: selection, directory, resume, events, shards.

mod probed;

use std::collections::BTreeMap;
use std::future::ready;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::*;
use crate::agent::Bound;
use crate::backend::{BackendError, BackendInfo, Completion, ErrorClass, Memory, Request};
use crate::data::DataError;
use crate::fixtures::{self, Answering, NO_TOOLS, Squares};
use crate::journal::{self, JournalError};
use crate::plan::{Channel, RunPlan};
use crate::profile::Profile;
use crate::protocol::native;
use crate::record::{Measured, Record};
use crate::runner::Ended;
use crate::sample::{Gold, Sample};
use crate::task::{DataCheck, Dataset, Inspect, Origin, TaskSpec};
use crate::videos::VideoStore;

/// Six choice questions about one video; the gold letters alternate between A and B.
struct MadeUp(TaskSpec);

impl Task for MadeUp {
    fn spec(&self) -> &TaskSpec {
        &self.0
    }

    fn load(&self, root: &DataRoot, _: Profile) -> Result<Dataset, DataError> {
        let sample = |row: usize| Sample {
            id: format!("i{}", row / 2),
            row,
            video: "made_up/clip.mp4".into(),
            gold: Gold::Choice { answer: if row.is_multiple_of(2) { "A" } else { "B" }.into() },
            ..fixtures::sample(&format!("u{row}"))
        };
        Ok(Dataset {
            samples: (0..6).map(sample).collect(),
            videos: VideoStore::new("made_up", root.hf_home.clone()),
            files: vec![],
            revision: None,
            origin: Origin::Unknown,
            shows_subtitles: false,
            warning: None,
            empty: None,
        })
    }

    fn check(&self, _: &DataRoot, _: &dyn Inspect) -> DataCheck {
        DataCheck::default()
    }
}

struct SaysA {
    refuses: bool,
}

impl Backend for SaysA {
    fn describe(&self) -> BackendInfo {
        BackendInfo { name: "says_a".into(), model: "none".into(), details: BTreeMap::new() }
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { planned: 20, peak: Some(10) })
    }

    fn accepts(&self, _: &RunPlan) -> Result<(), String> {
        if self.refuses { Err("no such setting".into()) } else { Ok(()) }
    }

    fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        let text = "<answer>A</answer>".to_owned();
        async move { Ok(Completion { text, ..Completion::default() }) }.boxed()
    }
}

/// A data folder with a file in the place of the video.
struct World {
    dir: tempfile::TempDir,
    task: MadeUp,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("clip.mp4"), "not a video").unwrap();
        Self { dir, task: MadeUp(fixtures::manifest().task) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, config: &RunConfig, name: &str) -> Evaluation<'_> {
        let bound = Bound { protocol: native::protocol().into(), reference: NO_TOOLS };
        Evaluation::new(&self.task, config.clone(), bound, self.path(name))
    }

    fn workspace(&self) -> Workspace {
        Workspace {
            binary: "test 1".into(),
            frames: Arc::new(Squares::default()),
            code: None,
            ..Workspace::new(DataRoot::new(self.dir.path()))
        }
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
    }

    fn evaluate(&self, config: &RunConfig, name: &str) -> Result<(RunOutcome, Vec<String>), RunError> {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let observer = Arc::new(move |event: Event<'_>| {
            seen.lock().unwrap().push(match event {
                Event::TornRecord { bytes, .. } => format!("torn {bytes}"),
                Event::OtherBinary { first, now, .. } => format!("{first}, then {now}"),
                Event::Started { task, total, pending, records } => {
                    format!("{task}: {pending} of {total}, {} there", records.len())
                }
                Event::Recorded(record) => record.sample.uid.clone(),
            });
        });
        let backend = Arc::new(SaysA { refuses: false });
        let run = self.run(config, name);
        let outcome = self.block_on(evaluate(&run, &self.workspace(), backend, observer))?;
        let events = events.lock().unwrap().clone();
        Ok((outcome, events))
    }

    fn records(&self, name: &str) -> Vec<Record> {
        let mut records = journal::read(&self.path(name)).unwrap().records;
        records.iter_mut().for_each(|record| record.measured = Measured::default());
        records
    }
}

/// Profile `strict` reads answers without the code of a release.
fn strict() -> RunConfig {
    RunConfig { profile: Some(Profile::Strict), ..RunConfig::default() }
}

fn uids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.sample.uid.as_str()).collect()
}

#[test]
fn a_run_ends_with_its_outcome_and_its_files() {
    let world = World::new();
    let config = RunConfig { concurrency: Some(1), label: Some("first".into()), ..strict() };
    let (outcome, events) = world.evaluate(&config, "run").unwrap();
    assert_eq!((outcome.ended, outcome.records, outcome.expected), (Ended::Finished, 6, 6));
    assert_eq!((outcome.failed, outcome.last_failed), (0, None));
    assert_eq!((outcome.summary.headline().value, outcome.summary.complete), (0.5, true));
    assert_eq!(events, ["made_up: 6 of 6, 0 there", "u0", "u1", "u2", "u3", "u4", "u5"]);
    let manifest = journal::read_manifest(&world.path("run")).unwrap();
    assert_eq!((manifest.binary.as_str(), manifest.label.as_deref()), ("test 1", Some("first")));
    assert!(manifest.ended_at.is_some());
    assert_eq!(manifest.memory, Some(Memory { planned: 20, peak: Some(10) }));
    for file in [journal::PROTOCOL, journal::SUMMARY] {
        assert!(world.path("run").join(file).is_file(), "{file}");
    }
    let again = world.evaluate(&config, "run").unwrap_err();
    assert!(matches!(again, RunError::Journal(JournalError::NotResumed { .. })), "{again}");
}

#[test]
fn a_run_has_the_answers_of_one_model() {
    let world = World::new();
    // The last name stays.
    let run = |names: &[&'static str], config: RunConfig, name: &str| {
        let run = world.run(&RunConfig { concurrency: Some(1), ..config }, name);
        let names = Mutex::new(names.to_vec());
        let backend = Answering("asked", move |_: &Request| {
            let mut names = names.lock().unwrap();
            let name = if names.len() > 1 { names.remove(0) } else { names[0] };
            let text = "<answer>A</answer>".to_owned();
            ready(Ok(Completion { text, model: Some(name.into()), ..Completion::default() }))
        });
        world.block_on(evaluate(&run, &world.workspace(), Arc::new(backend), Arc::new(()))).unwrap()
    };
    let changed = Ended::OtherModel { before: "served-1".into(), now: "served-2".into() };
    let first = run(&["served-1", "served-1", "served-2"], strict(), "run");
    assert_eq!(
        (first.ended, first.records),
        (changed.clone(), 2),
        "the other model's answer is not recorded"
    );
    let resume = RunConfig { resume: true, ..strict() };
    let second = run(&["served-2"], resume.clone(), "run");
    assert_eq!((second.ended, second.records), (changed, 2));
    let third = run(&["served-1"], resume, "run");
    assert_eq!((third.ended, third.records), (Ended::Finished, 6));
    let manifest = journal::read_manifest(&world.path("run")).unwrap();
    assert_eq!(manifest.backend.other_model(), Some("served-1"));
    assert!(manifest.display_name().ends_with("asked (answered by served-1)"));
    run(&["asked"], strict(), "other");
    let other = journal::read_manifest(&world.path("other")).unwrap();
    assert!(other.display_name().ends_with("asked"));
    assert!(manifest.differences(&other).iter().any(|difference| difference.contains("answered_by")));

    let shard = |number: usize, model: &'static str| {
        let shard = format!("{number}/2").parse().unwrap();
        run(&[model], RunConfig { shard: Some(shard), ..strict() }, &format!("shard-{model}-{number}"));
        world.path(&format!("shard-{model}-{number}"))
    };
    let (one, two, foreign) = (shard(1, "served-1"), shard(2, "served-1"), shard(2, "served-2"));
    let refused = merge(&[one.clone(), foreign], &world.path("mixed")).unwrap_err().to_string();
    assert!(refused.contains("answered_by was served-1, now served-2"), "{refused}");
    assert_eq!(merge(&[one, two], &world.path("merged")).unwrap().records, 6);
}

#[test]
fn a_record_of_a_failure_holds_no_path_of_the_machine() {
    let world = World::new();
    // Fails with the URLs of the request, as servers do.
    let repeat = |request: &Request| {
        let sent: Vec<String> =
            request.videos().map(|video| format!("file://{}", video.path.display())).collect();
        let message = format!("http://me:secret@host/v1: cannot open {sent:?}");
        ready(Err(BackendError::new(ErrorClass::BadRequest, message, 1)))
    };
    let journal = |name: &str, config: RunConfig| {
        let workspace = Workspace { frames: Arc::new(CachedFrames::default()), ..world.workspace() };
        let run = world.run(&config, name);
        let backend = Arc::new(Answering("none", repeat));
        world.block_on(evaluate(&run, &workspace, backend, Arc::new(()))).unwrap();
        std::fs::read_to_string(world.path(name).join(journal::JOURNAL)).unwrap()
    };
    let sent = journal("sent", RunConfig { channel: Some(Channel::Video), ..strict() });
    let damaged = journal("damaged", strict());
    std::fs::remove_file(world.path("clip.mp4")).unwrap();
    let missing = journal("missing", strict());
    for (text, said) in [
        (sent, "cannot open [\\\"file://made_up/clip.mp4\\\"]"),
        (damaged, "\"made_up/clip.mp4: cannot be opened as a video: "),
        (missing, "\"made_up/clip.mp4: no such video; "),
    ] {
        assert!(text.contains(said) && text.contains(r#""video":"made_up/clip.mp4""#), "{text}");
        assert!(!text.contains(world.dir.path().to_str().unwrap()) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_resumed_run_does_what_is_left_and_reports_a_torn_line() {
    let world = World::new();
    let config = RunConfig { resume: true, concurrency: Some(1), ..strict() };
    world.evaluate(&config, "run").unwrap();
    let whole = world.records("run");
    let path = world.path("run").join(journal::JOURNAL);
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').take(4).collect();
    std::fs::File::create(&path).unwrap().write_all(format!("{kept}{{\"torn").as_bytes()).unwrap();
    // Before it took more than was planned.
    let manifest = world.path("run").join(journal::MANIFEST);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"peak\": 10", "\"peak\": 30")).unwrap();
    let (outcome, events) = world.evaluate(&config, "run").unwrap();
    let memory = journal::read_manifest(&world.path("run")).unwrap().memory;
    assert_eq!(memory, Some(Memory { planned: 20, peak: Some(30) }));
    assert_eq!(events, ["torn 6", "made_up: 2 of 6, 4 there", "u4", "u5"]);
    assert!(outcome.summary.complete);
    assert_eq!(world.records("run"), whole);
    let other = RunConfig { nframes: Some(32), ..config };
    let error = world.evaluate(&other, "run").unwrap_err().to_string();
    assert!(error.contains("nframes was 64, now 32"), "{error}");
}

#[test]
fn a_run_that_was_begun_under_another_default_goes_on_under_its_own_profile() {
    let world = World::new();
    let begun = RunConfig { profile: Some(Profile::Paper), ..RunConfig::default() };
    let run = world.run(&begun, "run");
    let stopped = Workspace { stop: watch::channel(true).1, ..world.workspace() };
    let answers = Arc::new(SaysA { refuses: false });
    let outcome = world.block_on(evaluate(&run, &stopped, answers, Arc::new(()))).unwrap();
    assert_eq!((outcome.ended, outcome.records), (Ended::Interrupted, 0));
    let resumed = |config: RunConfig| {
        let run = world.run(&RunConfig { resume: true, ..config }, "run");
        prepare(&run, &world.workspace()).map(|prepared| prepared.plan().profile())
    };
    assert_eq!(resumed(RunConfig::default()).unwrap(), Profile::Paper);
    let refused = resumed(strict()).unwrap_err().to_string();
    assert!(refused.contains("profile was paper, now strict"), "{refused}");
    let new = world.run(&RunConfig { resume: true, ..RunConfig::default() }, "new");
    assert_eq!(prepare(&new, &world.workspace()).unwrap().plan().profile(), Profile::Strict);
}

#[test]
fn a_resumed_run_may_gain_samples_and_loses_none() {
    let world = World::new();
    let first = |limit| RunConfig { limit: Some(limit), concurrency: Some(1), ..strict() };
    let again = |config: RunConfig| world.evaluate(&RunConfig { resume: true, ..config }, "run");
    world.evaluate(&first(2), "run").unwrap();
    let (outcome, events) = again(first(4)).unwrap();
    assert_eq!(events, ["made_up: 2 of 4, 2 there", "u2", "u3"]);
    assert_eq!((outcome.summary.n_expected, outcome.summary.complete), (4, true));
    let manifest = journal::read_manifest(&world.path("run")).unwrap();
    assert_eq!((manifest.selection.limit, manifest.selection.sizes.expected), (Some(4), 4));

    let refused = again(first(3)).unwrap_err().to_string();
    assert!(
        refused.contains("the selection was --limit 4, now --limit 3: a run can gain samples"),
        "{refused}"
    );
    let shard = RunConfig { shard: Some("1/2".parse().unwrap()), ..strict() };
    let refused = again(shard).unwrap_err().to_string();
    assert!(refused.contains("was --limit 4, now --shard 1/2"), "{refused}");
    let ids = RunConfig { ids: Some(vec!["u0".into()]), ..strict() };
    world.evaluate(&ids, "ids").unwrap();
    let ids = RunConfig { ids: Some(vec!["u5".into(), "u0".into()]), resume: true, ..strict() };
    assert_eq!(world.evaluate(&ids, "ids").unwrap().1, ["made_up: 1 of 2, 1 there", "u5"]);

    world.evaluate(&strict(), "whole").unwrap();
    assert_eq!(again(strict()).unwrap().0.records, 6);
    assert_eq!(world.records("run"), world.records("whole"));
    let selection = |name| journal::read_manifest(&world.path(name)).unwrap().selection;
    assert_eq!(selection("run"), selection("whole"));
}

/// As after a kill between the manifest and the first new record.
#[test]
fn a_run_that_gained_samples_is_incomplete_until_they_are_there() {
    let world = World::new();
    world.evaluate(&RunConfig { limit: Some(2), ..strict() }, "run").unwrap();
    let whole = RunConfig { resume: true, ..strict() };
    let run = world.run(&whole, "run");
    let begun: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (seen, path) = (Arc::clone(&begun), world.path("run"));
    let observer = Arc::new(move |event: Event<'_>| {
        if let Event::Started { .. } = event {
            let text = std::fs::read(path.join(journal::SUMMARY)).unwrap();
            let summary: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let manifest = journal::read_manifest(&path).unwrap();
            let is_unfinished = manifest.selection.sizes.expected == 6 && manifest.ended_at.is_none();
            seen.lock().unwrap().push(summary["complete"] == false && is_unfinished);
        }
    });
    let stopped = Workspace { stop: watch::channel(true).1, ..world.workspace() };
    let answers = Arc::new(SaysA { refuses: false });
    let outcome = world.block_on(evaluate(&run, &stopped, answers, observer)).unwrap();
    assert_eq!((outcome.records, outcome.expected, outcome.summary.complete), (2, 6, false));
    assert_eq!(*begun.lock().unwrap(), [true]);
    let (outcome, events) = world.evaluate(&whole, "run").unwrap();
    assert_eq!((events[0].as_str(), outcome.summary.complete), ("made_up: 4 of 6, 2 there", true));
}

#[test]
fn ids_then_limit_then_shard_choose_the_samples() {
    let world = World::new();
    let config = RunConfig {
        ids: Some(vec!["i0".into(), "u3".into(), "u4".into()]),
        limit: Some(3),
        shard: Some("1/2".parse().unwrap()),
        ..strict()
    };
    world.evaluate(&config, "run").unwrap();
    assert_eq!(uids(&world.records("run")), ["u0", "u3"]);
    let unknown = RunConfig { ids: Some(vec!["u9".into()]), ..strict() };
    let error = world.evaluate(&unknown, "unknown").unwrap_err();
    assert_eq!(error.to_string(), "--ids: made_up has no sample with the uid or id `u9`");
    let none = RunConfig { limit: Some(0), ..strict() };
    assert!(matches!(world.evaluate(&none, "none"), Err(RunError::NoSamples { .. })));
    assert!(!world.path("unknown").exists() && !world.path("none").exists(), "nothing is written");
}

#[test]
fn the_shards_of_a_run_merge_into_the_run() {
    let world = World::new();
    world.evaluate(&strict(), "whole").unwrap();
    let shards: Vec<PathBuf> = ["1/2", "2/2"]
        .iter()
        .enumerate()
        .map(|(number, shard)| {
            let config = RunConfig { shard: Some(shard.parse().unwrap()), ..strict() };
            world.evaluate(&config, &format!("shard{number}")).unwrap();
            world.path(&format!("shard{number}"))
        })
        .collect();
    let merged = merge(&shards, &world.path("merged")).unwrap();
    assert_eq!((merged.records, merged.expected, merged.shards), (6, 6, 2));
    assert!(merged.missing.is_empty() && merged.summary.complete);
    let memory = journal::read_manifest(&world.path("merged")).unwrap().memory;
    assert_eq!(memory, Some(Memory { planned: 20, peak: Some(10) }));
    assert_eq!(world.records("merged"), world.records("whole"));
    let half = merge(&shards[..1], &world.path("half")).unwrap();
    assert_eq!((half.records, half.expected, half.missing, half.summary.complete), (3, 6, vec![1], false));
    let refused = |dirs: &[PathBuf], out: &Path| merge(dirs, out).unwrap_err();
    let out = world.path("out");
    assert!(matches!(refused(&[], &out), MergeError::NoShards));
    assert!(matches!(refused(&[world.path("whole")], &out), MergeError::NotAShard { .. }));
    let twice = [shards[0].clone(), shards[0].clone()];
    assert!(matches!(refused(&twice, &out), MergeError::Twice { number: 1, shards: 2, .. }));
    assert!(matches!(refused(&shards, &world.path("merged")), MergeError::NotEmpty { .. }));
    assert!(!out.exists());
}

#[test]
fn a_backend_that_refuses_the_settings_leaves_no_run() {
    let world = World::new();
    let config = strict();
    let run = world.run(&config, "run");
    let prepared = prepare(&run, &world.workspace()).unwrap();
    assert_eq!((prepared.task(), prepared.plan().nframes), ("made_up", 64));
    let refused = world.block_on(prepared.run(Arc::new(SaysA { refuses: true }), Arc::new(())));
    assert!(matches!(refused, Err(RunError::Refused(reason)) if reason == "no such setting"));
    assert!(!world.path("run").join(journal::MANIFEST).exists());
}

#[test]
fn a_forecast_counts_and_writes_nothing() {
    let world = World::new();
    let config = RunConfig { limit: Some(4), ..strict() };
    let run = world.run(&config, "run");
    let forecast = forecast(&run, &world.workspace()).unwrap();
    assert_eq!((forecast.samples, forecast.calls), (4, (4, Some(16))), "three turns and a forced answer");
    assert_eq!((forecast.frames, forecast.without_frames), (0, 4));
    assert!(forecast.first_user.contains("What is shown?") && forecast.text_tokens > 0);
    assert!(!world.path("run").exists());
}
