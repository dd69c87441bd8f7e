//! Names of runs on the page: stable, unlike positions, when a run is added to a report.

use std::collections::BTreeSet;

use crate::Cell;

/// The name of each run of a report, unique within its split.
pub(super) struct Names {
    names: Vec<String>,
    /// End that all names have: a seed that every run was made with.
    end: String,
}

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
        let end = names.first().and_then(|name| Some(name[name.rfind(", seed ")?..].to_owned()));
        let end = end.filter(|end| names.iter().all(|name| name.ends_with(end))).unwrap_or_default();
        Self { names, end }
    }

    /// The names as they are read beside one another: without the end that all have.
    pub(super) fn shown(&self) -> Vec<String> {
        self.names.iter().map(|name| self.short(name).to_owned()).collect()
    }

    /// A name without the end that all have.
    pub(super) fn short<'a>(&self, name: &'a str) -> &'a str {
        name.strip_suffix(self.end.as_str()).filter(|name| !name.is_empty()).unwrap_or(name)
    }

    /// Name of the run at a position of the report.
    pub(super) fn of(&self, position: usize) -> &str {
        self.names.get(position).map_or("", String::as_str)
    }

    /// The different names in their order: the arms of a comparison, which several splits share.
    pub(super) fn distinct(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.names.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }
}
