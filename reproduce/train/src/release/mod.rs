//! Supervised training data as the released trainer makes it: ParaVT cf55249's copy of lmms-engine
//! (`paravt/sft/lmms-engine/src/lmms_engine`) with transformers 4.57.1.
//!
//! [`Encoder`] makes a row's tokens, positions and trained tokens, [`Loader`] the order of rows, the slices of
//! ranks and workers, and the packs. Both are compared with the real code by `tests/sft_release.rs`. What the
//! released loader leaves out without a line is left out here too, counted and with its reason.

mod encode;
mod loader;
mod row;

pub use encode::Encoder;
pub use loader::{Layout, Loader, RankProgress, StepRows};
pub use row::{LeftOut, ReleaseMessage, ReleasePart, ReleaseRow};
