//! Engines of one model on several devices as one backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Memory, Request};

/// Gives each conversation to the engine with the fewest open requests, and its later turns to the same one, which has its
/// prefix in the cache.
pub struct Spread {
    engines: Vec<Arc<dyn Backend>>,
    seats: Mutex<Seats>,
}

struct Seats {
    /// Requests that each engine has open.
    open: Vec<usize>,
    /// Engine of each conversation: sample and repetition.
    of: HashMap<(String, usize), usize>,
}

/// An open request.
struct Seat<'a> {
    spread: &'a Spread,
    engine: usize,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.spread.seats.lock().unwrap_or_else(PoisonError::into_inner).open[self.engine] -= 1;
    }
}

impl Spread {
    /// Over engines of one model, at least one.
    pub fn new(engines: Vec<Arc<dyn Backend>>) -> Self {
        let seats = Seats { open: vec![0; engines.len()], of: HashMap::new() };
        Self { engines, seats: Mutex::new(seats) }
    }

    fn seat(&self, request: &Request) -> Seat<'_> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let Seats { open, of } = &mut *seats;
        let least = || (0..open.len()).min_by_key(|&engine| open[engine]).unwrap_or_default();
        let engine = *of.entry((request.id.sample.clone(), request.id.epoch)).or_insert_with(least);
        open[engine] += 1;
        Seat { spread: self, engine }
    }
}

impl Backend for Spread {
    /// Which one of several like GPUs answers makes no difference.
    fn describe(&self) -> BackendInfo {
        self.engines[0].describe()
    }

    fn memory(&self) -> Option<Memory> {
        self.engines.iter().filter_map(|engine| engine.memory()).reduce(Memory::max)
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        async move {
            let seat = self.seat(request);
            self.engines[seat.engine].complete(request).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::channel::oneshot;
    use paravt_suite::backend::{CallId, Generation};

    use super::*;

    /// Answers when it is let go; knows how many are open.
    #[derive(Default)]
    struct Slow {
        open: AtomicUsize,
        waiting: Mutex<Vec<oneshot::Sender<()>>>,
    }

    impl Backend for Slow {
        fn describe(&self) -> BackendInfo {
            BackendInfo { name: "slow".to_owned(), model: "m".to_owned(), details: BTreeMap::new() }
        }

        fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
            async move {
                self.open.fetch_add(1, Ordering::SeqCst);
                let (go, gone) = oneshot::channel();
                self.waiting.lock().unwrap().push(go);
                gone.await.unwrap();
                self.open.fetch_sub(1, Ordering::SeqCst);
                Ok(Completion::default())
            }
            .boxed()
        }
    }

    #[test]
    fn the_least_busy_engine_is_next_and_keeps_its_conversations() {
        let engines: Vec<Arc<Slow>> = (0..3).map(|_| Arc::default()).collect();
        let spread =
            Spread::new(engines.iter().map(|engine| Arc::clone(engine) as Arc<dyn Backend>).collect());
        let open = || engines.iter().map(|engine| engine.open.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let request = |sample: &str, step: &str| Request {
            id: CallId::new(sample, step),
            messages: vec![],
            generation: Generation::greedy(1),
            tools: None,
            chat_template: None,
        };
        let requests = ["a", "b", "c", "d", "e"].map(|sample| request(sample, "turn0"));
        let (next, turn) = (request("f", "turn0"), request("a", "turn1"));
        let mut answers: Vec<_> = requests.iter().map(|request| spread.complete(request)).collect();
        let poll = |answers: &mut Vec<BoxFuture<'_, _>>| {
            let mut all = futures::stream::FuturesUnordered::from_iter(std::mem::take(answers));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            while let std::task::Poll::Ready(Some(_)) =
                futures::StreamExt::poll_next_unpin(&mut all, &mut context)
            {}
            answers.extend(all);
        };
        poll(&mut answers);
        assert_eq!(open(), [2, 2, 1]);
        // The second engine is let go: it is the least busy one.
        drop(engines[1].waiting.lock().unwrap().drain(..).map(|go| go.send(())).collect::<Vec<_>>());
        poll(&mut answers);
        assert_eq!(open(), [2, 0, 1]);
        answers.push(spread.complete(&next));
        poll(&mut answers);
        assert_eq!(open(), [2, 1, 1]);
        // Another turn of the first conversation, on an engine that is busier than others.
        answers.push(spread.complete(&turn));
        poll(&mut answers);
        assert_eq!(open(), [3, 1, 1]);
        // A request that is dropped is open no longer.
        drop(answers);
        assert_eq!(spread.seats.lock().unwrap().open, [0, 0, 0]);
    }
}
