//! How many intervals and verdicts stand side by side, and what that means for each of them.

use crate::Report;
use crate::claims::{Judged, Unit};
use crate::decide::ALPHA;
use crate::terminal::counted;

/// Intervals from which on one that misses is likely enough to be said.
const MANY: usize = 10;

/// Intervals and verdicts of a report or a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Multiplicity {
    intervals: usize,
    /// Number of verdicts, of what, and over what they are corrected together.
    verdicts: Vec<(usize, &'static str, &'static str)>,
}

impl Multiplicity {
    pub(crate) fn of(report: &Report) -> Self {
        let scores = report.cells.iter().filter(|cell| cell.interval.is_some()).count();
        let measures = report.repeats.iter().flat_map(|run| &run.measures);
        let repeated = measures.filter(|measure| measure.interval.is_some()).count();
        let protocols = report.protocols.iter().filter(|one| one.interval.is_some()).count();
        let mut found = Self { intervals: scores + repeated + protocols, verdicts: Vec::new() };
        // Their intervals are those of the scores.
        let published = report.cells.iter().filter_map(|cell| cell.paper.as_ref()?.p_holm);
        found.add(published.count(), "against published scores", "the splits of a published row");
        // The claims of a split's score are the verdicts above.
        let is_score = |claim: &Judged| claim.unit == Unit::Percent && claim.id.contains('/');
        let claims = report.claims.iter().filter(|claim| !is_score(claim) && claim.p_holm.is_some());
        let (claims, probes) =
            (claims.count(), report.probes.iter().filter(|probe| probe.p_holm.is_some()).count());
        found.add(claims, "of claimed differences and gains", "the splits of a claim");
        found.add(probes, "of probes", "all probes");
        found.intervals += claims + probes;
        if let Some(study) = &report.study {
            let effects = study.answers.iter().flat_map(|answer| &answer.effects);
            let intervals = effects.flat_map(|effect| [effect.by_video, effect.by_seed]).flatten();
            let tested =
                study.predicted.iter().flat_map(|one| &one.tested).filter_map(|tested| tested.interval);
            found.intervals += intervals.count() + tested.count();
            found.add(study.predicted.len(), "of predictions", "all predictions");
        }
        found
    }

    /// With the comparisons of runs, each of which has an interval.
    pub(crate) fn with_comparisons(mut self, comparisons: usize) -> Self {
        self.add(comparisons, "between runs", "the splits of two sets of runs");
        self.intervals += comparisons;
        self
    }

    fn add(&mut self, count: usize, what: &'static str, over: &'static str) {
        if count > 0 {
            self.verdicts.push((count, what, over));
        }
    }

    fn count(&self) -> usize {
        self.verdicts.iter().map(|(count, ..)| count).sum()
    }

    /// One line; `None` where there are few.
    pub(crate) fn line(&self) -> Option<String> {
        let verdicts = self.count();
        let corrected = match verdicts {
            0 => String::new(),
            _ => format!("; {}, corrected by Holm", counted(verdicts, "verdict")),
        };
        (self.intervals >= MANY || verdicts > 1).then(|| format!("{}{corrected}", self.single()))
    }

    /// All of it, for the methods of a page.
    pub(crate) fn text(&self) -> String {
        let one = |(count, what, over): &(usize, &str, &str)| format!("{count} {what} (over {over})");
        let verdicts = self.verdicts.iter().map(one).collect::<Vec<_>>().join(", ");
        let corrected = match self.count() {
            0 => "No verdict rests on a comparison here.".to_owned(),
            count => format!(
                "{} here, corrected by Holm together: {verdicts}. Of twenty such groups in which nothing differs one \
                 has a wrong verdict by chance.",
                counted(count, "verdict")
            ),
        };
        let single = self.single();
        format!(
            "{corrected} Intervals are not corrected: {single}; those of breakdowns come on top. The largest of many \
             differences is larger than it would be again."
        )
    }

    fn single(&self) -> String {
        let missing = ALPHA * self.intervals as f64;
        format!(
            "{} of 95 %, each for itself, of which {missing:.1} miss by chance",
            counted(self.intervals, "interval")
        )
    }
}
