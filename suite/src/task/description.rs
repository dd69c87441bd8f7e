//! `benchmark.toml`: everything about a split that is a constant.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::{Breakdown, HubSource, Metric, Published, Quirks, TaskSpec};
use crate::data::Layout;

/// A description that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not TOML, or a value of the wrong type.
    #[error("benchmark description: {0}")]
    Parse(String),
    /// A field that no description has.
    #[error("benchmark description: unknown field `{0}`")]
    UnknownField(String),
}

/// The constants of a split and where its files lie.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The constants, as the manifest of a run stores them.
    pub spec: TaskSpec,
    /// Paths of the files below a data root.
    pub layout: Layout,
    /// Facts about the published annotations.
    pub published: Published,
    /// Whether `all` names the split too.
    pub part_of_all: bool,
    /// Quirks of the reference, by the profiles that keep them.
    pub quirks: Quirks,
    /// Videos that others reported as broken.
    pub reported: Vec<Reported>,
    /// Items whose question or gold others doubt.
    pub doubtful: Vec<Doubtful>,
    /// Whether its questions are about images in the place of videos.
    pub images: bool,
    /// Columns that make a sample, where no code does.
    pub(super) row: Option<Columns>,
}

/// Published videos that others could not decode. `data check --decode` says which of them fail here; a run counts and
/// names those that do, as any other video.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Reported {
    /// Names of the files, without folders.
    pub files: Vec<String>,
    pub report: String,
    /// Where: repository, commit and file, or thread.
    pub source: String,
}

/// Items that others doubt. They are asked and scored as published; a report has a second score without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubtful {
    /// The uids of the samples.
    pub uids: Vec<String>,
    pub reason: String,
    /// Where: a thread by its number, or repository, commit and file.
    pub source: String,
}

#[derive(Deserialize)]
struct Written {
    name: String,
    title: String,
    #[serde(default)]
    expected_rows: usize,
    paper_rows: Option<usize>,
    #[serde(default)]
    expected_videos: usize,
    metric: Metric,
    hub: HubSource,
    layout: Layout,
    #[serde(default)]
    published: Published,
    #[serde(default = "yes")]
    part_of_all: bool,
    #[serde(default)]
    breakdowns: Vec<Breakdown>,
    #[serde(default)]
    quirks: Quirks,
    #[serde(default)]
    reported: Vec<Reported>,
    #[serde(default)]
    images: bool,
    #[serde(default)]
    doubtful: Vec<Doubtful>,
}

/// Names of the fields of [`Written`], to suggest one for a misspelt one.
pub(super) const FIELDS: [&str; 15] = [
    "name", "title", "expected_rows", "paper_rows", "expected_videos", "metric", "hub", "layout",
    "published", "part_of_all", "breakdowns", "quirks", "reported", "images", "doubtful",
];

fn yes() -> bool {
    true
}

impl Description {
    /// Parses a `benchmark.toml`; `changes`, TOML too, replaces values of it: a second split of the same files.
    ///
    /// # Errors
    /// Not TOML, a missing or unknown field, a value of the wrong type, or a path that leaves its folder.
    pub fn parse(text: &str, changes: &str) -> Result<Self, DescriptionError> {
        let table = |text: &str| {
            text.parse::<toml::Table>().map_err(|error| DescriptionError::Parse(error.to_string()))
        };
        let mut merged = table(text)?;
        merge(&mut merged, table(changes)?);
        let row = take_row(&mut merged)?;
        Self::of_table(merged, row)
    }

    /// Reads a parsed `benchmark.toml` without its table `row`.
    pub(super) fn of_table(table: toml::Table, row: Option<Columns>) -> Result<Self, DescriptionError> {
        let mut unknown = None;
        let written: Written = serde_ignored::deserialize(toml::Value::Table(table), |path| {
            unknown.get_or_insert(path.to_string());
        })
        .map_err(|error| DescriptionError::Parse(error.to_string()))?;
        if let Some(field) = unknown {
            return Err(DescriptionError::UnknownField(field));
        }
        written.layout.check(&written.hub).map_err(DescriptionError::Parse)?;
        row.iter().try_for_each(|row| row.check(&written.metric)).map_err(DescriptionError::Parse)?;
        Ok(Self {
            spec: TaskSpec {
                name: written.name,
                title: written.title,
                hub: written.hub,
                expected_rows: written.expected_rows,
                paper_rows: written.paper_rows.unwrap_or(written.expected_rows),
                expected_videos: written.expected_videos,
                metric: written.metric,
                breakdowns: written.breakdowns,
            },
            layout: written.layout,
            published: written.published,
            part_of_all: written.part_of_all,
            quirks: written.quirks,
            reported: written.reported,
            doubtful: written.doubtful,
            images: written.images || row.as_ref().is_some_and(Columns::is_about_images),
            row,
        })
    }
}

