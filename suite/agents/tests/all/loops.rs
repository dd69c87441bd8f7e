//! Loops of Conan, VideoZoomer, EVA and the models of one turn, and what the tests of all agents share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paravt_agents::{bind, conan, eva, qwen_vl, releases, time_r1, video_r1, videozoomer};
use paravt_suite::agent::Agent;
use paravt_suite::backend::{BackendError, Completion, ErrorClass, FinishReason, StoppedBy};
use paravt_suite::evaluate::RunConfig;
use paravt_suite::fixtures::{Scripted, said, sample};
use paravt_suite::frames::{FrameSet, FrameSource, Pick};
use paravt_suite::media::{MediaError, VideoFacts, VideoRequest};
use paravt_suite::message::{Content, FrameOrigin, Image};
use paravt_suite::plan::RunPlan;
use paravt_suite::protocol::{Encoding, Fidelity, Protocol};
use paravt_suite::record::{Outcome, Record, RecordedPart, ToolOutcome};
use paravt_suite::videos::VideoStore;
use paravt_upstream::import::{Files, Release, Texts};

/// The protocol of a release in the words of its stand-in.
pub(crate) fn standin(release: &Release) -> Protocol {
    standin_of(release.name, release)
}

/// The same in the words of another release's, which has texts of the same names.
pub(crate) fn standin_of(name: &str, release: &Release) -> Protocol {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upstream/tests/standin");
    let words = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let words: BTreeMap<String, String> = serde_json::from_slice(&words).unwrap();
    release.with_texts(&Texts::of(words)).unwrap()
}

fn conan() -> Protocol {
    standin(&conan::RELEASE)
}

fn videozoomer() -> Protocol {
    standin(&videozoomer::RELEASE)
}

fn eva() -> Protocol {
    standin(&eva::RELEASE)
}

fn time_r1() -> Protocol {
    standin(&time_r1::RELEASE)
}

/// A video of so many frames at 10 frames a second, 1280 by 720.
pub(crate) struct Film(pub usize);

impl FrameSource for Film {
    fn frames(&self, _: &Path, _: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        panic!("an agent with a loop of its own picks its frames")
    }

    fn facts(&self, _: &Path) -> Result<VideoFacts, MediaError> {
        let (width, height, frames, rate) = (1280, 720, self.0, 10.0);
        let (duration, last) = (frames as f64 / rate, (frames - 1) as f64 / rate);
        let (stream_duration, file_duration) = (duration, duration);
        Ok(VideoFacts { width, height, frames, rate, stream_duration, file_duration, first: 0.0, last })
    }

    fn pick(&self, _: &Path, pick: &Pick, _: Option<usize>) -> Result<FrameSet, MediaError> {
        let (width, height) = pick.size;
        let mime = if pick.encoding == Encoding::Png { "image/png" } else { "image/jpeg" };
        let image = |&index: &usize| {
            let origin = FrameOrigin { index, time: index as f64 / 10.0 };
            Arc::new(Image::new(mime, vec![0; 3], width, height, Some(origin)))
        };
        let images = pick.indices.iter().map(image).collect();
        Ok(FrameSet { images, duration: 100.0, seconds: 0.25, second_reader: false })
    }
}

/// A sample of a split under a protocol with scripted replies, over a video of 100 seconds.
pub(crate) async fn run(protocol: Protocol, split: &str, script: Scripted) -> (Record, Arc<Scripted>) {
    run_on(Film(1000), protocol, split, script).await
}

/// The same over another video.
pub(crate) async fn run_on(
    film: Film,
    protocol: Protocol,
    split: &str,
    script: Scripted,
) -> (Record, Arc<Scripted>) {
    let videos = tempfile::tempdir().unwrap();
    std::fs::write(videos.path().join("clip.mp4"), "").unwrap();
    let backend = Arc::new(script);
    let agent = Agent {
        backend: Arc::clone(&backend) as Arc<_>,
        plan: RunPlan { seed: Some(7), ..RunConfig::default().plan(&protocol).unwrap() },
        protocol_hash: "p".into(),
        reference: bind(protocol.clone()).unwrap().reference,
        protocol: Arc::new(protocol),
        frames: Arc::new(film),
        code: None,
        videos: VideoStore::new("made_up", videos.path().to_owned()),
    };
    let mut sample = sample("u");
    sample.video = "made_up/clip.mp4".into();
    sample.task = split.to_owned();
    (agent.run(&sample).await, backend)
}

