//! Engines of one model on several devices as one backend.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Memory, Placement, Request};

/// Shares requests out among engines; the turns and questions of a video stay on the one that has its frames in the cache.
pub struct Spread {
    engines: Vec<Arc<dyn Backend>>,
    placement: Placement,
}

impl Spread {
    /// Over engines of one model, at least one.
    pub fn new(engines: Vec<Arc<dyn Backend>>) -> Self {
        Self { placement: Placement::new(engines.len()), engines }
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
            let seat = self.placement.seat(request, |_| ());
            self.engines[seat.place()].complete(request).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::task::Poll;

    use futures::executor::block_on;
    use futures::future::join_all;
    use paravt_suite::backend::{CallId, Generation};

    use super::*;

    /// Answers with its number, not at once.
    struct Numbered(usize);

    impl Backend for Numbered {
        fn describe(&self) -> BackendInfo {
            BackendInfo { name: "numbered".to_owned(), model: "m".to_owned(), details: BTreeMap::new() }
        }

        fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
            async move {
                let mut asked = false;
                futures::future::poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                Ok(Completion { text: self.0.to_string(), ..Completion::default() })
            }
            .boxed()
        }
    }

    #[test]
    fn engines_share_conversations_and_keep_their_turns() {
        let spread =
            Spread::new((0..3).map(|number| Arc::new(Numbered(number)) as Arc<dyn Backend>).collect());
        let asked = |samples: &[&str], step: &str| {
            let request =
                |sample: &&str| Request::new(CallId::new(*sample, step), vec![], Generation::greedy(1));
            let requests: Vec<_> = samples.iter().map(request).collect();
            let answers = block_on(join_all(requests.iter().map(|request| spread.complete(request))));
            answers.into_iter().map(|answer| answer.unwrap().text).collect::<Vec<_>>()
        };
        assert_eq!(asked(&["a", "b", "c", "d"], "turn0"), ["0", "1", "2", "0"]);
        assert_eq!(asked(&["c", "d", "a"], "turn1"), ["2", "0", "0"]);
        assert_eq!(asked(&["e"], "turn0"), ["1"], "none is busy any more, and it had fewer than the first");
    }
}
