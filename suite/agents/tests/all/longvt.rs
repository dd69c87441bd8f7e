//! LongVT's loop, in the words of a stand-in.

use paravt_agents::longvt::RELEASE;
use paravt_suite::backend::{Completion, FinishReason};
use paravt_suite::evaluate::RunConfig;
use paravt_suite::fixtures::Scripted;
use paravt_suite::message::{Content, Message, Part, Role, StructuredCall};
use paravt_suite::protocol::{Fidelity, History, Protocol};
use paravt_suite::record::{Outcome, ToolOutcome};
use paravt_suite::settings::ToolDialect;

use crate::loops::{run, shown, standin};

fn longvt() -> Protocol {
    standin(&RELEASE)
}

fn calling(text: &str, calls: &[&str]) -> Completion {
    let call = |arguments: &&str| StructuredCall {
        id: "random".into(),
        name: "crop_video".into(),
        arguments: (*arguments).to_owned(),
    };
    Completion {
        text: text.to_owned(),
        tool_calls: calls.iter().map(call).collect(),
        finish_reason: Some(FinishReason::Other("tool_calls".into())),
        ..Completion::default()
    }
}

/// Roles, and parts by kind or text.
fn sent(messages: &[Message]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(image) => format!("[{}]", image.origin.unwrap().index),
        _ => "?".to_owned(),
    };
    let content = |message: &Message| match &message.content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().join("|"),
    };
    messages
        .iter()
        .map(|one| format!("{}: {}{}", one.role.as_str(), content(one), one.tool_calls.len()))
        .collect()
}

fn script() -> Scripted {
    let window = r#"{"video_path": "clip.mp4", "start_time": 10, "end_time": 13}"#;
    let refused = r#"{"video_path": "clip.mp4", "start_time": 90.5, "end_time": "200"}"#;
    let done = Completion {
        text: "<answer>B.</answer>".into(),
        finish_reason: Some(FinishReason::Stop),
        ..Completion::default()
    };
    Scripted::default()
        .completing("turn0", calling("look ", &[window, refused]))
        .completing("turn1", calling("again ", &[r#"{"start_time": 1, "end_time": 2}"#]))
        .completing("turn2", done)
}

#[tokio::test]
async fn results_are_in_the_next_request_alone() {
    let (record, backend) = run(longvt(), "videomme", script()).await;
    let asked = backend.asked.lock().unwrap();
    let first = sent(&asked[0].messages);
    assert_eq!(first.len(), 1, "no system message");
    let question =
        "Choose.\nWhat is shown?\nA. a cat\nB. a dog Crop first.|\nVideo 0 has video path: clip.mp40";
    assert!(first[0].starts_with("user: [0]|[10]|[20]|") && first[0].ends_with(question), "{}", first[0]);
    let second = sent(&asked[1].messages);
    assert_eq!(
        second[1..],
        [
            "assistant: look 0",
            "assistant: 2",
            "tool: [100]|[130]0",
            "tool: Error executing tool crop_video: 200.0s too long for 100.00s0"
        ]
    );
    let third = sent(&asked[2].messages);
    let results: Vec<&String> = third.iter().filter(|message| message.starts_with("tool")).collect();
    assert_eq!(
        results,
        ["tool: Error executing tool crop_video: no path0"],
        "those of the first turn are gone"
    );
    assert_eq!(asked[1].messages[3].tool_call_id, Some(asked[1].messages[2].tool_calls[0].id.clone()));
    assert_eq!(asked[0].generation.max_tokens, 4096);
    assert!(
        asked.iter().all(|request| request.tools.as_ref().unwrap()[0]["function"]["name"] == "crop_video")
    );
    let own = record.agent_score.as_ref().unwrap();
    assert_eq!((own.score.value, own.score.prediction.as_deref()), (1.0, Some("B")));
    assert!(shown(&record).iter().all(|message| !message.starts_with("tool")), "as in the last request");
    assert!(
        matches!(&record.transcript.tool_calls[0].outcome, ToolOutcome::Frames { frames } if frames.len() == 2)
    );
}

#[tokio::test]
async fn history_can_be_kept() {
    let mut protocol = longvt();
    protocol.agent.as_mut().unwrap().harness.history = History::Kept;
    let (_, backend) = run(protocol, "lvbench", script()).await;
    let asked = backend.asked.lock().unwrap();
    let roles: Vec<Role> = asked[2].messages.iter().map(|message| message.role).collect();
    let (assistant, tool) = (Role::Assistant, Role::Tool);
    assert_eq!(roles, [Role::User, assistant, assistant, tool, tool, assistant, assistant, tool]);
}

#[tokio::test]
async fn arguments_that_python_cannot_evaluate_end_the_sample_without_an_answer() {
    let script = Scripted::default().completing(
        "turn0",
        calling("<answer>B</answer>", &[r#"{"video_path": "clip.mp4", "start_time": null}"#]),
    );
    let (record, backend) = run(longvt(), "videomme", script).await;
    assert_eq!(backend.steps(), ["turn0"]);
    assert_eq!(record.agent_score.unwrap().score.outcome, Outcome::Unparsed);
}

#[test]
fn the_tool_is_declared_as_fastmcp_declares_it() {
    let protocol = longvt();
    protocol.check().unwrap();
    let definition = protocol.chat_tools.as_ref().unwrap().definition.to_string();
    assert_eq!(
        definition,
        "{\"type\":\"function\",\"function\":{\"name\":\"crop_video\",\"description\":\"Crops.\",\"parameters\":{\
         \"properties\":{\"video_path\":{\"default\":null,\"description\":\"The file\",\"title\":\"Video Path\",\"type\":\
         \"string\"},\"start_time\":{\"default\":null,\"description\":\"From\",\"title\":\"Start Time\",\"type\":\"number\"},\
         \"end_time\":{\"default\":null,\"description\":\"To\",\"title\":\"End Time\",\"type\":\"number\"}},\"title\":\
         \"crop_videoArguments\",\"type\":\"object\"}}}"
    );
    assert_eq!((protocol.reply_tokens("videomme"), protocol.reply_tokens("lvbench")), (49_152, 4096));
    let plan = RunConfig::default().plan(&protocol).unwrap();
    assert_eq!(plan.dialect, ToolDialect::Native);
}

#[test]
fn only_the_split_with_subtitles_is_a_variant() {
    let mut protocol = longvt();
    protocol.source.pinned = true;
    let fidelity = |split: &str| {
        let config = RunConfig { max_tokens: Some(protocol.reply_tokens(split)), ..RunConfig::default() };
        config.plan(&protocol).unwrap().fidelity(&protocol, split)
    };
    assert_eq!(fidelity("charades"), Some(Fidelity::WordingOurs));
    assert_eq!(fidelity("videomme_wsub"), Some(Fidelity::Variant));
}
