//! Features of a prompt's media, encoded when prefill reaches their tokens: those of a long video, up to half the size
//! of its keys and values, are never held at once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Error;
use crate::model::{Features, Model};
use crate::ops::Ops;
use crate::positions::Grid;
use crate::processor::Patches;
use crate::prompt::Medium;

/// Features that prefill has not reached, in the order of their tokens.
pub(super) struct LazyVisionFeatures<T> {
    /// Images and videos that are not encoded yet.
    frames: VecDeque<Frame>,
    /// Encoded rows of the last pass of the vision tower that no sequence has taken.
    ready: Option<Features<T>>,
    /// Patches of a pass of the vision tower, unless one frame has more.
    pass: usize,
}

/// An image or a frame pair of a video: patches attend to those of their own frame only.
struct Frame {
    patches: Arc<Patches>,
    number: usize,
}

impl Frame {
    fn grid(&self) -> Grid {
        Grid { t: 1, ..self.patches.grid }
    }
}

impl<T: Clone> LazyVisionFeatures<T> {
    /// Features of these media without their first `skipped` rows; whole frames of those are never encoded.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(super) fn new<O: Ops<Tensor = T>>(
        model: &Model<O>,
        media: Vec<Medium>,
        mut skipped: usize,
        pass: usize,
    ) -> Result<Self, Error> {
        let frames = media.into_iter().flat_map(|Medium { patches, .. }| {
            (0..patches.grid.t).map(move |number| Frame { patches: Arc::clone(&patches), number })
        });
        let mut upcoming = Self { frames: frames.collect(), ready: None, pass };
        let merge = model.config.vision.spatial_merge_size;
        while let Some(frame) = upcoming.frames.pop_front_if(|frame| frame.grid().tokens(merge) <= skipped) {
            skipped -= frame.grid().tokens(merge);
        }
        upcoming.take(model, skipped)?;
        Ok(upcoming)
    }

    /// The next `count` rows; nothing for none.
    ///
    /// # Errors
    /// Tensor arithmetic, or fewer rows than that are left.
    pub(super) fn take<O: Ops<Tensor = T>>(
        &mut self,
        model: &Model<O>,
        count: usize,
    ) -> Result<Option<Features<T>>, Error> {
        if count == 0 {
            return Ok(None);
        }
        let (mut parts, mut left) = (Vec::new(), count);
        while left > 0 {
            let part = self.ready.take().map_or_else(|| self.encode(model), Ok)?;
            let rows = model.ops.shape(&part.merged)[0];
            let cut = |start, length| part.map(|tensor| model.ops.narrow(tensor, 0, start, length));
            if rows > left {
                self.ready = Some(cut(left, rows - left)?);
            }
            parts.push(cut(0, rows.min(left))?);
            left -= rows.min(left);
        }
        Features::cat(&model.ops, parts).map(Some)
    }

    /// Features of the next frames.
    fn encode<O: Ops<Tensor = T>>(&mut self, model: &Model<O>) -> Result<Features<T>, Error> {
        let mut frames = Vec::new();
        let mut room = self.pass;
        let scale = self.frames.front().map(|frame| frame.patches.scale());
        let fits =
            |frame: &Frame, room| Some(frame.patches.scale()) == scale && frame.grid().patches() <= room;
        while let Some(frame) = self.frames.pop_front_if(|frame| frames.is_empty() || fits(frame, room)) {
            room = room.saturating_sub(frame.grid().patches());
            frames.push(frame);
        }
        let Some(scale) = scale else {
            return Err(Error::Compute("a prompt has more visual tokens than its media".to_owned()));
        };
        let grids: Vec<Grid> = frames.iter().map(Frame::grid).collect();
        let count = grids.iter().map(|grid| grid.patches()).sum::<usize>();
        let bytes: Vec<&[u8]> = frames.iter().map(|frame| frame.patches.frame(frame.number)).collect();
        let shape = [count, model.config.vision.patch_values()];
        model.encode(model.ops.upload_patches(&bytes.concat(), scale, shape)?, &grids)
    }
}
