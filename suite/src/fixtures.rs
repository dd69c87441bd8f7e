//! Made-up samples, records, models and videos for tests; other crates have them by the feature `testing`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::agent::Reference;
use crate::backend::{Backend, BackendError, BackendInfo, Completion, ErrorClass, FinishReason, Request};
use crate::data::HubSource;
use crate::frames::{FrameSet, FrameSource};
use crate::media::{MediaError, VideoRequest};
use crate::message::{FrameOrigin, Image, StructuredCall};
use crate::plan::{Channel, CropMode, RunPlan};
use crate::profile::Profile;
use crate::protocol::{PromptMode, Tool, native};
use crate::record::{
    Measured, Outcome, RECORD_VERSION, Record, RecordedMessage, RecordedPart, SampleError, SampleErrorClass,
    Score, ToolCall, ToolOutcome, Transcript,
};
use crate::reference::{Call, Tag, ToolSyntax};
use crate::run::{Host, Inputs, Manifest, RUN_VERSION, Selection, Sizes, constants};
use crate::sample::{Gold, Question, Sample};
use crate::scoring::Scorer;
use crate::settings::{RequestSettings, ToolDialect};
use crate::task::{Metric, TaskSpec};

/// Blocks that hold a call.
pub const TAGS: [Tag; 3] =
    [("<tool_call>", "</tool_call>"), ("<tool_code>", "</tool_code>"), ("<video_zoom>", "</video_zoom>")];

/// A release without tools; no text of its models scores.
pub const NO_TOOLS: Reference =
    Reference { name: "none", syntax: &NoTools, scorer: &NoTools, agent_loop: None };

struct NoTools;

impl ToolSyntax for NoTools {
    fn tags(&self) -> &'static [Tag] {
        &TAGS
    }

    fn structured(&self, call: &StructuredCall, _tool: &Tool) -> Call {
        panic!("{} was called where there are no tools", call.name)
    }

    fn rebuild(&self, _reasoning: Option<&str>, content: &str, _calls: &[StructuredCall]) -> String {
        content.to_owned()
    }

    fn rebuilds_exactly(&self, _reasoning: Option<&str>, _content: &str, _calls: &[StructuredCall]) -> bool {
        false
    }
}

impl Scorer for NoTools {
    fn score(&self, _gold: &Gold, _letters: &str, _text: &str) -> Score {
        Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None }
    }
}

/// A choice question with the gold letter B.
pub fn sample(uid: &str) -> Sample {
    let question = Question {
        stem: "What is shown?".into(),
        options: vec!["a cat".into(), "a dog".into()],
        letters: "AB".into(),
        subtitles: None,
    };
    let gold = Gold::Choice { answer: "B".into() };
    let sample = Sample::new("made_up", uid.into(), 0, "/nowhere/clip.mp4".into(), question, gold);
    Sample { id: "not unique".into(), ..sample }
}

/// A scored record of a choice question.
pub fn record(uid: &str, value: f64) -> Record {
    Record {
        version: RECORD_VERSION,
        profile: Profile::Paper,
        protocol: "p".into(),
        sample: sample(uid),
        epoch: 0,
        transcript: Transcript::default(),
        score: Score {
            outcome: Outcome::Scored,
            value,
            prediction: Some("B".into()),
            rule: Some("answer_tag".into()),
        },
        agent_score: None,
        error: None,
        measured: Measured::default(),
    }
}

/// A frame that a message shows.
pub fn image(origin: FrameOrigin) -> RecordedPart {
    RecordedPart::Image { origin: Some(origin), width: 64, height: 36, bytes: 9 }
}

/// A call that cropped a window (seconds) and got these frames.
pub fn crop(turn: usize, index: usize, (start, end): (f64, f64), frames: Vec<FrameOrigin>) -> ToolCall {
    ToolCall {
        turn,
        index,
        call: serde_json::json!({"name": "crop_video", "arguments": {"start_time": start, "end_time": end}}),
        start: Some(start),
        end: Some(end),
        outcome: ToolOutcome::Frames { frames },
    }
}