/// As [`said`], frames by their index.
pub(crate) fn shown(record: &Record) -> Vec<String> {
    let seen = said(record);
    let indices = |message: usize| {
        let parts = &record.transcript.messages[message].parts;
        let frames = parts.iter().filter_map(|part| match part {
            RecordedPart::Image { origin, .. } => Some(origin.unwrap().index.to_string()),
            _ => None,
        });
        frames.collect::<Vec<_>>().join(" ")
    };
    seen.iter().enumerate().map(|(place, text)| format!("{text} | {}", indices(place))).collect()
}

#[tokio::test]
async fn conan_asks_three_times_and_never_shows_a_frame_twice() {
    let script = Scripted::new(&[
        ("turn0", "<clip>00:00:10-00:00:12</clip><answer>A</answer>"),
        ("turn1", "<clip>00:00:50-00:00:51</clip>"),
        ("turn2", "<clip>00:00:01-00:00:02</clip><answer>The answer is B</answer>"),
    ]);
    let (record, backend) = run(conan(), "videomme", script).await;
    let shown = shown(&record);
    assert!(shown[0].starts_with("user: 00:00:00[0]00:00:06[6.2]"), "no system message: {}", shown[0]);
    assert!(
        shown[0].contains("[93.8]\nfirst crop_video: What is shown? of A. a cat, B. a dog\n"),
        "{}",
        shown[0]
    );
    assert!(
        shown[2].contains("\nround crop_video: What is shown?") && shown[2].contains("00:00:10[10"),
        "{}",
        shown[2]
    );
    assert!(shown[4].contains("\nlast crop_video: What is shown?"), "{}", shown[4]);
    assert_eq!(record.transcript.messages.len(), 6, "the calls of the last reply are not run");
    let asked = backend.asked.lock().unwrap();
    let generation = &asked[0].generation;
    assert_eq!((asked.len(), generation.temperature, generation.max_tokens), (3, 1.0, 4000));
    let own = record.agent_score.unwrap();
    assert_eq!(
        (own.fidelity, own.score.value, own.score.prediction.as_deref()),
        (Fidelity::Variant, 1.0, Some("B"))
    );
    assert_eq!(record.score.outcome, Outcome::Scored, "the suite's own extraction stands beside it");
    let RecordedPart::Image { width, height, .. } = &record.transcript.messages[0].parts[1] else { panic!() };
    assert_eq!((*width, *height), (448, 251), "0.35 times 720 is below 252 in floats");
}

#[tokio::test]
async fn a_split_without_a_text_is_refused_by_name() {
    let (record, _) = run(conan(), "mmvu", Scripted::default()).await;
    let error = record.error.unwrap().message;
    assert!(error.contains("protocol conan has no question text for mmvu"), "{error}");
}

