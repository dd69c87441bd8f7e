//! The ways that calls travel: the same conversation with calls in the text, taken out of it, and as the chat
//! API has them.

use std::sync::Arc;

use paravt_suite::backend::{Completion, ErrorClass, FinishReason, Usage};
use paravt_suite::fixtures::{Scripted, plan, said};
use paravt_suite::message::{Content, Part, Role, StructuredCall};
use paravt_suite::plan::{CropMode, RunPlan};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::PromptMode;
use paravt_suite::record::{Record, RecordedPart, SampleErrorClass, ToolOutcome};
use paravt_suite::settings::ToolDialect;

use super::{World, assert_no_answer, call, world};

fn structured(arguments: &str) -> StructuredCall {
    // Servers draw such identifiers at random.
    StructuredCall { id: "chatcmpl-tool-7f3a".into(), name: "crop_video".into(), arguments: arguments.into() }
}

fn window(start: f64, end: f64) -> StructuredCall {
    structured(&format!(r#"{{"start_time": {start:?}, "end_time": {end:?}}}"#))
}

/// A reply that a server took apart.
fn parsed(text: &str, reasoning: Option<&str>, calls: &[StructuredCall]) -> Completion {
    Completion {
        text: text.to_owned(),
        tool_calls: calls.to_vec(),
        reasoning: reasoning.map(str::to_owned),
        finish_reason: Some(FinishReason::Other("tool_calls".into())),
        usage: Some(Usage { prompt_tokens: 100, completion_tokens: 40, ..Usage::default() }),
        ..Completion::default()
    }
}

fn with(dialect: ToolDialect, profile: Profile, answers: &[(&str, Completion)]) -> World {
    let mut world = world(&[]);
    world.plan = RunPlan { dialect, mode: PromptMode::named("native"), ..plan(profile) };
    let script = answers.iter().cloned();
    world.backend =
        Arc::new(script.fold(Scripted::default(), |script, (step, answer)| script.completing(step, answer)));
    world
}

fn answer() -> Completion {
    Completion {
        text: "<answer>B</answer>".into(),
        finish_reason: Some(FinishReason::Stop),
        ..Completion::default()
    }
}

fn class(record: &Record) -> ErrorClass {
    record.transcript.calls.last().and_then(|call| call.error.as_ref()).unwrap().class
}

#[tokio::test]
async fn calls_that_a_server_took_out_give_the_same_conversation_as_written_ones() {
    let calls = [window(1.0, 2.0), window(2.0, 4.0)];
    let written = "<tool_call>\n{\"name\": \"crop_video\", \"arguments\": {\"start_time\": 1.0, \"end_time\": 2.0}}\n</tool_call>\n\
                   <tool_call>\n{\"name\": \"crop_video\", \"arguments\": {\"start_time\": 2.0, \"end_time\": 4.0}}\n</tool_call>";
    for profile in Profile::ALL {
        let text = Completion { text: written.into(), ..parsed("", None, &[]) };
        let whole = with(ToolDialect::Auto, profile, &[("turn0", text), ("turn1", answer())]).run().await;
        let taken = [("turn0", parsed("", None, &calls)), ("turn1", answer())];
        let taken = with(ToolDialect::Auto, profile, &taken).run().await;
        assert_eq!(said(&taken), said(&whole), "{profile}");
        assert_eq!(taken.score, whole.score);
        assert_eq!(taken.transcript.tool_calls, whole.transcript.tool_calls);
        let [first, second] = &taken.transcript.calls[..] else { panic!() };
        assert!(first.reassembled && !second.reassembled && !whole.transcript.calls[0].reassembled);
        assert_eq!((first.text.as_str(), first.tool_calls.len()), (written, 2));
        assert_eq!(first.tool_calls[1].id, "turn0c001", "by place, so that two runs have equal records");
    }
}

#[tokio::test]
async fn thoughts_are_kept_and_put_back_where_the_profile_allows() {
    let replies = [("turn0", parsed("", Some("look closer"), &[window(2.0, 4.0)])), ("turn1", answer())];
    let record = with(ToolDialect::Auto, Profile::Strict, &replies).run().await;
    assert_eq!(record.score.value, 1.0);
    let call = &record.transcript.calls[0];
    assert_eq!(call.reasoning.as_deref(), Some("look closer"));
    assert!(call.text.starts_with("<think>\nlook closer\n</think>\n<tool_call>\n"), "{}", call.text);
    for profile in [Profile::Release, Profile::Paper] {
        let record = with(ToolDialect::Auto, profile, &replies).run().await;
        assert_no_answer(&record);
        assert_eq!(class(&record), ErrorClass::ServerParsed);
        let message = &record.error.as_ref().unwrap().message;
        assert!(message.contains("--reasoning-parser") && message.contains("strict"), "{message}");
        let call = &record.transcript.calls[0];
        assert_eq!(call.reasoning.as_deref(), Some("look closer"), "kept though refused");
        assert_eq!((call.text.as_str(), call.tool_calls.len()), ("", 1));
    }
}

#[tokio::test]
async fn a_reply_without_a_closed_thought_is_text_where_the_profile_allows() {
    let thoughts = || Completion {
        finish_reason: Some(FinishReason::Stop),
        ..parsed("", Some("<answer>B</answer>"), &[])
    };
    let record = with(ToolDialect::Auto, Profile::Strict, &[("turn0", thoughts())]).run().await;
    assert_eq!((record.score.value, record.transcript.final_text.as_str()), (1.0, "<answer>B</answer>"));
    assert!(record.transcript.calls[0].reassembled);
    let record = with(ToolDialect::Auto, Profile::Paper, &[("turn0", thoughts())]).run().await;
    assert_no_answer(&record);
    assert_eq!(class(&record), ErrorClass::ServerParsed);
}

#[tokio::test]
async fn profiles_that_need_the_raw_text_refuse_what_cannot_be_rebuilt() {
    let calls = [window(2.0, 4.0)];
    let mut cut = parsed("", None, &calls);
    cut.usage = Some(Usage { prompt_tokens: 100, completion_tokens: 2048, ..Usage::default() });
    for reply in [
        parsed("Let me see", None, &calls),
        parsed("<answer>B</answer>", Some("thought"), &[]),
        parsed("", None, &[structured(r#"{"start_time":2}"#)]),
        parsed("", None, &[structured("{broken")]),
        cut,
    ] {
        let record =
            with(ToolDialect::Auto, Profile::Paper, &[("turn0", reply.clone()), ("turn1", answer())]);
        let record = record.run().await;
        assert_no_answer(&record);
        assert_eq!(class(&record), ErrorClass::ServerParsed, "{reply:?}");
    }
}

#[tokio::test]
async fn dialect_text_refuses_calls_that_left_the_text_and_keeps_thoughts_apart() {
    for text in ["", "Let me see"] {
        let replies = [("turn0", parsed(text, None, &[window(2.0, 4.0)]))];
        let record = with(ToolDialect::Text, Profile::Strict, &replies).run().await;
        assert_no_answer(&record);
        assert_eq!(class(&record), ErrorClass::ServerParsed);
        assert!(record.error.unwrap().message.contains("--tool-dialect auto"));
    }
    let replies = [("turn0", parsed("<answer>B</answer>", Some("hm"), &[]))];
    let record = with(ToolDialect::Text, Profile::Strict, &replies).run().await;
    assert_eq!((record.score.value, record.transcript.final_text.as_str()), (1.0, "<answer>B</answer>"));
    assert_eq!(record.transcript.calls[0].reasoning.as_deref(), Some("hm"));
}

#[tokio::test]
async fn native_calls_go_through_the_same_loop_cap_and_count() {
    let calls: Vec<_> = (0..8).map(|at| window(f64::from(2 * at), 20.0)).collect();
    let replies = [("turn0", parsed("", None, &calls)), ("turn1", answer())];
    let world = with(ToolDialect::Native, Profile::Strict, &replies);
    let record = world.run().await;
    assert_eq!((record.score.value, record.transcript.tool_calls.len()), (1.0, 5));
    assert_eq!(record.transcript.dropped_calls, 3);
    assert_eq!(record.transcript.calls[0].tool_calls.len(), 8, "all of them are recorded");

    let asked = world.backend.asked.lock().unwrap();
    let tools = asked[0].tools.as_ref().unwrap();
    assert_eq!(tools[0]["function"]["name"], "crop_video");
    let Content::Text(system) = &asked[0].messages[0].content else { panic!() };
    assert!(!system.contains("<tool_call>"), "the chat API says how a call is written: {system}");
    // One assistant message with the calls that were run, a result for each, the frames of all.
    let messages = &asked[1].messages[2..];
    assert_eq!(messages[0].tool_calls.len(), 5);
    for (call, result) in messages[0].tool_calls.iter().zip(&messages[1..6]) {
        assert_eq!((result.role, result.tool_call_id.as_ref()), (Role::Tool, Some(&call.id)));
        let Content::Text(text) = &result.content else { panic!("images in a tool message") };
        assert!(text.starts_with("2 frames between"), "{text}");
    }
    let Content::Parts(parts) = &messages[6].content else { panic!() };
    assert_eq!((messages.len(), messages[6].role, parts.len()), (7, Role::User, 5 * 3));
    assert!(matches!(&parts[2], Part::Text(text) if text == "2 frames between 0.0 s and 20.0 s."));
}

#[tokio::test]
async fn native_answers_malformed_calls_summaries_and_forced_answers_in_their_roles() {
    let replies = [
        ("turn0", parsed("", None, &[structured("{broken"), window(2.0, 4.0)])),
        ("turn0/sub1", Completion { text: "a red door".into(), ..answer() }),
        ("force", answer()),
    ];
    let mut world = with(ToolDialect::Native, Profile::Strict, &replies);
    (world.plan.crop, world.plan.max_turns) = (CropMode::Subagent, 1);
    let record = world.run().await;
    assert_eq!((record.score.value, record.transcript.forced), (1.0, true));
    assert!(matches!(record.transcript.tool_calls[0].outcome, ToolOutcome::Malformed { .. }));
    let roles: Vec<Role> = record.transcript.messages.iter().map(|message| message.role).collect();
    let wanted =
        [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::User, Role::Assistant];
    assert_eq!(roles, wanted);
    let RecordedPart::Text { text } = &record.transcript.messages[4].parts[0] else { panic!() };
    assert!(text.contains("a red door") && !text.contains("<tool_response>"), "{text}");
    let offered: Vec<bool> =
        world.backend.asked.lock().unwrap().iter().map(|request| request.tools.is_some()).collect();
    assert_eq!(offered, [true, false, false], "neither the sub-agent nor the forced answer has tools");

    let replies = [("turn0", parsed("", None, &[structured("{broken")]))];
    let record = with(ToolDialect::Native, Profile::Release, &replies).run().await;
    assert_eq!(record.error.unwrap().class, SampleErrorClass::MalformedCall);
}

#[tokio::test]
async fn native_refuses_calls_that_are_left_in_the_text() {
    let text = Completion { text: call(2.0, 4.0), ..answer() };
    let record = with(ToolDialect::Native, Profile::Strict, &[("turn0", text)]).run().await;
    assert_no_answer(&record);
    assert_eq!(class(&record), ErrorClass::ServerParsed);
    assert!(record.error.unwrap().message.contains("--enable-auto-tool-choice"));
}

#[tokio::test]
async fn sampling_settings_of_the_plan_reach_every_request() {
    let mut world = world(&[("turn0", &call(2.0, 4.0)), ("turn1", "B")]);
    world.plan.request.sampling.top_p = Some(0.8);
    world.plan.request.sampling.top_k = Some(20);
    world.plan.request.sampling.repetition_penalty = Some(1.05);
    world.plan.request.sampling.stop = vec!["</answer>".into()];
    world.run().await;
    let asked = world.backend.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    for request in asked.iter() {
        let generation = &request.generation;
        assert_eq!(
            (generation.sampling.top_p, generation.sampling.top_k, generation.sampling.repetition_penalty),
            (Some(0.8), Some(20), Some(1.05))
        );
        assert_eq!(generation.sampling.stop, ["</answer>"]);
    }
}
