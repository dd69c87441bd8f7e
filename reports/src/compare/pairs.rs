//! Samples that two runs share, as a polars data frame.

use std::collections::BTreeMap;

use polars::prelude::*;
use serde::Serialize;

use crate::columns::{clusters_of, samples, sums};
use crate::runs::Run;
use crate::statistics::Cluster;

/// From here on an answer counts as right: 1 or 0 for choices, IoU for intervals.
const RIGHT: f64 = 0.5;

/// One row per sample that both runs have: `uid video a b seconds_a seconds_b tokens_a tokens_b`.
#[derive(Debug, Clone)]
pub struct Pairs {
    frame: DataFrame,
    /// Samples that only one of the runs scored.
    pub unpaired: usize,
}

/// Samples whose answer flipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Flips {
    /// Wrong in A, right in B.
    pub gained: usize,
    /// Right in A, wrong in B.
    pub lost: usize,
}

/// An answer that flipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flip {
    /// Sample.
    pub uid: String,
    /// Right in B, wrong in A; else the other way round.
    pub gained: bool,
}

/// Means over the pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    /// Of A.
    pub a: f64,
    /// Of B.
    pub b: f64,
    /// Tokens of B less A.
    pub tokens: f64,
    /// Seconds of B less A.
    pub seconds: f64,
}

impl Pairs {
    /// Pairs the counted records of two runs by sample.
    pub fn of(a: &Run, b: &Run) -> PolarsResult<Self> {
        let columns = |run: &Run| samples(&run.manifest.plan.switches, &run.records);
        Self::join(&columns(a)?, &columns(b)?)
    }

    /// Pairs the counted [`samples`] of two runs by name. The video is that of A.
    pub fn join(a: &DataFrame, b: &DataFrame) -> PolarsResult<Self> {
        let side = |frame: &DataFrame, suffix: &str| {
            let named = |name: &&str| col(*name).alias(format!("{name}{suffix}"));
            let columns = ["gold", "value", "seconds", "tokens"].iter().map(named);
            let counted = frame.clone().lazy().filter(col("counted"));
            counted.select([vec![col("uid"), col("video")], columns.collect()].concat())
        };
        let counted = |frame: &DataFrame| -> PolarsResult<usize> {
            Ok(frame.column("counted")?.bool()?.sum().unwrap_or_default() as usize)
        };
        let frame = side(a, "_a")
            .join(
                side(b, "_b").drop(by_name(["video"], true, false)),
                [col("uid")],
                [col("uid")],
                JoinArgs::new(JoinType::Inner),
            )
            .sort(["uid"], SortMultipleOptions::default())
            .collect()?;
        let unpaired = counted(a)? + counted(b)? - 2 * frame.height();
        Ok(Self { frame, unpaired })
    }

    /// Why the pairs are not of the same questions: samples of one name with different gold answers.
    pub fn mismatch(&self) -> PolarsResult<Option<String>> {
        let other = self.frame.clone().lazy().filter(col("gold_a").neq(col("gold_b"))).collect()?.height();
        Ok((other > 0)
            .then(|| format!("{other} of {} samples have another gold answer in the other run", self.len())))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.frame.height()
    }

    /// Whether the runs have no sample in common.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sums by video of `b - a`.
    pub fn differences(&self) -> PolarsResult<Vec<Cluster>> {
        Ok(self.differences_by_video()?.into_values().collect())
    }

    /// The same with the videos' names.
    pub fn differences_by_video(&self) -> PolarsResult<BTreeMap<String, Cluster>> {
        self.clusters(col("value_b") - col("value_a"))
    }

    /// Sums by video of the logarithm of `seconds_b / seconds_a`, where both took any time.
    pub fn log_ratios(&self) -> PolarsResult<Vec<Cluster>> {
        let (a, b) = (self.frame.column("seconds_a")?.f64()?, self.frame.column("seconds_b")?.f64()?);
        let ratio = |(a, b): (Option<f64>, Option<f64>)| match (a, b) {
            (Some(a), Some(b)) if a > 0.0 && b > 0.0 => Some((b / a).ln()),
            _ => None,
        };
        let ratios: Vec<Option<f64>> = a.iter().zip(b.iter()).map(ratio).collect();
        let mut frame = self.frame.clone();
        frame.with_column(Column::new("ratio".into(), ratios))?;
        Ok(Self { frame, unpaired: 0 }.clusters(col("ratio"))?.into_values().collect())
    }

    /// Sums by video of an expression over the pairs.
    pub fn clusters(&self, value: Expr) -> PolarsResult<BTreeMap<String, Cluster>> {
        let values = self.frame.clone().lazy().with_column(value.alias("paired"));
        let sums = sums(values.filter(col("paired").is_not_null()), &["video"], "paired")?;
        let videos = sums.column("video")?.str()?.iter().map(|video| video.unwrap_or_default().to_owned());
        Ok(videos.zip(clusters_of(&sums)?).collect())
    }

    /// Means of both runs.
    pub fn means(&self) -> PolarsResult<Means> {
        let mean =
            |name: &str| Ok::<f64, PolarsError>(self.frame.column(name)?.f64()?.mean().unwrap_or_default());
        Ok(Means {
            a: mean("value_a")?,
            b: mean("value_b")?,
            tokens: mean("tokens_b")? - mean("tokens_a")?,
            seconds: mean("seconds_b")? - mean("seconds_a")?,
        })
    }

    /// Answers that flipped, in the order of their names.
    pub fn flips(&self) -> PolarsResult<(Flips, Vec<Flip>)> {
        let turned = self
            .frame
            .clone()
            .lazy()
            .filter(col("value_a").gt_eq(lit(RIGHT)).neq(col("value_b").gt_eq(lit(RIGHT))))
            .collect()?;
        let rows = turned.column("uid")?.str()?.iter().zip(turned.column("value_b")?.f64()?.iter());
        let flipped: Vec<Flip> =
            rows.filter_map(|(uid, b)| Some(Flip { uid: uid?.to_owned(), gained: b? >= RIGHT })).collect();
        let gained = flipped.iter().filter(|flip| flip.gained).count();
        Ok((Flips { gained, lost: flipped.len() - gained }, flipped))
    }
}
