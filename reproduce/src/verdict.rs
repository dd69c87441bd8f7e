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
        Ok(match slot.state(any_code) {
            State::Done => match work.damage(out) {
                Some(why) => Self::Redo(why),
                None => work.missing(host)?.map_or(Self::Keep, |gone| Self::Resume(Some(gone))),
            },
            State::Unusable(why) if !work.verifies_itself() => Self::Redo(why),
            State::Unusable(_) | State::New | State::Begun => Self::Resume(None),
        })
    }
}
