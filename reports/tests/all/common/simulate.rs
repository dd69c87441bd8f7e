//! Simulated runs with correlated answers: how often each kind of interval that a report prints holds the truth.
#![allow(dead_code, reason = "the example and the tests each use a part")]

use std::collections::BTreeMap;
use std::ops::Range;

use paravt_reports::decide::{Effect, Family, Margin, Support, Verdict};
use paravt_reports::pass_at;
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
/// Draws of a question in a repeated run, and how far they correlate.
const DRAWS: usize = 4;
const OF_DRAWS: f64 = 0.5;

/// Simulated runs of a setting, and of one that seems to hold less often than others.
const RUNS: usize = 2_000;
const RUNS_OF_LOW: usize = 20_000;
const LOW: f64 = 0.94;

/// An interval that a simulated run gave.
type Interval = Option<(f64, f64)>;

/// One setting of one kind.
pub(crate) struct Setting {
    /// What the interval is of.
    pub kind: &'static str,
    /// Videos, or seeds.
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
        shares,
        graded,
        differences,
        graded_differences,
        repeated,
        pass_at_all,
        over_groups,
        over_splits_and_seeds,
        relative_gains,
    ];
    for kind in kinds {
        VIDEOS.iter().for_each(|videos| all.extend(kind(*videos)));
    }
    let mut of_seeds: Vec<Setting> = [2, 3, 5, 8].into_iter().flat_map(over_seeds).collect();
    of_seeds.sort_by_key(|one| one.kind);
    all.extend(of_seeds);
    VIDEOS.iter().for_each(|videos| all.extend(families(*videos)));
    all
}

/// Questions of each video.
#[derive(Clone, Copy)]
enum Questions {
    Each(usize),
    /// One to ten.
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

fn named(clusters: Vec<Cluster>, from: usize) -> BTreeMap<String, Cluster> {
    (from..).map(|video| video.to_string()).zip(clusters).collect()
}

fn scores(kind: &'static str, videos: usize, value: fn(f64, f64) -> f64) -> Vec<Setting> {
    let mut all = Vec::new();
    for (questions, correlation) in Questions::correlated() {
        for score in SCORES {
            let name = format!("score {}, {}, ICC {correlation}", 100.0 * score, questions.name());
            let draw = move |random: &mut Random| {
                let videos = videos_of(videos, correlation, random);
                Effect::share(&run(&videos, questions, random, |draw| value(draw, score)))?.interval()
            };
            all.push(Setting { kind, videos, name, truth: score, draw: Box::new(draw) });
        }
    }
    all
}

fn shares(videos: usize) -> Vec<Setting> {
    scores("score, right or wrong", videos, right)
}

fn graded(videos: usize) -> Vec<Setting> {
    scores("score, overlap of windows", videos, overlap)
}

fn paired(kind: &'static str, videos: usize, value: fn(f64, f64) -> f64, kept: &[f64]) -> Vec<Setting> {
    let mut all = Vec::new();
    for (questions, correlation) in Questions::correlated() {
        for ((a, b), kept) in PAIRS.into_iter().flat_map(|pair| kept.iter().map(move |kept| (pair, *kept))) {
            let name = format!(
                "A {}, B {}, {} % of the answers kept, {}, ICC {correlation}",
                100.0 * a,
                100.0 * b,
                100.0 * kept,
                questions.name()
            );
            let draw = move |random: &mut Random| {
                let both = Both::new(videos, correlation, kept, random);
                let difference = |first, second| value(second, b) - value(first, a);
                Effect::difference(&both.run(0..videos, questions, random, difference))?.interval()
            };
            all.push(Setting { kind, videos, name, truth: b - a, draw: Box::new(draw) });
        }
    }
    all
}

fn differences(videos: usize) -> Vec<Setting> {
    paired("difference of two runs, right or wrong", videos, right, &KEPT)
}

fn graded_differences(videos: usize) -> Vec<Setting> {
    paired("difference of two runs, overlap of windows", videos, overlap, &KEPT[..1])
}

/// Scores of the draws of one question.
fn draws(video: &Video, score: f64, random: &mut Random) -> [f64; DRAWS] {
    let question = Video { shared: OF_DRAWS.sqrt(), common: video.draw(random) };
    std::array::from_fn(|_| right(question.draw(random), score))
}

fn over_draws(
    kind: &'static str,
    videos: usize,
    truth: fn(f64) -> f64,
    summed: fn([f64; DRAWS]) -> Cluster,
) -> Vec<Setting> {
    let mut all = Vec::new();
    let few = |(questions, _): &(Questions, f64)| matches!(questions, Questions::Each(1 | 3));
    for (questions, correlation) in Questions::correlated().filter(few) {
        for score in SCORES {
            let name =
                format!("score {}, {}, ICC {correlation}, {DRAWS} draws", 100.0 * score, questions.name());
            let draw = move |random: &mut Random| {
                let cluster = |video| {
                    let common = Video::new(correlation, random);
                    let add =
                        |sum: Cluster, one: Cluster| Cluster { sum: sum.sum + one.sum, n: sum.n + one.n };
                    let of_questions =
                        (0..questions.of(video)).map(|_| summed(draws(&common, score, random)));
                    of_questions.fold(Cluster { sum: 0.0, n: 0 }, add)
                };
                Effect::share(&(0..videos).map(cluster).collect::<Vec<_>>())?.interval()
            };
            all.push(Setting { kind, videos, name, truth: truth(score), draw: Box::new(draw) });
        }
    }
    all
}

fn repeated(videos: usize) -> Vec<Setting> {
    let rows = |draws: [f64; DRAWS]| Cluster { sum: draws.iter().sum(), n: DRAWS };
    over_draws("score of a repeated run", videos, |score| score, rows)
}

fn pass_at_all(videos: usize) -> Vec<Setting> {
    // No draw is right: they are copies of the question's draw with probability √ρ, else their own.
    let truth = |score: f64| {
        let (copies, wrong) = (OF_DRAWS.sqrt(), 1.0 - score);
        let none = |copy_is_wrong: f64| (copies * copy_is_wrong + (1.0 - copies) * wrong).powi(DRAWS as i32);
        1.0 - score * none(0.0) - wrong * none(1.0)
    };
    let any = |draws: [f64; DRAWS]| {
        let right = draws.iter().filter(|draw| **draw > 0.5).count();
        Cluster { sum: pass_at(DRAWS, DRAWS, right).expect("as many draws"), n: 1 }
    };
    over_draws("pass@k of a repeated run", videos, truth, any)
}

/// Videos of three groups.
#[derive(Clone, Copy)]
enum Groups {
    Equal,
    /// A tenth, three and six tenths.
    Unequal,
    /// All videos in every group.
    Shared,
}

impl Groups {
    /// Videos of each.
    fn split(self, videos: usize) -> [Range<usize>; 3] {
        let parts = match self {
            Self::Equal => [videos / 3, videos / 3, videos - 2 * (videos / 3)],
            Self::Unequal => {
                [videos.div_ceil(10), 3 * videos / 10, videos - videos.div_ceil(10) - 3 * videos / 10]
            }
            Self::Shared => return [(); 3].map(|()| 0..videos),
        };
        [0..parts[0], parts[0]..parts[0] + parts[1], parts[0] + parts[1]..videos]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "3 groups of equal size",
            Self::Unequal => "groups of a tenth, 3 and 6 tenths of the videos",
            Self::Shared => "3 groups on the same videos",
        }
    }
}

