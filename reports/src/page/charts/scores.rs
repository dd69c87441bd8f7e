//! Scores by split, and by group of each breakdown, with the runs of a comparison beside one another.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::marks::{Group, Mark, Published, key, marks};
use crate::group_score::GroupScore;
use crate::order::group_by;
use crate::page::names::Names;
use crate::page::visible::visible;
use crate::rows::{order, titles};
use crate::statistics::Cluster;
use crate::{Cell, Report};

/// The runs with the numbers of their names.
struct Runs<'a> {
    cells: &'a [Cell],
    names: Vec<&'a str>,
    series: Vec<usize>,
}

impl<'a> Runs<'a> {
    fn new(report: &'a Report, names: &'a Names) -> Self {
        let distinct = names.distinct();
        let number = |position| distinct.iter().position(|name| *name == names.of(position));
        let series = (0..report.cells.len()).filter_map(number).collect();
        Self { cells: &report.cells, names: distinct, series }
    }

    fn of_split(&self, split: &str) -> impl Iterator<Item = (usize, &'a Cell)> {
        let cells = self.series.iter().copied().zip(self.cells);
        cells.filter(move |(_, cell)| cell.task == split)
    }

    /// Splits in their order: name and title.
    fn splits(&self) -> Vec<(&'a str, &'a str)> {
        let titles = group_by(self.cells.iter().map(|cell| (cell.task.as_str(), cell.title.as_str())));
        titles.into_iter().map(|(split, titles)| (split, titles[0])).collect()
    }
}

/// The legend: a mark and a name for each run.
pub(crate) fn legend(names: &Names) -> Vec<(String, String)> {
    let shown = names.distinct().into_iter().map(|name| visible(names.short(name)));
    shown.enumerate().map(|(series, name)| (key(series), name)).collect()
}

/// One group of lines per split: the runs' scores, the published ones, chance.
pub(crate) fn scores(report: &Report, names: &Names) -> String {
    let runs = Runs::new(report, names);
    let group = |(split, title): (&str, &str)| {
        let mut group = Group { chance: chance(&runs, split), ..Group::new(title) };
        for (series, cell) in runs.of_split(split) {
            if let Some(paper) = &cell.paper {
                let tip = format!(
                    "{title}: {:.1} ± {:.1}, {} as published",
                    paper.published, paper.margin, paper.row
                );
                if !group.published.iter().any(|other| other.tip == tip) {
                    group.published.push(Published { value: paper.published, margin: paper.margin, tip });
                }
            }
            if cell.score().is_some() {
                let (value, interval) = comparable_score(cell);
                let (complete, n, tip) = (cell.complete(), cell.n(), runs.names[series].to_owned());
                group.marks.push(Mark { series, value, interval, complete, n, tip });
            }
        }
        group
    };
    let groups: Vec<Group> = runs.splits().into_iter().map(group).collect();
    marks("Scores", &groups)
}

/// Our number in percent with its interval: the published metric beside a published number, else the headline.
fn comparable_score(cell: &Cell) -> (f64, Option<(f64, f64)>) {
    let (value, interval) = match (&cell.paper, cell.score()) {
        (None, Some(score)) => (score, cell.interval),
        _ => cell.over_samples(),
    };
    (100.0 * value, interval)
}

fn chance(runs: &Runs<'_>, split: &str) -> Option<f64> {
    runs.of_split(split).find_map(|(_, cell)| Some(100.0 * cell.digest.chance?))
}

/// The score of one run, by its number, in one group.
type Score<'a> = (usize, GroupScore<'a>);

/// The breakdowns of all splits together by what was measured, where there are several splits, then those of each split.
pub(crate) fn breakdowns(report: &Report, names: &Names) -> Vec<Value> {
    let runs = Runs::new(report, names);
    let splits = runs.splits();
    let mut sections = Vec::new();
    if splits.len() > 1 {
        let charts =
            titles().filter_map(|title| chart(&runs, "All splits", title, &measured(&runs, title, None)));
        sections.push(("All splits", charts.collect::<Vec<_>>()));
    }
    for (split, title) in splits {
        let own = own(&runs, split);
        let own = own.iter().filter_map(|(name, scores)| chart(&runs, title, name, scores));
        let measured =
            titles().filter_map(|name| chart(&runs, title, name, &measured(&runs, name, Some(split))));
        sections.push((title, own.chain(measured).collect()));
    }
    let shown = sections.into_iter().filter(|(_, charts)| !charts.is_empty());
    shown.map(|(title, charts)| context! { title => visible(title), charts }).collect()
}

/// The benchmark's own breakdowns: their titles and scores, groups in official order.
fn own<'a>(runs: &Runs<'a>, split: &'a str) -> Vec<(&'a str, Vec<Score<'a>>)> {
    let of_run = |(series, cell): (usize, &'a Cell)| {
        cell.own_groups().map(move |(title, group)| (title, (series, group)))
    };
    group_by(runs.of_split(split).flat_map(of_run))
}

/// Scores by what was measured, of one split or of all together; videos of one name in two splits are one cluster.
fn measured<'a>(runs: &Runs<'a>, title: &str, split: Option<&str>) -> Vec<Score<'a>> {
    let mut pooled: BTreeMap<(usize, &str, usize), BTreeMap<&str, Cluster>> = BTreeMap::new();
    for (series, cell) in runs.series.iter().copied().zip(runs.cells) {
        if split.is_some_and(|split| split != cell.task) {
            continue;
        }
        for band in cell.digest.bands.iter().filter(|band| band.title == title) {
            let group = pooled.entry((order(title, &band.label), &band.label, series)).or_default();
            for (video, cluster) in &band.clusters {
                let all = group.entry(video).or_insert(Cluster { sum: 0.0, n: 0 });
                *all = Cluster { sum: all.sum + cluster.sum, n: all.n + cluster.n };
            }
        }
    }
    let score = |((_, label, series), clusters): ((usize, &'a str, usize), BTreeMap<&str, Cluster>)| {
        (series, GroupScore::of(label, clusters.values()))
    };
    pooled.into_iter().map(score).collect()
}

/// One breakdown; nothing where all samples are in one group.
fn chart<'a>(runs: &Runs<'_>, of: &str, title: &str, scores: &[Score<'a>]) -> Option<Value> {
    let mark = |(series, group): &Score<'a>| {
        let (value, n, tip) = (100.0 * group.value, group.n, runs.names[*series].to_owned());
        (group.label, Mark { series: *series, value, interval: group.interval, complete: true, n, tip })
    };
    let groups = group_by(scores.iter().map(mark));
    let groups: Vec<Group> =
        groups.into_iter().map(|(label, marks)| Group { marks, ..Group::new(label) }).collect();
    let name = format!("{of} by {title}");
    (groups.len() > 1).then(|| context! { title => visible(title), svg => marks(&name, &groups) })
}
