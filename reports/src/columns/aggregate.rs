//! Group-bys over the columns: what tables and charts show.

use std::collections::BTreeMap;

use polars::prelude::*;

use super::{BINS, Columns};
use crate::decide::Effect;
use crate::statistics::{Cluster, mean};

/// Mean of one group of a breakdown, over the records that are there.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMean {
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

/// Sums of `value` and numbers of rows `n`, by the keys and in their order: sums of floats depend on the
/// order, and a report must not change from one call to the next.
pub fn sums(rows: LazyFrame, keys: &[&str], value: &str) -> PolarsResult<DataFrame> {
    let by: Vec<Expr> = keys.iter().map(|key| col(*key)).collect();
    rows.group_by(by)
        .agg([col(value).sum().alias("value"), len().cast(DataType::UInt32).alias("n")])
        .sort(keys.iter().copied(), SortMultipleOptions::default())
        .collect()
}

/// The clusters of a frame of [`sums`], row by row.
pub fn clusters_of(sums: &DataFrame) -> PolarsResult<Vec<Cluster>> {
    let (values, n) = (sums.column("value")?.f64()?, sums.column("n")?.u32()?);
    let cluster = |(sum, n): (Option<f64>, Option<u32>)| Cluster {
        sum: sum.unwrap_or_default(),
        n: n.unwrap_or_default() as usize,
    };
    Ok(values.iter().zip(n.iter()).map(cluster).collect())
}

/// Sums by video of every run's counted records.
pub fn clusters(columns: &Columns) -> PolarsResult<BTreeMap<u32, Vec<Cluster>>> {
    let counted = columns.samples.clone().lazy().filter(col("counted"));
    let sums = sums(counted, &["run", "video"], "value")?;
    let mut found: BTreeMap<u32, Vec<Cluster>> = BTreeMap::new();
    for (run, cluster) in sums.column("run")?.u32()?.iter().zip(clusters_of(&sums)?) {
        found.entry(run.unwrap_or_default()).or_default().push(cluster);
    }
    Ok(found)
}

/// Means with intervals by run, tag and label.
pub fn breakdowns(columns: &Columns) -> PolarsResult<BTreeMap<(u32, String, String), GroupMean>> {
    let sums = sums(columns.labels.clone().lazy(), &["run", "tag", "label", "video"], "value")?;
    let (runs, tags, labels) =
        (sums.column("run")?.u32()?, sums.column("tag")?.str()?, sums.column("label")?.str()?);
    let mut groups: BTreeMap<(u32, &str, &str), Vec<Cluster>> = BTreeMap::new();
    for (((run, tag), label), cluster) in
        runs.iter().zip(tags.iter()).zip(labels.iter()).zip(clusters_of(&sums)?)
    {
        let key = (run.unwrap_or_default(), tag.unwrap_or_default(), label.unwrap_or_default());
        groups.entry(key).or_default().push(cluster);
    }
    let owned = |(run, tag, label): (u32, &str, &str)| (run, tag.to_owned(), label.to_owned());
    Ok(groups.into_iter().filter_map(|(key, clusters)| Some((owned(key), group_mean(&clusters)?))).collect())
}

fn group_mean(clusters: &[Cluster]) -> Option<GroupMean> {
    Some(GroupMean {
        n: clusters.iter().map(|cluster| cluster.n).sum(),
        value: mean(clusters)?,
        interval: Effect::share(clusters).map(|effect| effect.interval()),
    })
}

/// Samples by calls and by parallel width, by run.
pub fn tool_tables(columns: &Columns) -> PolarsResult<BTreeMap<u32, ToolTable>> {
    let mut tables: BTreeMap<u32, ToolTable> = BTreeMap::new();
    for column in ["calls", "width"] {
        let counts = columns
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
pub fn costs(columns: &Columns) -> PolarsResult<BTreeMap<u32, Cost>> {
    let sums = columns
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

/// Number of windows of each run that overlap each of [`BINS`] equal parts of the video's length.
pub fn windows(columns: &Columns) -> PolarsResult<BTreeMap<u32, Vec<u32>>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for bin in 0..BINS {
        let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
        let counts = columns
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
