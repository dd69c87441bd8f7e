//! Many samples at once, one journal: dispatch, durable records, orderly ends.

mod first;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::agent::Agent;
use crate::journal::{Journal, JournalError};
use crate::observer::{Event, Observer};
use crate::record::{Outcome, Record, SampleErrorClass};
use crate::sample::Sample;
use crate::videos::VideoStore;

pub use first::FIRST_REPLIES;
use first::FirstReplies;

/// Samples in a row that a dead server may fail before the run stops by itself: going on would only
/// fill the journal with errors.
pub const MAX_CONSECUTIVE_API_ERRORS: usize = 32;

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Every sample has a record.
    Finished,
    /// Asked to stop; what was in flight was finished.
    Interrupted,
    /// The server failed too many samples in a row; calls in flight were dropped.
    BackendDown,
    /// The first replies were all empty or taken apart by the server; calls in flight were dropped.
    Unreadable,
    /// A reply came of another model than those before it; its sample and calls in flight were dropped.
    OtherModel {
        /// The model of the earlier replies, as the server names it.
        before: String,
        now: String,
    },
}

/// Which finished samples a resumed run does again.
#[derive(Debug, Clone)]
pub struct Retry {
    pub classes: BTreeSet<SampleErrorClass>,
    /// Samples that lost their overview frames, when their video (by name) is one of these.
    pub changed_videos: BTreeSet<PathBuf>,
}

impl Default for Retry {
    /// Errors whose cause may have been removed.
    fn default() -> Self {
        let classes = SampleErrorClass::ALL.into_iter().filter(|class| class.is_retryable()).collect();
        Self { classes, changed_videos: BTreeSet::new() }
    }
}

impl Retry {
    /// Whether the sample of a record is run again. A video that is still missing would only be
    /// reported missing once more.
    fn should_redo(&self, sample: &Sample, videos: &VideoStore, record: &Record) -> bool {
        match &record.error {
            Some(error) if error.class == SampleErrorClass::VideoMissing => {
                let lies = |file| videos.resolve(file).is_file();
                self.classes.contains(&error.class) && sample.media().iter().all(|file| lies(file))
            }
            Some(error) => self.classes.contains(&error.class),
            None => {
                let mut files = record.sample.media().iter();
                record.transcript.frame_loss.is_some() && files.any(|file| self.changed_videos.contains(file))
            }
        }
    }
}

/// One sample to be asked once.
#[derive(Debug, Clone)]
pub struct Job {
    pub sample: Arc<Sample>,
    /// Which of its repetitions, from 0.
    pub epoch: usize,
}

/// What a run still has to ask: samples without a record, and those that `retry` does again, each as often as `repeat`
/// says. Repetitions of a sample follow one another, so that they share its frames.
pub fn pending(
    samples: &[Sample],
    repeat: usize,
    videos: &VideoStore,
    records: &[Record],
    retry: &Retry,
) -> Vec<Job> {
    let by_key: HashMap<(&str, usize), &Record> =
        records.iter().map(|record| (record.key(), record)).collect();
    let mut jobs = Vec::new();
    for sample in samples {
        let needed = |epoch: &usize| {
            let record = by_key.get(&(sample.uid.as_str(), *epoch));
            record.is_none_or(|record| retry.should_redo(sample, videos, record))
        };
        let mut epochs = (0..repeat).filter(needed).peekable();
        if epochs.peek().is_some() {
            let shared = Arc::new(sample.clone());
            jobs.extend(epochs.map(|epoch| Job { sample: Arc::clone(&shared), epoch }));
        }
    }
    jobs
}

/// Watches finished samples for signs that going on is pointless.
#[derive(Debug, Default)]
struct Health {
    dead_in_a_row: usize,
    first: FirstReplies,
    /// The model that answers, once a reply has named it.
    model: Option<String>,
}

impl Health {
    /// Whether a sample was answered by another model than those before it. Names of replies are compared with each other
    /// alone: a server may have several for the model that was asked for.
    fn other_model(&mut self, record: &Record) -> Option<Ended> {
        for now in record.transcript.calls.iter().filter_map(|call| call.model.as_ref()) {
            let before = self.model.get_or_insert_with(|| now.clone());
            if before != now {
                return Some(Ended::OtherModel { before: before.clone(), now: now.clone() });
            }
        }
        None
    }

