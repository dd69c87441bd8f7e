//! The opening of a conversation: system text, overview, question.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Session, protocol_error};
use crate::fingerprint::Fingerprint;
use crate::frames::FrameSet;
use crate::media::{MediaError, VideoRequest};
use crate::message::{Frames, Message, Part, Role, VideoPart};
use crate::plan::Channel;
use crate::protocol::render;
use crate::record::{SampleError, SampleErrorClass};

impl Session<'_> {
    /// Puts system text and question into the conversation.
    pub(super) async fn open(&mut self) -> Result<(), SampleError> {
        let video = self.require_video()?;
        let plan = &self.agent.plan;
        let system = render::dialect_system_text(&self.agent.protocol, &plan.mode, plan.dialect)
            .map_err(|error| protocol_error("open", &error))?
            .to_owned();
        let own = self.agent.protocol.agent.as_ref();
        if let Some((own, rules)) = self.agent.protocol.code() {
            let message = self.open_episode(own, rules).await?;
            self.begin(system, message);
            return Ok(());
        }
        if let Some((own, policy)) = own.and_then(|own| Some((own, own.frames.as_ref()?))) {
            return self.open_own(own, policy, system).await;
        }
        let (mut parts, duration) = match plan.channel {
            _ if plan.is_blind() => (Vec::new(), None),
            Channel::Video => {
                let path = std::path::absolute(&video).unwrap_or(video);
                (
                    vec![Part::Video(VideoPart {
                        path,
                        nframes: Some(plan.switches.video_channel_frames),
                        spread: plan.switches.video_channel_spread,
                    })],
                    None,
                )
            }
            Channel::Image | Channel::FramesVideo => self.overview().await?,
        };
        let name = self.sample.video_name();
        let text =
            render::user_text(&self.agent.protocol, self.sample, &plan.mode, &plan.switches, &name, duration)
                .map_err(|error| protocol_error("open", &error))?;
        let parts = match own {
            Some(own) => render::opening(own, self.sample, &text, (None, &[]), parts)
                .map_err(|error| protocol_error("open", &error))?,
            None => {
                parts.push(Part::Text(text));
                parts
            }
        };
        self.begin(system, Message::parts(Role::User, parts));
        Ok(())
    }

    /// The path of the sample's video, which is there or not needed.
    pub(super) fn require_video(&self) -> Result<PathBuf, SampleError> {
        if let Some(message) = self.sample.defect.clone() {
            return Err(SampleError { class: SampleErrorClass::Data, message, step: "open".into() });
        }
        let plan = &self.agent.plan;
        let video = self.agent.videos.resolve(&self.sample.video);
        // Upstream asks about whatever lies there; a folder gives no frames.
        let there = match plan.switches.frame_loss_is_error {
            // Nothing of it is shown.
            _ if plan.is_blind() => true,
            true => video.is_file(),
            false => video.exists(),
        };
        if !there {
            let message =
                format!("{}: no such video; run `paravt-bench data check`", self.sample.video.display());
            return Err(SampleError { class: SampleErrorClass::VideoMissing, message, step: "open".into() });
        }
        Ok(video)
    }

    /// The conversation's first messages; an empty system text is none.
    pub(super) fn begin(&mut self, system: String, user: Message) {
        let system = Some(system).filter(|text| !text.is_empty());
        let system = system.map(|text| Message::text(Role::System, text));
        self.messages = system.into_iter().chain([user]).collect();
        self.transcript.inputs.get_or_insert_with(|| Fingerprint::of(&self.messages));
    }

    /// The overview frames as parts, and the video's duration in seconds. A video that gives none
    /// is a text-only question upstream (counted here as frame loss), an error under `strict`.
    async fn overview(&mut self) -> Result<(Vec<Part>, Option<f64>), SampleError> {
        let request = VideoRequest::overview(self.agent.plan.nframes);
        match self.frames(request).await {
            Ok(set) => {
                self.measured.media_seconds += set.seconds;
                self.transcript.second_reader |= set.second_reader;
                let parts = match self.agent.plan.channel {
                    Channel::FramesVideo => vec![Part::Frames(Frames::placed(set.images.clone()))],
                    _ => render::frame_parts(&self.agent.protocol, &set.images)
                        .map_err(|error| protocol_error("open", &error))?,
                };
                Ok((parts, Some(set.duration)))
            }
            Err(NoFrames { message, timed_out }) => {
                self.transcript.decode_timeout |= timed_out;
                if self.agent.plan.switches.frame_loss_is_error {
                    let (class, step) = (SampleErrorClass::FrameLoss, "open".to_owned());
                    return Err(SampleError { class, message, step });
                }
                self.transcript.frame_loss = Some(message);
                Ok((Vec::new(), None))
            }
        }
    }

    /// Frames of the sample's own video, decoded off the async threads. An error has the name of the video that
    /// records have.
    pub(super) async fn frames(&self, request: VideoRequest) -> Result<Arc<FrameSet>, NoFrames> {
        let request = request.with_reader(self.agent.plan.switches.reader);
        let source = Arc::clone(&self.agent.frames);
        self.blocking(move |path| source.frames(path, &request)).await
    }

    /// Work on the sample's video off the async threads.
    pub(super) async fn blocking<T: Send + 'static>(
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

/// Why there are no frames.
pub(super) struct NoFrames {
    /// With the name of the video.
    pub message: String,
    /// The time limit was over.
    pub timed_out: bool,
}