fn over_groups(videos: usize) -> Vec<Setting> {
    let mut all = Vec::new();
    for groups in [Groups::Equal, Groups::Unequal, Groups::Shared] {
        for (questions, correlation) in Questions::correlated() {
            for score in SCORES {
                let name = format!(
                    "score {}, {}, {}, ICC {correlation}",
                    100.0 * score,
                    groups.name(),
                    questions.name()
                );
                let draw = move |random: &mut Random| {
                    let all = videos_of(videos, correlation, random);
                    let of_group = |videos: Range<usize>| {
                        named(
                            run(&all[videos.clone()], questions, random, |draw| right(draw, score)),
                            videos.start,
                        )
                    };
                    Effect::of_groups(&groups.split(videos).map(of_group), Support::Share)?.interval()
                };
                let kind = "mean over groups";
                all.push(Setting { kind, videos, name, truth: score, draw: Box::new(draw) });
            }
        }
    }
    all.retain(|one| one.draws_intervals());
    all
}

/// Seeds of a study that is judged by video.
const SEEDS: usize = 3;

fn over_splits_and_seeds(videos: usize) -> Vec<Setting> {
    let mut all = Vec::new();
    for (questions, correlation) in Questions::correlated() {
        for (a, b) in [(0.1, 0.5), (0.5, 0.5), (0.9, 0.98)] {
            let name = format!(
                "A {}, B {}, 2 splits of 3 and 7 tenths, {SEEDS} seeds, {}, ICC {correlation}",
                100.0 * a,
                100.0 * b,
                questions.name()
            );
            let draw = move |random: &mut Random| {
                let both = Both::new(videos, correlation, KEPT[0], random);
                let first = 3 * videos / 10;
                let mut groups = Vec::new();
                for split in [0..first, first..videos] {
                    for _ in 0..SEEDS {
                        let difference = |one, other| right(other, b) - right(one, a);
                        groups
                            .push(named(both.run(split.clone(), questions, random, difference), split.start));
                    }
                }
                Effect::of_groups(&groups, Support::Difference)?.interval()
            };
            let kind = "difference over splits and seeds, by video";
            all.push(Setting { kind, videos, name, truth: b - a, draw: Box::new(draw) });
        }
    }
    all.retain(|one| one.draws_intervals());
    all
}

