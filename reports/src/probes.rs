//! Runs beside the same runs under a probe: what a score loses with what the probe takes away.

use paravt_suite::profile::Profile;
use serde::Serialize;

use crate::decide::{Effect, Family, Margin};
use crate::pairs::Pairs;
use crate::runs::RunDigest;
use crate::section::Section;
use crate::table::{Table, col, interval};
use crate::terminal::{Text, percent, percent_interval, points, points_interval, within};

/// A run and its probed twin on the samples of both. Values are shares.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    pub task: String,
    pub title: String,
    pub profile: Profile,
    /// Name of the run without the probe.
    pub run: String,
    pub probe: String,
    /// Samples in both.
    pub pairs: usize,
    /// Samples that only one of them scored; they are left out.
    pub unpaired: usize,
    pub videos: usize,
    /// Mean of the run over the pairs.
    pub score: f64,
    /// Mean under the probe.
    pub probed: f64,
    /// Run less probe: of `blind` the gain over it.
    pub drop: f64,
    /// 95 % interval of that, clustered by video; `None` for fewer than two videos.
    pub interval: Option<(f64, f64)>,
    /// P-value of no drop after Holm's correction over the probes of all splits.
    pub p_holm: Option<f64>,
    /// Of `shuffle`: share of the questions with options for which both runs chose an option of the same text; one
    /// without a choice is not the same.
    pub consistency: Option<f64>,
    /// 95 % interval of that, clustered by video.
    pub consistency_interval: Option<(f64, f64)>,
    /// Why the two do not measure the same samples alike: rows without an answer, other gold answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    #[serde(skip)]
    effect: Option<Effect>,
}

/// Pairs each probed run with the run without the probe, where there is one; in the order of the runs.
pub(crate) fn pair_probed(runs: &[RunDigest]) -> Vec<Probed> {
    let mut found: Vec<Probed> = runs
        .iter()
        .filter_map(|probed| {
            let base = runs.iter().find(|base| base.manifest.has_probe(&probed.manifest))?;
            Some(pair(base, probed))
        })
        .collect();
    let family = Family::of(found.iter().map(|one| (one.effect, Margin::NONE)));
    for (one, decision) in found.iter_mut().zip(family.decide()) {
        one.p_holm = one.effect.map(|_| decision.p_holm);
    }
    found
}

fn pair(base: &RunDigest, probed: &RunDigest) -> Probed {
    let pairs = Pairs::join(&base.samples, &probed.samples);
    let means = pairs.means();
    let drops = pairs.clusters(|run, probe| run - probe);
    let effect = Effect::difference(drops.values());
    let plan = &probed.manifest.plan;
    let shuffles = matches!(plan.probe, Some(paravt_suite::probe::Probe::Shuffle(_)));
    let same = pairs.same_choice();
    let consistency = crate::statistics::mean(same.values()).filter(|_| shuffles);
    Probed {
        task: base.manifest.task.name.clone(),
        title: base.manifest.task.title.clone(),
        profile: plan.profile(),
        run: base.manifest.display_name(),
        probe: plan.probe.map_or_else(String::new, |probe| probe.to_string()),
        pairs: pairs.len(),
        unpaired: pairs.unpaired,
        videos: drops.len(),
        score: means.a,
        probed: means.b,
        drop: means.a - means.b,
        interval: effect.and_then(|effect| effect.interval()),
        p_holm: None,
        consistency,
        consistency_interval: consistency.and_then(|_| Effect::share(same.values())?.interval()),
        // What none-right changes is the gold option.
        caveats: pairs.caveats([("run", base.facts.lost), ("probe", probed.facts.lost)]),
        effect,
    }
}

/// One row per probed run.
fn table(probes: &[Probed]) -> Table {
    Table::of("probes", "Probes", probes)
        .text("split", "split", |one| one.title.clone())
        .text("run", "run", |one| one.run.clone())
        .text("profile", "profile", |one| one.profile.to_string())
        .text("probe", "probe", |one| one.probe.clone())
        .count("pairs", "pairs", |one| one.pairs)
        .count("unpaired", "unpaired", |one| one.unpaired)
        .count("videos", "videos", |one| one.videos)
        .share("score_percent", "score", |one| one.score)
        .share("probed_percent", "with probe", |one| one.probed)
        .share("drop_points", "drop", |one| one.drop)
        .share_ends([("low_points", "low"), ("high_points", "high")], |one| one.interval)
        .real("p_holm", "p (Holm)", |one| one.p_holm)
        .share("consistency_percent", "same option, %", |one| one.consistency)
        .share_ends([("consistency_low_percent", "low"), ("consistency_high_percent", "high")], |one| {
            one.consistency_interval
        })
        .text("caveats", "caveats", |one| one.caveats.join("; "))
        .table()
}

/// Adds the probes to a report for a terminal.
fn show(text: &mut Text, probes: &[Probed]) {
    if probes.is_empty() {
        return;
    }
    text.line("probes: score of the run, with the probe, and the change (95 % interval)");
    for one in probes {
        let change = one.interval.map(|(low, high)| (-high, -low));
        text.line(format!(
            "  {} {}: {} to {}, {} ({})",
            one.task,
            one.probe,
            percent(one.score),
            percent(one.probed),
            points(-one.drop),
            within(change, points_interval)
        ));
        if let Some(share) = one.consistency {
            let within =
                one.consistency_interval.map(|interval| format!(" ({})", percent_interval(interval)));
            let within = within.unwrap_or_default();
            text.line(format!("    same option chosen: {} %{within}", percent(share)));
        }
        one.caveats.iter().for_each(|caveat| text.line(format!("    {caveat}")));
    }
}

pub(crate) const SECTION: Section = Section {
    table: |report| table(&report.probes),
    link: "Probes",
    under: "A run and the same run with something taken away, on the samples of both: the drop with its interval by video; \
            of shuffled options, the share of samples for which an option of the same text was chosen.",
    page: &[],
    markdown: &[
        col("split"),
        col("run"),
        col("probe"),
        col("pairs"),
        col("score_percent"),
        col("probed_percent"),
        col("drop_points"),
        interval("low_points", "high_points", "95 %"),
        col("consistency_percent"),
    ],
    facts: None,
    show: |text, report| show(text, &report.probes),
};
