//! What is done about a stage whose result is kept: decided once, before the stage or any that it builds on works.

use std::path::Path;

use crate::error::Error;
use crate::graph::Stage;
use crate::host::Host;
use crate::slot::{Slot, State};

/// What is done about a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: its result is complete.
    Keep,
    /// Its work is begun or continued; of a finished result, what is missing of it.
    Resume(Option<String>),
    /// Its result is moved out of the way and made again: why.
    Redo(String),
}

impl Verdict {
    /// The verdict by what was noted of the result, as a plan has it: no file is hashed, nothing looked for elsewhere.
    pub(crate) fn noted(stage: &Stage, slot: &Slot, any_code: bool) -> Self {
        match slot.state(any_code) {
            State::Done => Self::Keep,
            State::Unusable(why) if !stage.work().verifies_itself() => Self::Redo(why),
            State::Unusable(_) | State::New | State::Begun => Self::Resume(None),
        }
    }

    /// The verdict on a stage below `out`; large files are hashed.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    pub(crate) fn of(
        stage: &Stage,
        slot: &Slot,
        out: &Path,
        any_code: bool,
        host: &mut dyn Host,
    ) -> Result<Self, Error> {
        let work = stage.work();
        Ok(match Self::noted(stage, slot, any_code) {
            Self::Keep => match work.damage(out) {
                Some(why) => Self::Redo(why),
                None => work.missing(host)?.map_or(Self::Keep, |gone| Self::Resume(Some(gone))),
            },
            verdict => verdict,
        })
    }
}