#[tokio::test]
async fn videozoomer_answers_errors_keeps_the_stop_and_reads_all_turns() {
    let cut = |segment: &str| format!("<video_zoom>{{\"segment\": {segment}, \"fps\": 2}}");
    let script = Scripted::new(&[
        ("turn0", &cut("[10, 12]")),
        ("turn1", &cut("[0, 60]")),
        ("turn2", "<video_zoom>nothing</video_zoom>"),
        ("turn3", &cut("[10, 12]")),
        ("turn4", "<answer>\\boxed{B}</answer>"),
    ]);
    let (record, backend) = run(videozoomer(), "videomme", script).await;
    let shown = shown(&record);
    assert_eq!(shown[0], "system: Zoom with \"segment\". \\n Then \\\\boxed{{}}. | ");
    assert!(shown[1].starts_with("user: <frame0_time0.00s>[0]<frame1_time2.00s>[2]"), "{}", shown[1]);
    assert!(shown[1].contains("\nWhat is shown?\nA. a cat\nB. a dog | 0 20 40"), "{}", shown[1]);
    assert_eq!(shown[2], format!("assistant: {}</video_zoom> | ", cut("[10, 12]")), "what ended it is kept");
    let looked = "user: <tool_response>\nSee:\n<frame0_time10.00s>[10]<frame1_time10.60s>[10.6]<frame2_time11.30s>\
                  [11.3]<frame3_time12.00s>[12]\n</tool_response>\ngo on";
    assert_eq!(shown[3], format!("{looked} | 100 106 113 120"));
    let too_many = "Number of frames extracted (120) exceeds the maximum allowed (16).";
    assert_eq!(shown[5], format!("user: <tool_response>\nError: {too_many}<tool_response>Mend it. | "));
    assert_eq!(shown[7], "user: <tool_response>\nCall error: .\n</tool_response>\nMend it. | ");
    assert_eq!(shown[9], format!("{looked}No more. | 100 106 113 120"));
    assert_eq!(backend.asked.lock().unwrap()[0].generation.sampling.stop, ["</video_zoom>"]);
    assert_eq!(record.agent_score.unwrap().score.value, 1.0);
    assert!(
        matches!(&record.transcript.tool_calls[1].outcome, ToolOutcome::CropFailed { reason } if reason == too_many)
    );
}

#[tokio::test]
async fn videozoomer_ends_with_a_call_that_the_model_left_open_and_reads_an_empty_reply() {
    let stopped = |text: &str| Completion {
        text: text.to_owned(),
        finish_reason: Some(FinishReason::Stop),
        stopped_by: StoppedBy::Model,
        ..Completion::default()
    };
    let open = "<video_zoom>{\"segment\": [10, 12], \"fps\": 2}";
    let script = Scripted::default().completing("turn0", stopped(open));
    let (record, backend) = run(videozoomer(), "videomme", script).await;
    assert_eq!((backend.steps(), record.transcript.final_text.as_str()), (vec!["turn0".to_owned()], open));
    let empty = BackendError::new(ErrorClass::EmptyReply, "empty", 1);
    let empty = BackendError { reply: Some(Box::new(stopped(""))), ..empty };
    let (record, _) = run(videozoomer(), "videomme", Scripted::default().failing("turn0", empty)).await;
    assert_eq!((record.error, record.transcript.final_text.as_str()), (None, ""));
    assert_eq!(record.agent_score.unwrap().score.outcome, Outcome::Unparsed);
}

#[tokio::test]
async fn eva_plans_before_it_sees_and_numbers_frames_across_calls() {
    let select = |start: f64, n: f64| {
        format!(
            "{{\"tool\": \"frame_select\", \"arguments\": {{\"start_time\": {start}, \"end_time\": {}, \"nframes\": {n}, \"resize\": 0.25}}}}",
            start + 2.0
        )
    };
    let calls =
        format!("<tool_call>{}{}{}</tool_call>", select(10.0, 2.0), select(1.0, 3.5), select(60.0, 1.0));
    let script = Scripted::new(&[("turn0", &calls), ("turn1", "so Answer: B")]);
    let (record, _) = run(eva(), "longvideobench", script).await;
    let shown = shown(&record);
    let question = "What is shown?\nA. a cat\nB. a dog\nSay a letter.";
    assert_eq!(
        shown[..2],
        ["system: Select frames. | ".to_owned(), format!("user: Length: 99 s. Size: 720p. {question} | ")]
    );
    let result = format!(
        "tool: <tool_response>Frame 0 at [00:10]: [10]\nFrame 1 at [00:12]: [12]\nFrame 2 at [01:00]: [61]\nSelect again if \
         needed.\n\nQuestion: {question}</tool_response> | 100 120 610"
    );
    assert_eq!(shown[3], result);
    assert_eq!(record.agent_score.unwrap().score.value, 1.0);
    let script = Scripted::new(&[("turn0", &format!("<tool_call>{}</tool_call>", select(1.0, 3.5)))]);
    let (record, backend) = run(eva(), "lvbench", script).await;
    assert_eq!(backend.steps(), ["turn0"], "all calls failed: the conversation ends");
    assert_eq!(record.agent_score.unwrap().score.outcome, Outcome::Unparsed);
}

