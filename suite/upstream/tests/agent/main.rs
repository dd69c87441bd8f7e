//! The agent's loop with the release's tool calls.
#![allow(clippy::unwrap_used)]

mod dialects;

use std::path::Path;
use std::sync::Arc;

use paravt_suite::agent::Agent;
use paravt_suite::backend::{BackendError, Completion, ErrorClass, FinishReason, Usage};
use paravt_suite::fixtures::{Scripted, Squares, plan, said, sample};
use paravt_suite::message::{Content, Part};
use paravt_suite::plan::{Channel, CropMode, RunPlan};
use paravt_suite::profile::{MalformedCall, Profile, Switches};
use paravt_suite::protocol::{PromptMode, native};
use paravt_suite::record::{Outcome, Record, SampleErrorClass, ToolOutcome};
use paravt_suite::sample::Gold;
use paravt_suite::videos::VideoStore;

/// One sample's way: who answers, what can be seen, and the plan; all of it inspected afterwards.
struct World {
    pub backend: Arc<Scripted>,
    frames: Arc<Squares>,
    pub plan: RunPlan,
    gold: Gold,
}

fn world(answers: &[(&str, &str)]) -> World {
    World {
        backend: Arc::new(Scripted::new(answers)),
        frames: Arc::new(Squares::default()),
        plan: plan(Profile::Release),
        gold: Gold::Choice { answer: "B".into() },
    }
}

impl World {
    pub(crate) async fn run(&self) -> Record {
        let videos = tempfile::tempdir().unwrap();
        std::fs::write(videos.path().join("clip.mp4"), "").unwrap();
        self.run_in(videos.path()).await
    }

    async fn run_in(&self, videos: &Path) -> Record {
        let agent = Agent {
            backend: Arc::clone(&self.backend) as Arc<_>,
            protocol: Arc::new(native::protocol()),
            protocol_hash: "p".into(),
            reference: paravt_upstream::paravt::REFERENCE,
            plan: self.plan.clone(),
            frames: Arc::clone(&self.frames) as Arc<_>,
            code: None,
            videos: VideoStore::new("made_up", videos.to_owned()),
        };
        let mut sample = sample("u");
        sample.video = "made_up/clip.mp4".into();
        sample.gold = self.gold.clone();
        agent.run(&sample).await
    }

    fn switched(mut self, switch: impl Fn(&mut Switches)) -> Self {
        self.plan.rules.switch(switch);
        self
    }
}

fn call(start: f64, end: f64) -> String {
    format!(
        r#"<tool_call>{{"name": "crop_video", "arguments": {{"start_time": {start:?}, "end_time": {end:?}}}}}</tool_call>"#
    )
}

fn class(record: &Record) -> Option<SampleErrorClass> {
    record.error.as_ref().map(|error| error.class)
}

/// What a failed sample must never have: an answer.
fn assert_no_answer(record: &Record) {
    assert_eq!(record.score.outcome, Outcome::Error);
    assert_eq!((record.score.value, &record.score.prediction), (0.0, &None));
    assert_eq!(record.transcript.final_text, "");
}

#[tokio::test]
async fn overview_question_calls_results_answer_stand_in_this_order() {
    let first = format!("look {}{}", call(1.0, 2.0), call(2.0, 4.0));
    let world = world(&[("turn0", &first), ("turn1", "<answer>B</answer>")]);
    let record = world.run().await;
    let said = said(&record);
    assert!(said[0].starts_with("system: "), "{}", said[0]);
    assert!(said[1].starts_with("user: [0][1][2][3]") && said[1].contains("What is shown?"), "{}", said[1]);
    assert_eq!(
        said[2..],
        [
            format!("assistant: {first}"),
            "user: [1][2]<tool_response>\n2 frames between 1.0 s and 2.0 s.\n</tool_response>".into(),
            "user: [2][4]<tool_response>\n2 frames between 2.0 s and 4.0 s.\n</tool_response>".into(),
            "assistant: <answer>B</answer>".into(),
        ]
    );
    assert_eq!(world.backend.steps(), ["turn0", "turn1"]);
    assert_eq!((record.score.value, record.transcript.forced), (1.0, false));
}

