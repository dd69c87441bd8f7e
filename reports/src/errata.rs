//! A second score of a run, without the items whose gold or question others doubt.
//!
//! It stands beside the first and never in its place: published numbers are over all items.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::profile::Profile;
use paravt_suite::task::Doubtful;
use serde::Serialize;

use crate::decide::Effect;
use crate::runs::RunDigest;
use crate::section::Section;
use crate::statistics::Cluster;
use crate::table::{Table, col, interval};
use crate::terminal::{Text, percent, within};

/// A run with and without its doubtful items. Values are shares, means over samples.
#[derive(Debug, Clone, Serialize)]
pub struct SecondScore {
    pub task: String,
    pub title: String,
    pub profile: Profile,
    pub run: String,
    /// Counted samples, and the doubtful ones among them.
    pub n: usize,
    pub doubtful: usize,
    pub score: f64,
    /// Mean without the doubtful ones.
    pub without: f64,
    /// Second less first.
    pub change: f64,
    /// 95 % interval of that, clustered by video; `None` for fewer than two videos.
    pub interval: Option<(f64, f64)>,
    /// Who doubts what.
    pub items: Vec<Doubtful>,
}

/// The runs among these with doubtful items.
pub(crate) fn second_scores(runs: &[RunDigest]) -> Vec<SecondScore> {
    runs.iter().filter_map(of).collect()
}

/// A counted sample: its video, its score, whether it is doubtful.
type Row<'a> = (&'a str, f64, bool);

fn of(run: &RunDigest) -> Option<SecondScore> {
    let items = &run.manifest.doubtful;
    let doubted: BTreeSet<&str> = items.iter().flat_map(|item| &item.uids).map(String::as_str).collect();
    let counted = run.samples.filter("counted");
    let (uids, videos, scores) = (counted.texts("sample"), counted.texts("video"), counted.reals("score"));
    let rows: Vec<Row<'_>> = uids
        .zip(videos)
        .zip(scores)
        .filter_map(|((uid, video), score)| {
            Some((video?, score?, uid.is_some_and(|uid| doubted.contains(uid))))
        })
        .collect();
    let doubtful = rows.iter().filter(|(.., doubtful)| *doubtful).count();
    if doubtful == 0 || doubtful == rows.len() {
        return None;
    }
    let mean = |keeps: fn(&Row<'_>) -> bool| {
        let kept: Vec<f64> = rows.iter().filter(|row| keeps(row)).map(|(_, score, _)| *score).collect();
        kept.iter().sum::<f64>() / kept.len() as f64
    };
    let (score, without) = (mean(|_| true), mean(|(.., doubtful)| !doubtful));
    let plan = &run.manifest.plan;
    Some(SecondScore {
        task: run.manifest.task.name.clone(),
        title: run.manifest.task.title.clone(),
        profile: plan.profile(),
        run: run.manifest.display_name(),
        n: rows.len(),
        doubtful,
        score,
        without,
        change: without - score,
        interval: change(&rows, score, without).and_then(|effect| effect.interval()),
        items: items.clone(),
    })
}

