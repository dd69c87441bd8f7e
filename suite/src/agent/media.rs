//! The sample's video: found, decoded off the async threads, its frames as parts of a message.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::Kit;
use crate::frames::{FrameSet, Pick};
use crate::media::{MediaError, VideoFacts, VideoRequest};
use crate::message::{Frames, Image, Part};
use crate::protocol::render::{self, RenderError};
use crate::protocol::{FramePolicy, SentAs};
use crate::record::{SampleError, SampleErrorClass};
use crate::reference::FrameChoice;

/// A frame with the time that is shown with it, in seconds.
pub type Shown = (Arc<Image>, f64);

/// Why there are no frames.
#[derive(Debug)]
pub struct NoFrames {
    /// With the name of the video.
    pub message: String,
    /// The time limit was over.
    pub timed_out: bool,
}

impl Kit<'_> {
    /// Refuses a sample whose row is defective, or whose video is missing where something of it is shown.
    pub(crate) fn require_video(&self) -> Result<(), SampleError> {
        if let Some(message) = self.sample.defect.clone() {
            return Err(SampleError { class: SampleErrorClass::Data, message, step: "open".into() });
        }
        let plan = &self.agent.plan;
        // Upstream asks about whatever lies there; a folder gives no frames.
        let there = |file: &&PathBuf| {
            let file = self.agent.videos.resolve(file);
            match plan.switches().frame_loss_is_error {
                // Nothing of it is shown.
                _ if plan.is_blind() => true,
                true => file.is_file(),
                false => file.exists(),
            }
        };
        if let Some(missing) = self.sample.media().iter().find(|file| !there(file)) {
            let what = if self.sample.is_about_images() { "image" } else { "video" };
            let message =
                format!("{}: no such {what}; run `paravt-bench data check` on its task", missing.display());
            return Err(SampleError { class: SampleErrorClass::VideoMissing, message, step: "open".into() });
        }
        Ok(())
    }

    /// Number, rate and size of the video's frames.
    pub async fn facts(&mut self) -> Result<VideoFacts, NoFrames> {
        let source = Arc::clone(&self.agent.frames);
        let started = Instant::now();
        let facts = self.blocking(move |path| source.facts(path)).await;
        self.measured.media_seconds += started.elapsed().as_secs_f64();
        facts
    }

    /// The same where a sample without them is an error.
    pub async fn require_facts(&mut self) -> Result<VideoFacts, SampleError> {
        let facts = self.facts().await;
        facts.map_err(|lost| self.frame_loss(lost))
    }

    /// The frames of a choice, decoded in the size of the policy.
    ///
    /// # Errors
    /// One cannot be decoded, or its size comes to nothing.
    pub async fn show(
        &mut self,
        policy: &FramePolicy,
        video: &VideoFacts,
        choice: FrameChoice,
    ) -> Result<Vec<Shown>, NoFrames> {
        let FrameChoice { indices, times, scale } = choice;
        let size = policy.size.apply((video.width, video.height), scale, indices.len());
        let size = size.map_err(|message| NoFrames { message, timed_out: false })?;
        let (filter, encoding) = (policy.filter, policy.encoding);
        self.pick(Pick { indices, stored: None, size, filter, encoding }, times).await
    }

    /// The images that the sample is about, as they lie in their files.
    pub(super) async fn images(&mut self) -> Result<Vec<Part>, NoFrames> {
        let source = Arc::clone(&self.agent.frames);
        let max_bytes = self.agent.plan.max_image_bytes();
        let files: Vec<_> = self.sample.media().iter().map(|file| self.agent.videos.resolve(file)).collect();
        let started = Instant::now();
        let read = move |_: &Path| {
            let image = |file: &PathBuf| source.image(file, max_bytes).map(Part::Image);
            files.iter().map(image).collect::<Result<Vec<_>, _>>()
        };
        let images = self.blocking(read).await;
        self.measured.media_seconds += started.elapsed().as_secs_f64();
        images
    }

    /// Frames by their indices; `times` are shown with them.
    pub async fn pick(&mut self, pick: Pick, times: Vec<f64>) -> Result<Vec<Shown>, NoFrames> {
        let max_bytes = self.agent.plan.max_image_bytes();
        let source = Arc::clone(&self.agent.frames);
        let set = self.blocking(move |path| source.pick(path, &pick, max_bytes)).await?;
        self.measured.media_seconds += set.seconds;
        Ok(set.images.into_iter().zip(times).collect())
    }

    /// Frames as the model is given them: labelled images, or a video where the policy says so and there are several,
    /// in which they follow on each other at `rate` a second, or at their own times without one.
    pub fn frame_parts(
        &self,
        policy: &FramePolicy,
        shown: &[Shown],
        rate: Option<f64>,
    ) -> Result<Vec<Part>, RenderError> {
        if policy.sent_as == SentAs::Video && shown.len() > 1 {
            let images = shown.iter().map(|(image, _)| Arc::clone(image)).collect();
            return Ok(vec![Part::Frames(Frames { images, even: rate, keep_size: policy.keep_size })]);
        }
        render::labelled(self.protocol(), shown.iter().map(|(image, time)| (image, Some(*time))))
    }

    /// The error of a sample without its first frames.
    pub fn frame_loss(&mut self, lost: NoFrames) -> SampleError {
        let message = self.note_loss(lost);
        SampleError { class: SampleErrorClass::FrameLoss, message, step: "open".to_owned() }
    }

    /// Notes why a call has no frames; the reason as the model may be told it.
    pub fn note_loss(&mut self, lost: NoFrames) -> String {
        self.transcript.decode_timeout |= lost.timed_out;
        lost.message
    }

    /// Frames of a request over the sample's own video.
    pub(super) async fn frames(&self, request: VideoRequest) -> Result<Arc<FrameSet>, NoFrames> {
        let plan = &self.agent.plan;
        let max_bytes = plan.max_image_bytes();
        let request = VideoRequest { max_bytes, ..request.with_reader(plan.switches().reader) };
        let source = Arc::clone(&self.agent.frames);
        self.blocking(move |path| source.frames(path, &request)).await
    }

    /// Work on the sample's video off the async threads; an error has the name of the video that records have.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, MediaError> + Send + 'static,
    ) -> Result<T, NoFrames> {
        let path = self.agent.videos.resolve(&self.sample.video);
        let fetched = tokio::task::spawn_blocking(move || work(&path)).await;
        let panicked =
            |error| NoFrames { message: format!("the decoder panicked: {error}"), timed_out: false };
        fetched.map_err(panicked)?.map_err(|error| NoFrames {
            message: format!("{}: {error}", self.sample.video.display()),
            timed_out: matches!(error, MediaError::Timeout { .. }),
        })
    }
}
