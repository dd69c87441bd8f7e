//! The traces against the suite's own agent, and the world as a whole.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_suite::agent::Agent;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, FinishReason, Request};
use paravt_suite::evaluate::RunConfig;
use paravt_suite::frames::CachedFrames;
use paravt_suite::message::Role;
use paravt_suite::plan::CropMode;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::PromptMode;
use paravt_suite::record::{Record, RecordedMessage};
use paravt_suite::settings::ToolDialect;
use paravt_suite::videos::VideoStore;
use rand::Rng as _;

use crate::questions::{Ask, Question, choice, first, grounding, order, perception};
use crate::samples::{Style, sample};
use crate::traces::{Case, Dispatch, Piece, Turn, description, seen_in};
use crate::{
    Scene, Side, TrainingSizes, WorldRng, encode, make_training, policy, protocol, read_messages,
    read_prompts, rows, world_rng,
};

/// Says the trace's words in order; a sub-agent lists what its window shows.
struct Script {
    scene: Scene,
    words: Mutex<VecDeque<String>>,
    /// Conversations of sub-agents, by window.
    looks: Mutex<BTreeMap<(u64, u64), Vec<RecordedMessage>>>,
}

impl Backend for Script {
    fn describe(&self) -> BackendInfo {
        BackendInfo { name: "script".into(), model: "none".into(), details: BTreeMap::new() }
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        let text = if request.id.step.contains("/sub") {
            let recorded: Vec<RecordedMessage> = request.messages.iter().map(RecordedMessage::from).collect();
            let prompt = texts(&recorded).pop().unwrap();
            let numbers: Vec<u64> =
                prompt.split(' ').filter_map(|word| word.parse::<f64>().ok()).map(|n| n as u64).collect();
            let window = (numbers[0], numbers[1]);
            self.looks.lock().unwrap().insert(window, recorded);
            policy::list(&seen_in(&self.scene, &(window.0..window.1)).unwrap())
        } else {
            self.words.lock().unwrap().pop_front().expect("the trace ends when the agent does")
        };
        let completion =
            Completion { text, finish_reason: Some(FinishReason::Stop), ..Completion::default() };
        async move { Ok(completion) }.boxed()
    }
}

fn texts(messages: &[RecordedMessage]) -> Vec<String> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            paravt_suite::record::RecordedPart::Text { text } => Some(text.clone()),
            _ => None,
        })
        .collect()
}

