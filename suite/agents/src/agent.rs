//! What the suite has of an agent, and the score of its choice questions.

use paravt_suite::agent::Reference;
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_upstream::import::Release;

/// Rule of an answer that an agent's own extraction found.
pub(crate) const RULE: &str = "own";

/// The rules of an agent's loop, and the texts that it is asked in.
#[derive(Clone, Copy)]
pub struct Agent {
    /// Its rules; `None` where of the release only a text is here.
    pub reference: Option<Reference>,
    /// The releases that can be imported and have these rules.
    pub releases: &'static [&'static Release],
}

/// The score of a choice question; `prediction` is what the agent takes for the answer, `None` where it finds none.
pub(crate) fn choice(
    gold: &Gold,
    prediction: Option<String>,
    is_right: impl Fn(&str, &str) -> bool,
) -> Score {
    let unparsed = Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None };
    match (gold, prediction) {
        (Gold::Choice { answer }, Some(found)) if !found.is_empty() => Score {
            outcome: Outcome::Scored,
            value: f64::from(u8::from(is_right(&found, answer))),
            prediction: Some(found),
            rule: Some(RULE.to_owned()),
        },
        _ => unparsed,
    }
}
