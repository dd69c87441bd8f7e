//! Simulated runs with correlated answers: how often each kind of interval that a report prints holds the truth.
#![allow(dead_code, reason = "the example and the tests each use a part")]

mod means;
mod runs;

use std::ops::Range;

use paravt_reports::statistics::{Cluster, Coverage};
use rand::{Rng as _, SeedableRng as _};
pub(crate) use rand_chacha::ChaCha8Rng as Random;

/// Numbers of videos.
pub(crate) const VIDEOS: [usize; 8] = [2, 3, 5, 10, 12, 30, 100, 300];
/// True scores.
const SCORES: [f64; 5] = [0.02, 0.1, 0.5, 0.9, 0.98];
/// True scores of two runs.
const PAIRS: [(f64, f64); 7] =
    [(0.02, 0.02), (0.02, 0.1), (0.1, 0.5), (0.5, 0.5), (0.5, 0.6), (0.6, 0.98), (0.9, 0.98)];
/// Correlation of two answers about one video.
const CORRELATIONS: [f64; 3] = [0.0, 0.2, 0.5];
/// Shares of the answers that a second run takes over.
const KEPT: [f64; 2] = [0.5, 0.9];
/// Simulated runs of a setting, and of one that seems to hold less often than others.
const RUNS: usize = 2_000;
const RUNS_OF_LOW: usize = 20_000;
const LOW: f64 = 0.94;

/// An interval that a simulated run gave.
type Interval = Option<(f64, f64)>;

pub(crate) struct Setting {
    /// What the interval is of.
    pub kind: &'static str,
    pub videos: usize,
    /// The rest in words.
    pub name: String,
    truth: f64,
    draw: Box<dyn Fn(&mut Random) -> Interval + Sync>,
}

impl Setting {
    /// Share of the intervals that hold the truth, and their mean width. Runs without an interval promise nothing
    /// and are left out.
    pub(crate) fn coverage(&self) -> (f64, f64) {
        let (first, width) = self.simulate(RUNS);
        if first < LOW { self.simulate(RUNS_OF_LOW) } else { (first, width) }
    }

    fn simulate(&self, runs: usize) -> (f64, f64) {
        let mut random = Random::seed_from_u64(self.seed() + runs as u64);
        let (mut held, mut width, mut intervals) = (0, 0.0, 0);
        for (low, high) in (0..runs).filter_map(|_| (self.draw)(&mut random)) {
            // The ends of a range are floats that sums miss by their last bits.
            held += usize::from(low <= self.truth + 1e-9 && self.truth <= high + 1e-9);
            width += high - low;
            intervals += 1;
        }
        let intervals = f64::from(intervals.max(1));
        (held as f64 / intervals, width / intervals)
    }

    /// Whether the numbers of videos leave an interval at all.
    fn draws_intervals(&self) -> bool {
        (self.draw)(&mut Random::seed_from_u64(0)).is_some()
    }

    /// The same for a setting in whichever order (FNV-1a).
    fn seed(&self) -> u64 {
        let text = format!("{} {} {}", self.kind, self.videos, self.name);
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
            >> 1
    }
}

/// One row of the table from the settings of a kind and a number of videos.
pub(crate) fn row(settings: &[Setting], found: &[(f64, f64)]) -> Coverage {
    let percent = |share: f64| (1000.0 * share).round() / 10.0;
    let mean = |value: fn(&(f64, f64)) -> f64| found.iter().map(value).sum::<f64>() / found.len() as f64;
    let worst = (0..found.len()).min_by(|a, b| found[*a].0.total_cmp(&found[*b].0)).expect("settings");
    Coverage {
        kind: settings[0].kind.to_owned(),
        videos: settings[0].videos,
        settings: settings.len(),
        coverage: percent(mean(|one| one.0)),
        worst: percent(found[worst].0),
        worst_at: settings[worst].name.clone(),
        width: percent(mean(|one| one.1)),
    }
}

