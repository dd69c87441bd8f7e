//! The loop of an agent that writes code: an interpreter for each sample, a user turn for what its code printed and showed.

use std::sync::Arc;

use super::own::message;
use super::{Session, protocol_error};
use crate::code::{CodeError, Episode, Reply, Step};
use crate::message::{Message, Part, Role};
use crate::protocol::{AgentLoop, CodeRules, render};
use crate::record::{EndReason, EpisodeRecord, SampleError, SampleErrorClass, ToolCall};

impl Session<'_> {
    /// Starts the sample's interpreter; the first user message, with what it says of the video.
    pub(super) async fn open_episode(
        &mut self,
        own: &AgentLoop,
        rules: &CodeRules,
    ) -> Result<Message, SampleError> {
        let tool = self.agent.code.clone().ok_or_else(|| {
            let message = format!("protocol {} runs code, and no tool does", self.agent.protocol.name);
            SampleError { class: SampleErrorClass::Protocol, message, step: "open".to_owned() }
        })?;
        let video = self.agent.videos.resolve(&self.sample.video);
        let (own_rules, rules) = (own.clone(), rules.clone());
        let start = move || {
            let mut episode = tool.begin(&own_rules, &rules, &video)?;
            let info = episode.video_info()?;
            Ok((episode, info))
        };
        let (episode, info) = self.working("open", start).await?;
        self.episode = Some(episode);
        let plan = &self.agent.plan;
        let (protocol, name) = (&self.agent.protocol, self.sample.video_name());
        let text = render::user_text(protocol, self.sample, &plan.mode, &plan.switches, &name, None)
            .and_then(|question| render::code_opening(own, &question, &info))
            .map_err(|error| protocol_error("open", &error))?;
        Ok(Message::text(Role::User, text))
    }

    /// The turns up to the end of the episode; the last reply is what is scored.
    pub(super) async fn run_episode(&mut self, mut episode: Box<dyn Episode>) -> Result<String, SampleError> {
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
            let step = format!("turn{turn}");
            let limit = self.agent.plan.max_tokens;
            let completion = self.call(&step, limit, None, SampleErrorClass::ApiInLoop).await?;
            let text: Arc<str> = completion.text.as_str().into();
            let reply = Arc::clone(&text);
            let cut = completion.is_cut();
            let tokens = completion.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens));
            let work = move || {
                let step = episode.step(&Reply { text: &reply, cut, tokens })?;
                Ok((episode, step))
            };
            let step: Step;
            (episode, step) = self.working(&format!("turn{turn}"), work).await?;
            so_far.neutralised += step.neutralised;
            so_far.limited += usize::from(step.limited);
            so_far.restarts += usize::from(step.restarted);
            if let Some((call, outcome)) = step.call {
                self.transcript.tool_calls.push(ToolCall {
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
                self.messages.truncate(self.messages.len().saturating_sub(2).max(1));
            } else {
                last = completion.text;
            }
            if let Some(end) = step.end {
                self.transcript.episode = Some(EpisodeRecord { end, answer: step.answer, ..so_far });
                break;
            }
            so_far.figures += step.observation.iter().filter(|part| matches!(part, Part::Image(_))).count();
            self.messages.push(Message::text(Role::Assistant, last.as_str()));
            self.messages.push(message(Role::User, step.observation));
        }
        // The end of a jail waits for the end of its processes.
        drop(tokio::task::spawn_blocking(move || drop(episode)));
        Ok(last)
    }

    /// Work of the interpreter, off the async threads.
    async fn working<T: Send + 'static>(
        &self,
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
        let message = format!("{}: {error}", self.sample.video.display());
        Err(SampleError { class, message, step: step.to_owned() })
    }
}
