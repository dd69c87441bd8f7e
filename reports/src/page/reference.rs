//! Which run of a page is compared with which: for the table of comparisons and the marks of flipped
//! answers alike.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::compare::{Pair, compare_runs};
use crate::runs::Run;

/// Position of the run that the run at `index` is compared with: the first of its split and profile. Runs under a probe
/// are left out: they have a table of their own.
pub(super) fn reference(runs: &[&Run], index: usize) -> Option<usize> {
    let key = |run: &Run| (run.manifest.task.name.clone(), run.manifest.plan.profile);
    let is_plain = |run: &Run| run.manifest.plan.probe.is_none();
    let first = runs.iter().position(|run| key(run) == key(runs[index]) && is_plain(run))?;
    (first < index && is_plain(runs[index])).then_some(first)
}

/// Every run against its reference, by position. Pairs of the same two sets of runs are one family, as
/// `compare` of the two folders would have it; a set is what lies in one folder.
pub(super) fn comparisons(runs: &[&Run]) -> BTreeMap<usize, Pair> {
    let sets: Vec<(PathBuf, usize)> = (0..runs.len()).map(|index| set(runs, index)).collect();
    let mut families: BTreeMap<_, Vec<(usize, usize)>> = BTreeMap::new();
    for index in 0..runs.len() {
        if let Some(first) = reference(runs, index) {
            families.entry((&sets[first], &sets[index])).or_default().push((first, index));
        }
    }
    let mut found = BTreeMap::new();
    for members in families.into_values() {
        let first: Vec<&Run> = members.iter().map(|(first, _)| runs[*first]).collect();
        let second: Vec<&Run> = members.iter().map(|(_, second)| runs[*second]).collect();
        // Sets without a sample in common have nothing to compare; the rest of the page stands.
        let Ok(ablation) = compare_runs(&first, &second) else { continue };
        for pair in ablation.splits {
            let of_split = |(_, index): &&(usize, usize)| runs[*index].manifest.task.name == pair.task;
            if let Some((_, index)) = members.iter().find(of_split) {
                found.insert(*index, pair);
            }
        }
    }
    found
}

/// The folder that a run lies in, and which of that folder's runs of the split it is.
fn set(runs: &[&Run], index: usize) -> (PathBuf, usize) {
    let folder = |run: &Run| run.path.parent().map(PathBuf::from).unwrap_or_default();
    let same = |other: &&&Run| {
        folder(other) == folder(runs[index]) && other.manifest.task.name == runs[index].manifest.task.name
    };
    (folder(runs[index]), runs[..index].iter().filter(same).count())
}
