//! Tries of an agent that begins afresh until an answer counts by its own rules.

use std::sync::Arc;

use super::Session;
use crate::message::{Content, Message, Role};
use crate::protocol::AgentLoop;
use crate::record::{RecordedMessage, SampleError};

impl Session<'_> {
    /// The conversations up to the first whose answer counts; the text of the last one is scored.
    pub(super) async fn converse(&mut self) -> Result<String, SampleError> {
        let protocol = Arc::clone(&self.agent.protocol);
        loop {
            let text = self.attempt().await?;
            let Some(own) = protocol.agent.as_ref().filter(|own| own.tries.count > 1) else {
                return Ok(text);
            };
            let accepted = self.accepts(own, &text).await?;
            self.transcript.tries.get_or_insert_default().accepted = accepted;
            if accepted || self.number() + 1 >= own.tries.count {
                return Ok(text);
            }
            let last = Message::text(Role::Assistant, text);
            let messages = std::mem::take(&mut self.messages);
            let said = messages.iter().chain([&last]).map(RecordedMessage::from).collect();
            self.transcript.tries.get_or_insert_default().before.push(said);
            self.turns_before = self.transcript.calls.len();
            self.seen.clear();
        }
    }

    /// Number of this try, from 0.
    pub(super) fn number(&self) -> usize {
        self.transcript.tries.as_ref().map_or(0, |tries| tries.before.len())
    }

    /// Whether the answer of this try counts.
    async fn accepts(&mut self, own: &AgentLoop, text: &str) -> Result<bool, SampleError> {
        let looks = self.agent.looks()?;
        let Some(policy) = &own.frames else { return Ok(true) };
        let video = self.facts().await.map_err(|lost| self.lost(lost))?;
        let after_question = self.messages.iter().skip_while(|message| message.role != Role::Assistant);
        let turns = after_question.map(|message| match &message.content {
            Content::Text(text) => Some(text.as_str()),
            Content::Parts(_) => None,
        });
        let turns: Vec<Option<&str>> = turns.chain([Some(text)]).collect();
        Ok(looks.accepts(&turns, &policy.of(&video)))
    }
}