#[tokio::test]
async fn a_model_of_one_turn_is_asked_in_its_authors_words() {
    let protocol = standin(&video_r1::RELEASE);
    let plan = RunConfig::default().plan(&protocol).unwrap();
    assert_eq!((plan.temperature, plan.request.sampling.top_p, plan.max_tokens), (0.1, Some(0.001), 1024));
    assert_eq!(plan.fidelity(&protocol, "videomme"), Some(Fidelity::Variant));
    let made = paravt_suite::protocol::render::user_text(
        &protocol,
        &sample("u"),
        &protocol.default_mode,
        plan.switches(),
        "v.mp4",
        None,
    );
    let wanted = "What is shown?Options:\nA. a cat\nB. a dog\n\nThink. A letter.";
    assert_eq!(made.unwrap(), wanted);
    let words = video_r1::prompt(
        "{Question}\nThink.",
        " A letter.",
        "What is shown?",
        Some((video_r1::VIDEO_R1_OPTIONS, &["A. a cat", "B. a dog"])),
    );
    assert_eq!(words, wanted);
}

#[tokio::test]
async fn time_r1_generates_the_letter_a_second_time_from_where_the_answer_begins() {
    let script =
        Scripted::new(&[("turn0", "<think>x</think><answer>(A)</answer>"), ("answer", "B) a dog</answer>")]);
    let (record, backend) = run(time_r1(), "videomme", script).await;
    let seen = said(&record);
    let question = "[200 frames]Choose.\nQuestion: What is shown?\n(A) a cat\n(B) a dog";
    let reply = "<think>x</think><answer>\nBest: (B) a dog</answer>";
    assert_eq!(
        seen,
        ["system: Be helpful.".to_owned(), format!("user: {question}"), format!("assistant: {reply}")]
    );
    let asked = backend.asked.lock().unwrap();
    let limits: Vec<u32> = asked.iter().map(|request| request.generation.max_tokens).collect();
    assert_eq!((limits, asked[0].generation.sampling.repetition_penalty), (vec![1024, 16], Some(1.0)));
    let Content::Text(beginning) = &asked[1].messages[2].content else { panic!() };
    assert_eq!(beginning, "<think>x</think><answer>\nBest: (");
    let RecordedPart::Frames { frames, width, height, .. } = &record.transcript.messages[1].parts[0] else {
        panic!()
    };
    assert_eq!((frames[199].index, *width, *height), (999, 196, 112), "28,098 pixels at most");
    assert_eq!(record.agent_score.unwrap().score.value, 1.0);
}

#[tokio::test]
async fn qwen_asks_one_question_under_the_settings_of_its_script_and_of_its_cards() {
    let asked = |name: &'static str, split: &'static str, reply: &'static str| async move {
        let release = releases().find(|release| release.name == name).unwrap();
        let protocol = standin_of(qwen_vl::RELEASE.name, release);
        let (record, backend) = run(protocol, split, Scripted::new(&[("turn0", reply)])).await;
        let generation = backend.asked.lock().unwrap()[0].generation.clone();
        (record, generation)
    };
    let of_its_text = "<think>A or B?</think> I see A DOG there";
    let (record, generation) = asked("qwen3-vl", "videomme", of_its_text).await;
    let question = "[200 frames]Choose from the video. Give one letter (A to D) alone.\nQ: What is shown?\nA. a cat\nB. a dog\nLetter:";
    assert_eq!(said(&record)[0], format!("user: {question}"));
    assert_eq!((generation.max_tokens, generation.sampling.presence_penalty), (32_768, Some(1.5)));
    assert_eq!(record.agent_score.as_ref().unwrap().score.value, 1.0, "the text of the one option");
    let size = |record: &Record| match &record.transcript.messages[0].parts[0] {
        RecordedPart::Frames { frames, width, height, .. } => (frames.len(), *width, *height),
        other => panic!("{other:?}"),
    };
    assert_eq!(size(&record), (200, 576, 320), "192,675 pixels");
    // Other letters than four, and other bounds.
    let (record, _) = asked("qwen3-vl-card", "lvbench", "B").await;
    assert!(said(&record)[0].contains("Give one letter alone."), "{:?}", said(&record));
    assert_eq!(size(&record), (200, 1056, 576), "655,360 pixels");
    let (record, generation) = asked("qwen2.5-vl-card", "mlvu", "B").await;
    assert_eq!((size(&record), generation.temperature), ((200, 560, 308), 0.0), "192,675 pixels");
    let (_, generation) = asked("qwen3.5-card", "mlvu", "B").await;
    assert_eq!((generation.temperature, generation.sampling.top_p), (1.0, Some(0.95)));
}