/// The same record with an error in the place of its answer.
pub fn failed(record: Record, class: SampleErrorClass) -> Record {
    Record {
        score: Score { outcome: Outcome::Error, value: 0.0, prediction: None, rule: None },
        error: Some(SampleError { class, message: "made up".into(), step: "turn0".into() }),
        ..record
    }
}

/// Role and text of each message of a record, images as `[n]`.
pub fn said(record: &Record) -> Vec<String> {
    let part = |part: &RecordedPart| match part {
        RecordedPart::Text { text } => text.clone(),
        RecordedPart::Image { origin, .. } => format!("[{}]", origin.unwrap().time),
        RecordedPart::Frames { frames, .. } => format!("[{} frames]", frames.len()),
        RecordedPart::Video { file, nframes } => format!("[{file} {nframes:?}]"),
    };
    let message = |message: &RecordedMessage| {
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{}: {}", message.role.as_str(), parts.concat())
    };
    record.transcript.messages.iter().map(message).collect()
}

/// The tool loop of the release driver under a profile.
pub fn plan(profile: Profile) -> RunPlan {
    RunPlan {
        rules: profile.into(),
        mode: PromptMode::named("agentic_general"),
        channel: Channel::Image,
        nframes: 4,
        max_turns: 3,
        max_parallel: 5,
        crop: CropMode::Frames,
        max_tokens: 2048,
        temperature: 0.0,
        seed: None,
        dialect: ToolDialect::Text,
        request: RequestSettings::default(),
        probe: None,
        max_image_kb: None,
        own_positions: false,
        repeat: 1,
    }
}

/// A split of three made-up samples, measured by accuracy.
pub fn task_spec() -> TaskSpec {
    TaskSpec {
        name: "made_up".into(),
        title: "Made up".into(),
        hub: HubSource {
            repos: vec![],
            config: None,
            split: "test".into(),
            revision: None,
            annotations: "rows.parquet".into(),
            media: vec![],
            license: "none".into(),
            gated: false,
        },
        expected_rows: 3,
        paper_rows: 3,
        expected_videos: 1,
        metric: Metric::Accuracy { macro_over: None },
        breakdowns: vec![],
    }
}

/// The manifest of a run of three made-up samples.
pub fn manifest() -> Manifest {
    Manifest {
        version: RUN_VERSION,
        id: None,
        binary: "test".into(),
        command: vec![],
        task: task_spec(),
        plan: plan(Profile::Strict),
        protocol_hash: "p".into(),
        protocol: "native".into(),
        protocol_source: native::protocol().source,
        fidelity: None,
        offers_tool: true,
        quirks: vec![],
        data: BTreeMap::from([("rows.parquet".into(), "d".into())]),
        data_revision: None,
        inputs: Inputs::default(),
        constants: constants(&native::protocol().tool),
        backend: BackendInfo { name: "none".into(), model: "m".into(), details: BTreeMap::new() },
        memory: None,
        label: None,
        imported: None,
        doubtful: vec![],
        paper_row: None,
        selection: Selection {
            split_rows: 3,
            sizes: Sizes { expected: 3, ..Sizes::default() },
            limit: None,
            ids: None,
            shard: None,
            whole: None,
        },
        host: Host { platform: "test".into(), cpu: None, cores: 1, gpus: None, ffmpeg: "0".into() },
        continued_by: vec![],
        started_at: 1.0,
        ended_at: None,
    }
}

/// Answers by step; a step that the script does not have is a failed call.
#[derive(Default)]
pub struct Scripted {
    answers: BTreeMap<String, Result<Completion, BackendError>>,
    /// What was asked, in the order in which it came.
    pub asked: Mutex<Vec<Request>>,
}

