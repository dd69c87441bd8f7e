//! Replies in which no answer was found, where they are many.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::printable::printable;
use crate::record::{Outcome, Record};

/// Share of the replies above which a score says more about the reading of answers than it should.
const MANY: f64 = 0.1;
/// Replies that are quoted.
const EXAMPLES: usize = 3;
/// Characters of a quoted reply: its end, where the answer usually stands.
const EXCERPT: usize = 120;

/// More than a tenth of the replies hold no answer that the rules read; they count as wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unread {
    /// Replies without an answer.
    pub n: usize,
    /// Replies; a failed call is none.
    pub of: usize,
    /// The first ones: name of the sample and the end of the reply.
    pub examples: Vec<(String, String)>,
}

impl Unread {
    pub(super) fn add(&mut self, record: &Record) {
        self.of += usize::from(record.score.outcome != Outcome::Error);
        if record.score.outcome != Outcome::Unparsed {
            return;
        }
        self.n += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push((record.sample.uid.clone(), end_of(&record.transcript.final_text)));
        }
    }

    /// `None` where at most a tenth of the replies hold no answer.
    pub(super) fn where_many(self) -> Option<Self> {
        (self.n as f64 > MANY * self.of as f64).then_some(self)
    }
}

/// The last characters of a text on one line.
fn end_of(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = line.chars().count();
    let end: String = line.chars().skip(length.saturating_sub(EXCERPT)).collect();
    printable(&if length > EXCERPT { format!("…{end}") } else { end }).into_owned()
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, of, examples } = self;
        write!(
            f,
            "no answer was found in {n} of {of} replies ({:.0} %); they count as wrong",
            100.0 * *n as f64 / *of as f64
        )?;
        for (uid, text) in examples {
            match text.is_empty() {
                true => write!(f, "\n  {uid}: an empty reply")?,
                false => write!(f, "\n  {uid}: \"{text}\"")?,
            }
        }
        Ok(())
    }
}
