//! Scores of one run, differences of two, and repeated runs.

use paravt_reports::decide::Effect;
use paravt_reports::pass_at;
use paravt_reports::statistics::Cluster;

use super::{Both, KEPT, PAIRS, Questions, Random, SCORES, Setting, Video, overlap, right, run, videos_of};

/// Draws of a question in a repeated run, and how far they correlate.
const DRAWS: usize = 4;
const OF_DRAWS: f64 = 0.5;

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

pub(super) fn shares(videos: usize) -> Vec<Setting> {
    scores("score, right or wrong", videos, right)
}

pub(super) fn graded(videos: usize) -> Vec<Setting> {
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

pub(super) fn differences(videos: usize) -> Vec<Setting> {
    paired("difference of two runs, right or wrong", videos, right, &KEPT)
}

pub(super) fn graded_differences(videos: usize) -> Vec<Setting> {
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

pub(super) fn repeated(videos: usize) -> Vec<Setting> {
    let rows = |draws: [f64; DRAWS]| Cluster { sum: draws.iter().sum(), n: DRAWS };
    over_draws("score of a repeated run", videos, |score| score, rows)
}

pub(super) fn pass_at_all(videos: usize) -> Vec<Setting> {
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
