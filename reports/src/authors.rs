//! What the authors of the table's baselines report of the same models under their own protocols
//! (`data/authors.toml`).

use std::collections::BTreeMap;

use paravt_suite::protocol::Fidelity;
use paravt_suite::run::Manifest;
use serde::Deserialize;

/// End of a row's name where its number is that of the model's authors.
pub(crate) const BY_AUTHORS: &str = " (by its authors)";

pub(crate) fn model_of(row: &str) -> &str {
    row.strip_suffix(BY_AUTHORS).unwrap_or(row)
}

/// A row of the table whose authors report numbers of their own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub row: String,
    /// Name of the authors' protocol, where it can be imported.
    protocol: Option<String>,
    pub source: String,
    /// On the file's scale.
    pub confidence: String,
    /// Scores by our splits.
    pub percent: BTreeMap<String, f64>,
    /// Numbers that the table has no column for.
    pub also: Option<String>,
    /// In what the two protocols differ.
    pub gap: String,
    /// Why the table cannot have measured what its row says.
    pub finding: Option<String>,
}

/// All of these rows.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Authors {
    rows: Vec<Row>,
}

impl Authors {
    /// Those of this build.
    pub(crate) fn embedded() -> Result<Self, toml::de::Error> {
        toml::from_str(include_str!("../data/authors.toml"))
    }

    /// Names of the rows: of the table's, with an end.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| format!("{}{BY_AUTHORS}", row.row))
    }

    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.of_model(name.strip_suffix(BY_AUTHORS)?)
    }

    /// The row of a model of the table.
    pub(crate) fn of_model(&self, row: &str) -> Option<&Row> {
        self.rows.iter().find(|known| known.row == row)
    }
}

impl Row {
    /// The authors' number on a split, in percent.
    pub(crate) fn percent(&self, split: &str) -> Option<f64> {
        self.percent.get(split).copied()
    }

    /// Why a run is not one under the authors' protocol.
    pub(crate) fn differences(&self, manifest: &Manifest) -> Vec<String> {
        let wanted = self.protocol.as_deref().unwrap_or("none that can be imported");
        let other = self.protocol.as_deref() != Some(&*manifest.protocol);
        [
            other.then(|| format!("protocol {} (its authors': {wanted})", manifest.protocol)),
            (!manifest.protocol_source.pinned).then(|| "unpinned protocol".to_owned()),
            (manifest.fidelity == Some(Fidelity::Variant))
                .then(|| "a variant of its authors' protocol".to_owned()),
            manifest.plan.probe.map(|probe| format!("probe {probe}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
