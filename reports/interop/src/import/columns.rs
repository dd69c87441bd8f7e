//! Plain tables of predictions, by a mapping that names their columns.

use std::path::Path;

use paravt_suite::nearest;
use paravt_suite::sample::QuestionKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::budget::{Budget, check_rows};
use super::error::{ImportError, Problem};
use super::log::{Log, Row, Score, Tool};
use super::values::{Placed, count, number, text, texts};

/// What the columns of a plain table are: a TOML file.
///
/// ```
/// use paravt_interop::import::Columns;
///
/// let columns: Columns = Columns::parse("id = \"qid\"\nresponse = \"pred\"\nanswer = \"gold\"").unwrap();
/// assert!(Columns::parse("id = \"qid\"\nrespons = \"pred\"").unwrap_err().contains("did you mean `response`?"));
/// # let _ = columns;
/// ```
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    model: Option<String>,
    task: Option<String>,
    /// Column whose list holds the rows; its neighbours belong to each of them.
    rows: Option<String>,
    /// Column with the name of a sample.
    id: Option<String>,
    /// Column with the row of the published file, from 0: a number, or a text that ends in one.
    row: Option<String>,
    question: Option<String>,
    options: Option<OneOrMany>,
    answer: Option<String>,
    /// What the gold column holds.
    #[serde(default)]
    answer_is: Meaning,
    response: Option<String>,
    #[serde(default)]
    response_is: Meaning,
    prediction: Option<String>,
    score: Option<String>,
    error: Option<String>,
    video: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    kind: Option<QuestionKind>,
    /// Responses that stand for a failed request.
    #[serde(default)]
    failures: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    /// A column with a list.
    One(String),
    /// A column for each option.
    Many(Vec<String>),
}

/// What a cell says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Meaning {
    #[default]
    Text,
    /// Number of an option, from 0.
    Index0,
    /// Number of an option, from 1.
    Index1,
}

impl Meaning {
    fn read(self, value: &Value) -> Result<Option<String>, String> {
        let first = match self {
            Self::Text => return Ok(text(value)),
            Self::Index0 => 0.0,
            Self::Index1 => 1.0,
        };
        if value.is_null() {
            return Ok(None);
        }
        let index = number(value)
            .map(|index| index - first)
            .filter(|index| (0.0..26.0).contains(index) && index.fract() == 0.0);
        let index = index.ok_or_else(|| format!("`{value}` is not the number of an option"))?;
        Ok(Some(char::from(b'A' + index as u8).to_string()))
    }
}

/// A row with its place in the file.
type PlacedRow = (usize, Map<String, Value>);

