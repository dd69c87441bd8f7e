//! One model call: its reply as dialect and profile read it, or why there is none.

use std::sync::Arc;

use super::{Agent, reply};
use crate::backend::{BackendError, Completion, ErrorClass, Request};
use crate::redact;
use crate::sample::Sample;
use crate::settings::ToolDialect;

/// The outcome of one model call; the error holds a reply that is not an answer or that the plan cannot use.
pub(super) type Answer = Result<Completion, BackendError>;

impl Agent {
    /// One model call, its reply read as dialect and profile say.
    pub(super) async fn ask(&self, sample: &Sample, request: &Request) -> Answer {
        let answer = match self.backend.complete(request).await {
            // The authors' loops of agents read such a reply as any other.
            Err(error) if self.plan.switches().empty_answer || self.protocol.agent.is_some() => {
                empty_answer(error)
            }
            answer => answer,
        };
        match answer {
            Ok(completion) => {
                let (offered, limit) = (request.tools.is_some(), request.generation.max_tokens);
                match reply::read(self, &request.id.step, offered, limit, completion) {
                    (completion, None) => Ok(completion),
                    (completion, Some(error)) => {
                        Err(BackendError { reply: Some(Box::new(completion)), ..error })
                    }
                }
            }
            Err(error) => Err(portable(sample, request, error)),
        }
    }

    /// Tools that a turn offers by the chat API.
    pub(super) fn tools(&self) -> Option<Arc<Vec<serde_json::Value>>> {
        let chat = self.protocol.chat_tools.as_ref().filter(|_| self.plan.dialect == ToolDialect::Native)?;
        Some(Arc::new(vec![chat.definition.clone()]))
    }
}

/// See quirk `empty_answer`: a reply with nothing in it is an answer.
fn empty_answer(mut error: BackendError) -> Answer {
    let is_empty = matches!(error.class, ErrorClass::EmptyReply | ErrorClass::ContextLength);
    let nothing = |reply: &mut Box<Completion>| is_empty && reply.says_nothing();
    match error.reply.take_if(nothing) {
        Some(reply) => Ok(*reply),
        None => Err(error),
    }
}

/// The error of a call as records keep it. A server repeats what it was sent: the path of a video, a URL with
/// credentials.
fn portable(sample: &Sample, request: &Request, mut error: BackendError) -> BackendError {
    for video in request.videos() {
        error.message =
            error.message.replace(&*video.path.to_string_lossy(), &sample.video.to_string_lossy());
    }
    error.message = redact::urls(&error.message);
    error
}
