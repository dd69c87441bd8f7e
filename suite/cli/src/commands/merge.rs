//! `paravt-bench merge`: shards of one run become one run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use paravt_suite::journal::{self, Journal};
use paravt_suite::run::{GroupSizes, Manifest};

use crate::exit::Exit;
use crate::launch;

/// Flags of `merge`.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories of all shards: DIR/TASK of every `run --shard`.
    #[arg(required = true, num_args = 1..)]
    shards: Vec<PathBuf>,
    /// Run directory to write; one that holds a run is an error.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut manifests = Vec::new();
    for dir in &args.shards {
        manifests.push(journal::read_manifest(dir)?);
    }
    let mut merged = merge_manifests(&manifests, &args.shards)?;
    let mut records = Vec::new();
    for dir in &args.shards {
        records.extend(journal::read(dir)?.records);
    }
    records.sort_by(|a, b| (a.sample.row, &a.sample.uid).cmp(&(b.sample.row, &b.sample.uid)));
    let twice = records.windows(2).find(|pair| pair[0].sample.uid == pair[1].sample.uid);
    if let Some(pair) = twice {
        bail!("sample {} is in two shards; they do not belong together", pair[0].sample.uid);
    }
    if records.len() == merged.selection.expected {
        merged.ended_at = manifests.iter().filter_map(|manifest| manifest.ended_at).reduce(f64::max);
    }
    let mut journal = Journal::create(&args.out, &merged)?;
    journal.append(&records)?;
    let protocol = args.shards[0].join(journal::PROTOCOL);
    std::fs::copy(&protocol, args.out.join(journal::PROTOCOL))
        .with_context(|| format!("cannot copy {}", protocol.display()))?;
    let summary = launch::summarize_run(&merged, &records)?;
    journal::write_atomic(&args.out.join(journal::SUMMARY), &journal::to_pretty_json(&summary))?;
    println!(
        "{}: {} records of {} expected{}",
        args.out.display(),
        records.len(),
        merged.selection.expected,
        if summary.complete { "" } else { ": INCOMPLETE" }
    );
    Ok(if summary.complete { Exit::Ok } else { Exit::Incomplete })
}

/// One manifest for all shards; refuses shards of different runs and a set with a shard twice.
fn merge_manifests(manifests: &[Manifest], dirs: &[PathBuf]) -> anyhow::Result<Manifest> {
    let mut merged = manifests[0].clone();
    let Some((_, count)) = merged.selection.shard else {
        bail!("{}: this run is no shard", dirs[0].display());
    };
    let mut indices = BTreeSet::new();
    for (manifest, dir) in manifests.iter().zip(dirs) {
        let Some((index, of)) = manifest.selection.shard else {
            bail!("{}: this run is no shard", dir.display());
        };
        ensure!(of == count, "{}: shard {}/{of} among shards of {count}", dir.display(), index + 1);
        ensure!(indices.insert(index), "{}: shard {}/{count} is there twice", dir.display(), index + 1);
        let mut comparable = manifest.clone();
        comparable.selection = merged.selection.clone();
        let differences = merged.differences(&comparable);
        ensure!(differences.is_empty(), "{}: another run: {}", dir.display(), differences.join("; "));
    }
    let missing: Vec<String> =
        (0..count).filter(|index| !indices.contains(index)).map(|index| (index + 1).to_string()).collect();
    if !missing.is_empty() {
        eprintln!("missing shards of {count}: {}; the merged run is incomplete", missing.join(", "));
    }
    // Shards take every n-th of what ids and limit left, so one shard's size tells the whole only
    // with all shards at hand; without them the split's own size is the honest expectation.
    merged.selection.expected = if missing.is_empty() {
        manifests.iter().map(|manifest| manifest.selection.expected).sum()
    } else {
        let rows = merged.selection.ids.as_ref().map_or(merged.selection.split_rows, Vec::len);
        rows.min(merged.selection.limit.unwrap_or(usize::MAX))
    };
    // What the shards at hand expect of each group is a lower bound where one is missing.
    merged.selection.open_ended = manifests.iter().map(|manifest| manifest.selection.open_ended).sum();
    merged.selection.groups = GroupSizes::new();
    for (tag, labels) in manifests.iter().flat_map(|manifest| &manifest.selection.groups) {
        for (label, count) in labels {
            let sizes = merged.selection.groups.entry(tag.clone()).or_default();
            *sizes.entry(label.clone()).or_default() += count;
        }
    }
    merged.selection.shard = None;
    merged.started_at = manifests.iter().map(|manifest| manifest.started_at).fold(f64::INFINITY, f64::min);
    merged.ended_at = None;
    Ok(merged)
}