/// Every setting, kind by kind.
pub(crate) fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    let kinds: [fn(usize) -> Vec<Setting>; 9] = [
        runs::shares,
        runs::graded,
        runs::differences,
        runs::graded_differences,
        runs::repeated,
        runs::pass_at_all,
        means::over_groups,
        means::over_splits_and_seeds,
        means::relative_gains,
    ];
    for kind in kinds {
        VIDEOS.iter().for_each(|videos| all.extend(kind(*videos)));
    }
    let mut of_seeds: Vec<Setting> = [2, 3, 5, 8].into_iter().flat_map(means::over_seeds).collect();
    of_seeds.sort_by_key(|one| one.kind);
    all.extend(of_seeds);
    VIDEOS.iter().for_each(|videos| all.extend(means::families(*videos)));
    all
}

/// Questions of each video.
#[derive(Clone, Copy)]
enum Questions {
    Each(usize),
    Unequal,
}

const QUESTIONS: [Questions; 5] =
    [Questions::Each(1), Questions::Each(2), Questions::Each(3), Questions::Each(10), Questions::Unequal];

impl Questions {
    fn of(self, video: usize) -> usize {
        match self {
            Self::Each(questions) => questions,
            Self::Unequal => 1 + video * video % 10,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Each(1) => "1 question a video".to_owned(),
            Self::Each(questions) => format!("{questions} questions a video"),
            Self::Unequal => "1 to 10 questions a video".to_owned(),
        }
    }

    /// With every correlation that there can be.
    fn correlated() -> impl Iterator<Item = (Self, f64)> {
        let alone = |(questions, correlation): &(Self, f64)| {
            !matches!(questions, Self::Each(1)) || *correlation == 0.0
        };
        QUESTIONS.into_iter().flat_map(|one| CORRELATIONS.map(|correlation| (one, correlation))).filter(alone)
    }
}

/// Uniform draws of one video's questions: each is the video's draw with probability `√ρ` and its own otherwise, so
/// that two of them correlate by `ρ`.
struct Video {
    shared: f64,
    common: f64,
}

impl Video {
    fn new(correlation: f64, random: &mut Random) -> Self {
        Self { shared: correlation.sqrt(), common: random.random() }
    }

    fn draw(&self, random: &mut Random) -> f64 {
        let takes: f64 = random.random();
        let own: f64 = random.random();
        if takes < self.shared { self.common } else { own }
    }
}

fn right(draw: f64, score: f64) -> f64 {
    f64::from(u8::from(draw < score))
}

/// An overlap with the mean `score`: none (or all) for some, uniform for the rest.
fn overlap(draw: f64, score: f64) -> f64 {
    match score <= 0.5 {
        true => (draw - (1.0 - 2.0 * score)).max(0.0) / (2.0 * score),
        false => (draw / (2.0 - 2.0 * score)).min(1.0),
    }
}

fn videos_of(videos: usize, correlation: f64, random: &mut Random) -> Vec<Video> {
    (0..videos).map(|_| Video::new(correlation, random)).collect()
}

/// Clusters of a run on these videos: the value of each question from its draw.
fn run(
    videos: &[Video],
    questions: Questions,
    random: &mut Random,
    value: impl Fn(f64) -> f64,
) -> Vec<Cluster> {
    let mut cluster = |(place, video): (usize, &Video)| {
        let n = questions.of(place);
        Cluster { sum: (0..n).map(|_| value(video.draw(random))).sum(), n }
    };
    videos.iter().enumerate().map(&mut cluster).collect()
}

/// Videos for the answers of two runs, of which the second takes over this share of the first one's.
struct Both {
    first: Vec<Video>,
    second: Vec<Video>,
    kept: f64,
}

impl Both {
    fn new(videos: usize, correlation: f64, kept: f64, random: &mut Random) -> Self {
        let [first, second] = [(); 2].map(|()| videos_of(videos, correlation, random));
        Self { first, second, kept }
    }

    /// Clusters of a value from the draws of both runs, on some of the videos.
    fn run(
        &self,
        videos: Range<usize>,
        questions: Questions,
        random: &mut Random,
        value: impl Fn(f64, f64) -> f64,
    ) -> Vec<Cluster> {
        let mut row = |video: usize| {
            let (a, b) = (self.first[video].draw(random), self.second[video].draw(random));
            let keeps: f64 = random.random();
            value(a, if keeps < self.kept { a } else { b })
        };
        let mut cluster = |video: usize| {
            let n = questions.of(video);
            Cluster { sum: (0..n).map(|_| row(video)).sum(), n }
        };
        videos.map(&mut cluster).collect()
    }
}
