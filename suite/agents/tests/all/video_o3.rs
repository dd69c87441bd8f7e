//! Video-o3: a video for each call, and an answer that is asked for in the last turn.

use paravt_suite::backend::{Completion, FinishReason, Request, StoppedBy};
use paravt_suite::evaluate::RunConfig;
use paravt_suite::fixtures::{Scripted, said};
use paravt_suite::message::{Content, Frames, Part};
use paravt_suite::protocol::{Fidelity, FrameLoop, Protocol, Shape};
use paravt_suite::record::{RecordedPart, ToolOutcome};

use crate::loops::{run, standin, standin_of};

fn video_o3() -> Protocol {
    standin(&paravt_agents::video_o3::RELEASE)
}

/// The model on Qwen3-VL, whose texts are the same.
fn qwen3vl() -> Protocol {
    standin_of("video-o3", &paravt_agents::video_o3::qwen3vl::RELEASE)
}

fn grounding(segment: &str, sampling: &str) -> String {
    format!("<grounding>{{\"temporal_segment\": {segment}, \"sampling_strategy\": \"{sampling}\"}}")
}

fn frames(request: &Request, message: usize) -> &Frames {
    let Content::Parts(parts) = &request.messages[message].content else { panic!("a text") };
    let frames = parts.iter().find_map(|part| match part {
        Part::Frames(frames) => Some(frames),
        _ => None,
    });
    frames.unwrap()
}

/// Number, width and height of the frames of a message, and their rate where they have no positions of their own.
fn video(request: &Request, message: usize) -> (usize, u32, u32, Option<f64>) {
    let frames = frames(request, message);
    (frames.images.len(), frames.images[0].width, frames.images[0].height, frames.even)
}

#[tokio::test]
async fn each_call_shows_a_video_in_the_budget_that_it_names() {
    let script = Scripted::new(&[
        ("turn0", &grounding("[10, 12]", "fine")),
        ("turn1", &grounding("['0', 500.5]", "coarse").replace('\'', "\"")),
        ("turn2", "<think>seen</think>\n<answer> B "),
    ]);
    let (record, backend) = run(video_o3(), "videomme", script).await;
    let seen = said(&record);
    let question = "Whole:\n<video>2.00 fps, 200.0 frames, 0 to 100.0.\nQ: What is shown?\nOptions:\nA. a cat\nB. a dog\n";
    assert_eq!(seen[..2], ["system: Look {closely}.".to_owned(), format!("user: [200 frames]{question}")]);
    assert_eq!(seen[2], format!("assistant: {}</grounding>", grounding("[10, 12]", "fine")));
    assert_eq!(
        seen[3],
        "user: Action 1, clip 1:\n<video>1.90 fps, 4.0 frames, 10.0 to 12.0. Go on.\n[4 frames]"
    );
    let long = "user: Action 2, clip 2:\n<video>2.00 fps, 200.0 frames, 0.0 to 500.5. Go on.\n[200 frames]";
    assert_eq!(seen[5], long);
    let asked = backend.asked.lock().unwrap();
    assert_eq!(video(&asked[2], 1), (200, 476, 252, Some(2.0)), "of 1008 by 560, not of 1280 by 720");
    assert_eq!(video(&asked[2], 3), (4, 1008, 560, Some(2.0)));
    assert_eq!(video(&asked[2], 5), (200, 168, 84, Some(2.0)));
    let generation = &asked[0].generation;
    assert_eq!(generation.sampling.stop, ["</grounding>", "</answer>"]);
    assert_eq!(
        (generation.temperature, generation.max_tokens, generation.sampling.repetition_penalty),
        (0.0, 4096, Some(1.0))
    );
    let template = asked[0].chat_template.as_deref().unwrap();
    assert!(template.contains("{% for message in messages %}\n    {% set message = {"), "{template}");
    let own = record.agent_score.unwrap();
    assert_eq!((own.fidelity, own.score.value), (Fidelity::Variant, 1.0), "texts of a stand-in");
    let ToolOutcome::Frames { frames } = &record.transcript.tool_calls[0].outcome else { panic!() };
    assert_eq!(frames.iter().map(|frame| frame.index).collect::<Vec<_>>(), [100, 107, 113, 120]);
}

