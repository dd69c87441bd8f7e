//! What the tables and charts show, by polars.

use std::collections::BTreeMap;

use polars::prelude::*;

use super::{BINS, Frames};
use crate::decide::Effect;
use crate::statistics::{Cluster, mean};

/// One group of a breakdown, of the records that are there.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    /// Records.
    pub n: usize,
    /// Mean value.
    pub value: f64,
    /// 95 % interval clustered by video; `None` for one video.
    pub interval: Option<(f64, f64)>,
}

/// Tool use of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolTable {
    /// Samples by number of calls.
    pub calls: BTreeMap<u32, u32>,
    /// Samples by the largest number of calls in one turn.
    pub widths: BTreeMap<u32, u32>,
}

/// Cost of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Samples.
    pub samples: u32,
    /// Tokens of all conversations.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Seconds of all samples.
    pub seconds: f64,
    /// Of them, decoding.
    pub media_seconds: f64,
    /// Median seconds of a sample.
    pub median_seconds: f64,
}

/// Sums by video of every run's counted records.
pub fn clusters(frames: &Frames) -> PolarsResult<BTreeMap<u32, Vec<Cluster>>> {
    let sums = frames
        .samples
        .clone()
        .lazy()
        .filter(col("counted"))
        .group_by([col("run"), col("video")])
        .agg([col("value").sum(), len().alias("n")])
        // Sums of floats depend on their order; a report must not change from one call to the next.
        .sort(["run", "video"], SortMultipleOptions::default())
        .collect()?;
    let mut found: BTreeMap<u32, Vec<Cluster>> = BTreeMap::new();
    let (run, value, n) = (sums.column("run")?.u32()?, sums.column("value")?.f64()?, sums.column("n")?);
    let n = n.cast(&DataType::UInt64)?;
    for ((run, sum), n) in run.iter().zip(value.iter()).zip(n.u64()?.iter()) {
        if let (Some(run), Some(sum), Some(n)) = (run, sum, n) {
            found.entry(run).or_default().push(Cluster { sum, n: n as usize });
        }
    }
    Ok(found)
}

/// Breakdowns by run, tag and label.
pub fn breakdowns(frames: &Frames) -> PolarsResult<BTreeMap<(u32, String, String), Breakdown>> {
    let sums = frames
        .labels
        .clone()
        .lazy()
        .group_by([col("run"), col("tag"), col("label"), col("video")])
        .agg([col("value").sum(), len().alias("n")])
        .sort(["run", "tag", "label", "video"], SortMultipleOptions::default())
        .collect()?;
    let n = sums.column("n")?.cast(&DataType::UInt64)?;
    let columns = (sums.column("run")?.u32()?, sums.column("tag")?.str()?, sums.column("label")?.str()?);
    let values = sums.column("value")?.f64()?;
    let mut groups: BTreeMap<(u32, &str, &str), Vec<Cluster>> = BTreeMap::new();
    let keys = columns.0.iter().zip(columns.1.iter()).zip(columns.2.iter());
    for (((run, tag), label), (sum, n)) in keys.zip(values.iter().zip(n.u64()?.iter())) {
        if let (Some(run), Some(tag), Some(label), Some(sum), Some(n)) = (run, tag, label, sum, n) {
            groups.entry((run, tag, label)).or_default().push(Cluster { sum, n: n as usize });
        }
    }
    let owned = |(run, tag, label): (u32, &str, &str)| (run, tag.to_owned(), label.to_owned());
    let groups = groups.into_iter();
    Ok(groups.filter_map(|(key, clusters)| Some((owned(key), breakdown(&clusters)?))).collect())
}

fn breakdown(clusters: &[Cluster]) -> Option<Breakdown> {
    Some(Breakdown {
        n: clusters.iter().map(|cluster| cluster.n).sum(),
        value: mean(clusters)?,
        interval: Effect::share(clusters).map(|effect| effect.interval()),
    })
}

/// Samples by calls and by parallel width, by run.
pub fn tool_tables(frames: &Frames) -> PolarsResult<BTreeMap<u32, ToolTable>> {
    let mut tables: BTreeMap<u32, ToolTable> = BTreeMap::new();
    for column in ["calls", "width"] {
        let counts = frames
            .samples
            .clone()
            .lazy()
            .group_by([col("run"), col(column)])
            .agg([len().alias("n")])
            .collect()?;
        let n = counts.column("n")?.cast(&DataType::UInt32)?;
        let rows = counts.column("run")?.u32()?.iter().zip(counts.column(column)?.u32()?.iter());
        for ((run, key), n) in rows.zip(n.u32()?.iter()) {
            let (Some(run), Some(key), Some(n)) = (run, key, n) else { continue };
            let table = tables.entry(run).or_default();
            if column == "calls" { &mut table.calls } else { &mut table.widths }.insert(key, n);
        }
    }
    Ok(tables)
}

/// Tokens and seconds by run.
pub fn costs(frames: &Frames) -> PolarsResult<BTreeMap<u32, Cost>> {
    let sums = frames
        .samples
        .clone()
        .lazy()
        .group_by([col("run")])
        .agg([
            len().cast(DataType::UInt32).alias("n"),
            col("prompt_tokens").sum(),
            col("completion_tokens").sum(),
            col("seconds").sum().alias("total"),
            col("media_seconds").sum(),
            col("seconds").median().alias("median"),
        ])
        .collect()?;
    let real = |name: &str| sums.column(name)?.f64();
    let count = |name: &str| sums.column(name)?.u64();
    let (runs, n) = (sums.column("run")?.u32()?, sums.column("n")?.u32()?);
    let (prompt, completion) = (count("prompt_tokens")?, count("completion_tokens")?);
    let (total, media, median) = (real("total")?, real("media_seconds")?, real("median")?);
    let cost = |row: usize| {
        let cost = Cost {
            samples: n.get(row)?,
            prompt_tokens: prompt.get(row)?,
            completion_tokens: completion.get(row)?,
            seconds: total.get(row)?,
            media_seconds: media.get(row)?,
            median_seconds: median.get(row)?,
        };
        Some((runs.get(row)?, cost))
    };
    Ok((0..sums.height()).filter_map(cost).collect())
}

/// How many windows of each run lie over each of [`BINS`] equal parts of the video's length.
pub fn windows(frames: &Frames) -> PolarsResult<BTreeMap<u32, Vec<u32>>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for bin in 0..BINS {
        let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
        let counts = frames
            .windows
            .clone()
            .lazy()
            .filter(col("start").lt(lit(to)).and(col("end").gt(lit(from))))
            .group_by([col("run")])
            .agg([len().cast(DataType::UInt32).alias("n")])
            .collect()?;
        for (run, n) in counts.column("run")?.u32()?.iter().zip(counts.column("n")?.u32()?.iter()) {
            if let (Some(run), Some(n)) = (run, n) {
                found.entry(run).or_insert_with(|| vec![0; BINS])[bin] = n;
            }
        }
    }
    Ok(found)
}