/// What the agent makes of a trace's words.
fn drive(turns: &[Turn], case: &Case<'_>, mode: &PromptMode, max_parallel: usize) -> (Record, Arc<Script>) {
    let words = turns.iter().filter(|turn| turn.role == Role::Assistant).map(|turn| match &turn.parts[0] {
        Piece::Text(text) => text.clone(),
        _ => panic!("frames are never said"),
    });
    let script = Arc::new(Script {
        scene: case.scene.clone(),
        words: Mutex::new(words.collect()),
        looks: Mutex::default(),
    });
    let config = RunConfig {
        profile: Some(Profile::Strict),
        mode: Some(mode.clone()),
        nframes: Some(case.nframes),
        max_turns: Some(3),
        max_parallel: Some(max_parallel),
        crop: Some(CropMode::Subagent),
        max_tokens: Some(256),
        dialect: Some(ToolDialect::Text),
        ..RunConfig::default()
    };
    let agent = Agent {
        backend: Arc::clone(&script) as Arc<_>,
        protocol: Arc::new(protocol()),
        protocol_hash: String::new(),
        reference: paravt_agents::bind(protocol()).unwrap().reference,
        plan: config.plan(&protocol()).unwrap(),
        frames: Arc::new(CachedFrames::default()),
        code: None,
        videos: VideoStore::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let record = runtime.block_on(agent.run(case.sample));
    assert!(script.words.lock().unwrap().is_empty(), "the agent stops before the trace does");
    (record, script)
}

fn recorded(turns: &[Turn], root: &Path, video: &str) -> Vec<RecordedMessage> {
    let json = rows::messages(turns, video);
    let messages = read_messages(&json, root, &CachedFrames::default(), &protocol()).unwrap();
    messages.iter().map(RecordedMessage::from).collect()
}

fn questions(scene: &Scene, side: Side, rng: &mut WorldRng) -> Vec<(Question, Style)> {
    // The last event of the first three windows: one by one, it takes as many turns as there are.
    let late = scene.events.iter().rfind(|event| event.start < 96.0).unwrap();
    vec![
        (perception(scene, side, rng), Style::Plain),
        (perception(scene, side, rng), Style::Open),
        (choice(scene, side, 2, rng), Style::Doubled),
        (first(scene, rng), Style::Plain),
        (order(scene, rng), Style::Twice),
        (order(scene, rng), Style::Embedded),
        (grounding(*late), Style::Plain),
    ]
}

/// The model is evaluated by that agent: what it learns from must be the same to the byte.
#[test]
fn the_agent_sends_what_the_traces_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = world_rng(5);
    let in_third = |scene: &Scene| scene.events.iter().any(|event| (64.0..96.0).contains(&event.start));
    let mut scenes = std::iter::repeat_with(|| Scene::random(Side::Train, &mut rng));
    let scene = scenes.find(in_third).unwrap();
    encode::all(&[(dir.path().join("v.mp4"), scene.clone())]).unwrap();
    let protocol = protocol();
    let (mut forced, mut runs) = (0, 0);
    for (question, style) in questions(&scene, Side::Train, &mut rng) {
        let sample = sample(&question, style, "u", &dir.path().join("v.mp4"));
        let case = |nframes| Case { scene: &scene, question: &question, style, sample: &sample, nframes };
        for dispatch in [Dispatch::Parallel, Dispatch::OneByOne, Dispatch::Capped] {
            let case = case(8);
            let Some(turns) = case.with_tool(&protocol, dispatch).unwrap() else { continue };
            let cap = if dispatch == Dispatch::Parallel { 5 } else { 1 };
            let (record, script) = drive(&turns, &case, &protocol.default_mode, cap);
            assert_eq!(record.error, None);
            assert_eq!(record.transcript.messages, recorded(&turns, dir.path(), "v.mp4"), "{dispatch:?}");
            assert!(record.score.value > 0.4, "{:?} {:?}", record.score, question);
            for (window, asked) in script.looks.lock().unwrap().iter() {
                let row = description(&protocol, &sample, &scene, &(window.0..window.1)).unwrap();
                assert_eq!(*asked, recorded(&row[..1], dir.path(), "v.mp4"));
            }
            forced += usize::from(record.transcript.forced);
            runs += 1;
        }
        for (mode, nframes) in [("direct", 8), ("reasoning", 64), ("native", 64)] {
            let mode = &PromptMode::named(mode);
            let case = case(nframes);
            let turns = case.direct(&protocol, mode).unwrap();
            let (record, _) = drive(&turns, &case, mode, 5);
            assert_eq!(record.transcript.messages, recorded(&turns, dir.path(), "v.mp4"), "{mode}");
            assert!(record.score.value > 0.4, "{:?}", record.score);
        }
    }
    assert!(runs >= 12 && forced > 0, "{runs} runs, {forced} forced");
}