#[tokio::test]
async fn results_stand_in_call_order_when_crops_finish_out_of_order() {
    let calls = [call(1.0, 2.0), call(3.0, 4.0), call(2.0, 4.0)].concat();
    let world = world(&[("turn0", &calls), ("turn1", "B")]);
    let record = world.run().await;
    assert_eq!(world.frames.finished.lock().unwrap()[0], 2.0, "the last call was done first");
    let starts: Vec<_> = record.transcript.tool_calls.iter().map(|call| (call.index, call.start)).collect();
    assert_eq!(starts, [(0, Some(1.0)), (1, Some(3.0)), (2, Some(2.0))]);
    let said = said(&record);
    for (message, start) in said[3..6].iter().zip(["[1]", "[3]", "[2]"]) {
        assert!(message.starts_with(&format!("user: {start}")), "{message}");
    }
}

#[tokio::test]
async fn calls_beyond_the_cap_are_dropped_and_counted() {
    let calls: String = (0..8).map(|number| call(f64::from(2 * number), 20.0)).collect();
    for (cap, run) in [(5, 5), (1, 1), (8, 8), (9, 8), (0, 8)] {
        let mut world = world(&[("turn0", &calls), ("turn1", &calls), ("turn2", "B")]);
        world.plan.max_parallel = cap;
        let record = world.run().await;
        assert_eq!(record.transcript.tool_calls.len(), 2 * run, "cap {cap}");
        assert_eq!(record.transcript.dropped_calls, 2 * (8 - run), "cap {cap}");
        let turns: Vec<usize> = record.transcript.tool_calls.iter().map(|call| call.turn).collect();
        assert_eq!(turns, [vec![0; run], vec![1; run]].concat());
    }
}

#[tokio::test]
async fn with_a_cap_of_one_each_turn_looks_at_its_first_call_alone() {
    let calls = [call(4.0, 6.0), call(8.0, 10.0)].concat();
    let mut world = world(&[("turn0", &calls), ("turn1", &call(8.0, 10.0)), ("turn2", "B")]);
    world.plan.max_parallel = 1;
    let record = world.run().await;
    assert_eq!(*world.frames.finished.lock().unwrap(), [4.0, 8.0]);
    assert_eq!(record.transcript.dropped_calls, 1);
    assert_eq!(record.transcript.messages.len(), 2 + 2 * 2 + 1);
}

#[tokio::test]
async fn after_the_last_turns_crops_the_answer_is_forced() {
    let calls = call(2.0, 4.0);
    let world = world(&[("turn0", &calls), ("turn1", &calls), ("turn2", &calls), ("force", "B")]);
    let record = world.run().await;
    assert_eq!(world.backend.steps(), ["turn0", "turn1", "turn2", "force"]);
    assert_eq!(record.transcript.tool_calls.len(), 3);
    assert!(record.transcript.forced);
    assert_eq!((record.transcript.final_text.as_str(), record.score.value), ("B", 1.0));
    let said = said(&record);
    let [.., response, force, answer] = &said[..] else { panic!("{said:?}") };
    assert!(response.contains("<tool_response>") && force.contains("Answer now"), "{said:?}");
    assert_eq!(answer, "assistant: B");
    let limits: Vec<u32> =
        world.backend.asked.lock().unwrap().iter().map(|request| request.generation.max_tokens).collect();
    assert_eq!(limits, [2048, 2048, 2048, 64]);
}

#[tokio::test]
async fn the_forced_answer_of_a_grounding_question_may_be_longer() {
    let mut world = world(&[("turn0", &call(2.0, 4.0)), ("force", "<answer>1 - 2</answer>")]);
    world.plan.max_turns = 1;
    world.gold = Gold::Interval { start: 1.0, end: 2.0 };
    let record = world.run().await;
    assert_eq!(world.backend.asked.lock().unwrap()[1].generation.max_tokens, 128);
    assert_eq!(record.score.value, 1.0);
}