/// Mean relative gain over seven splits, as the claims have it: full splits have many videos.
fn relative_gains(videos: usize) -> Vec<Setting> {
    let mut all = Vec::new();
    for correlation in CORRELATIONS.into_iter().filter(|_| videos >= 100) {
        for ((a, b), kept) in
            [(0.5, 0.6), (0.3, 0.3), (0.6, 0.9)].into_iter().flat_map(|pair| KEPT.map(|kept| (pair, kept)))
        {
            let name = format!(
                "7 splits, A {}, B {}, {} % kept, 3 questions a video, ICC {correlation}",
                100.0 * a,
                100.0 * b,
                100.0 * kept
            );
            let draw = move |random: &mut Random| {
                let mut of_split = |split: usize| {
                    // Both scores in one sum: hundreds of B, units of A.
                    let value = |one, other| right(one, a) + 100.0 * right(other, b);
                    let both = Both::new(videos, correlation, kept, random);
                    let both = both.run(0..videos, Questions::Each(3), random, value);
                    let n: usize = both.iter().map(|cluster| cluster.n).sum();
                    let scores = |cluster: &Cluster| (cluster.sum % 100.0, (cluster.sum / 100.0).floor());
                    let sums =
                        both.iter().map(scores).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                    let (mean, gain) = (sums.0 / n as f64, sums.1 / sums.0);
                    let moved = |cluster: &Cluster| {
                        let (of_a, of_b) = scores(cluster);
                        let sum = (of_b - gain * of_a) / mean + (gain - 1.0) * cluster.n as f64;
                        Cluster { sum, n: cluster.n }
                    };
                    named(both.iter().map(moved).collect(), 1_000 * split)
                };
                let groups: Vec<_> = (0..7).map(&mut of_split).collect();
                Effect::of_groups(&groups, Support::Unbounded)?.interval()
            };
            let kind = "mean relative gain";
            all.push(Setting { kind, videos, name, truth: b / a - 1.0, draw: Box::new(draw) });
        }
    }
    all
}

/// A standard normal draw (Box & Muller).
fn normal(random: &mut Random) -> f64 {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Means of trainings with several seeds: scores over 48 questions that scatter evenly around a mean, and trainings of
/// which some end elsewhere.
fn over_seeds(seeds: usize) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add = |kind, name: String, truth: f64, value: Box<dyn Fn(&mut Random) -> f64 + Sync>| {
        let draw = move |random: &mut Random| {
            let values: Vec<f64> = (0..seeds).map(|_| value(random)).collect();
            Effect::repetitions(&values, Support::Share)?.interval()
        };
        all.push(Setting { kind, videos: seeds, name, truth, draw: Box::new(draw) });
    };
    let scored = |score: f64, random: &mut Random| {
        (0..48).filter(|_| random.random::<f64>() < score).count() as f64 / 48.0
    };
    for spread in [0.02, 0.1] {
        let value =
            move |random: &mut Random| scored((0.5 + spread * normal(random)).clamp(0.0, 1.0), random);
        let name = format!("score 50, standard deviation of the seeds {}", 100.0 * spread);
        add("mean over seeds", name, 0.5, Box::new(value));
    }
    for score in [0.1, 0.9, 0.98] {
        let name = format!("score {}, seeds differ by chance alone", 100.0 * score);
        add("mean over seeds", name, score, Box::new(move |random: &mut Random| scored(score, random)));
    }
    for share in [0.2, 0.5] {
        let value = move |random: &mut Random| {
            let fails = random.random::<f64>() < share;
            scored(if fails { 0.3 } else { 0.8 }, random)
        };
        let name = format!("{} % of the trainings end at 30, the others at 80", 100.0 * share);
        add("mean over seeds of which some fail", name, 0.8 - 0.5 * share, Box::new(value));
    }
    all
}

/// Seven comparisons without a difference: one of them has a verdict in one family of twenty at most.
fn families(videos: usize) -> Vec<Setting> {
    let of = |(score, correlation): (f64, f64)| {
        let name = format!("score {}, 3 questions a video, ICC {correlation}, 7 splits", 100.0 * score);
        let draw = move |random: &mut Random| {
            let mut family = Family::new("splits");
            for _ in 0..7 {
                let both = Both::new(videos, correlation, 0.5, random);
                let difference = |one, other| right(other, score) - right(one, score);
                let clusters = both.run(0..videos, Questions::Each(3), random, difference);
                family.push(Effect::difference(&clusters), Margin::NONE);
            }
            let is_wrong = |verdict: Verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
            let wrong = family.decide().into_iter().any(|decision| is_wrong(decision.verdict));
            // An interval that holds the truth, or one that does not.
            Some(if wrong { (1.0, 1.0) } else { (0.0, 0.0) })
        };
        let kind = "no wrong verdict among seven";
        Setting { kind, videos, name, truth: 0.0, draw: Box::new(draw) }
    };
    [0.1, 0.5]
        .into_iter()
        .flat_map(|score| [0.0, 0.5].map(|correlation| (score, correlation)))
        .map(of)
        .collect()
}

impl Setting {
    /// Whether the numbers of videos leave an interval at all.
    fn draws_intervals(&self) -> bool {
        (self.draw)(&mut Random::seed_from_u64(0)).is_some()
    }
}