impl Scripted {
    /// A script of texts that end at a stop token.
    pub fn new(answers: &[(&str, &str)]) -> Self {
        answers
            .iter()
            .fold(Self::default(), |script, (step, text)| script.with(step, text, FinishReason::Stop))
    }

    /// One more answer.
    pub fn with(self, step: &str, text: &str, finish: FinishReason) -> Self {
        let completion =
            Completion { text: text.to_owned(), finish_reason: Some(finish), ..Completion::default() };
        self.completing(step, completion)
    }

    /// One more answer, whole.
    pub fn completing(mut self, step: &str, completion: Completion) -> Self {
        self.answers.insert(step.to_owned(), Ok(completion));
        self
    }

    /// One call that fails.
    pub fn failing(mut self, step: &str, error: BackendError) -> Self {
        self.answers.insert(step.to_owned(), Err(error));
        self
    }

    /// The steps that were asked, in the order in which they came.
    pub fn steps(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|request| request.id.step.clone()).collect()
    }
}

impl Backend for Scripted {
    fn describe(&self) -> BackendInfo {
        BackendInfo { name: "scripted".into(), model: "none".into(), details: BTreeMap::new() }
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        self.asked.lock().unwrap().push(request.clone());
        let answer = self.answers.get(&request.id.step).cloned();
        let answer = answer.unwrap_or_else(|| Err(BackendError::new(ErrorClass::Server, "answer B", 3)));
        async move { answer }.boxed()
    }
}

/// A model of this name that answers by a function.
pub struct Answering<F>(pub &'static str, pub F);

impl<F, A> Backend for Answering<F>
where
    F: Fn(&Request) -> A + Send + Sync,
    A: Future<Output = Result<Completion, BackendError>> + Send + 'static,
{
    fn describe(&self) -> BackendInfo {
        BackendInfo { name: "answering".into(), model: self.0.into(), details: BTreeMap::new() }
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        (self.1)(request).boxed()
    }
}

/// Grey squares: an overview of one frame per second, crops of two frames at the window's ends.
/// Windows that start before 0 fail; those that start at an odd second come last of their turn.
#[derive(Default)]
pub struct Squares {
    /// The video gives no overview.
    pub lost: bool,
    /// Crops in the order in which they were finished.
    pub finished: Mutex<Vec<f64>>,
    /// Wakes the crops that wait.
    pub even_finished: Condvar,
}

impl FrameSource for Squares {
    fn frames(&self, _path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        let fail = |message: &str| Err(MediaError::Request(message.to_owned()));
        let times = match request.start {
            None if self.lost => return fail("video has 3 frames, 4 asked"),
            None => vec![0.0, 1.0, 2.0, 3.0],
            Some(start) if start < 0.0 => return fail("the window is empty"),
            Some(start) => {
                self.finish(start);
                vec![start, request.end.unwrap_or(start)]
            }
        };
        let images = times.into_iter().map(|time| {
            let origin = FrameOrigin { index: time as usize, time };
            Arc::new(Image::new("image/jpeg", vec![0; 3], 28, 28, Some(origin)))
        });
        let images = images.collect();
        Ok(Arc::new(FrameSet { images, duration: 4.0, seconds: 0.25, second_reader: false }))
    }
}

impl Squares {
    /// A window at an odd second waits for one at an even second: only crops that run at the same
    /// time ever get past here, and the odd one is last whatever its place in the turn.
    fn finish(&self, start: f64) {
        let mut finished = self.finished.lock().unwrap();
        if start % 2.0 == 1.0 {
            let (guard, waited) = self
                .even_finished
                .wait_timeout_while(finished, Duration::from_secs(10), |finished| {
                    finished.iter().all(|start| start % 2.0 == 1.0)
                })
                .unwrap();
            assert!(!waited.timed_out(), "no other crop runs at the same time");
            finished = guard;
        }
        finished.push(start);
        self.even_finished.notify_all();
    }
}