#[tokio::test]
async fn a_forced_reply_with_another_call_is_scored_as_text() {
    let mut world = world(&[("turn0", &call(2.0, 4.0)), ("force", &call(6.0, 8.0))]);
    world.plan.max_turns = 1;
    let record = world.run().await;
    assert_eq!(record.transcript.tool_calls.len(), 1, "the call in the forced reply is not run");
    assert_eq!(record.transcript.final_text, call(6.0, 8.0));
}

#[tokio::test]
async fn without_turns_the_first_crops_are_run_and_nothing_is_asked_again() {
    let mut world = world(&[("turn0", &format!("<answer>B</answer>{}", call(2.0, 4.0)))]);
    world.plan.max_turns = 0;
    let record = world.run().await;
    assert_eq!(world.backend.steps(), ["turn0"]);
    assert_eq!(record.transcript.tool_calls.len(), 1);
    assert_eq!((record.transcript.final_text.as_str(), record.transcript.forced), ("", false));
    assert_eq!((record.score.outcome, record.score.value, class(&record)), (Outcome::Unparsed, 0.0, None));
}

#[tokio::test]
async fn an_answer_beside_a_call_is_not_final() {
    let first = format!("<answer>A</answer>{}", call(2.0, 4.0));
    let record = world(&[("turn0", &first), ("turn1", "<answer>B</answer>")]).run().await;
    assert_eq!(record.score.prediction.as_deref(), Some("B"));
}

#[tokio::test]
async fn a_failed_crop_is_answered_and_the_conversation_goes_on() {
    let calls = [call(-1.0, 4.0), call(2.0, 4.0)].concat();
    let record = world(&[("turn0", &calls), ("turn1", "B")]).run().await;
    let outcomes: Vec<&ToolOutcome> = record.transcript.tool_calls.iter().map(|call| &call.outcome).collect();
    assert!(
        matches!(outcomes[..], [ToolOutcome::CropFailed { .. }, ToolOutcome::Frames { .. }]),
        "{outcomes:?}"
    );
    assert!(said(&record)[3].contains("No frames between -1.0 s and 4.0 s"));
    assert_eq!(record.score.value, 1.0);
}

#[tokio::test]
async fn single_turn_modes_never_call_the_tool() {
    for mode in ["direct", "reasoning"].map(PromptMode::named) {
        let mut world = world(&[("turn0", &format!("<answer>B</answer>{}", call(2.0, 4.0)))]);
        world.plan.mode = mode;
        let record = world.run().await;
        assert_eq!((world.backend.steps().len(), record.transcript.tool_calls.len()), (1, 0));
        assert_eq!(record.score.prediction.as_deref(), Some("B"));
    }
}

