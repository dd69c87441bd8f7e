//! Repeated runs: mean, pass@k, pass^k, majority vote and agreement of the draws of each sample.
//!
//! Every measure is a mean over samples of a value that the sample's draws give. Its interval is that of these values,
//! clustered by video: the spread of the draws is part of the values, that of samples and videos lies between them, so
//! that the interval covers both.

use paravt_suite::profile::Profile;
use serde::Serialize;

use crate::frame::{Frame, Values};
use crate::group_score::GroupScore;
use crate::pairs::RIGHT;
use crate::rows::{draws, majority};
use crate::runs::RunDigest;
use crate::section::Section;
use crate::statistics::mean;
use crate::table::{Table, col, interval};
use crate::terminal::{Text, percent, percent_interval, within};

/// One run whose samples were asked several times.
#[derive(Debug, Clone, Serialize)]
pub struct Repeats {
    pub task: String,
    pub title: String,
    pub profile: Profile,
    pub run: String,
    /// How often each sample was to be asked.
    pub repeat: usize,
    /// Mean, pass@k and pass^k for doubling k, majority, agreement; the last two where questions have options.
    pub measures: Vec<Measure>,
}

/// A mean over samples.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    /// `mean`, `pass@K`, `pass^K`, `majority` or `agreement`.
    pub name: String,
    /// The mean, a share.
    pub value: f64,
    /// 95 % interval, clustered by video; `None` for fewer than two videos.
    pub interval: Option<(f64, f64)>,
    /// Samples behind it: for pass@k those with at least k draws, for agreement those with two.
    pub samples: usize,
    pub videos: usize,
}

/// The draws of one sample.
struct Draws<'a> {
    video: &'a str,
    scores: Vec<f64>,
    /// Options chosen; `None` for a question without options.
    chosen: Option<Vec<Option<&'a str>>>,
}

/// The repeated runs among these.
pub(crate) fn repeats(runs: &[RunDigest]) -> Vec<Repeats> {
    let repeated = runs.iter().filter(|run| run.manifest.plan.repeat > 1);
    let of = |run: &RunDigest| {
        let repeat = run.manifest.plan.repeat;
        Repeats {
            task: run.manifest.task.name.clone(),
            title: run.manifest.task.title.clone(),
            profile: run.manifest.plan.profile(),
            run: run.manifest.display_name(),
            repeat,
            measures: measures(&run.samples, repeat),
        }
    };
    repeated.map(of).collect()
}

fn measures(samples: &Frame, repeat: usize) -> Vec<Measure> {
    let counted = samples.filter("counted");
    let videos: Vec<&str> = counted.texts("video").map(Option::unwrap_or_default).collect();
    let scores: Vec<f64> = counted.reals("score").map(Option::unwrap_or_default).collect();
    let chosen: Vec<Option<&str>> = counted.texts("chosen").collect();
    let golds: Vec<Option<&str>> = counted.texts("gold_text").collect();
    let of_sample = |(_, rows): (&str, Vec<usize>)| Draws {
        video: videos[rows[0]],
        scores: rows.iter().map(|row| scores[*row]).collect(),
        chosen: golds[rows[0]].map(|_| rows.iter().map(|row| chosen[*row]).collect()),
    };
    let all: Vec<Draws<'_>> = draws(&counted).into_iter().map(of_sample).collect();
    let mut found = vec![measure("mean".to_owned(), &all, |one| mean(&one.scores))];
    let doubled = std::iter::successors(Some(1), |k| Some(2 * k)).take_while(|k| *k < repeat);
    let right = |one: &Draws<'_>| one.scores.iter().filter(|score| **score >= RIGHT).count();
    for k in doubled.clone().chain([repeat]) {
        found.push(measure(format!("pass@{k}"), &all, |one| pass_at(k, one.scores.len(), right(one))));
    }
    // Of one draw both are the same.
    for k in doubled.skip(1).chain([repeat]) {
        found.push(measure(format!("pass^{k}"), &all, |one| pass_all(k, one.scores.len(), right(one))));
    }
    found.push(measure("majority".to_owned(), &all, voted));
    found.push(measure("agreement".to_owned(), &all, |one| agreement(one.chosen.as_deref()?)));
    found.retain(|measure| measure.samples > 0);
    found
}

fn measure(name: String, all: &[Draws<'_>], value: impl Fn(&Draws<'_>) -> Option<f64>) -> Measure {
    let found = all.iter().filter_map(|one| Some((one.video.to_owned(), value(one)?)));
    let (videos, values): (Vec<_>, Vec<_>) = found.map(|(video, value)| (Some(video), Some(value))).unzip();
    let frame = Frame::new(vec![("video", Values::Text(videos)), ("value", Values::Real(values))]);
    let clusters = frame.clusters("video", "value");
    let GroupScore { n: samples, value, interval, .. } = GroupScore::of("", clusters.values());
    Measure { name, value, interval, samples, videos: clusters.len() }
}