#[tokio::test]
async fn a_call_that_shows_nothing_has_its_reply_twice_and_one_that_cannot_be_read_once() {
    let script = Scripted::new(&[
        ("turn0", "<grounding>none"),
        ("turn1", &grounding("[5, 5]", "fine")),
        ("turn2", &grounding("[5, 6]", "dense")),
        ("turn3", "neither"),
    ]);
    let (record, backend) = run(video_o3(), "lvbench", script).await;
    assert_eq!(backend.steps().len(), 4, "a reply with neither call nor answer ends it");
    let seen = said(&record);
    assert!(seen[1].ends_with("\nQ: What is shown?\n"), "{}", seen[1]);
    let (read, dense) = (grounding("[5, 5]", "fine"), grounding("[5, 6]", "dense"));
    let said = |text: &str| format!("assistant: {text}</grounding>");
    let error = "Invalid time range: video_end (5.0s) <= video_start (5.0s).";
    assert_eq!(
        seen[2..],
        [
            said("<grounding>none"),
            "user: Wrong: Invalid grounding content: none. Mend it.".to_owned(),
            said(&read),
            said(&read),
            format!("user: Wrong: {error}. Mend it."),
            said(&dense),
            said(&dense),
            "user: Wrong: 'total_pixels'. Mend it.".to_owned(),
            "assistant: neither".to_owned(),
        ]
    );
    let asked = backend.asked.lock().unwrap();
    assert_eq!(
        video(&asked[0], 1).1 * video(&asked[0], 1).2,
        476 * 252,
        "above the fewest pixels of the split"
    );
}

#[tokio::test]
async fn the_ninth_turn_is_asked_for_an_answer_and_counts_by_its_marks_alone() {
    for (last, forced) in [
        (grounding("[1, 3]", "medium"), "user: Action 8, last clip 8: <video>1.90, 4.0, 1.0-3.0[4 frames]"),
        ("<grounding>".to_owned(), "user: Wrong: Invalid grounding content: . Answer now."),
    ] {
        let call = grounding("[1, 3]", "medium");
        let steps: Vec<String> = (0..9).map(|turn| format!("turn{turn}")).collect();
        let said_by = |reply: &str| {
            let replies = steps.iter().enumerate().map(|(turn, step)| {
                let text = match turn {
                    7 => last.as_str(),
                    8 => reply,
                    _ => &call,
                };
                (step.as_str(), text.to_owned())
            });
            replies.collect::<Vec<_>>()
        };
        for (reply, value) in [("<answer>B", 1.0), ("it is B", 0.0)] {
            let replies = said_by(reply);
            let script: Vec<(&str, &str)> =
                replies.iter().map(|(step, text)| (*step, text.as_str())).collect();
            let (record, backend) = run(video_o3(), "videomme", Scripted::new(&script)).await;
            assert_eq!(backend.steps().len(), 9);
            let seen = said(&record);
            assert_eq!(seen[seen.len() - 2], forced);
            assert_eq!(record.agent_score.unwrap().score.value, value, "{reply}");
        }
    }
}

#[tokio::test]
async fn what_ended_a_reply_is_put_back_where_the_server_names_it() {
    for (stopped_by, kept, value) in
        [(Some("</answer>"), "B</answer>", 0.0), (Some("elsewhere"), "B", 1.0), (None, "B", 1.0)]
    {
        let reply = Completion {
            text: "B".to_owned(),
            finish_reason: Some(FinishReason::Stop),
            stopped_by: stopped_by.map_or(StoppedBy::Model, |text| StoppedBy::Text(text.to_owned())),
            ..Completion::default()
        };
        let (record, _) = run(video_o3(), "mlvu", Scripted::default().completing("turn0", reply)).await;
        assert_eq!(said(&record).last().unwrap(), &format!("assistant: {kept}"));
        assert_eq!(record.agent_score.unwrap().score.value, value, "the release compares the whole text");
    }
}

fn frame_loop(protocol: &mut Protocol) -> &mut FrameLoop {
    match &mut protocol.agent.as_mut().unwrap().shape {
        Shape::Frames(frames) => frames,
        other => panic!("{other:?}"),
    }
}

