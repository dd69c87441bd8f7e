//! Progress of downloads.

use std::sync::Mutex;

use paravt_fetch::{Event, Observer, size};
use paravt_reports::terminal::counted;

use crate::output;
use crate::progress::{Kind, Meter};

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
            *meter = Some(Meter::start(Kind::Bytes(self.name.clone()), total - missing, total));
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