/// Takes the table `row` out of a description.
pub(super) fn take_row(table: &mut toml::Table) -> Result<Option<Columns>, DescriptionError> {
    let row = table.remove("row").map(toml::Value::try_into);
    row.transpose().map_err(|error| DescriptionError::Parse(format!("row: {error}")))
}

/// Tables are merged field by field; every other value is replaced.
fn merge(base: &mut toml::Table, changes: toml::Table) {
    for (name, change) in changes {
        match (base.get_mut(&name), change) {
            (Some(toml::Value::Table(base)), toml::Value::Table(change)) => merge(base, change),
            (_, change) => drop(base.insert(name, change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        name = "made_up"
        title = "Made up"
        expected_rows = 3
        expected_videos = 2
        metric = { kind = "accuracy" }
        breakdowns = [{ tag = "length", title = "Length" }]
        hub = { repos = ["owner/name"], split = "test", annotations = "a.json", media = [], license = "none" }
        layout = { benchmark = "made_up", annotations = ["a.json"], videos = ["videos"] }
    "#;

    #[test]
    fn every_suggested_field_is_a_field() {
        for field in FIELDS {
            let table: toml::Table = format!("{field} = 0").parse().unwrap();
            let mut unknown = Vec::new();
            let _ = serde_ignored::deserialize::<_, _, Written>(toml::Value::Table(table), |path| {
                unknown.push(path.to_string());
            });
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }

    #[test]
    fn changes_replace_values_inside_of_tables() {
        let base = Description::parse(TOML, "").unwrap();
        assert_eq!((base.spec.paper_rows, base.spec.hub.gated), (3, false));
        let changed = Description::parse(TOML, "name = \"other\"\nhub.media = [\"s.zip\"]").unwrap();
        assert_eq!(
            (changed.spec.name.as_str(), &*changed.spec.hub.media),
            ("other", &["s.zip".to_owned()][..])
        );
        assert_eq!(changed.spec.hub.repos, base.spec.hub.repos);
    }

    #[test]
    fn missing_unknown_and_mistyped_fields_are_named() {
        let error = |changes| Description::parse(TOML, changes).unwrap_err().to_string();
        assert_eq!(error("videos = 3"), "benchmark description: unknown field `videos`");
        assert_eq!(error("hub.licence = \"MIT\""), "benchmark description: unknown field `hub.licence`");
        assert!(error("expected_rows = \"3\"").contains("expected_rows"));
        let missing = Description::parse("name = \"x\"", "").unwrap_err().to_string();
        assert!(missing.contains("missing field `title`"), "{missing}");
    }

    #[test]
    fn paths_that_leave_their_folder_are_refused_by_field() {
        for (field, value) in [
            ("layout.annotations", "[]"),
            ("layout.annotations", "[\"\"]"),
            ("layout.annotations", "[\".\"]"),
            ("layout.annotations", "[\"..\"]"),
            ("layout.annotations", "[\"/\"]"),
            ("layout.annotations", "[\"a.json\", \"../secret.json\"]"),
            ("layout.annotations", "[\"a/../../secret.json\"]"),
            ("layout.annotations", "[\"/etc/secret.json\"]"),
            ("layout.benchmark", "\"../other\""),
            ("layout.benchmark", "\"/\""),
            ("layout.videos", "[]"),
            ("layout.videos", "[\"/\"]"),
            ("layout.videos", "[\"//.\"]"),
            ("layout.videos", "[\"videos\", \"a/..\"]"),
            ("layout.videos", "[\"/data/../etc\"]"),
            ("layout.subtitles", "[\"..\"]"),
            ("layout.other_extensions", "[\"/../x\"]"),
            ("hub.annotations", "\"../x\""),
            ("hub.media", "[\"../x.zip\"]"),
            ("hub.revision", "\"../../x\""),
        ] {
            let error = Description::parse(TOML, &format!("{field} = {value}")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("benchmark description: {field}: expected ")), "{error}");
        }
        for own in ["layout.videos = [\"/data/clips\", \".\"]", "layout.annotations = [\"a/b.json\"]"] {
            assert!(Description::parse(TOML, own).is_ok(), "{own}");
        }
    }
}