/// Over many scenes: looking everywhere in parallel always finds the evidence, and it is right.
#[test]
fn windows_hold_the_evidence() {
    let mut rng = world_rng(3);
    let protocol = protocol();
    let mut overlaps = Vec::new();
    for number in 0..200 {
        let side = if number % 2 == 0 { Side::Train } else { Side::Test };
        let scene = Scene::random(side, &mut rng);
        for (question, style) in questions(&scene, side, &mut rng) {
            let mut seen = Vec::new();
            for window in policy::windows(&question.ask, scene.seconds) {
                seen.extend(seen_in(&scene, &window).unwrap());
            }
            let evidence = policy::evidence(&question.ask, &seen);
            match question.ask {
                Ask::Perception { second } | Ask::Colour { second } => {
                    assert_eq!(seen.len(), 1, "nothing else is around that moment");
                    assert_eq!(evidence[0].event, *scene.event_at(second as f64).unwrap());
                }
                Ask::Order { before, after } => {
                    assert_eq!([evidence[0].event, evidence[1].event], [before, after]);
                    assert_eq!(seen.len(), scene.events.len(), "each event is in one list");
                }
                Ask::First { event } => assert_eq!(evidence[0].event, event),
                Ask::Grounding { event } => {
                    let (from, to) = (evidence[0].from as f64, evidence[0].to as f64);
                    let both = (to.min(event.end) - from.max(event.start)).max(0.0);
                    overlaps.push(both / (to.max(event.end) - from.min(event.start)));
                }
            }
            let sample = sample(&question, style, "u", Path::new("v.mp4"));
            let case = Case { scene: &scene, question: &question, style, sample: &sample, nframes: 8 };
            assert!(case.with_tool(&protocol, Dispatch::Parallel).unwrap().is_some());
        }
    }
    let mean = overlaps.iter().sum::<f64>() / overlaps.len() as f64;
    let least = overlaps.iter().copied().fold(1.0, f64::min);
    println!("intervals read off the lists: mean overlap {mean:.3}, least {least:.3}");
    assert!(mean > 0.7 && least > 0.3, "{mean} {least}");
}

/// About a quarter of the events are in an overview of 8 frames, all in one of 64.
#[test]
fn overviews_miss_what_the_world_says_they_miss() {
    let mut rng = world_rng(4);
    let mut shares = [0.0; 2];
    let (mut events, counts) = (0.0, [8, 64]);
    for _ in 0..200 {
        let scene = Scene::random(Side::Test, &mut rng);
        events += scene.events.len() as f64;
        for (share, count) in shares.iter_mut().zip(counts) {
            let request = paravt_suite::media::VideoRequest::overview(count);
            *share +=
                policy::sightings(&scene, &crate::traces::times(&request, &scene).unwrap()).len() as f64;
        }
    }
    let [few, many] = shares.map(|share| share / events);
    assert!((0.2..0.35).contains(&few), "{few}");
    assert!(many > 0.999, "{many}");
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(
                path.file_name().unwrap().to_string_lossy().into_owned(),
                std::fs::read(&path).unwrap(),
            );
        }
    }
    found
}

#[test]
fn a_seed_gives_the_same_training_world_to_the_byte() {
    let sizes = TrainingSizes { videos: 2, rows: 40, prompts: 20, ..TrainingSizes::default() };
    let made: Vec<_> = [1, 1, 2]
        .into_iter()
        .map(|seed| {
            let dir = tempfile::tempdir().unwrap();
            let paths = make_training(dir.path(), seed, &sizes).unwrap();
            let prompts = read_prompts(&paths.rl, &paths.root).unwrap();
            assert_eq!(prompts.len(), 20);
            assert!(prompts.iter().all(|prompt| prompt.sample.video.is_file()));
            for kind in ["mcq", "tvg", "oe"] {
                assert!(prompts.iter().any(|prompt| prompt.question_type == kind), "{kind}");
            }
            files(dir.path())
        })
        .collect();
    assert!(made[0] == made[1] && made[0] != made[2]);
    assert_eq!(made[0].len(), 4);
}

/// Another number here is another world: everything that was recorded on it has to be recorded again.
#[test]
fn the_first_draws_of_a_seed_are_fixed() {
    assert_eq!(
        [world_rng(0).random::<u64>(), world_rng(1009).random::<u64>()],
        [13_486_662_071_293_341_567, 3_403_930_122_243_021_336]
    );
}
