//! FrameThinker's loop of several tries, in the words of a stand-in.

use std::sync::Arc;

use paravt_agents::framethinker::RELEASE;
use paravt_suite::fixtures::Scripted;
use paravt_suite::protocol::{Fidelity, Protocol};
use paravt_suite::record::{Outcome, Record, RecordedPart, ToolOutcome, TriesRecord};

use crate::loops::{Film, run_on, shown, standin};

pub(crate) fn protocol() -> Protocol {
    standin(&RELEASE)
}

fn act(action: &str) -> String {
    format!("<think>t</think><action>{action}</action>")
}

/// A video of so many frames at 10 a second, and replies by their steps.
async fn run(frames: usize, replies: &[&str]) -> (Record, Arc<Scripted>) {
    let replies: Vec<_> =
        replies.iter().enumerate().map(|(turn, text)| (format!("turn{turn}"), *text)).collect();
    let replies: Vec<_> = replies.iter().map(|(step, text)| (step.as_str(), *text)).collect();
    run_on(Film(frames), protocol(), "videomme", Scripted::new(&replies)).await
}

fn tries(record: &Record) -> &TriesRecord {
    record.transcript.tries.as_ref().unwrap()
}

#[tokio::test]
async fn frames_are_chosen_by_numbers_and_a_time_is_answered_with_one() {
    let replies = [
        act("choose frames between 10 and 90"),
        act("get frame number at time 0:50"),
        act("choose frames between 490 and 510"),
        act("output answer: B"),
    ];
    let (record, backend) = run(1000, &replies.each_ref().map(String::as_str)).await;
    let shown = shown(&record);
    assert_eq!(shown[0], "system: Choose among 8 by crop_video. | ");
    let question = "user: What is shown?\nA. a cat\nB. a dog\nframe 0:[0]frame 142:[14.2]";
    assert!(shown[1].starts_with(question), "{}", shown[1]);
    assert!(shown[1].ends_with("frame 999:[99.9] | 0 142 285 428 570 713 856 999"), "{}", shown[1]);
    assert!(shown[3].ends_with(" | 11 22 33 44 55 66 77 89"), "{}", shown[3]);
    assert_eq!(shown[5], "user: Frame number at time 0:50 is: 500. | ");
    assert_eq!(backend.steps(), ["turn0", "turn1", "turn2", "turn3"]);
    let generation = &backend.asked.lock().unwrap()[0].generation;
    assert_eq!(
        (generation.temperature, generation.sampling.top_p, generation.sampling.top_k),
        (0.6, Some(0.9), Some(50))
    );
    assert_eq!(tries(&record), &TriesRecord { before: Vec::new(), accepted: true });
    let text = "Frame number at time 0:50 is: 500.".to_owned();
    assert_eq!(record.transcript.tool_calls[1].outcome, ToolOutcome::Text { text });
    let own = record.agent_score.unwrap();
    assert_eq!((own.score.value, own.fidelity), (1.0, Fidelity::Variant), "the file is not the pinned one");
    assert_eq!(record.score.value, 1.0, "by the suite's own extraction, too");
}

#[tokio::test]
async fn a_try_that_is_refused_or_rejected_is_followed_by_the_next() {
    let (choice, answer) = (act("choose frames between 10 and 90"), act("output answer: A"));
    // The same interval twice; too narrow a one; without tools.
    let narrow = act("choose frames between 10 and 18");
    let last = act("output answer: B");
    let (record, backend) = run(1000, &[&choice, &choice, &answer, &narrow, &last]).await;
    assert_eq!(backend.steps(), ["turn0", "turn1", "turn2", "turn3", "turn4"]);
    let seeds: Vec<_> =
        backend.asked.lock().unwrap().iter().filter_map(|request| request.generation.seed).collect();
    assert_eq!(seeds, [7, 7, 7, 8, 9], "a try draws other tokens");
    let before = &tries(&record).before;
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [7, 3]);
    let RecordedPart::Text { text } = &before[0][6].parts[0] else { panic!() };
    assert_eq!(text, &answer, "with the reply that does not count");
    assert_eq!(shown(&record)[0], "system: Answer. | ");
    assert_eq!(record.transcript.tool_calls[2].turn, 3, "turns are numbered through all tries");
    assert!(matches!(record.transcript.tool_calls[2].outcome, ToolOutcome::CropFailed { .. }));
    assert_eq!(record.agent_score.unwrap().score.value, 1.0);
    let calls = &record.transcript.calls;
    assert_eq!(calls[0].conversation, calls[3].conversation);
    assert_eq!(calls.len(), 5, "the calls of all tries are counted");
}

#[tokio::test]
async fn without_a_try_that_counts_there_is_no_answer() {
    let no_thoughts = "<action>output answer: B</action>";
    let (record, backend) = run(1000, &[no_thoughts; 3]).await;
    assert_eq!((backend.steps().len(), tries(&record).accepted), (3, false));
    assert_eq!((tries(&record).before.len(), record.transcript.messages.len()), (2, 3));
    let own = record.agent_score.unwrap().score;
    assert_eq!((own.outcome, own.value), (Outcome::Unparsed, 0.0));
    assert_eq!(record.transcript.final_text, no_thoughts);
}

#[tokio::test]
async fn five_turns_without_an_answer_are_a_try() {
    let choices: Vec<String> =
        (0..10).map(|start| act(&format!("choose frames between {start} and {}", start + 50))).collect();
    let answer = act("output answer: C");
    let replies: Vec<&str> = choices.iter().chain([&answer]).map(String::as_str).collect();
    let (record, backend) = run(1000, &replies).await;
    assert_eq!((backend.steps().len(), tries(&record).before.len()), (11, 2));
    assert_eq!(record.agent_score.unwrap().score.prediction.as_deref(), Some("C"));
}

#[tokio::test]
async fn a_video_of_more_than_five_minutes_is_shown_in_more_and_smaller_frames() {
    let (narrow, wide) = (act("choose frames between 10 and 22"), act("choose frames between 2000 and 2013"));
    let (record, _) = run(3001, &[&narrow, &wide, &act("output answer: B")]).await;
    assert_eq!(shown(&record)[0], "system: Choose among 12 by crop_video. | ");
    let RecordedPart::Image { width, height, .. } = &record.transcript.messages[1].parts[2] else { panic!() };
    assert_eq!((*width, *height), (448, 251), "0.35 times 720 is below 252 in floats");
    let ToolOutcome::Frames { frames } = &record.transcript.tool_calls[1].outcome else { panic!() };
    assert_eq!((frames.len(), tries(&record).before.len()), (12, 1));
    let (record, _) = run(3000, &[&act("output answer: B")]).await;
    assert_eq!(shown(&record)[0], "system: Choose among 8 by crop_video. | ", "300 seconds are not more");
}
