//! Facts about the published rows, to recognise rows of another origin.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::data::JsonRow;
use crate::profile::Profile;

/// Flag of every sample of a file that has as many rows as the published one and other rows.
pub const NOT_PUBLISHED: &str = "not_the_published_rows";

/// Largest difference of an end of a published range: a column may be stored in single precision.
const RANGE_TOLERANCE: f64 = 1e-2;

/// Facts about the published annotations.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Rows by value of a column (of a list, rows that hold the value): column, value, rows. Values that are not
    /// listed are not checked.
    #[serde(default)]
    pub rows: BTreeMap<String, BTreeMap<String, usize>>,
    /// Smallest and largest number of a column.
    #[serde(default)]
    pub range: BTreeMap<String, (f64, f64)>,
    /// SHA-256 over the samples of all rows, by profile: with the names that videos have in records, and without
    /// what files of a machine add to a sample (subtitles, another extension of a video). Several where the
    /// same rows are published in several forms.
    #[serde(default)]
    pub samples: BTreeMap<Profile, Vec<String>>,
}

/// Origin of a file's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origin {
    /// They are the published ones: their samples have a published SHA-256.
    Published,
    /// As many as published, and other ones: the first fact that differs.
    Other(String),
    /// Another number of rows, or nothing is known of the published ones.
    #[default]
    Unknown,
}

impl Published {
    /// Origin of rows whose samples under `profile` have this SHA-256. `same_number`: they are as many as the
    /// published ones.
    pub(super) fn origin(
        &self,
        rows: &[JsonRow],
        profile: Profile,
        sha256: &str,
        same_number: bool,
    ) -> Origin {
        let known = self.samples.get(&profile).map_or(&[][..], Vec::as_slice);
        let has_hash = known.iter().any(|known| known == sha256);
        match self.difference(rows) {
            None if has_hash => Origin::Published,
            _ if !same_number => Origin::Unknown,
            Some(difference) => Origin::Other(difference),
            None if known.is_empty() => Origin::Unknown,
            None => Origin::Other(format!(
                "samples under {}: SHA-256 {sha256}, published {}",
                profile.as_str(),
                known.join(" or ")
            )),
        }
    }

