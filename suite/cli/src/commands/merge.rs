//! `paravt-bench merge`: shards of one run become one run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use paravt_suite::journal::{self, Journal};
use paravt_suite::record::Record;
use paravt_suite::run::{Inputs, Manifest, Selection, Whole};

use crate::exit::Exit;
use crate::launch;

/// Flags of `merge`.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories of all shards: DIR/TASK of every `run --shard`.
    #[arg(required = true, num_args = 1..)]
    shards: Vec<PathBuf>,
    /// Run directory to write; one that is there and not empty is an error.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let (mut manifests, mut records) = (Vec::new(), Vec::new());
    for dir in &args.shards {
        let (mut manifest, contents) = journal::read_run(dir)?;
        manifest.inputs.iter_mut().for_each(Inputs::settle);
        manifests.push(manifest);
        records.extend(contents.records);
    }
    let Merged { mut manifest, missing } = merge_manifests(&manifests, &args.shards)?;
    records.sort_by(|a, b| (a.sample.row, &a.sample.uid).cmp(&(b.sample.row, &b.sample.uid)));
    let twice = records.windows(2).find(|pair| pair[0].sample.uid == pair[1].sample.uid);
    if let Some(pair) = twice {
        bail!("sample {} is in two shards: they are shards of different runs", pair[0].sample.uid);
    }
    let expected = manifest.selection.expected;
    if records.len() == expected {
        manifest.ended_at = manifests.iter().filter_map(|manifest| manifest.ended_at).reduce(f64::max);
    }
    let summary = launch::summarize_run(&manifest, &records)?;
    write(args, &manifest, &records)?;
    for shard in missing {
        eprintln!("shard {}/{} is missing", shard + 1, count(&manifests[0])?);
    }
    println!(
        "{}: {} records of {expected} expected{}",
        args.out.display(),
        records.len(),
        if summary.complete { "" } else { ": INCOMPLETE" }
    );
    Ok(if summary.complete { Exit::Ok } else { Exit::Incomplete })
}

/// Makes the run beside `out` and moves it there when it is whole: what a kill or a full disk leaves is
/// no run.
fn write(args: &Args, manifest: &Manifest, records: &[Record]) -> anyhow::Result<()> {
    let out = std::path::absolute(&args.out)?;
    ensure!(
        std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none()),
        "{}: not empty; choose another --out",
        args.out.display()
    );
    let parent = out.parent().context("--out: the root folder cannot be a run directory")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let made = tempfile::Builder::new()
        .prefix(".merge-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
    let mut journal = Journal::create(made.path(), manifest)?;
    journal.append(records)?;
    let protocol = args.shards[0].join(journal::PROTOCOL);
    let texts = std::fs::read(&protocol).with_context(|| format!("cannot read {}", protocol.display()))?;
    journal::write_atomic(&made.path().join(journal::PROTOCOL), &texts)?;
    journal::write_summary(made.path(), &launch::summarize_run(manifest, records)?)?;
    drop(journal);
    readable_by_others(made.path())?;
    std::fs::rename(made.path(), &out).with_context(|| format!("cannot write {}", args.out.display()))?;
    // Nothing is left to remove.
    let _ = made.keep();
    Ok(())
}

/// Temporary folders are private; a run directory is like any other that this user makes.
#[cfg(unix)]
fn readable_by_others(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = dir.parent().context("a temporary folder has a parent")?;
    let mode = std::fs::metadata(parent)?.permissions().mode() & 0o777;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode | 0o700))
        .with_context(|| format!("cannot set the permissions of {}", dir.display()))
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// The manifest of a merged run, and the zero-based shards that it lacks.
struct Merged {
    manifest: Manifest,
    missing: Vec<usize>,
}

fn count(manifest: &Manifest) -> anyhow::Result<usize> {
    Ok(manifest.selection.shard.context("not a shard (was not run with --shard)")?.1)
}

/// One manifest for all shards. Shards of different runs or selections, and a shard given twice, are
/// refused.
fn merge_manifests(manifests: &[Manifest], dirs: &[PathBuf]) -> anyhow::Result<Merged> {
    let mut merged = manifests[0].clone();
    let shards = count(&merged).with_context(|| dirs[0].display().to_string())?;
    let mut indices = BTreeSet::new();
    for (manifest, dir) in manifests.iter().zip(dirs) {
        let shown = dir.display();
        let Some((index, of)) = manifest.selection.shard else {
            bail!("{shown}: not a shard (was not run with --shard)");
        };
        ensure!(of == shards, "{shown}: shard {}/{of} among shards of {shards}", index + 1);
        ensure!(indices.insert(index), "{shown}: shard {}/{shards} is given twice", index + 1);
        let differences = merged.differences(&as_shard_of(&merged, manifest));
        ensure!(
            differences.is_empty(),
            "cannot merge {} with {shown}: {}",
            dirs[0].display(),
            differences.join("; ")
        );
        join_inputs(&mut merged, manifest).with_context(|| format!("cannot merge with {shown}"))?;
        merged.backend.join_endpoints(&manifest.backend);
    }
    let missing: Vec<usize> = (0..shards).filter(|index| !indices.contains(index)).collect();
    let whole = whole(manifests, missing.is_empty())?;
    merged.selection = Selection {
        expected: whole.expected,
        open_ended: whole.open_ended,
        groups: whole.groups,
        shard: None,
        whole: None,
        ..merged.selection
    };
    merged.started_at = manifests.iter().map(|manifest| manifest.started_at).fold(f64::INFINITY, f64::min);
    merged.ended_at = None;
    Ok(Merged { manifest: merged, missing })
}

/// `manifest` with what may differ between shards of one selection taken from `other`.
fn as_shard_of(other: &Manifest, manifest: &Manifest) -> Manifest {
    let mut comparable = manifest.clone();
    let (ours, theirs) = (&mut comparable.selection, &other.selection);
    ours.shard = theirs.shard;
    ours.expected = theirs.expected;
    ours.open_ended = theirs.open_ended;
    ours.groups.clone_from(&theirs.groups);
    comparable
}

/// Adds the videos of a shard; one that was another file there is refused.
fn join_inputs(merged: &mut Manifest, manifest: &Manifest) -> anyhow::Result<()> {
    let (Some(ours), Some(theirs)) = (&mut merged.inputs, &manifest.inputs) else { return Ok(()) };
    for (name, bytes) in &theirs.videos {
        let known = *ours.videos.entry(name.clone()).or_insert(*bytes);
        ensure!(known == *bytes, "video {name} had {known} bytes in one shard and {bytes} in the other");
    }
    Ok(())
}

/// Size of the selection that the shards are parts of: each says it; shards of format 1 only together.
fn whole(manifests: &[Manifest], all_there: bool) -> anyhow::Result<Whole> {
    if let Some(whole) = manifests.iter().find_map(|manifest| manifest.selection.whole.as_deref()) {
        return Ok(whole.clone());
    }
    ensure!(
        all_there,
        "shards are missing, and shards of format 1 do not say how many samples the whole run has; give all of them"
    );
    let mut whole = Whole { expected: 0, open_ended: 0, groups: Default::default() };
    for selection in manifests.iter().map(|manifest| &manifest.selection) {
        whole.expected += selection.expected;
        whole.open_ended += selection.open_ended;
        for (tag, labels) in &selection.groups {
            for (label, count) in labels {
                let sizes = whole.groups.entry(tag.clone()).or_default();
                *sizes.entry(label.clone()).or_default() += count;
            }
        }
    }
    Ok(whole)
}
