//! Facts about the published rows, to recognise rows of another origin.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::data::JsonRow;

/// Flag of every sample of a file that has as many rows as the published one and other rows.
pub const NOT_PUBLISHED: &str = "not_the_published_rows";

/// Facts about the published annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// SHA-256 of the published files, lower-case hexadecimal; empty where none is known.
    #[serde(default)]
    pub sha256: Vec<String>,
    /// Rows by value of a column: column, value, rows. Values that are not listed are not checked.
    #[serde(default)]
    pub rows: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Published {
    /// The first fact that does not hold for the rows of a file.
    pub fn difference(&self, sha256: &str, rows: &[JsonRow]) -> Option<String> {
        if !self.sha256.is_empty() {
            let known = self.sha256.iter().any(|known| known == sha256);
            return (!known).then(|| format!("SHA-256 {sha256}, published {}", self.sha256.join(" or ")));
        }
        let facts =
            self.rows.iter().flat_map(|(column, counts)| counts.iter().map(move |fact| (column, fact)));
        facts.into_iter().find_map(|(column, (value, published))| {
            let has_value = |row: &&JsonRow| row.get(column).is_some_and(|cell| is(cell, value));
            let found = rows.iter().filter(has_value).count();
            (found != *published)
                .then(|| format!("column `{column}`: {found} rows with `{value}`, published {published}"))
        })
    }
}

/// Text without blanks around it, or a number.
fn is(cell: &Value, value: &str) -> bool {
    match cell {
        Value::String(text) => text.trim() == value,
        Value::Number(number) => number.to_string() == value,
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
                let uid = cx.published.row.to_string();
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
            let findings = CLIPS.check(&root, Depth::Header).findings;
            let found = findings.iter().any(|finding| matches!(finding, Finding::OtherRows { .. }));
            assert_eq!(found, flagged, "{answers:?}: {findings:?}");
        }
    }

    #[test]
    fn other_rows_are_recognised_by_counts_or_hash() {
        let toml = "rows = { answer = { A = 2, B = 1 }, duration = { 0 = 2 } }";
        let facts: Published = toml::from_str(toml).unwrap();
        assert_eq!(facts.difference("", &rows(&["A", " B ", "A", "C"])), None, "C is not listed");
        let made_up = facts.difference("", &rows(&["A", "B", "B", "B"])).unwrap();
        assert_eq!(made_up, "column `answer`: 1 rows with `A`, published 2");
        assert!(
            facts.difference("", &rows(&["A", "B", "A", "C", "C"])).unwrap().contains("`duration`: 3 rows")
        );
        let hashed = Published { sha256: vec!["ab".into()], ..facts };
        assert_eq!(hashed.difference("ab", &[]), None);
        assert_eq!(hashed.difference("cd", &[]).unwrap(), "SHA-256 cd, published ab");
    }
}
