//! Many samples at once, one journal: dispatch, durable records, orderly ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc;

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::watch;

use crate::agent::Agent;
use crate::journal::{Journal, JournalError};
use crate::record::{Outcome, Record, SampleErrorClass};
use crate::sample::Sample;

/// Consecutive failed model calls after which a run stops by itself: the server is gone, and going
/// on would only fill the journal with errors.
pub const MAX_CONSECUTIVE_API_ERRORS: usize = 32;

/// How samples are dispatched.
#[derive(Debug, Clone, Copy)]
pub struct Dispatch {
    /// Samples in flight.
    pub concurrency: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every sample has a record.
    Finished,
    /// Asked to stop; what was in flight was finished.
    Interrupted,
    /// Too many model calls failed in a row.
    BackendDown,
}

/// Told about each record once it is on disk.
pub trait Observer: Send {
    /// One more record is safe.
    fn recorded(&mut self, record: &Record);
}

/// A sample of the run that still needs a record: it has none, or its model call failed.
pub fn pending(samples: &[Sample], records: &[Record]) -> Vec<Sample> {
    let done: HashSet<&str> = records
        .iter()
        .filter(|record| !is_api_failure(record))
        .map(|record| record.sample.uid.as_str())
        .collect();
    samples.iter().filter(|sample| !done.contains(sample.uid.as_str())).cloned().collect()
}

fn is_api_failure(record: &Record) -> bool {
    record
        .error
        .as_ref()
        .is_some_and(|error| matches!(error.class, SampleErrorClass::Api | SampleErrorClass::ApiInLoop))
}

/// Runs `samples` and journals each as it finishes.
///
/// `stop` turning true lets samples in flight finish and starts no more.
///
/// # Errors
/// The journal could not be written; what had been written before is safe.
pub async fn run(
    agent: Arc<Agent>,
    samples: Vec<Sample>,
    dispatch: Dispatch,
    journal: Journal,
    observer: Box<dyn Observer>,
    stop: watch::Receiver<bool>,
) -> Result<(Ended, Journal), JournalError> {
    let (sender, receiver) = mpsc::channel::<Record>();
    let writer = tokio::task::spawn_blocking(move || write_records(journal, observer, &receiver));

    let mut ended = Ended::Finished;
    let mut failures_in_a_row = 0;
    let total = samples.len();
    let mut finished = 0;
    let halt = stop.clone();
    let work = stream::iter(samples)
        .take_while(move |_| std::future::ready(!*halt.borrow()))
        .map(|sample| {
            let agent = Arc::clone(&agent);
            async move {
                let handle = tokio::spawn(async move { agent.run(&sample).await });
                handle.await
            }
        })
        .buffer_unordered(dispatch.concurrency.max(1));
    futures::pin_mut!(work);
    while let Some(joined) = work.next().await {
        let record = match joined {
            Ok(record) => record,
            // A panic is a bug of ours: stop loudly; the journal keeps what is finished.
            Err(panic) if panic.is_panic() => std::panic::resume_unwind(panic.into_panic()),
            Err(_) => break,
        };
        failures_in_a_row = if is_api_failure(&record) { failures_in_a_row + 1 } else { 0 };
        finished += 1;
        if sender.send(record).is_err() {
            break; // the writer failed; its error is returned below
        }
        if failures_in_a_row >= MAX_CONSECUTIVE_API_ERRORS {
            ended = Ended::BackendDown;
            break;
        }
    }
    drop(sender);
    let journal = match writer.await {
        Ok(result) => result?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    if ended == Ended::Finished && finished < total {
        ended = Ended::Interrupted;
    }
    Ok((ended, journal))
}

/// Appends whatever has come in since the last write with one flush.
fn write_records(
    mut journal: Journal,
    mut observer: Box<dyn Observer>,
    receiver: &mpsc::Receiver<Record>,
) -> Result<Journal, JournalError> {
    while let Ok(first) = receiver.recv() {
        let mut batch = vec![first];
        batch.extend(receiver.try_iter());
        journal.append(&batch)?;
        for record in &batch {
            observer.recorded(record);
        }
    }
    Ok(journal)
}

/// Share of right answers so far, for a progress line: scored value over all records.
pub fn running_score(records: &[Record]) -> Option<f64> {
    if records.is_empty() {
        return None;
    }
    let sum: f64 = records.iter().map(|record| record.score.value).sum();
    Some(sum / records.len() as f64)
}

/// Whether a record is an error.
pub fn is_error(record: &Record) -> bool {
    record.score.outcome == Outcome::Error
}
