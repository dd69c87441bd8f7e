//! The published numbers, as data (`data/paper_numbers.json`, with sources and confidence).

use paravt_suite::nearest;
use serde_json::Value;

use crate::authors::Authors;
use crate::frame::{Frame, Values};

/// Our splits and their columns in the published table, in its order.
pub(crate) const SPLITS: [(&str, &str); 7] = [
    ("videomme", "videomme_wo_sub"),
    ("videomme_wsub", "videomme_w_sub"),
    ("longvideobench", "longvideobench_val"),
    ("lvbench", "lvbench"),
    ("mlvu", "mlvu_dev"),
    ("mmvu", "mmvu_val"),
    ("charades", "charades_sta_test_miou"),
];

/// Why a published number cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    #[error("the published numbers in this build are damaged: {0}")]
    Damaged(String),
    #[error(
        "the published table has no row `{row}`; it has {known}{hint}",
        hint = nearest::hint(nearest::nearest(.row, .known.split(", ")))
    )]
    NoRow { row: String, known: String },
}

/// The published numbers.
#[derive(Debug)]
pub struct PaperNumbers {
    tables: Value,
    authors: Authors,
}

impl PaperNumbers {
    /// The numbers in this build.
    pub fn embedded() -> Result<Self, PaperError> {
        let tables: Value = serde_json::from_str(include_str!("../data/paper_numbers.json"))
            .map_err(|error| PaperError::Damaged(error.to_string()))?;
        if tables["table1"]["rows"].as_array().is_none_or(Vec::is_empty) {
            return Err(PaperError::Damaged("no table".to_owned()));
        }
        let authors = Authors::embedded().map_err(|error| PaperError::Damaged(error.to_string()))?;
        Ok(Self { tables, authors })
    }

    /// The file's own words about a source.
    pub fn source(&self, key: &str) -> Option<&str> {
        self.tables["retrieved_from"][key].as_str()
    }

    /// The number at a JSON pointer.
    pub fn number(&self, pointer: &str) -> Option<f64> {
        self.tables.pointer(pointer)?.as_f64()
    }

    fn rows(&self) -> impl Iterator<Item = &Value> {
        self.tables["table1"]["rows"].as_array().into_iter().flatten()
    }

    /// Names of the table's rows.
    pub fn models(&self) -> Vec<&str> {
        self.rows().filter_map(|row| row["model"].as_str()).collect()
    }

    /// Rows of the ablation table, named `BLOCK: SETTING`, e.g. `A: + SFT cold-start`.
    fn ablations(&self) -> impl Iterator<Item = (String, &Value)> {
        let rows = self.tables["table2_ablation"]["rows"].as_array().into_iter().flatten();
        rows.filter_map(|row| {
            Some((format!("{}: {}", row["block"].as_str()?, row["setting"].as_str()?), row))
        })
    }

    /// The published value for a row and one of our splits, in percent; `None` where none is published.
    /// A row is a model of the main table, with ` (by its authors)` behind it for the number that they report themselves,
    /// or `BLOCK: SETTING` of the ablation table.
    pub fn value(&self, row: &str, split: &str) -> Result<Option<f64>, PaperError> {
        let column = SPLITS.iter().find(|(name, _)| *name == split).map(|(_, column)| *column);
        if let Some(found) = self.rows().find(|candidate| candidate["model"].as_str() == Some(row)) {
            return Ok(column.and_then(|column| found[column].as_f64()));
        }
        if let Some((_, found)) = self.ablations().find(|(name, _)| name == row) {
            // The ablation table heads the same column `mlvu`.
            let column = column.map(|column| if column == "mlvu_dev" { "mlvu" } else { column });
            return Ok(column.and_then(|column| found[column].as_f64()));
        }
        self.authors.row(row).map(|own| own.percent(split)).ok_or_else(|| self.unknown(row))
    }

    /// Checks that there is a row.
    pub fn row(&self, row: &str) -> Result<(), PaperError> {
        let known = self.rows_of_all_tables().iter().any(|known| known == row);
        if known { Ok(()) } else { Err(self.unknown(row)) }
    }

    fn unknown(&self, row: &str) -> PaperError {
        PaperError::NoRow { row: row.to_owned(), known: self.rows_of_all_tables().join(", ") }
    }

    /// Every number of all tables: `row`, `split` and `published_percent`.
    pub fn frame(&self) -> Result<Frame, PaperError> {
        let rows = self.rows_of_all_tables();
        let cells: Vec<(&String, &str)> =
            rows.iter().flat_map(|row| SPLITS.iter().map(move |(split, _)| (row, *split))).collect();
        let values = cells.iter().map(|(row, split)| self.value(row, split)).collect::<Result<_, _>>()?;
        Ok(Frame::new(vec![
            ("row", Values::Text(cells.iter().map(|(row, _)| Some((*row).clone())).collect())),
            ("split", Values::Text(cells.iter().map(|(_, split)| Some((*split).to_owned())).collect())),
            ("published_percent", Values::Real(values)),
        ]))
    }

    /// Names of the rows of both tables, and of those with the authors' own numbers.
    pub(crate) fn rows_of_all_tables(&self) -> Vec<String> {
        let models = self.models().into_iter().map(str::to_owned);
        models.chain(self.ablations().map(|(name, _)| name)).chain(self.authors.names()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_table_is_complete() {
        let paper = PaperNumbers::embedded().unwrap();
        assert_eq!(paper.models().len(), 15);
        let row: Vec<_> =
            SPLITS.iter().map(|(split, _)| paper.value("ParaVT-8B", split).unwrap().unwrap()).collect();
        assert_eq!(row, [62.1, 69.4, 60.4, 39.8, 65.0, 68.6, 50.1]);
        assert_eq!(paper.value("GPT-4o", "charades").unwrap(), None);
        assert!(paper.value("Nobody", "mlvu").unwrap_err().to_string().contains("ParaVT-8B"));
    }

    /// The abstract's +7.9 % is the mean of the seven columns' relative gains over the tool baseline.
    #[test]
    fn the_headline_gain_follows_from_the_table() {
        let paper = PaperNumbers::embedded().unwrap();
        let gain = |split: &str| {
            let value = |row| paper.value(row, split).unwrap().unwrap();
            value("ParaVT-8B") / value("Qwen3-VL-8B (tool)") - 1.0
        };
        let mean = SPLITS.iter().map(|(split, _)| gain(split)).sum::<f64>() / 7.0;
        assert!((mean - 0.079).abs() < 5e-4, "{mean}");
    }
}
