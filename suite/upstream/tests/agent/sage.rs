//! SAGE's conversations, with texts of a stand-in of the same structure as the authors' files.

use paravt_suite::fixtures::Scripted;
use paravt_suite::message::{Content, Message, Part};
use paravt_suite::protocol::{Fidelity, Protocol};
use paravt_suite::record::{Outcome, ToolOutcome};
use paravt_upstream::agents::sage::RELEASE;

use crate::own::{run, standin};

fn sage() -> Protocol {
    RELEASE.import(&standin(&RELEASE), true).unwrap()
}

fn context(call: &str) -> String {
    format!(
        r#"<json>{{"video_context": "a cat", "final_answer": null, "recommended_tools": {{"needed": true, "tool_calls": [{call}]}}}}</json>"#
    )
}

fn next(call: &str) -> String {
    format!(
        r#"<json>{{"answerable": {{"verdict": false}}, "recommended_tools": {{"needed": true, "tool_calls": [{call}]}}}}</json>"#
    )
}

fn call(name: &str, arguments: &str) -> String {
    format!(r#"{{"name": "{name}", "arguments": {{{arguments}}}}}"#)
}

const ANSWER: &str = r#"<json>{"answerable": {"verdict": true}, "final_answer": "(B) a dog"}</json>"#;
const FRAMES: &str =
    r#""video_path": "elsewhere/clip.mp4", "timestamp_start": "00:00:10", "timestamp_end": "00:00:19""#;

/// The user's text and the kinds of what stands before it.
fn asked(messages: &[Message]) -> (String, String) {
    let Content::Parts(parts) = &messages[1].content else { panic!("no parts") };
    let kind = |part: &Part| match part {
        Part::Image(image) => format!("{}:{} ", image.mime, image.origin.unwrap().index),
        Part::Frames(frames) => format!("video of {} at {}", frames.images.len(), frames.rate()),
        _ => String::new(),
    };
    let Part::Text(text) = parts.last().unwrap() else { panic!("no text") };
    (text.clone(), parts.iter().map(kind).collect())
}

#[tokio::test]
async fn frames_are_cut_and_the_model_is_asked_about_them() {
    let frame = "data/videos/clip_frames_00:10_00:19/clip_frame_100_00:10.jpg";
    let elsewhere = frame.replace("data/videos", "frames");
    let reason =
        call("perform_reasoning", &format!(r#""query": "What?", "media_paths": ["{elsewhere}", "{frame}"]"#));
    let script = Scripted::new(&[
        ("try0/context", &context(&call("extract_parts_from_timestamp", FRAMES))),
        ("try0/reasoner1", &next(&reason)),
        ("try0/tool1", "A dog."),
        ("try0/reasoner2", &next(&reason)),
        ("try0/reasoner3", ANSWER),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    assert_eq!(
        backend.steps(),
        ["try0/context", "try0/reasoner1", "try0/tool1", "try0/reasoner2", "try0/reasoner3"]
    );
    let requests = backend.asked.lock().unwrap();
    let sent: Vec<_> = requests.iter().map(|request| asked(&request.messages)).collect();
    let video = "Video data/videos/clip.mp4, 00:01:40.";
    let question = "What is shown?\nOptions:\n(A) a cat\n(B) a dog";
    assert_eq!(sent[0], (format!("{question}\n{video}"), "video of 100 at 2".to_owned()));
    let (text, _) = &sent[1];
    assert!(
        text.starts_with(
            "extract_parts_from_timestamp_#1 of {'video_path': 'data/videos/clip.mp4', 'timestamp_start':"
        ),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "|a cat|{question}|{video}|extract_parts_from_timestamp_#1 gave {{'media_paths': ['{frame}'"
        )),
        "{text}"
    );
    assert_eq!(sent[2], ("What?".to_owned(), "image/jpeg:100 ".to_owned()));
    let Content::Text(system) = &requests[2].messages[0].content else { panic!() };
    assert_eq!(system, "Be brief.");
    assert!(
        sent[3].0.starts_with(&format!(
            "perform_reasoning_#1 of {{'query': 'What?', 'media_paths': ['{frame}']}}|"
        )),
        "a known path is dropped"
    );
    // The same question is answered from before.
    assert!(sent[4].0.ends_with(
        "perform_reasoning_#1 gave {'answer': 'A dog.'};perform_reasoning_#2 gave {'answer': 'A dog.'};"
    ));
    assert_eq!(record.transcript.final_text, "(B) a dog");
    let own = record.own.unwrap();
    assert_eq!((own.fidelity, own.score.outcome, own.score.value), (Fidelity::Variant, Outcome::Scored, 1.0));
    let [cut, seen, again] = &record.transcript.tool_calls[..] else { panic!() };
    assert!(
        matches!(&cut.outcome, ToolOutcome::Frames { frames } if frames.len() == 10 && frames[9].index == 190)
    );
    assert_eq!((cut.start, cut.end, cut.turn, seen.turn, again.turn), (Some(10.0), Some(19.0), 0, 1, 2));
    assert_eq!(record.transcript.messages.len(), 5 * 3 + 1, "every conversation, and the answer");
}

#[tokio::test]
async fn a_moment_is_asked_for_in_its_clip() {
    let arguments = format!(r#""event": "it's", {FRAMES}"#);
    let script = Scripted::new(&[
        ("try0/context", &context(&call("identify_timestamps_visually", &arguments))),
        ("try0/tool0", r#"<json>{"timestamps": {"start": "00:00:02", "end": "4.5"}}</json>"#),
        ("try0/reasoner1", ANSWER),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    let requests = backend.asked.lock().unwrap();
    let (text, shown) = asked(&requests[1].messages);
    assert_eq!((&*text, &*shown), ("When is it's in 00:00:10 to 00:00:19?", "video of 9 at 2"));
    let (text, _) = asked(&requests[2].messages);
    assert!(text.ends_with("gave {'timestamps': {'start': '12', 'end': '14'}};"), "{text}");
    assert!(
        text.contains("{'video_path': 'data/videos/clip.mp4', 'event': \"it's\"")
            || text.contains("{'event': \"it's\", 'video_path'")
    );
    assert_eq!(record.transcript.tool_calls.len(), 1);
}

#[tokio::test]
async fn what_is_refused_is_said_and_ten_rounds_are_the_end() {
    let wrong = call(
        "extract_parts_from_timestamp",
        r#""video_path": "no.mp4", "timestamp_start": "00:20", "timestamp_end": "00:10", "extract_type": 3"#,
    );
    let mut script = Scripted::new(&[
        ("try0/context", &context(&wrong)),
        ("try0/reasoner1", &next(r#"{"name": "search"}"#)),
    ]);
    for round in 2..=10 {
        let waits = r#"<json>{"answerable": {"verdict": true}, "final_answer": null}</json>"#;
        script =
            script.with(&format!("try0/reasoner{round}"), waits, paravt_suite::backend::FinishReason::Stop);
    }
    let (record, backend) = run(sage(), "videomme", script).await;
    let requests = backend.asked.lock().unwrap();
    assert_eq!(requests.len(), 11);
    let refused = "extract_parts_from_timestamp_#1 gave extract_parts_from_timestamp_#1 failed: Not for \
                   extract_parts_from_timestamp_#1: {'video_path': 'video_path: no no.mp4', 'extract_type': \"extract_type: 3 not of \
                   ['frames', 'subclips']\", 'timestamp_range': '00:20 after 00:10'} with {'video_path': 'no.mp4',";
    let (text, _) = asked(&requests[10].messages);
    assert!(text.contains(refused), "{text}");
    assert!(text.contains("None_#1 gave Nobody called;None gave Neither called nor answered;"), "{text}");
    assert_eq!(record.transcript.final_text, "None after 10");
    assert!(
        record.transcript.tool_calls.iter().all(|call| matches!(call.outcome, ToolOutcome::Malformed { .. }))
    );
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_begins_the_sample_again() {
    let script = Scripted::new(&[
        ("try0/context", "no object"),
        ("try1/context", &context(&call("perform_reasoning", r#""query": "What?", "media_paths": []"#))),
        ("try1/tool0", "Nothing."),
        ("try1/reasoner1", "<json>[1]</json>"),
        (
            "try2/context",
            "```json\n{\"final_answer\": \"B\", \"recommended_tools\": {\"needed\": false}}\n```",
        ),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    let drawn: Vec<_> = backend
        .asked
        .lock()
        .unwrap()
        .iter()
        .map(|request| (request.generation.temperature, request.generation.seed.unwrap()))
        .collect();
    assert_eq!(drawn, [(0.0, 7), (0.7, 8), (0.0, 8), (0.7, 8), (0.7, 9)], "a try draws other tokens");
    assert_eq!(record.transcript.final_text, "B");
    let unread: Vec<(String, &str)> = (0..5).map(|attempt| (format!("try{attempt}/context"), "no")).collect();
    let unread: Vec<(&str, &str)> = unread.iter().map(|(step, text)| (step.as_str(), *text)).collect();
    let (record, _) = run(sage(), "videomme", Scripted::new(&unread)).await;
    assert_eq!((record.transcript.calls.len(), record.transcript.final_text.as_str()), (5, ""));
    assert_eq!(record.own.unwrap().score.outcome, Outcome::Unparsed);
}
