//! Looking into a video: its header, or frames of it with the results kept for the next time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use paravt_files::{read_limited, sha256, write_atomic};
use serde::{Deserialize, Serialize};

use crate::media::{self, Depth, MediaError, VideoInfo};

/// How `data check` looks into the videos of a split; asked from several threads.
pub trait Inspect: Sync {
    /// Looks into one file; what is known of it afterwards.
    ///
    /// # Errors
    /// Why the video cannot be used, in a few words without its path.
    fn inspect(&self, video: &Path) -> Result<Option<VideoInfo>, String>;
}

impl Inspect for Depth {
    fn inspect(&self, video: &Path) -> Result<Option<VideoInfo>, String> {
        media::check(video, *self).map(|()| None).map_err(|error| reason(video, &error))
    }
}

/// Decodes the ends and the middle of each video within a time, and keeps what it found until the file
/// changes (in size or time of change) or FFmpeg does.
pub struct Decoding {
    limit: Duration,
    /// Where results are kept; `None` keeps none.
    file: Option<PathBuf>,
    kept: Mutex<Kept>,
}

/// The file of results. Videos are known by the hash of their path.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    ffmpeg: String,
    videos: BTreeMap<String, CachedResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CachedResult {
    bytes: u64,
    /// Nanoseconds since 1970.
    changed: u128,
    video: Option<VideoInfo>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What is decoded of a video: results of another check are made again.
const CHECKED: &str = "ends and middle, both readers";
/// Bytes that the file of results may have: a million videos.
const MAX_FILE: u64 = 512 << 20;
/// Results after which they are written: a check of hours that is ended has not been in vain.
const WRITTEN_EVERY: usize = 256;

impl Decoding {
    /// Gives each video this time. `folder` is where results are kept; those that cannot be read are made again.
    pub fn new(limit: Duration, folder: Option<&Path>) -> Self {
        let ffmpeg = format!("{}; {CHECKED}", media::ffmpeg_version());
        let file = folder.map(|folder| folder.join("decoded.json"));
        let read = |file: &PathBuf| serde_json::from_slice::<Kept>(&read_limited(file, MAX_FILE).ok()?).ok();
        let kept = file.as_ref().and_then(read).filter(|kept| kept.ffmpeg == ffmpeg);
        let kept = kept.unwrap_or_else(|| Kept { ffmpeg, videos: BTreeMap::new() });
        Self { limit, file, kept: Mutex::new(kept) }
    }

    /// Writes the results for the next time.
    pub fn keep(&self) -> io::Result<()> {
        self.write(&self.kept())
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        write_atomic(file, &serde_json::to_vec(kept).map_err(io::Error::other)?)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // The map is whole between statements.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inspect for Decoding {
    fn inspect(&self, video: &Path) -> Result<Option<VideoInfo>, String> {
        let known = identity(video);
        let key = sha256(video.as_os_str().as_encoded_bytes());
        let before = self.kept().videos.get(&key).cloned();
        if let Some(found) = before.filter(|found| known == Some((found.bytes, found.changed))) {
            return found.reason.map_or(Ok(found.video), Err);
        }
        let inspected = media::inspect(video, self.limit);
        // Another limit, a disk that answers, other permissions: these may end otherwise next time.
        let lasts = !matches!(inspected, Err(MediaError::Timeout { .. } | MediaError::Open(_)));
        let result = inspected.map_err(|error| reason(video, &error));
        if let Some((bytes, changed)) = known.filter(|_| lasts) {
            let (video, reason) = (result.as_ref().ok().cloned(), result.as_ref().err().cloned());
            let mut kept = self.kept();
            kept.videos.insert(key, CachedResult { bytes, changed, video, reason });
            if kept.videos.len().is_multiple_of(WRITTEN_EVERY) {
                // What cannot be written is said at the end.
                let _ = self.write(&kept);
            }
        }
        result.map(Some)
    }
}

/// Size and time of change of a file.
fn identity(path: &Path) -> Option<(u64, u128)> {
    let file = std::fs::metadata(path).ok()?;
    let changed = file.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some((file.len(), changed.as_nanos()))
}

/// The error in a few words.
fn reason(video: &Path, error: &MediaError) -> String {
    match error {
        MediaError::Open(message) => match std::fs::metadata(video) {
            Ok(file) if file.is_file() && file.len() == 0 => "empty".to_owned(),
            _ => message.clone(),
        },
        MediaError::NoVideo => "no video stream".to_owned(),
        MediaError::Decode { index, message } => format!("frame {index} cannot be decoded ({message})"),
        other => other.to_string(),
    }
}
