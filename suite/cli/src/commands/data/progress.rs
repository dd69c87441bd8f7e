//! Progress of downloads, and of the decoding of videos.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use paravt_fetch::{Event, Observer, size};
use paravt_media::VideoInfo;
use paravt_reports::terminal::counted;
use paravt_suite::task::{Decoding, Inspect};

use crate::output;
use crate::progress::{Meter, MeterKind};

/// Shows what a fetch does; nothing before sizes are known.
pub(super) struct Progress {
    name: String,
    meter: Mutex<Option<Meter>>,
}

impl Progress {
    pub(super) fn start(name: &str) -> Self {
        Self { name: name.to_owned(), meter: Mutex::default() }
    }

    /// Takes the meter away.
    pub(super) fn finish(&self) {
        if let Ok(mut meter) = self.meter.lock() {
            *meter = None;
        }
    }
}

impl Observer for Progress {
    fn event(&self, event: Event) {
        let Ok(mut meter) = self.meter.lock() else { return };
        if let Event::Planned { missing, total, .. } = event {
            *meter = Some(Meter::start(MeterKind::Bytes(self.name.clone()), total - missing, total));
        }
        // Requests are repeated before sizes are known, too.
        let note = |line: String| match &*meter {
            Some(meter) => meter.note(&line),
            None if output::is_quiet() => {}
            None => eprintln!("{line}"),
        };
        let add = |change: i64| meter.iter().for_each(|meter| meter.add(change));
        match event {
            Event::Planned { repo, commit, files, missing, total } => note(format!(
                "{}: {} of {} in {} of {repo}@{commit}",
                self.name,
                size(missing),
                size(total),
                counted(files, "file")
            )),
            Event::Bytes(bytes) => add(bytes as i64),
            Event::Discarded(bytes) => add(-(bytes as i64)),
            Event::Retry { what, message, seconds } => {
                note(format!("{what}: {message}; next try in {seconds} s"));
            }
            Event::Verified { .. } => {}
            // Minutes for an archive of many GB.
            Event::Unpacking { archive } => note(format!("{archive}: unpacking")),
            Event::Unpacked { archive, members, refused } => {
                let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
                note(format!("{archive}: {} unpacked{refused}", counted(members, "member")));
            }
            Event::Deleted { archive } => note(format!("{archive}: deleted")),
        }
    }
}

/// Decodes frames of videos, counting them.
pub(super) struct CountedDecoding {
    decoding: Decoding,
    meter: Meter,
}

impl CountedDecoding {
    /// Gives each video so many seconds; results are kept in the cache folder, where there is one.
    pub(super) fn new(seconds: u64) -> Self {
        let decoding = Decoding::new(Duration::from_secs(seconds), paravt_files::cache_dir().as_deref());
        Self { decoding, meter: Meter::start(MeterKind::Count("video".to_owned()), 0, 0) }
    }

    /// Keeps the results for the next time.
    pub(super) fn end(self) {
        drop(self.meter);
        if let Err(error) = self.decoding.keep() {
            eprintln!("warning: the results of decoding cannot be kept for the next time: {error}");
        }
    }
}

impl Inspect for CountedDecoding {
    fn inspect(&self, video: &Path) -> Result<Option<VideoInfo>, String> {
        let found = self.decoding.inspect(video);
        self.meter.add(1);
        found
    }
}
