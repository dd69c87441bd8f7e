//! An agent that answers in conversations of two messages each: what is asked comes from its rules, frames, requests and
//! record from here.

use std::sync::Arc;

use super::{Session, protocol_error};
use crate::fingerprint::Fingerprint;
use crate::message::{Frames, Message, Part, Role};
use crate::protocol::{AgentLoop, Encoding, FramePolicy, Stages, render};
use crate::record::{SampleError, SampleErrorClass};
use crate::reference::Look;
use crate::staged::{Ask, Beginning, Shown, Stage, Staged};

impl Session<'_> {
    /// All conversations of the sample; the answer.
    pub(super) async fn run_stages(
        &mut self,
        own: &AgentLoop,
        policy: &FramePolicy,
        stages: &Stages,
    ) -> Result<String, SampleError> {
        let broken = |error: &dyn std::fmt::Display| protocol_error("open", error);
        self.require_video()?;
        let looks = self.agent.looks()?;
        let video = self.facts().await.map_err(|lost| self.lost(lost))?;
        let (plan, protocol) = (&self.agent.plan, &self.agent.protocol);
        let video_name = self.sample.video_name();
        let question =
            render::user_text(protocol, self.sample, &plan.mode, &plan.switches, &video_name, None)
                .map_err(|error| broken(&error))?;
        let system = protocol.system_text(&plan.mode).map_err(|error| broken(&error))?;
        let beginning = Beginning { own, stages, system, question, video_name, video };
        let mut staged = looks.staged(beginning).map_err(|error| broken(&error))?;
        let answer = self.converse_staged(&mut *staged, policy, stages).await;
        self.transcript.tool_calls = staged.calls();
        answer
    }

    async fn converse_staged(
        &mut self,
        staged: &mut dyn Staged,
        policy: &FramePolicy,
        stages: &Stages,
    ) -> Result<String, SampleError> {
        let mut reply = None;
        loop {
            match staged.next(reply.as_deref()) {
                Stage::Done(answer) => return Ok(answer),
                Stage::Ask(ask) => reply = Some(self.ask_staged(policy, stages, ask).await?),
            }
        }
    }

    /// One conversation; its messages and the reply follow on those of the earlier ones in the record.
    async fn ask_staged(
        &mut self,
        policy: &FramePolicy,
        stages: &Stages,
        ask: Ask,
    ) -> Result<String, SampleError> {
        let mut parts = self.shown(policy, stages, ask.shown).await?;
        parts.push(Part::Text(ask.text));
        let messages = vec![Message::text(Role::System, ask.system), Message::parts(Role::User, parts)];
        if self.transcript.inputs.is_none() {
            self.transcript.inputs = Some(Fingerprint::of(&messages));
        }
        let mut earlier = std::mem::replace(&mut self.messages, messages);
        (self.temperature, self.attempt) = (ask.temperature, ask.attempt);
        let limit = self.agent.plan.max_tokens;
        let completion = self.call(&ask.step, limit, None, SampleErrorClass::ApiInLoop).await;
        earlier.append(&mut self.messages);
        self.messages = earlier;
        let completion = completion?;
        self.messages.push(Message::text(Role::Assistant, completion.text.as_str()));
        Ok(completion.text)
    }

    async fn shown(
        &mut self,
        policy: &FramePolicy,
        stages: &Stages,
        shown: Shown,
    ) -> Result<Vec<Part>, SampleError> {
        let (policy, indices, as_video) = match shown {
            _ if self.agent.plan.is_blind() => return Ok(Vec::new()),
            Shown::Nothing => return Ok(Vec::new()),
            Shown::Video(indices) => (*policy, indices, true),
            Shown::Images(indices) => (saved(policy), indices, false),
        };
        let video = self.facts().await.map_err(|lost| self.lost(lost))?;
        // A frame that is shown twice, or out of order, is read once.
        let mut wanted = indices.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let picked = self.picked(&policy, &video, Look::at(wanted.clone(), video.rate), false).await;
        let picked = picked.map_err(|lost| self.lost(lost))?;
        let found = indices.iter().filter_map(|index| {
            let place = wanted.binary_search(index).ok()?;
            Some(Arc::clone(&picked.get(place)?.0))
        });
        Ok(match as_video {
            true => vec![Part::Frames(Frames { images: found.collect(), even: Some(stages.rate) })],
            false => found.map(Part::Image).collect(),
        })
    }
}

/// Frames as OpenCV saves them.
fn saved(policy: &FramePolicy) -> FramePolicy {
    FramePolicy { size: crate::protocol::SizeRule::Whole, encoding: Encoding::Jpeg(95), ..*policy }
}
