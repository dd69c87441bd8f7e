//! The methods box of the page: terms and sentences.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::visible::visible;
use crate::multiplicity::Multiplicity;
use crate::order::{distinct, group_by};
use crate::runs::Run;
use crate::statistics::{Coverage, by_kind, simulated};
use crate::study::unseen_failures;
use crate::terminal::counted;
use crate::{Cell, Report};

/// Definitions of metrics, intervals and margins; shown open.
const FIRST: [(&str, &str); 2] = [
    (
        "95 % by video",
        "Questions about one video are answered right or wrong together, so the video is the unit that is drawn: \
         samples are summed by video, and the interval is Student's t on the standard error between videos (CR1) after \
         two more videos are added, one with the lowest possible value throughout and one with the highest: where few \
         videos differ, others may. It never has a width of zero, and is cut only at what a score (0 to 100) or a \
         difference (-100 to +100) can be. Where some videos have more questions than others, fewer count. One video \
         has no interval, nor has a mean over groups that hangs on fewer than five; fewer than ten are marked as weak.",
    ),
    (
        "verdict",
        "Reproduced: the whole interval of the difference lies inside the margin. Better or worse: the whole interval \
         lies beyond it. Everything else is inconclusive. A point estimate decides nothing.",
    ),
];

/// The rest, folded away after the coverage of the intervals and their number.
const MORE: [(&str, &str); 6] = [
    (
        "p-values",
        "Of the test that the interval inverts: at an end of the 95 % interval it is 0.05. Corrected by Holm over the \
         splits of one published row, claim or comparison.",
    ),
    (
        "margin of a claim",
        "Half of a claimed difference or gain (at least 0.1 points); differences are paired on the samples of both \
         runs. A margin of zero between two runs.",
    ),
    (
        "not comparable",
        "A run counts beside a published number only with the published profile, protocol, mode, channel, frames, \
         turns, parallel calls, crops, sampling, engine and number type, and with as many rows and videos.",
    ),
    (
        "data not verified",
        "The rows agree with the published ones in their number and their videos, and nothing says that their SHA-256 \
         was compared: the run shows subtitles, of which none is published. Rows with \
         another SHA-256 make a run not comparable.",
    ),
    (
        "rows without an answer",
        "Failed rows, replies aborted by the server and questions sent without frames count as wrong, as in the \
         reference. Up to 0.5 % of the rows are carried and shown; more make a run not comparable.",
    ),
    (
        "training",
        "A claim about a training is judged only by trainings of the same recipe, base model and size, with an \
         interval over seeds.",
    ),
];

/// The methods box: what is shown open, and what is folded away.
pub(super) fn methods(report: &Report, runs: &[&Run], comparisons: usize) -> Value {
    let mut first: Vec<(&str, String)> = vec![("score", metrics(report))];
    first.extend(FIRST.map(|(term, text)| (term, text.to_owned())));
    first.push(("margin of a score", margins(report)));
    first.push(("seeds", seeds(report, runs)));
    let first: Vec<(&str, String)> = first.into_iter().map(|(term, text)| (term, visible(&text))).collect();
    let counts = Multiplicity::of(report).with_comparisons(comparisons).text();
    let mut more = vec![("coverage", coverage(&simulated())), ("many intervals", counts)];
    more.extend(MORE.map(|(term, text)| (term, text.to_owned())));
    context! { first, more }
}

/// How often the intervals hold in simulations: the worst, then each kind.
fn coverage(rows: &[Coverage]) -> String {
    let kinds = by_kind(rows);
    let settings: usize = rows.iter().map(|row| row.settings).sum();
    let of = |(mean, worst): &(f64, &Coverage)| {
        let Coverage { kind, worst, worst_at, videos, .. } = worst;
        let units = if kind.starts_with("mean over seeds") { "seeds" } else { "videos" };
        format!("{kind} {mean:.1} %, at worst {worst:.1} % ({videos} {units}, {worst_at})")
    };
    let each = kinds.iter().map(of).collect::<Vec<_>>().join("; ");
    format!("Intervals of 95 % that hold the true value, simulated in {settings} settings: {each}.")
}