/// Probability that at least one of `k` of these `n` draws is right, `right` of them being so: the unbiased estimator
/// `1 - C(n - right, k) / C(n, k)` (Chen et al. 2021, arXiv 2107.03374, section 2.1). `None` for fewer than `k` draws.
pub fn pass_at(k: usize, n: usize, right: usize) -> Option<f64> {
    if k == 0 || n < k {
        return None;
    }
    let none = (n - right + 1..=n).map(|draw| (1.0 - k as f64 / draw as f64).max(0.0)).product::<f64>();
    Some(1.0 - none)
}

/// Probability that all of `k` of these `n` draws are right, `right` of them being so: `C(right, k) / C(n, k)` (Yao et al.
/// 2024, arXiv 2406.12045, section 3). `None` for fewer than `k` draws.
pub fn pass_all(k: usize, n: usize, right: usize) -> Option<f64> {
    if k == 0 || n < k {
        return None;
    }
    Some((0..k).map(|draw| right.saturating_sub(draw) as f64 / (n - draw) as f64).product())
}

/// Score of the option that most draws chose, of equally frequent ones the earliest; 0 without a choice.
fn voted(one: &Draws<'_>) -> Option<f64> {
    let chosen = one.chosen.as_deref()?;
    let most = majority(chosen);
    let place = chosen.iter().position(|choice| choice.is_some() && *choice == most);
    Some(place.map_or(0.0, |place| one.scores[place]))
}

/// Share of the pairs of draws that chose the same option; a draw without a choice agrees with none. `None` for fewer
/// than two draws.
fn agreement(chosen: &[Option<&str>]) -> Option<f64> {
    let pairs = chosen.len() * chosen.len().saturating_sub(1) / 2;
    let later = |(place, choice): (usize, &Option<&str>)| {
        chosen[place + 1..].iter().filter(|other| other.is_some() && *other == choice).count()
    };
    (pairs > 0).then(|| chosen.iter().enumerate().map(later).sum::<usize>() as f64 / pairs as f64)
}

/// One row per run and measure.
fn table(repeats: &[Repeats]) -> Table {
    let rows: Vec<(&Repeats, &Measure)> =
        repeats.iter().flat_map(|run| run.measures.iter().map(move |measure| (run, measure))).collect();
    Table::of("repeats", "Repetitions", &rows)
        .text("split", "split", |(run, _)| run.title.clone())
        .text("run", "run", |(run, _)| run.run.clone())
        .text("profile", "profile", |(run, _)| run.profile.to_string())
        .count("repeat", "repetitions", |(run, _)| run.repeat)
        .text("measure", "measure", |(_, measure)| measure.name.clone())
        .share("value_percent", "value, %", |(_, measure)| measure.value)
        .share_ends([("low_percent", "low"), ("high_percent", "high")], |(_, measure)| measure.interval)
        .count("samples", "samples", |(_, measure)| measure.samples)
        .count("videos", "videos", |(_, measure)| measure.videos)
        .table()
}

/// Adds the repeated runs to a report for a terminal.
fn show(text: &mut Text, repeats: &[Repeats]) {
    for run in repeats {
        text.line(format!("{}: {} repetitions of each sample ({})", run.task, run.repeat, run.run));
        for measure in &run.measures {
            let within = within(measure.interval, percent_interval);
            let Measure { name, value, samples, .. } = measure;
            text.line(format!("  {name:<9} {:>5} ({within}), N {samples}", percent(*value)));
        }
    }
}

pub(crate) const SECTION: Section = Section {
    table: |report| table(&report.repeats),
    link: "Repetitions",
    under: "Samples that were asked several times: mean of their means, pass@k (unbiased), majority vote and agreement, with \
            intervals by video.",
    page: &[],
    markdown: &[
        col("split"),
        col("run"),
        col("measure"),
        col("value_percent"),
        interval("low_percent", "high_percent", "95 %"),
        col("samples"),
    ],
    facts: None,
    show: |text, report| show(text, &report.repeats),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_right_draw() {
        for n in 1..=7usize {
            for right in 0..=n {
                for k in 1..=n {
                    // All subsets of k of n draws, of which the first `right` are right.
                    let subsets: Vec<u32> =
                        (0u32..1 << n).filter(|set| set.count_ones() == k as u32).collect();
                    let hit = subsets.iter().filter(|set| **set & ((1 << right) - 1) != 0).count();
                    let found = pass_at(k, n, right).unwrap();
                    let wanted = hit as f64 / subsets.len() as f64;
                    assert!((found - wanted).abs() < 1e-12, "pass@{k} of {right} in {n}: {found}, {wanted}");
                }
            }
        }
        assert_eq!(pass_at(3, 2, 1), None);
    }

    #[test]
    fn draws_without_a_choice_agree_with_none_and_do_not_vote() {
        assert_eq!(agreement(&[Some("a"), Some("a"), Some("b"), None]), Some(1.0 / 6.0));
        assert_eq!(agreement(&[None, None]), Some(0.0));
        assert_eq!(agreement(&[Some("a")]), None);
        let one = |chosen: &[Option<&'static str>], scores: &[f64]| {
            voted(&Draws { video: "v", scores: scores.to_vec(), chosen: Some(chosen.to_vec()) })
        };
        assert_eq!(one(&[None, Some("b"), Some("a"), Some("a")], &[0.0, 0.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(one(&[None, None], &[0.0, 0.0]), Some(0.0));
    }
}
