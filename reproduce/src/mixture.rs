//! Evaluations of one recipe, or of one row of a table, that different models or engines have answered.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::backend::BackendInfo;

use crate::graph::Graph;

/// Facts in which the runs of a graph's evaluations differ, in words: a report of these is not of one model on one engine.
/// Each row of a table has a model of its own.
pub fn mixed(graph: &Graph) -> Vec<String> {
    let rows: BTreeSet<Option<&str>> = graph.evaluations().map(|(stage, ..)| stage.row()).collect();
    rows.into_iter().flat_map(|row| mixed_in(graph, row)).collect()
}

fn mixed_in(graph: &Graph, row: Option<&str>) -> Vec<String> {
    let mut values: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    let of_row = graph.evaluations().filter(|(stage, asked, _)| asked.is_served() && stage.row() == row);
    for (stage, evaluation, folder) in of_row {
        for split in &evaluation.splits {
            let Ok(manifest) = paravt_suite::journal::read_manifest(&folder.join(split)) else { continue };
            for name in BackendInfo::PROVENANCE {
                if let Some(value) = manifest.backend.details.get(name) {
                    values.entry(name).or_default().entry(value.clone()).or_default().push(stage.name());
                }
            }
        }
    }
    let mixed = values.into_iter().filter(|(_, by_value)| by_value.len() > 1);
    let words = |by_value: BTreeMap<String, Vec<&str>>| {
        let parts = by_value.into_iter().map(|(value, stages)| format!("{value} ({})", stages.join(", ")));
        parts.collect::<Vec<_>>().join("; ")
    };
    mixed.map(|(name, by_value)| format!("the evaluations differ in {name}: {}", words(by_value))).collect()
}