fn metrics(report: &Report) -> String {
    let names: BTreeSet<&str> =
        report.cells.iter().map(|cell| cell.summary.over_samples().name.as_str()).collect();
    let sentence = |name: &str| {
        match name {
        "accuracy" => "accuracy is the percentage of samples answered right".to_owned(),
        "mIoU" => "mIoU is the mean overlap of predicted and annotated window, intersection over union, in percent; \
                   R@0.5 the percentage of samples with at least 0.5"
            .to_owned(),
        other => format!("{other} is the benchmark's own score between 0 and 1, in percent"),
    }
    };
    let sentences: Vec<String> = names.into_iter().map(sentence).collect();
    let groups = match report.cells.iter().any(|cell| cell.summary.is_over_groups()) {
        true => {
            " The score of a benchmark whose headline is a mean over groups (M-Avg) is that; beside a published \
             number, which is a mean over samples, stands the mean over samples."
        }
        false => "",
    };
    let rest = "A sample without an answer counts 0. N is the number of samples in the mean.";
    format!("The mean over samples: {}. {rest}{groups}", sentences.join("; "))
}

fn margins(report: &Report) -> String {
    let rule = "The interval is ours; the published number is a point. The two count as equal within four binomial \
                standard errors of the published score, at most 5 points.";
    let margin = |cell: &Cell| Some(format!("{} {:.1}", cell.task, cell.paper.as_ref()?.margin));
    let margins = distinct(report.cells.iter().filter_map(margin));
    if margins.is_empty() { rule.to_owned() } else { format!("{rule} Here: {} points.", margins.join(", ")) }
}

fn seeds(report: &Report, runs: &[&Run]) -> String {
    let of_run = |run: &&Run| {
        let plan = &run.manifest.plan;
        let seed = plan.seed.map_or_else(|| "no seed".to_owned(), |seed| format!("seed {seed}"));
        format!("temperature {}, {seed}", plan.temperature_text())
    };
    let sampling: BTreeSet<String> = runs.iter().map(of_run).collect();
    let sampling: Vec<String> = sampling.into_iter().collect();
    let trained: BTreeSet<u64> = report
        .study
        .iter()
        .flat_map(|study| study.answers.iter().flat_map(|answer| answer.seeds.iter().copied()))
        .collect();
    let mut text = format!(
        "Answers were sampled with {}. An interval by video holds for these models and this sampling; another seed may \
         move a score beyond it where the temperature is above 0.",
        sampling.join("; ")
    );
    match trained.len() {
        0 => {}
        1 => text.push_str(" One training seed: how far another training would land is not known."),
        _ => {
            let seeds: Vec<String> = trained.iter().map(ToString::to_string).collect();
            text.push_str(&format!(
                " Training seeds: {}; an interval by seed is Student's t over their differences, for trainings that \
                 end as these did: {}.",
                seeds.join(", "),
                unseen_failures(seeds.len())
            ));
        }
    }
    text
}

/// Hardware, number type and engine of the scores, one row each.
pub(super) fn setups(report: &Report, runs: &[&Run]) -> Vec<Vec<String>> {
    let named = report.cells.iter().zip(runs).map(|(cell, run)| (setup(run), cell.run.clone()));
    let found = group_by(distinct(named));
    let one = found.len() == 1;
    let called = |names: Vec<String>| match names.len() {
        1 => names.concat(),
        _ if one => "all".to_owned(),
        number if number > NAMED => {
            format!("{} and {} more", names[..NAMED].join("; "), number - NAMED)
        }
        _ => names.join("; "),
    };
    found.into_iter().map(|(setup, names)| [vec![called(names)], setup].concat()).collect()
}

/// Runs of one setup that are named before the rest is counted.
const NAMED: usize = 6;

/// Engine, number type, where the model ran, and the machine of the harness.
fn setup(run: &Run) -> Vec<String> {
    let (backend, host) = (&run.manifest.backend, &run.manifest.host);
    let stated = |name: &str| backend.details.get(name).cloned();
    let unknown = || "not stated".to_owned();
    let engine = match stated("recorded_with") {
        Some(recorded) => format!("{} of answers of {recorded}", backend.name),
        None => backend.name.clone(),
    };
    let gpus = host.gpus.map(|gpus| match gpus {
        0 => "no GPU".to_owned(),
        1 => "1 GPU".to_owned(),
        gpus => format!("{gpus} GPUs"),
    });
    let device = match (stated("device"), gpus) {
        (None, None) => unknown(),
        (device, gpus) => device.into_iter().chain(gpus).collect::<Vec<_>>().join(", "),
    };
    let cpu = host.cpu.clone().unwrap_or_else(|| host.platform.clone());
    vec![
        engine,
        stated("dtype").unwrap_or_else(unknown),
        device,
        format!("{cpu}, {}", counted(host.cores, "core")),
    ]
}