    /// Takes the next finished sample into account; `Some` when the run must end.
    fn after(&mut self, record: &Record) -> Option<Ended> {
        if self.first.all_unreadable(record) {
            return Some(Ended::Unreadable);
        }
        let dead = record.failed_call().is_some_and(|error| error.class.concerns_every_call());
        self.dead_in_a_row = if dead { self.dead_in_a_row + 1 } else { 0 };
        (self.dead_in_a_row >= MAX_CONSECUTIVE_API_ERRORS).then_some(Ended::BackendDown)
    }
}

/// Runs `jobs`, `concurrency` of them at a time, and journals each as it finishes.
///
/// `answered_by` is the model that earlier records of the run name. `stop` turning true lets samples in flight finish and
/// starts no more. Where the run ends for another reason, samples in flight are aborted with their calls.
///
/// # Errors
/// The journal could not be written; what had been written before is safe.
pub async fn run(
    agent: Arc<Agent>,
    jobs: Vec<Job>,
    concurrency: usize,
    journal: Journal,
    observer: Arc<dyn Observer>,
    answered_by: Option<String>,
    stop: watch::Receiver<bool>,
) -> Result<(Ended, Journal), JournalError> {
    let (sender, receiver) = mpsc::channel::<Record>();
    let writer = tokio::task::spawn_blocking(move || write_records(journal, &*observer, &receiver));
    let health = Health { model: answered_by, ..Health::default() };
    let ended = drive(&agent, jobs, concurrency, health, &sender, &stop).await;
    drop(sender);
    let journal = match writer.await {
        Ok(result) => result?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    Ok((ended, journal))
}

/// Keeps `concurrency` samples in flight until none is left or the run has to end.
async fn drive(
    agent: &Arc<Agent>,
    jobs: Vec<Job>,
    concurrency: usize,
    mut health: Health,
    finished: &mpsc::Sender<Record>,
    stop: &watch::Receiver<bool>,
) -> Ended {
    let mut waiting = jobs.into_iter();
    // Aborts what is in flight when it is dropped.
    let mut in_flight = JoinSet::new();
    loop {
        while in_flight.len() < concurrency.max(1) && !*stop.borrow() {
            let Some(Job { sample, epoch }) = waiting.next() else { break };
            let agent = Arc::clone(agent);
            let span = tracing::info_span!("sample", uid = sample.uid, epoch);
            in_flight.spawn(async move { agent.run_epoch(&sample, epoch).await }.instrument(span));
        }
        let record = match in_flight.join_next().await {
            None if waiting.len() == 0 => return Ended::Finished,
            None => return Ended::Interrupted,
            Some(Ok(record)) => record,
            // A panic is a bug of ours: stop loudly; the journal keeps what is finished.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Some(Err(_)) => return Ended::Interrupted, // the runtime shuts down
        };
        // An answer of another model is none of this run.
        if let Some(ended) = health.other_model(&record) {
            return ended;
        }
        let verdict = health.after(&record);
        if finished.send(record).is_err() {
            return Ended::Interrupted; // the writer failed; its error is what the caller sees
        }
        if let Some(ended) = verdict {
            return ended;
        }
    }
}

/// Appends whatever has come in since the last write with one flush.
fn write_records(
    mut journal: Journal,
    observer: &dyn Observer,
    receiver: &mpsc::Receiver<Record>,
) -> Result<Journal, JournalError> {
    while let Ok(first) = receiver.recv() {
        let mut batch = vec![first];
        batch.extend(receiver.try_iter());
        journal.append(&batch)?;
        for record in &batch {
            log(record);
            observer.observe(Event::Recorded(record));
        }
    }
    Ok(journal)
}

/// The event of a record: failures and lost frames by default, the others as details.
fn log(record: &Record) {
    let uid = &record.sample.uid;
    match (&record.error, &record.transcript.frame_loss) {
        (Some(error), _) => {
            tracing::info!(uid, class = ?error.class, step = %error.step, error = error.message, "sample failed");
        }
        (None, Some(loss)) => tracing::info!(uid, %loss, "the model saw no overview frames"),
        (None, None) => tracing::debug!(
            uid,
            outcome = ?record.score.outcome,
            score = record.score.value,
            seconds = record.measured.seconds,
            "sample answered"
        ),
    }
}

/// Whether a record is an error.
pub fn is_error(record: &Record) -> bool {
    record.score.outcome == Outcome::Error
}
