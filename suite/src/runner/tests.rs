use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::backend::{BackendError, ErrorClass, Request};
use crate::fixtures::{Answering, NO_TOOLS, Squares, failed, manifest, plan, record, sample};
use crate::plan::RunPlan;
use crate::profile::Profile;
use crate::protocol::native;
use crate::record::ModelCall;

struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs samples of these uids, of which those that begin with `bad` fail and all others wait for ever; how it ended,
/// records, and calls in flight a moment later.
async fn run_all(class: ErrorClass, uids: Vec<String>, concurrency: usize) -> (Ended, usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let video = dir.path().join("clip.mp4");
    std::fs::write(&video, "x").unwrap();
    let in_flight = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&in_flight);
    let backend = Answering("none", move |request: &Request| {
        let (fails, calls) = (request.id.sample.starts_with("bad"), Arc::clone(&calls));
        async move {
            if fails {
                return Err(BackendError::new(class, "made up", 1));
            }
            calls.fetch_add(1, Ordering::SeqCst);
            let _call = InFlight(calls);
            std::future::pending().await
        }
    });
    let agent = Agent {
        backend: Arc::new(backend),
        protocol: Arc::new(native::protocol()),
        protocol_hash: "p".into(),
        reference: NO_TOOLS,
        plan: RunPlan { mode: crate::protocol::PromptMode::named("direct"), ..plan(Profile::Strict) },
        frames: Arc::new(Squares::default()),
        code: None,
        videos: VideoStore::default(),
    };
    let sample = |uid: &String| Arc::new(Sample { video: video.clone(), ..sample(uid) });
    let jobs = uids.iter().map(|uid| Job { sample: sample(uid), epoch: 0 }).collect();
    let journal = Journal::create(&dir.path().join("run"), &manifest()).unwrap();
    let counted = Arc::new(AtomicUsize::new(0));
    let (_stop, stopped) = watch::channel(false);
    let count = Arc::clone(&counted);
    let observer = Arc::new(move |_: Event<'_>| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let (ended, _) = run(Arc::new(agent), jobs, concurrency, journal, observer, None, stopped).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let records = counted.load(Ordering::SeqCst);
    (ended, records, in_flight.load(Ordering::SeqCst))
}

fn uids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_ends_the_run_and_the_calls_in_flight() {
    let all = [uids("waits", 3), uids("bad", 100)].concat();
    let (ended, records, in_flight) = run_all(ErrorClass::Connection, all, 4).await;
    assert_eq!((ended, records), (Ended::BackendDown, MAX_CONSECUTIVE_API_ERRORS));
    assert_eq!(in_flight, 0, "calls in flight are aborted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_single_samples_do_not_end_the_run() {
    for class in [ErrorClass::ContextLength, ErrorClass::BadRequest] {
        let (ended, records, _) = run_all(class, uids("bad", 100), 4).await;
        assert_eq!((ended, records), (Ended::Finished, 100), "{class:?}");
    }
}

#[test]
fn a_reply_of_another_model_ends_the_run() {
    let answered = |models: &[Option<&str>]| {
        let mut record = record("u", 1.0);
        let call =
            |model: &Option<&str>| ModelCall { model: model.map(str::to_owned), ..ModelCall::default() };
        record.transcript.calls = models.iter().map(call).collect();
        record
    };
    let other = Some(Ended::OtherModel { before: "a".into(), now: "b".into() });
    let mut health = Health::default();
    for record in [answered(&[None]), answered(&[Some("a"), None]), answered(&[]), answered(&[Some("a"); 3])]
    {
        assert_eq!(health.other_model(&record), None);
    }
    assert_eq!(health.other_model(&answered(&[Some("a"), Some("b")])), other, "within a sample");
    let mut resumed = Health { model: Some("a".into()), ..Health::default() };
    assert_eq!(resumed.other_model(&answered(&[Some("b")])), other);
}

#[test]
fn a_resumed_run_redoes_samples_with_repaired_causes() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there.mp4");
    std::fs::write(&there, "x").unwrap();
    let samples: Vec<Sample> = ["fetched", "gone", "loss", "api", "loop", "call", "protocol", "right", "new"]
        .map(|uid| Sample {
            video: if uid == "gone" { dir.path().join("gone.mp4") } else { there.clone() },
            ..sample(uid)
        })
        .into();
    let error = |uid: &str, class| failed(record(uid, 0.0), class);
    let records = [
        error("fetched", SampleErrorClass::VideoMissing),
        error("gone", SampleErrorClass::VideoMissing),
        error("loss", SampleErrorClass::FrameLoss),
        error("api", SampleErrorClass::Api),
        error("loop", SampleErrorClass::ApiInLoop),
        error("call", SampleErrorClass::MalformedCall),
        error("protocol", SampleErrorClass::Protocol),
        record("right", 1.0),
    ];
    let again = |retry: &Retry| -> Vec<String> {
        let jobs = pending(&samples, 1, &VideoStore::default(), &records, retry);
        jobs.into_iter().map(|job| job.sample.uid.clone()).collect()
    };
    assert_eq!(again(&Retry::default()), ["fetched", "loss", "api", "loop", "new"]);
    let only = Retry { classes: [SampleErrorClass::MalformedCall].into(), ..Retry::default() };
    assert_eq!(again(&only), ["call", "new"]);
}

#[test]
fn an_answer_without_frames_is_done_again_only_when_its_video_changed() {
    let samples = [sample("a")];
    let mut blind = record("a", 0.0);
    blind.sample.video = "made_up/clip.mp4".into();
    blind.transcript.frame_loss = Some("video has 3 frames, 4 asked".into());
    let again = |record: &Record, retry: &Retry| {
        pending(&samples, 1, &VideoStore::default(), std::slice::from_ref(record), retry).len()
    };
    assert_eq!(again(&blind, &Retry::default()), 0);
    let changed = Retry { changed_videos: ["made_up/clip.mp4".into()].into(), ..Retry::default() };
    assert_eq!(again(&blind, &changed), 1);
    assert_eq!(again(&record("a", 1.0), &changed), 0, "an answer with frames stays");
}

#[test]
fn repetitions_are_asked_one_by_one_and_the_failed_ones_again() {
    let samples = ["a", "b"].map(sample);
    let done = |uid, epoch| Record { epoch, ..record(uid, 1.0) };
    let records = [done("a", 0), done("a", 2), failed(done("b", 0), SampleErrorClass::Api), done("b", 1)];
    let jobs = pending(&samples, 3, &VideoStore::default(), &records, &Retry::default());
    let named: Vec<_> = jobs.iter().map(|job| (job.sample.uid.as_str(), job.epoch)).collect();
    assert_eq!(named, [("a", 1), ("b", 0), ("b", 2)]);
}
