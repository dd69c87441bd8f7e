//! Means over groups, splits and seeds, and families of verdicts.

use std::collections::BTreeMap;
use std::ops::Range;

use paravt_reports::decide::{Effect, Family, Margin, Support, Verdict};
use paravt_reports::statistics::Cluster;
use rand::Rng as _;

use super::{Both, CORRELATIONS, KEPT, Questions, Random, SCORES, Setting, right, run, videos_of};

fn named(clusters: Vec<Cluster>, from: usize) -> BTreeMap<String, Cluster> {
    (from..).map(|video| video.to_string()).zip(clusters).collect()
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

pub(super) fn over_groups(videos: usize) -> Vec<Setting> {
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

pub(super) fn over_splits_and_seeds(videos: usize) -> Vec<Setting> {
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
pub(super) fn relative_gains(videos: usize) -> Vec<Setting> {
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
/// which some fail. Where no seed or every seed failed, nothing in the scores says so: the interval is of trainings that
/// end as those did, which is a mean over seeds like the others.
pub(super) fn over_seeds(seeds: usize) -> Vec<Setting> {
    type Draw = dyn Fn(&mut Random) -> Vec<f64> + Sync;
    let mut all = Vec::new();
    let mut add = |kind, name: String, truth: f64, values: Box<Draw>| {
        let draw = move |random: &mut Random| {
            let values = values(random);
            (values.len() == seeds).then(|| Effect::repetitions(&values, Support::Share)?.interval())?
        };
        all.push(Setting { kind, videos: seeds, name, truth, draw: Box::new(draw) });
    };
    let scored = |score: f64, random: &mut Random| {
        (0..48).filter(|_| random.random::<f64>() < score).count() as f64 / 48.0
    };
    for spread in [0.02, 0.1] {
        let value =
            move |random: &mut Random| scored((0.5 + spread * normal(random)).clamp(0.0, 1.0), random);
        let values = move |random: &mut Random| (0..seeds).map(|_| value(random)).collect();
        let name = format!("score 50, standard deviation of the seeds {}", 100.0 * spread);
        add("mean over seeds", name, 0.5, Box::new(values));
    }
    for score in [0.1, 0.9, 0.98] {
        let values = move |random: &mut Random| (0..seeds).map(|_| scored(score, random)).collect();
        let name = format!("score {}, seeds differ by chance alone", 100.0 * score);
        add("mean over seeds", name, score, Box::new(values));
    }
    for share in [0.2, 0.5] {
        let values = move |random: &mut Random| {
            let fails: Vec<bool> = (0..seeds).map(|_| random.random::<f64>() < share).collect();
            let is_seen = fails.contains(&true) && fails.contains(&false);
            let score = |fails: bool| if fails { 0.3 } else { 0.8 };
            fails.into_iter().filter(|_| is_seen).map(|fails| scored(score(fails), random)).collect()
        };
        let name = format!("{} % of all trainings end at 30, the others at 80", 100.0 * share);
        add("mean over seeds of which some failed", name, 0.8 - 0.5 * share, Box::new(values));
    }
    all
}

/// Seven comparisons without a difference: one of them has a verdict in one family of twenty at most.
pub(super) fn families(videos: usize) -> Vec<Setting> {
    let of = |(score, correlation): (f64, f64)| {
        let name = format!("score {}, 3 questions a video, ICC {correlation}, 7 splits", 100.0 * score);
        let draw = move |random: &mut Random| {
            let family = Family::of((0..7).map(|_| {
                let both = Both::new(videos, correlation, 0.5, random);
                let difference = |one, other| right(other, score) - right(one, score);
                let clusters = both.run(0..videos, Questions::Each(3), random, difference);
                (Effect::difference(&clusters), Margin::NONE)
            }));
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
