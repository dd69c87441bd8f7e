//! The loop of an agent that writes code: an interpreter for each sample, a user turn for what its code printed and showed.

use std::sync::Arc;

use super::turns::message;
use super::{Conversation, Kit, Loop, protocol_error};
use crate::code::{CodeError, Episode, Reply, Step};
use crate::message::{Message, Part, Role};
use crate::protocol::{AgentLoop, CodeLoop, render};
use crate::record::{EndReason, EpisodeRecord, SampleError, SampleErrorClass, ToolCall};

/// The loop of a protocol whose turns are [`CodeLoop`].
pub(super) struct Code;

impl Loop for Code {
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(async move {
            kit.require_video()?;
            let system = kit.system_text()?;
            let missing = || protocol_error("open", &"the protocol has no `agent.code`");
            let (agent_loop, code) = kit.protocol().code().ok_or_else(missing)?;
            let (episode, first) = open(kit, agent_loop, code).await?;
            kit.begin(system, first);
            run_episode(kit, episode).await
        })
    }
}

/// Starts the sample's interpreter; the first user message, with what it says and shows of the files.
async fn open(
    kit: &Kit<'_>,
    agent_loop: &AgentLoop,
    code: &CodeLoop,
) -> Result<(Box<dyn Episode>, Message), SampleError> {
    let tool = kit.agent.code.clone().ok_or_else(|| {
        protocol_error("open", &format!("protocol {} runs code, and no tool does", kit.protocol().name))
    })?;
    let files: Vec<_> = kit.sample.media().iter().map(|file| kit.agent.videos.resolve(file)).collect();
    let own_code = code.clone();
    let start = move || {
        let mut episode = tool.begin(&own_code, &files)?;
        let opened = episode.open()?;
        Ok((episode, opened))
    };
    let (episode, opened) = working(kit, "open", start).await?;
    let parts =
        kit.question_text(None).and_then(|question| render::code_opening(agent_loop, &question, opened));
    Ok((episode, message(Role::User, parts.map_err(|error| protocol_error("open", &error))?)))
}

/// The turns up to the end of the episode; the last reply is what is scored.
async fn run_episode(kit: &mut Kit<'_>, mut episode: Box<dyn Episode>) -> Result<String, SampleError> {
    let mut so_far = EpisodeRecord {
        end: EndReason::ExceedMaxTurns,
        answer: None,
        figures: 0,
        neutralised: 0,
        limited: 0,
        restarts: 0,
    };
    let mut last = String::new();
    for turn in 0.. {
        let mut ask = kit.turn();
        // Code is written in the text.
        (ask.tools, ask.class) = (None, SampleErrorClass::ApiInLoop);
        let completion = kit.ask(ask).await?;
        let text: Arc<str> = completion.text.as_str().into();
        let reply = Arc::clone(&text);
        let cut = completion.is_cut();
        let tokens = completion.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens));
        let work = move || {
            let step = episode.step(&Reply { text: &reply, cut, tokens })?;
            Ok((episode, step))
        };
        let step: Step;
        (episode, step) = working(kit, &format!("turn{turn}"), work).await?;
        so_far.neutralised += step.neutralised;
        so_far.limited += usize::from(step.limited);
        so_far.restarts += usize::from(step.restarted);
        if let Some((call, outcome)) = step.call {
            kit.transcript.tool_calls.push(ToolCall {
                turn,
                index: 0,
                call,
                start: None,
                end: None,
                outcome,
            });
        }
        if step.discarded {
            // The result that filled the context is not part of the conversation.
            kit.messages.truncate(kit.messages.len().saturating_sub(2).max(1));
        } else {
            last = completion.text;
        }
        if let Some(end) = step.end {
            kit.transcript.episode = Some(EpisodeRecord { end, answer: step.answer, ..so_far });
            break;
        }
        so_far.figures += step.observation.iter().filter(|part| matches!(part, Part::Image(_))).count();
        kit.messages.push(Message::text(Role::Assistant, last.as_str()));
        kit.messages.push(message(Role::User, step.observation));
    }
    // The end of a jail waits for the end of its processes.
    drop(tokio::task::spawn_blocking(move || drop(episode)));
    Ok(last)
}

/// Work of the interpreter, off the async threads.
async fn working<T: Send + 'static>(
    kit: &Kit<'_>,
    step: &str,
    work: impl FnOnce() -> Result<T, CodeError> + Send + 'static,
) -> Result<T, SampleError> {
    let done = tokio::task::spawn_blocking(work).await;
    let error = match done {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error,
        Err(error) => CodeError::Tool(format!("the code tool panicked: {error}")),
    };
    let class = match error {
        CodeError::Video(_) => SampleErrorClass::FrameLoss,
        CodeError::Tool(_) => SampleErrorClass::CodeTool,
    };
    let message = format!("{}: {error}", kit.sample.video.display());
    Err(SampleError { class, message, step: step.to_owned() })
}
