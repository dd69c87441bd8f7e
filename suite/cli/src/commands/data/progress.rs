//! Progress of downloads: a bar on a terminal, else a line now and then.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paravt_fetch::{Event, Observer, size};
use paravt_reports::terminal::counted;

use crate::output;

/// How often a plain line is printed.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Shows what a fetch does.
pub(super) struct Progress {
    name: String,
    state: Mutex<State>,
}

struct State {
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    /// Bytes that were there at the start.
    before: u64,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// Begins; nothing is shown before sizes are known.
    pub(super) fn start(name: &str) -> Self {
        let now = Instant::now();
        let state = State { bar: None, total: 0, done: 0, before: 0, started: now, shown: now };
        Self { name: name.to_owned(), state: Mutex::new(state) }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Ok(state) = self.state.lock()
            && let Some(bar) = &state.bar
        {
            bar.finish_and_clear();
        }
    }
}

impl State {
    fn begin(&mut self, missing: u64, total: u64) {
        let now = Instant::now();
        let bar = (std::io::stderr().is_terminal() && missing > 0 && !output::is_quiet()).then(|| {
            let bar = ProgressBar::new(total).with_position(total - missing);
            let style = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            // The rate is of what comes now.
            bar.reset_eta();
            bar
        });
        let before = total - missing;
        *self = State { bar, total, done: before, before, started: now, shown: now };
    }

    fn advance(&mut self, name: &str, done: u64) {
        self.done = done;
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.shown.elapsed() >= PLAIN_INTERVAL && !output::is_quiet() => {
                self.shown = Instant::now();
                let (rate, left) = rate(done, self.before, self.total, self.started.elapsed());
                eprintln!("{name}: {} of {}, {}/s, {left} left", size(done), size(self.total), size(rate));
            }
            None => {}
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None if output::is_quiet() => {}
            None => eprintln!("{line}"),
        }
    }
}

impl Observer for Progress {
    fn event(&self, event: Event) {
        let Ok(mut state) = self.state.lock() else { return };
        match event {
            Event::Planned { repo, commit, files, missing, total } => {
                state.begin(missing, total);
                let name = &self.name;
                state.say(&format!(
                    "{name}: {} of {} in {} of {repo}@{commit}",
                    size(missing),
                    size(total),
                    counted(files, "file")
                ));
            }
            Event::Bytes(bytes) => {
                let done = state.done.saturating_add(bytes);
                state.advance(&self.name, done);
            }
            Event::Discarded(bytes) => {
                let done = state.done.saturating_sub(bytes);
                state.advance(&self.name, done);
            }
            Event::Retry { what, message, seconds } => {
                state.say(&format!("{what}: {message}; next try in {seconds} s"));
            }
            Event::Verified { .. } => {}
            // Minutes for an archive of many GB.
            Event::Unpacking { archive } => state.say(&format!("{archive}: unpacking")),
            Event::Unpacked { archive, members, refused } => {
                let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
                state.say(&format!("{archive}: {} unpacked{refused}", counted(members, "member")));
            }
            Event::Deleted { archive } => state.say(&format!("{archive}: deleted")),
        }
    }
}

/// Counts items, and prints a line with the time left now and then.
pub(super) struct Counted {
    what: &'static str,
    started: Instant,
    shown: Mutex<Instant>,
}

impl Counted {
    pub(super) fn start(what: &'static str) -> Self {
        let started = Instant::now();
        Self { what, started, shown: Mutex::new(started) }
    }

    /// Notes that `done` of `all` items are done.
    pub(super) fn reached(&self, done: usize, all: usize) {
        let Ok(mut shown) = self.shown.lock() else { return };
        if shown.elapsed() >= PLAIN_INTERVAL && !output::is_quiet() {
            *shown = Instant::now();
            let (_, left) = rate(done as u64, 0, all as u64, self.started.elapsed());
            eprintln!("{}: {done} of {all}, {left} left", self.what);
        }
    }
}

/// Bytes a second since the start, and the time left at that rate.
fn rate(done: u64, before: u64, total: u64, elapsed: Duration) -> (u64, String) {
    let rate = done.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(1e-3);
    let seconds = total.saturating_sub(done) as f64 / rate;
    let left = match seconds {
        seconds if !seconds.is_finite() => "?".to_owned(),
        seconds if seconds < 60.0 => format!("{seconds:.0} s"),
        seconds if seconds < 3600.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    };
    (rate as u64, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times() {
        let after = |seconds| rate(3_000, 1_000, 9_000, Duration::from_secs(seconds));
        assert_eq!(after(2), (1000, "6 s".to_owned()));
        assert_eq!(after(200), (10, "10 min".to_owned()));
        assert_eq!(after(20_000), (0, "16.7 h".to_owned()));
        assert_eq!(rate(5, 5, 9, Duration::from_secs(1)), (0, "?".to_owned()));
    }
}
