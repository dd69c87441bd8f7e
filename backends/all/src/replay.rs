//! Answers from a recorded run, so that a change of scoring is measured without a model.
//!
//! ```
//! use std::path::Path;
//!
//! use paravt_backends::Replay;
//!
//! // A folder without a manifest is not a run.
//! assert!(Replay::open(Path::new("nowhere")).is_err());
//! ```

mod flags;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use paravt_suite::backend::{
    Backend, BackendError, BackendInfo, CallId, Completion, ErrorClass, Request, StoppedBy,
};
use paravt_suite::journal::{self, JournalError};
use paravt_suite::record::{ModelCall, conversation_hash};

pub use flags::ReplayFlags;

/// A recorded run that answers.
pub struct Replay {
    calls: HashMap<CallId, ModelCall>,
    info: BackendInfo,
}

impl Replay {
    /// Reads a run directory.
    ///
    /// # Errors
    /// There is no run, or its journal is damaged. A torn last record is left out.
    pub fn open(run: &Path) -> Result<Self, JournalError> {
        let manifest = journal::read_manifest(run)?;
        let mut calls = HashMap::new();
        for record in journal::read(run)?.records {
            let (uid, epoch) = (record.sample.uid, record.epoch);
            for call in record.transcript.calls {
                calls.insert(CallId { epoch, ..CallId::new(uid.as_str(), call.step.as_str()) }, call);
            }
        }
        let details = BTreeMap::from([
            ("recorded_with".to_owned(), manifest.backend.name),
            ("recorded_by".to_owned(), manifest.binary),
        ]);
        Ok(Self {
            calls,
            info: BackendInfo { name: "replay".to_owned(), model: manifest.backend.model, details },
        })
    }

    fn answer(&self, request: &Request) -> Result<Completion, BackendError> {
        let not_recorded = |message: String| BackendError::new(ErrorClass::NotRecorded, message, 1);
        let CallId { sample, step, .. } = &request.id;
        let call = self
            .calls
            .get(&request.id)
            .ok_or_else(|| not_recorded(format!("the recorded run has no call {step} of sample {sample}")))?;
        if call.conversation != conversation_hash(&request.messages) {
            return Err(not_recorded(format!(
                "call {step} of sample {sample} was recorded for another conversation; \
                 texts, frames and plan must be those of the recorded run"
            )));
        }
        let completion = Completion {
            text: call.text.clone(),
            finish_reason: call.finish_reason.clone(),
            // The text is recorded as it was read, a stop text included.
            stopped_by: StoppedBy::Model,
            usage: call.usage,
            model: call.model.clone(),
            forecast: call.forecast_tokens,
            tool_calls: call.tool_calls.clone(),
            reasoning: call.reasoning.clone(),
            refusal: call.refusal.clone(),
            reassembled: call.reassembled,
            latency: Duration::ZERO,
            ..Completion::default()
        };
        match &call.error {
            Some(error) => Err(BackendError { reply: Some(Box::new(completion)), ..error.clone() }),
            None => Ok(completion),
        }
    }
}

impl Backend for Replay {
    fn describe(&self) -> BackendInfo {
        self.info.clone()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        Box::pin(ready(self.answer(request)))
    }
}