#[test]
fn videos_with_positions_and_calls_do_not_go_together() {
    let mut protocol = video_o3();
    assert_eq!(protocol.check(), Ok(()));
    frame_loop(&mut protocol).clips = None;
    let error = protocol.check().unwrap_err();
    assert_eq!(error.field, "agent.frames.sent_as", "{error}");
    let plan = RunConfig::default().plan(&video_o3()).unwrap();
    assert_eq!((plan.max_turns, plan.nframes), (8, 768));
    let blind = RunConfig::from_json(r#"{"probe": "blind"}"#).unwrap().plan(&video_o3()).unwrap_err();
    assert!(blind.to_string().contains("stand around videos"), "{blind}");
}

#[tokio::test]
async fn the_model_on_qwen3_vl_has_clips_at_their_own_times_in_tokens_of_32_pixels() {
    let script = Scripted::new(&[
        ("turn0", &grounding("[10, 12]", "fine")),
        ("turn1", &grounding("[0, 500.5]", "coarse")),
        ("turn2", "<answer>B"),
    ]);
    let (record, backend) = run(qwen3vl(), "videomme", script).await;
    assert_eq!(record.agent_score.as_ref().unwrap().score.value, 1.0);
    let asked = backend.asked.lock().unwrap();
    assert_eq!(video(&asked[2], 1), (200, 544, 288, Some(2.0)), "of 1152 by 640, not of 1280 by 720");
    assert_eq!(video(&asked[2], 3), (4, 1152, 640, None));
    assert_eq!(video(&asked[2], 5), (200, 192, 96, None));
    let (whole, clip) = (frames(&asked[2], 1), frames(&asked[2], 3));
    assert_eq!((whole.indices(), whole.rate()), ((0..200).collect(), 2.0));
    assert_eq!((clip.indices(), clip.rate()), (vec![100, 107, 113, 120], 10.0));
    assert!([1, 3, 5].iter().all(|&message| frames(&asked[2], message).keep_size));
}

#[tokio::test]
async fn lvbench_bounds_frames_in_the_tokens_of_qwen25_vl_whichever_model_is_asked() {
    for (protocol, size) in [(video_o3(), (476, 252)), (qwen3vl(), (448, 256))] {
        let script = Scripted::new(&[("turn0", "<answer>B")]);
        let (_, backend) = run(protocol, "lvbench", script).await;
        let asked = backend.asked.lock().unwrap();
        assert_eq!(video(&asked[0], 1), (200, size.0, size.1, Some(2.0)));
    }
}

#[test]
fn the_models_share_all_but_the_processing_of_videos() {
    let written = |protocol: &Protocol| serde_json::to_value(protocol).unwrap();
    let (of_25, of_3) = (written(&video_o3()), written(&qwen3vl()));
    let mut same = of_3.clone();
    assert_eq!(of_3["name"], "video-o3-qwen3vl");
    same["name"] = of_25["name"].clone();
    let agent = &mut same["agent"];
    assert_eq!(agent["clips"].as_object_mut().unwrap().remove("own_positions"), Some(true.into()));
    assert!(agent["clips"].as_object_mut().unwrap().remove("sizes").is_some());
    for field in ["least", "totals"] {
        assert_ne!(agent["clips"][field], of_25["agent"]["clips"][field]);
        agent["clips"][field] = of_25["agent"]["clips"][field].clone();
    }
    assert_eq!(agent["frames"].as_object_mut().unwrap().remove("keep_size"), Some(true.into()));
    agent["frames"]["size"] = of_25["agent"]["frames"]["size"].clone();
    assert_eq!(same, of_25);
    let plan = |protocol: &Protocol| RunConfig::default().plan(protocol).unwrap();
    assert!(plan(&qwen3vl()).own_positions && !plan(&video_o3()).own_positions, "servers refuse the first");
}

#[test]
fn frames_keep_their_size_as_a_video_alone() {
    let mut protocol = standin(&paravt_agents::conan::RELEASE);
    frame_loop(&mut protocol).policy.keep_size = true;
    assert_eq!(protocol.check().unwrap_err().field, "agent.frames.keep_size");
}

#[tokio::test]
async fn records_have_the_positions_of_the_frames() {
    let script = Scripted::new(&[("turn0", "<answer>A")]);
    let (record, _) = run(video_o3(), "mlvu", script).await;
    let RecordedPart::Frames { frames, .. } = &record.transcript.messages[1].parts[0] else { panic!() };
    assert_eq!((frames[1].index, frames[199].index), (5, 995));
    assert!(said(&record)[1].ends_with("\nQ: Question: What is shown?\nOptions:\n(A) a cat\n(B) a dog\n"));
    assert_eq!(record.agent_score.unwrap().score.value, 0.0);
}
