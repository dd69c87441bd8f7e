//! A server that is set up wrong shows it in its first replies: none of them can be read.

use crate::backend::ErrorClass;
use crate::record::Record;

/// Samples that are looked at.
pub const FIRST_REPLIES: usize = 8;

/// The first finished samples of a run.
#[derive(Debug, Default)]
pub(super) struct FirstReplies {
    seen: usize,
    good: bool,
}

impl FirstReplies {
    /// Takes the next finished sample into account. True when enough are finished and the reply to every
    /// one was empty or taken apart by the server.
    pub(super) fn all_unreadable(&mut self, record: &Record) -> bool {
        if self.good || self.seen >= FIRST_REPLIES {
            return false;
        }
        self.seen += 1;
        self.good = !is_unreadable(record);
        !self.good && self.seen == FIRST_REPLIES
    }
}

/// Whether a sample failed because a reply came without the text that the plan needs.
fn is_unreadable(record: &Record) -> bool {
    let errors = record.transcript.calls.iter().filter_map(|call| call.error.as_ref());
    record.error.is_some()
        && errors
            .into_iter()
            .any(|error| matches!(error.class, ErrorClass::EmptyReply | ErrorClass::ServerParsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendError;
    use crate::fixtures::{failed, record};
    use crate::record::{ModelCall, SampleErrorClass};

    fn unreadable(class: ErrorClass) -> Record {
        let mut record = failed(record("u", 0.0), SampleErrorClass::Api);
        let error = BackendError::new(class, "", 1);
        record.transcript.calls = vec![ModelCall { error: Some(error), ..ModelCall::default() }];
        record
    }

    fn ends(records: &[Record]) -> Option<usize> {
        let mut first = FirstReplies::default();
        records.iter().position(|record| first.all_unreadable(record))
    }

    #[test]
    fn a_run_ends_after_eight_unreadable_replies_and_after_no_good_one() {
        let (empty, apart) = (unreadable(ErrorClass::EmptyReply), unreadable(ErrorClass::ServerParsed));
        let both = [vec![empty.clone(); 4], vec![apart.clone(); 6]].concat();
        assert_eq!(ends(&both), Some(FIRST_REPLIES - 1));
        assert_eq!(ends(&both[..7]), None);
        for other in [record("u", 0.0), unreadable(ErrorClass::Server)] {
            let mixed = [vec![empty.clone(); 7], vec![other], vec![apart.clone(); 30]].concat();
            assert_eq!(ends(&mixed), None);
        }
    }
}