/// The second mean less the first. It is the mean of influence values of the samples (a difference of two ratios,
/// linearised), whose interval is clustered by video.
fn change(rows: &[Row<'_>], score: f64, without: f64) -> Option<Effect> {
    let kept = rows.iter().filter(|(.., doubtful)| !doubtful).count();
    let weight = rows.len() as f64 / kept as f64;
    let mut clusters = BTreeMap::<&str, Cluster>::new();
    for (video, value, doubtful) in rows {
        let second = if *doubtful { 0.0 } else { weight * (value - without) };
        let cluster = clusters.entry(video).or_insert(Cluster { sum: 0.0, n: 0 });
        cluster.sum += second - (value - score) + (without - score);
        cluster.n += 1;
    }
    Effect::unbounded(clusters.values())
}

fn table(scores: &[SecondScore]) -> Table {
    Table::of("errata", "Without doubtful items", scores)
        .text("split", "split", |one| one.title.clone())
        .text("run", "run", |one| one.run.clone())
        .text("profile", "profile", |one| one.profile.to_string())
        .count("n", "N", |one| one.n)
        .count("doubtful", "doubtful", |one| one.doubtful)
        .share("mean_percent", "mean over samples", |one| one.score)
        .share("without_percent", "without them", |one| one.without)
        .share("change_points", "change", |one| one.change)
        .share_ends([("low_points", "low"), ("high_points", "high")], |one| one.interval)
        .table()
}

/// Points with two decimals: a few items of thousands change little.
fn hundredths(share: f64) -> String {
    format!("{:+.2}", 100.0 * share)
}

fn show(text: &mut Text, scores: &[SecondScore]) {
    if scores.is_empty() {
        return;
    }
    text.line("doubtful items: mean over samples without them, and the change (95 % interval)");
    for one in scores {
        text.line(format!(
            "  {}: {} without {} of {}, {} ({})",
            one.task,
            percent(one.without),
            one.doubtful,
            one.n,
            hundredths(one.change),
            within(one.interval, |(low, high)| format!("{} to {}", hundredths(low), hundredths(high)))
        ));
    }
}

pub(crate) const SECTION: Section = Section {
    table: |report| table(&report.errata),
    link: "Errata",
    under: "Means over samples with and without items whose question or gold others doubt, beside the scores above and \
            not in their place: the change with its interval by video. Of a repeated run each draw counts.",
    page: &[],
    markdown: &[
        col("split"),
        col("run"),
        col("doubtful"),
        col("mean_percent"),
        col("without_percent"),
        col("change_points"),
        interval("low_points", "high_points", "95 %"),
    ],
    facts: Some(|report| {
        let items = report.errata.iter().flat_map(|one| one.items.iter().map(move |item| (one, item)));
        let facts = items.map(|(one, item)| {
            let uids = item.uids.join(", ");
            (format!("{} {uids}", one.title), format!("{} ({})", item.reason, item.source))
        });
        // Several runs of a split have the same.
        facts.collect::<BTreeSet<_>>().into_iter().collect()
    }),
    show: |text, report| show(text, &report.errata),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_has_the_interval_of_its_jackknife_over_videos() {
        let values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0];
        let names: Vec<String> = (0..12).map(|row| format!("v{}", row / 2)).collect();
        let rows: Vec<Row<'_>> =
            values.iter().enumerate().map(|(row, value)| (&*names[row], *value, row % 5 == 0)).collect();
        let difference = |rows: &[Row<'_>]| {
            let mean = |kept: Vec<&Row<'_>>| kept.iter().map(|row| row.1).sum::<f64>() / kept.len() as f64;
            mean(rows.iter().filter(|row| !row.2).collect()) - mean(rows.iter().collect())
        };
        let mean = |rows: Vec<&Row<'_>>| rows.iter().map(|row| row.1).sum::<f64>() / rows.len() as f64;
        let (score, without) =
            (mean(rows.iter().collect()), mean(rows.iter().filter(|row| !row.2).collect()));
        let effect = change(&rows, score, without).unwrap();
        let (low, high) = effect.interval().unwrap();
        assert!((0.5 * (low + high) - difference(&rows)).abs() < 1e-9, "{low} {high}");
        // Each video left out once: the linear approximation is close to it, also on so few.
        let left: Vec<f64> = (0..6)
            .map(|out| {
                let name = format!("v{out}");
                difference(&rows.iter().copied().filter(|row| row.0 != name).collect::<Vec<_>>())
            })
            .collect();
        let centre = left.iter().sum::<f64>() / 6.0;
        let jackknife = (5.0 / 6.0 * left.iter().map(|one| (one - centre).powi(2)).sum::<f64>()).sqrt();
        // Of six clusters the interval has five degrees of freedom at most.
        let ratio = 0.5 * (high - low) / 2.571 / jackknife;
        assert!((0.8..1.3).contains(&ratio), "{ratio}");
    }
}