#[tokio::test]
async fn a_reply_in_which_no_answer_begins_stands_as_it_is() {
    let (record, backend) = run(time_r1(), "videomme", Scripted::new(&[("turn0", "B is right")])).await;
    assert_eq!(backend.steps(), ["turn0"]);
    assert_eq!(record.agent_score.unwrap().score.value, 1.0, "the first letter");
}

#[test]
fn what_an_agent_decides_is_refused_in_the_run_and_allowed_in_a_file() {
    let plan = |config: &str| RunConfig::from_json(config).unwrap().plan(&conan());
    for (config, words) in [
        (r#"{"nframes": 32}"#, "--nframes: protocol conan has 16"),
        (r#"{"max_turns": 9}"#, "--max-turns: protocol conan has 2"),
        // The defaults of other protocols are as good as any other value.
        (r#"{"nframes": 64}"#, "--nframes: protocol conan has 16"),
        (r#"{"max_turns": 3}"#, "--max-turns: protocol conan has 2"),
        (r#"{"max_parallel": 5}"#, "--max-parallel: protocol conan has 0"),
        (r#"{"channel": "frames_video"}"#, "--channel: protocol conan has frames"),
        (r#"{"crop": "frames"}"#, "--crop: protocol conan has frames"),
        (r#"{"profile": "paper"}"#, "--profile: protocol conan"),
        (r#"{"crop": "subagent"}"#, "--crop: protocol conan has frames"),
        (r#"{"probe": "freeze"}"#, "chooses its frames itself"),
    ] {
        let error = plan(config).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(plan(r#"{"nframes": 16, "max_turns": 2, "channel": "image"}"#).unwrap().nframes, 16);
    let temperature = |config| plan(config).unwrap().temperature;
    assert_eq!((temperature("{}"), temperature(r#"{"temperature": 0.0}"#)), (1.0, 0.0));
}

#[test]
fn a_run_is_as_published_only_with_the_authors_texts_and_settings() {
    let mut protocol = conan();
    let fidelity = |protocol: &Protocol, config: &str| {
        RunConfig::from_json(config).unwrap().plan(protocol).unwrap().fidelity(protocol, "videomme").unwrap()
    };
    assert_eq!(fidelity(&protocol, "{}"), Fidelity::Variant, "the files are not the pinned ones");
    protocol.source.pinned = true;
    assert_eq!(fidelity(&protocol, "{}"), Fidelity::Exact);
    assert_eq!(fidelity(&protocol, r#"{"temperature": 0.5}"#), Fidelity::Variant);
    assert_eq!(fidelity(&protocol, r#"{"max_tokens": 100}"#), Fidelity::Variant);
    assert_eq!(fidelity(&protocol, r#"{"request": {"top_k": 4}}"#), Fidelity::Variant);
}

#[test]
fn every_imported_protocol_passes_the_check_of_files_and_names_its_rules() {
    for protocol in [conan(), videozoomer(), eva(), time_r1(), crate::framethinker::protocol()] {
        protocol.check().unwrap();
        assert!(bind(protocol.clone()).unwrap().reference.agent_loop.is_some());
        let text = serde_json::to_string(&protocol).unwrap();
        assert_eq!(serde_json::from_str::<Protocol>(&text).unwrap(), protocol);
    }
    for release in releases() {
        let empty: Files = release.files.iter().map(|file| (file.path, String::new())).collect();
        let refused = release.import(&empty).unwrap_err().to_string();
        assert!(refused.contains("SHA-256") && refused.contains(release.commit), "{refused}");
    }
}