    /// The first fact about columns that does not hold.
    fn difference(&self, rows: &[JsonRow]) -> Option<String> {
        let facts =
            self.rows.iter().flat_map(|(column, counts)| counts.iter().map(move |fact| (column, fact)));
        let mut counts = facts.into_iter().filter_map(|(column, (value, published))| {
            let has_value = |row: &&JsonRow| row.get(column).is_some_and(|cell| is(cell, value));
            let found = rows.iter().filter(has_value).count();
            (found != *published)
                .then(|| format!("column `{column}`: {found} rows with `{value}`, published {published}"))
        });
        let mut ranges = self.range.iter().filter_map(|(column, (low, high))| {
            let numbers = || rows.iter().filter_map(|row| row.get(column)?.as_f64());
            let (least, greatest) =
                (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
            let differs = |found: f64, published: &f64| (found - published).abs() > RANGE_TOLERANCE;
            (differs(least, low) || differs(greatest, high)).then(|| {
                format!("column `{column}`: numbers from {least} to {greatest}, published {low} to {high}")
            })
        });
        counts.next().or_else(|| ranges.next())
    }
}

/// Text without blanks around it, a number, or a list that holds one of them.
fn is(cell: &Value, value: &str) -> bool {
    match cell {
        Value::String(text) => text.trim() == value,
        Value::Number(number) => number.to_string() == value,
        Value::Array(cells) => cells.iter().any(|cell| is(cell, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataRoot;
    use crate::media::Depth;
    use crate::profile::Profile;
    use crate::sample::{Gold, Question};
    use crate::task::{Benchmark, Finding, Task as _};

    fn rows(answers: &[&str]) -> Vec<JsonRow> {
        let row = |(index, answer): (usize, &&str)| {
            let row = serde_json::json!({"answer": answer, "duration": index % 2});
            row.as_object().unwrap().clone()
        };
        answers.iter().enumerate().map(row).collect()
    }

    /// A file with as many rows as published is compared with the facts when it is loaded.
    #[test]
    fn a_loaded_split_of_other_rows_is_flagged() {
        static CLIPS: Benchmark = Benchmark::new(
            r#"
            name = "clips"
            title = "Clips"
            expected_rows = 2
            expected_videos = 1
            metric = { kind = "accuracy" }
            hub = { repos = ["owner/clips"], split = "test", annotations = "clips.json", media = [], license = "MIT" }
            layout = { benchmark = "clips", annotations = ["clips.json"], videos = ["."] }
            published.rows = { answer = { A = 1, B = 1 } }
            "#,
            |cx| {
                let gold = Gold::Choice { answer: cx.published.column("answer")? };
                let uid = cx.number.to_string();
                Ok(Some(cx.sample(uid, "clip.mp4".into(), Question::default(), gold)))
            },
        );
        let dir = tempfile::tempdir().unwrap();
        let root = DataRoot { hf_home: dir.path().into(), data: None, videos: BTreeMap::new() };
        for (answers, flagged) in [(&["B", "A"][..], false), (&["A", "A"], true), (&["A", "A", "A"], false)] {
            let rows: Vec<_> = answers.iter().map(|answer| serde_json::json!({"answer": answer})).collect();
            std::fs::write(dir.path().join("clips.json"), serde_json::to_vec(&rows).unwrap()).unwrap();
            let samples = CLIPS.load(&root, Profile::Paper).unwrap().samples;
            let flags = samples.iter().map(|sample| sample.flags.contains(&NOT_PUBLISHED.to_owned()));
            assert!(flags.clone().all(|flag| flag == flagged), "{answers:?}");
            let findings = CLIPS.check(&root, &Depth::Header).findings;
            let found = findings.iter().any(|finding| matches!(finding, Finding::OtherRows { .. }));
            assert_eq!(found, flagged, "{answers:?}: {findings:?}");
        }
    }

    #[test]
    fn rows_are_recognised_by_counts_range_and_hash() {
        let toml = "rows = { answer = { A = 2, B = 1 }, labels = { x = 1 } }\nrange = { duration = [0, 1] }";
        let facts: Published = toml::from_str(toml).unwrap();
        let origin = |facts: &Published, answers: &[&str], hash| {
            let mut rows = rows(answers);
            rows[0].insert("labels".to_owned(), serde_json::json!(["x", "y"]));
            facts.origin(&rows, Profile::Paper, hash, true)
        };
        let other = |facts: &Published, answers: &[&str], hash| match origin(facts, answers, hash) {
            Origin::Other(difference) => difference,
            same => panic!("{same:?}"),
        };
        assert_eq!(origin(&facts, &["A", " B ", "A", "C"], ""), Origin::Unknown, "C is not listed");
        let made_up = other(&facts, &["A", "B", "B", "B"], "");
        assert_eq!(made_up, "column `answer`: 1 rows with `A`, published 2");
        let wide = toml::from_str("range = { duration = [0, 3] }").unwrap();
        let found = other(&wide, &["A", "A"], "");
        assert_eq!(found, "column `duration`: numbers from 0 to 1, published 0 to 3");

        let pinned = Published { samples: [(Profile::Paper, vec!["ab".into()])].into(), ..facts };
        assert_eq!(origin(&pinned, &["A", "B", "A"], "ab"), Origin::Published);
        assert_eq!(
            other(&pinned, &["A", "B", "A"], "cd"),
            "samples under paper: SHA-256 cd, published ab",
            "equal counts do not make the published rows"
        );
        assert!(other(&pinned, &["A", "B", "B"], "ab").contains("`answer`"), "a column that no sample shows");
        assert_eq!(pinned.origin(&rows(&["A"]), Profile::Paper, "cd", false), Origin::Unknown);
        let release = pinned.origin(&rows(&["A", "B", "A"]), Profile::Release, "cd", true);
        assert!(matches!(release, Origin::Other(difference) if difference.contains("`labels`")));
    }
}