#[tokio::test]
async fn sub_agents_see_their_own_window_and_only_their_summaries_come_back() {
    let calls = [call(1.0, 2.0), call(2.0, 4.0)].concat();
    let script = [("turn0", &*calls), ("turn0/sub0", "a cat"), ("turn0/sub1", "a dog"), ("turn1", "B")];
    let mut world = world(&script);
    world.plan.crop = CropMode::Subagent;
    let record = world.run().await;
    let asked = world.backend.asked.lock().unwrap();
    let sub = asked.iter().find(|request| request.id.step == "turn0/sub0").unwrap();
    assert_eq!(sub.messages.len(), 1, "a fresh conversation");
    let Content::Parts(parts) = &sub.messages[0].content else { panic!() };
    let [Part::Image(first), Part::Image(_), Part::Text(prompt)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(first.origin.unwrap().time, 1.0);
    assert!(prompt.contains("What is shown?") && prompt.contains("1.0 s and 2.0 s"), "{prompt}");

    let steps: Vec<&str> = record.transcript.calls.iter().map(|call| call.step.as_str()).collect();
    assert_eq!(steps, ["turn0", "turn0/sub0", "turn0/sub1", "turn1"], "call order, whoever was first");
    let said = said(&record);
    assert_eq!(said[3], "user: <tool_response>\nSeen between 1.0 s and 2.0 s: a cat\n</tool_response>");
    assert_eq!(said[4], "user: <tool_response>\nSeen between 2.0 s and 4.0 s: a dog\n</tool_response>");
    assert!(matches!(&record.transcript.tool_calls[1].outcome,
        ToolOutcome::Summary { text, frames } if text == "a dog" && frames.len() == 2));
}

#[tokio::test]
async fn a_cut_summary_is_its_calls_and_not_its_samples() {
    let calls = call(2.0, 4.0);
    let run = async |cut: &str| {
        let finish = |step: &str| if step == cut { FinishReason::Length } else { FinishReason::Stop };
        let script = [("turn0", &*calls), ("turn0/sub0", "a cat and"), ("turn1", "B")];
        let mut world = world(&[]);
        world.plan.crop = CropMode::Subagent;
        world.backend = Arc::new(
            script.iter().fold(Scripted::default(), |all, (step, text)| all.with(step, text, finish(step))),
        );
        world.run().await.transcript
    };
    let said = run("turn0/sub0").await;
    let cut: Vec<&str> = said.calls.iter().filter(|call| call.is_cut()).map(|call| &*call.step).collect();
    assert_eq!((cut, said.truncated), (vec!["turn0/sub0"], false));
    assert!(run("turn0").await.truncated);
    assert!(run("turn1").await.truncated);
}

#[tokio::test]
async fn a_failed_sub_agent_is_an_error_of_its_sample() {
    let calls = [call(2.0, 4.0), call(4.0, 6.0)].concat();
    let mut world = world(&[("turn0", &calls), ("turn0/sub0", "a cat"), ("turn1", "B")]);
    world.plan.crop = CropMode::Subagent;
    let record = world.run().await;
    assert_no_answer(&record);
    assert_eq!(class(&record), Some(SampleErrorClass::ApiInLoop));
    assert_eq!(record.error.as_ref().unwrap().step, "turn0/sub1");
    assert_eq!(world.backend.steps().iter().filter(|step| *step == "turn1").count(), 0);
    assert_eq!(record.transcript.tool_calls.len(), 2, "what the others saw is kept");
}

#[tokio::test]
async fn a_failed_call_is_an_error_at_every_step_and_never_an_answer() {
    // The error's own text says "answer B": scored, it would be right.
    let calls = call(2.0, 4.0);
    let mut plans = Vec::new();
    for script in [vec![], vec![("turn0", &*calls)], vec![("turn0", &*calls), ("turn1", &*calls)]] {
        plans.push((script.clone(), 3, format!("turn{}", script.len())));
    }
    plans.push((vec![("turn0", &*calls)], 1, "force".to_owned()));
    for profile in Profile::ALL {
        for (script, max_turns, step) in &plans {
            let mut world = world(script);
            world.plan = RunPlan { max_turns: *max_turns, ..plan(profile) };
            let record = world.run().await;
            assert_no_answer(&record);
            assert_eq!(class(&record), Some(SampleErrorClass::ApiInLoop), "{step}");
            assert_eq!(record.error.as_ref().unwrap().step, *step);
            let failed = record.transcript.calls.last().unwrap();
            assert_eq!(failed.text, "");
            assert_eq!(failed.error.as_ref().map(|error| error.class), Some(ErrorClass::Server));
            assert_eq!(record.measured.call_retries.last(), Some(&2), "three tries are two retries");
            assert!(!said(&record).concat().contains("answer B"));
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_not_an_answer_keeps_its_thoughts_in_the_record() {
    let reply = Completion {
        reasoning: Some("The door".into()),
        finish_reason: Some(FinishReason::Length),
        usage: Some(Usage { prompt_tokens: 612, completion_tokens: 8, ..Usage::default() }),
        ..Completion::default()
    };
    let error = BackendError {
        reply: Some(Box::new(reply)),
        ..BackendError::new(ErrorClass::EmptyReply, "empty", 1)
    };
    let mut world = world(&[]);
    world.backend = Arc::new(Scripted::default().failing("turn0", error));
    let record = world.run().await;
    assert_no_answer(&record);
    let call = &record.transcript.calls[0];
    assert_eq!(call.error.as_ref().unwrap().class, ErrorClass::EmptyReply);
    assert_eq!((call.reasoning.as_deref(), call.text.as_str()), (Some("The door"), ""));
    assert_eq!(
        (call.usage.unwrap().completion_tokens, &call.finish_reason),
        (8, &Some(FinishReason::Length))
    );
    assert!(record.transcript.truncated);
    let stored = serde_json::to_string(&record).unwrap();
    assert_eq!(
        serde_json::from_str::<Record>(&stored).unwrap(),
        record,
        "nothing of the reply is held twice"
    );
}

#[tokio::test]
async fn a_failed_single_turn_call_has_a_class_of_its_own() {
    let mut world = world(&[]);
    world.plan.mode = PromptMode::named("direct");
    let record = world.run().await;
    assert_no_answer(&record);
    assert_eq!(class(&record), Some(SampleErrorClass::Api));
}

#[tokio::test]
async fn a_missing_video_asks_nothing() {
    let world = world(&[("turn0", "B")]);
    let record = world.run_in(Path::new("/nowhere")).await;
    assert_no_answer(&record);
    assert_eq!(class(&record), Some(SampleErrorClass::VideoMissing));
    assert!(world.backend.steps().is_empty());
}

#[tokio::test]
async fn switch_frame_loss_is_error_decides_between_text_only_and_an_error() {
    let lost = |strict: bool| {
        let mut world = world(&[("turn0", "B")]).switched(|switches| switches.frame_loss_is_error = strict);
        world.frames = Arc::new(Squares { lost: true, ..Squares::default() });
        world
    };
    let world = lost(false);
    let record = world.run().await;
    assert_eq!(
        record.transcript.frame_loss.as_deref(),
        Some("made_up/clip.mp4: video has 3 frames, 4 asked")
    );
    assert!(said(&record)[1].starts_with("user: These frames"), "text alone: {}", said(&record)[1]);
    assert_eq!(record.score.value, 1.0);

    let world = lost(true);
    let record = world.run().await;
    assert_no_answer(&record);
    assert_eq!(class(&record), Some(SampleErrorClass::FrameLoss));
    assert!(world.backend.steps().is_empty());
}

#[tokio::test]
async fn switch_malformed_call_decides_between_an_error_and_a_response() {
    for bad in ["[1, 2]", r#"{"name": "crop_video", "arguments": null}"#, r#"{"arguments": "1 - 2"}"#] {
        let calls = format!("{}<tool_call>{bad}</tool_call>", call(2.0, 4.0));
        let world_with = |malformed: MalformedCall| {
            world(&[("turn0", &calls), ("turn1", "B")])
                .switched(|switches| switches.malformed_call = malformed)
        };
        let record = world_with(MalformedCall::SampleError).run().await;
        assert_no_answer(&record);
        assert_eq!(class(&record), Some(SampleErrorClass::MalformedCall), "{bad}");

        let record = world_with(MalformedCall::ErrorResponse).run().await;
        assert_eq!(class(&record), None, "{bad}");
        let [good, malformed] = &record.transcript.tool_calls[..] else { panic!("{bad}") };
        assert!(matches!(good.outcome, ToolOutcome::Frames { .. }));
        assert!(matches!(malformed.outcome, ToolOutcome::Malformed { .. }), "{bad}");
        assert_eq!((malformed.start, malformed.end), (None, None));
        assert!(said(&record)[4].contains("This call was not understood"), "{bad}");
        assert_eq!(record.score.value, 1.0);
    }
}

#[tokio::test]
async fn switch_flag_truncated_calls_keeps_letters_in_cut_calls_from_being_answers() {
    let cut = r#"<tool_call>{"name": "crop_video", "arguments": {"video_path": "B.mp4"#;
    let world_with = |text: &str, finish: FinishReason, flag: bool| {
        let mut world = world(&[]).switched(|switches| switches.flag_truncated_calls = flag);
        world.backend = Arc::new(Scripted::default().with("turn0", text, finish));
        world
    };
    let record = world_with(cut, FinishReason::Length, false).run().await;
    assert_eq!(record.score.prediction.as_deref(), Some("B"), "the letter of a file name, as upstream");
    assert!(record.transcript.truncated, "counted under every profile");

    let record = world_with(cut, FinishReason::Length, true).run().await;
    assert_eq!(
        (record.score.outcome, record.score.rule.as_deref()),
        (Outcome::Unparsed, Some("truncated_call"))
    );
    // Neither a cut text without a call nor a call that the model itself left open is concerned.
    let record = world_with("the answer is B", FinishReason::Length, true).run().await;
    assert_eq!(record.score.value, 1.0);
    let record = world_with(cut, FinishReason::Stop, true).run().await;
    assert_ne!(record.score.rule.as_deref(), Some("truncated_call"));
    assert!(!record.transcript.truncated);
}

#[tokio::test]
async fn switch_empty_answer_decides_between_an_answer_and_a_failed_call() {
    let nothing = || Completion { finish_reason: Some(FinishReason::Stop), ..Completion::default() };
    let asked = |steps: &[(&str, &str)], mode: &'static str, step: &str, reply: Completion, kept: bool| {
        let mut world = world(&[]).switched(|switches| switches.empty_answer = kept);
        world.plan.mode = PromptMode::named(mode);
        world.plan.max_turns = 1;
        let error = BackendError::new(ErrorClass::EmptyReply, "empty", 2);
        let error = BackendError { reply: Some(Box::new(reply)), ..error };
        world.backend = Arc::new(Scripted::new(steps).failing(step, error));
        world
    };
    let look = call(1.0, 2.0);
    let looked = [("turn0", look.as_str())];
    let cases = [(&looked[..0], "direct", "turn0"), (&[], "native", "turn0"), (&looked, "native", "force")];
    for (steps, mode, step) in cases {
        let record = asked(steps, mode, step, nothing(), true).run().await;
        assert_eq!((class(&record), record.score.value), (None, 0.0), "{mode} {step}");
        assert_ne!(record.score.outcome, Outcome::Error);
        assert_eq!(said(&record).last().unwrap(), "assistant: ", "it stands in the conversation");
        let record = asked(steps, mode, step, nothing(), false).run().await;
        assert_no_answer(&record);
        assert_eq!(
            record.transcript.calls.last().unwrap().error.as_ref().unwrap().class,
            ErrorClass::EmptyReply
        );
    }
    for more in [
        Completion { reasoning: Some("hm".into()), ..nothing() },
        Completion { refusal: Some("I cannot".into()), ..nothing() },
        Completion { finish_reason: Some(FinishReason::Other("tool_calls".into())), ..nothing() },
        Completion { finish_reason: Some(FinishReason::Other("function_call".into())), ..nothing() },
    ] {
        let record = asked(&[], "direct", "turn0", more.clone(), true).run().await;
        assert_no_answer(&record);
        assert_eq!(record.transcript.calls[0].refusal, more.refusal);
    }
}

#[tokio::test]
async fn switch_video_channel_frames_travels_with_the_video() {
    for frames in [32, 64] {
        let mut world = world(&[("turn0", "B")]).switched(|switches| switches.video_channel_frames = frames);
        world.plan.channel = Channel::Video;
        let record = world.run().await;
        let asked = world.backend.asked.lock().unwrap();
        let Content::Parts(parts) = &asked[0].messages[1].content else { panic!() };
        let [Part::Video(video), Part::Text(_)] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!(video.nframes, Some(frames));
        assert!(video.path.is_absolute());
        let said = said(&record);
        assert!(said[1].contains(&format!(".mp4 Some({frames})]")), "{}", said[1]);
    }
}
