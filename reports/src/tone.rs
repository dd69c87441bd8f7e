//! The meaning of a value in a table or on a terminal, which colours it.

use crate::decide::Verdict;

/// Meaning of a coloured word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Better,
    /// Worse, failed.
    Bad,
    /// Undecided, incomplete.
    Open,
    /// Neither: no colour.
    Plain,
}

impl Tone {
    pub(crate) fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Reproduced | Verdict::Unchanged => Self::Good,
            Verdict::Better => Self::Better,
            Verdict::Worse => Self::Bad,
            Verdict::Inconclusive => Self::Open,
            Verdict::NotComparable(_) | Verdict::NotRun => Self::Plain,
        }
    }

    /// The class that colours a verdict on the page; its words stay the information.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "verdict reproduced",
            Self::Better => "verdict better",
            Self::Bad => "verdict worse",
            Self::Open | Self::Plain => "verdict apart",
        }
    }
}