impl Columns {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a mapping.
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let text = paravt_files::read_text(path, 1 << 20)
            .map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|message| ImportError::Columns { path: path.to_owned(), message })
    }

    /// Reads the text of a mapping.
    ///
    /// # Errors
    /// Not TOML, an unknown key (with the nearest known one), no column that names a sample, or none to audit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let columns: Self = toml::from_str(text).map_err(|error| {
            let message = error.to_string();
            let hint = nearest::hint(nearest::expected_field(&message).as_deref());
            format!("{}{hint}", message.trim_end())
        })?;
        if columns.id.is_none() && columns.row.is_none() {
            return Err("`id` or `row` is missing: the column that names a sample".to_owned());
        }
        if columns.response.is_none() && columns.prediction.is_none() {
            return Err("`response` is missing: the column with the model's answer".to_owned());
        }
        Ok(columns)
    }

    /// The columns that are named, with the key of each.
    fn named(&self) -> Vec<(&'static str, &str)> {
        let many = match &self.options {
            Some(OneOrMany::One(one)) => vec![one.as_str()],
            Some(OneOrMany::Many(many)) => many.iter().map(String::as_str).collect(),
            None => Vec::new(),
        };
        let single = [
            ("id", &self.id),
            ("row", &self.row),
            ("question", &self.question),
            ("answer", &self.answer),
            ("response", &self.response),
            ("prediction", &self.prediction),
            ("score", &self.score),
            ("error", &self.error),
            ("video", &self.video),
        ];
        let single = single.into_iter().filter_map(|(key, name)| Some((key, name.as_deref()?)));
        let tags = self.tags.iter().map(|tag| ("tags", tag.as_str()));
        single.chain(many.into_iter().map(|name| ("options", name))).chain(tags).collect()
    }

    /// The log of a table's rows.
    pub(super) fn log(&self, rows: Vec<Placed>, budget: &mut Budget) -> Result<Log, Problem> {
        let rows = self.flat(rows, budget)?;
        for (key, name) in self.named() {
            if !rows.iter().any(|(_, row)| row.contains_key(name)) {
                let known: Vec<&str> =
                    rows.first().map_or_else(Vec::new, |(_, row)| row.keys().map(String::as_str).collect());
                return Err(Problem::File(format!(
                    "no column `{name}` ({key}); it has {}",
                    known.join(", ")
                )));
            }
        }
        // Some scripts end their file with what they counted.
        let is_row = |row: &Map<String, Value>| self.named().iter().any(|(_, name)| row.contains_key(*name));
        let other_objects = rows.iter().filter(|(_, row)| !is_row(row)).count();
        let rows: Vec<_> = rows.into_iter().filter(|(_, row)| is_row(row)).collect();
        let row =
            |(place, row): PlacedRow| self.row(place, &row).map_err(|message| Problem::Row(place, message));
        Ok(Log {
            tool: Tool::Table,
            model: self.model.clone(),
            task: self.task.clone(),
            other_objects,
            rows: rows.into_iter().map(row).collect::<Result<_, _>>()?,
            ..Log::default()
        })
    }

    /// The rows as objects, taken out of the column that holds them.
    fn flat(&self, rows: Vec<Placed>, budget: &mut Budget) -> Result<Vec<PlacedRow>, Problem> {
        let mut flat = Vec::new();
        for (place, row) in rows {
            let Value::Object(mut row) = row else {
                return Err(Problem::Row(place, "expected an object".to_owned()));
            };
            let Some(inner) = &self.rows else {
                flat.push((place, row));
                continue;
            };
            let Some(Value::Array(items)) = row.remove(inner) else {
                return Err(Problem::Row(place, format!("no list in column `{inner}` (rows)")));
            };
            let neighbours = Value::Object(row.clone()).to_string();
            for item in items {
                let Value::Object(item) = item else { continue };
                budget.take_bytes(neighbours.len())?;
                budget.take_values(count(&neighbours))?;
                let mut whole = row.clone();
                whole.extend(item);
                flat.push((place, whole));
            }
        }
        check_rows(flat.len())?;
        Ok(flat)
    }

    fn row(&self, place: usize, row: &Map<String, Value>) -> Result<Row, String> {
        let get =
            |name: &Option<String>| name.as_ref().and_then(|name| row.get(name)).unwrap_or(&Value::Null);
        let number_of_row = text(get(&self.row)).and_then(|text| {
            let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            text[text.len() - digits..].parse().ok().map(|row: u32| row as usize)
        });
        let id = text(get(&self.id)).or_else(|| text(get(&self.row))).ok_or("no name of a sample (id)")?;
        let response =
            self.response_is.read(get(&self.response)).map_err(|error| format!("response: {error}"))?;
        let is_failure =
            response.as_ref().is_some_and(|text| self.failures.iter().any(|failure| failure == text.trim()));
        let score = self.score.as_ref().and_then(|name| Some(Score::read(name, row.get(name)?)));
        let error = text(get(&self.error)).filter(|error| !error.trim().is_empty());
        let labels = self.tags.iter().filter_map(|tag| Some((tag.clone(), vec![text(row.get(tag)?)?])));
        Ok(Row {
            place,
            id,
            row: number_of_row,
            question: text(get(&self.question)).unwrap_or_default(),
            options: match &self.options {
                Some(OneOrMany::Many(names)) => {
                    names.iter().filter_map(|name| text(row.get(name)?)).collect()
                }
                Some(OneOrMany::One(name)) => texts(row.get(name).unwrap_or(&Value::Null)),
                None => Vec::new(),
            },
            kind: self.kind,
            gold: self.answer_is.read(get(&self.answer)).map_err(|error| format!("answer: {error}"))?,
            error: error.or_else(|| response.clone().filter(|_| is_failure)),
            prediction: text(get(&self.prediction)),
            response: match self.response {
                Some(_) => response,
                None => text(get(&self.prediction)),
            },
            scores: score.into_iter().collect(),
            video: text(get(&self.video)),
            tags: labels.collect(),
            ..Row::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(columns: &str, rows: &[Value]) -> Result<Vec<Row>, String> {
        let rows: Vec<Placed> = (1..).zip(rows.iter().cloned()).collect();
        match Columns::parse(columns)?.log(rows, &mut Budget::default()) {
            Ok(log) => Ok(log.rows),
            Err(Problem::File(message)) => Err(message),
            Err(Problem::Row(place, message)) => Err(format!("row {place}: {message}")),
        }
    }

    #[test]
    fn nested_rows_indices_and_failures() {
        let columns = "id = \"q\"\nrows = \"questions\"\nvideo = \"v\"\nanswer = \"gold\"\nanswer_is = \"index0\"\nresponse = \"pred\"
            response_is = \"index1\"\ntags = [\"duration\"]\noptions = [\"o1\", \"o2\"]";
        let table = [json!({"v": "a", "duration": "short", "questions": [
            {"q": "1", "gold": 2, "pred": 1, "o1": "x", "o2": "y"}, {"q": "2", "gold": 0, "pred": null, "o1": "x", "o2": "y"}]})];
        let found = rows(columns, &table).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|row| (row.gold.as_deref(), row.response.as_deref(), row.video.as_deref()))
            .collect();
        assert_eq!(seen, [(Some("C"), Some("A"), Some("a")), (Some("A"), None, Some("a"))]);
        assert_eq!((found[0].options.len(), &found[0].tags["duration"][..]), (2, &["short".to_owned()][..]));
        let found = rows(
            "row = \"id\"\nresponse = \"r\"\nfailures = [\"Unknown\"]",
            &[json!({"id": "mlvu-000041", "r": "Unknown"})],
        )
        .unwrap();
        assert_eq!((found[0].row, found[0].failure()), (Some(41), Some("Unknown")));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let table = [json!({"id": 1, "r": "A", "s": 45.0})];
        for (columns, words) in [
            ("response = \"r\"", "`id` or `row` is missing"),
            ("id = \"id\"", "`response` is missing"),
            ("id = \"id\"\nresponse = \"answer\"", "no column `answer` (response); it has id, r, s"),
            (
                "id = \"id\"\nresponse = \"r\"\nresponse_is = \"index0\"",
                "`\"A\"` is not the number of an option",
            ),
            ("id = \"id\"\nresponse = \"r\"\nrows = \"q\"", "no list in column `q`"),
        ] {
            let error = rows(columns, &table).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
