//! Names of runs on the page: stable, unlike positions, when a run is added to a report.

use std::collections::BTreeSet;

use crate::Cell;

/// The name of each run of a report, unique within its split.
pub(super) struct Names(Vec<String>);

impl Names {
    /// The runs' own names, with the profile where runs of several are shown, and a number where that is not enough.
    pub(super) fn new(cells: &[Cell]) -> Self {
        let profiles: BTreeSet<_> = cells.iter().map(|cell| cell.profile).collect();
        let mut taken: BTreeSet<(&str, String)> = BTreeSet::new();
        let mut names = Vec::new();
        for Cell { task, run, profile, .. } in cells {
            let name = if profiles.len() > 1 { format!("{run} ({profile})") } else { run.clone() };
            let mut unique = name.clone();
            let mut number = 2;
            while !taken.insert((task, unique.clone())) {
                unique = format!("{name}, {number}");
                number += 1;
            }
            names.push(unique);
        }
        Self(names)
    }

    /// Name of the run at a position of the report.
    pub(super) fn of(&self, position: usize) -> &str {
        self.0.get(position).map_or("", String::as_str)
    }

    /// The different names in their order: the arms of a comparison, which several splits share.
    pub(super) fn distinct(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }
}
