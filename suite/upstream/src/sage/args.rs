//! Arguments that SAGE's tools refuse (`sage/src/functions/utils/args_check.py`).

use std::collections::BTreeMap;

use paravt_suite::protocol::Template;
use regex::Regex;

use super::files::Files;
use crate::python::{Int, PyValue, int, literal_regex, repr, strip};

/// Words of the release by our names, and the files that there are.
pub(super) struct Checks<'a> {
    /// Words.
    pub(super) words: &'a BTreeMap<String, Template>,
    /// Files.
    pub(super) files: &'a Files,
}

/// What is refused, by argument, in the order of the release.
type Errors = Vec<(String, PyValue)>;

/// Endings that a video may have.
const ENDINGS: [&str; 5] = [".mp4", ".mov", ".avi", ".mkv", ".webm"];

/// Whether a path ends as that of a video.
pub(super) fn is_video(path: &str) -> bool {
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}

/// `str()`.
pub(super) fn shown(value: &PyValue) -> String {
    match value {
        PyValue::Str(text) => text.clone(),
        other => repr(other),
    }
}

/// The whole numbers of a time with two or three fields.
pub(super) fn fields(time: &str) -> Option<Vec<u32>> {
    let number = |part: &str| match int(part)? {
        Int::Small(value) => u32::try_from(value).ok(),
        _ => None,
    };
    time.split(':').map(number).collect()
}

impl Checks<'_> {
    /// A text of the release with its values.
    pub(super) fn words(&self, name: &str, values: &[(&str, &str)]) -> String {
        let template = self.words.get(name).cloned().unwrap_or_default();
        template.render(values).unwrap_or_else(|error| error.to_string())
    }

    /// What `extract_parts_from_timestamp` refuses.
    pub(super) fn extract(&self, arguments: &PyValue) -> Errors {
        let mut errors = Vec::new();
        self.required(&mut errors, arguments, "video_path", |path| self.video(path));
        if let Some(kind) = arguments.get("extract_type") {
            let allowed = "['frames', 'subclips']";
            if !matches!(kind, PyValue::Str(kind) if kind == "frames" || kind == "subclips") {
                let values = [("arg_name", "extract_type"), ("value", &shown(kind)), ("allowed", allowed)];
                errors.push(("extract_type".to_owned(), PyValue::Str(self.words("allowed", &values))));
            }
        }
        self.range(&mut errors, arguments);
        errors
    }

    /// What `identify_timestamps_visually` refuses.
    pub(super) fn identify(&self, arguments: &PyValue) -> Errors {
        let mut errors = Vec::new();
        self.required(&mut errors, arguments, "video_path", |path| self.video(path));
        self.required(&mut errors, arguments, "event", |event| self.text("event", event));
        self.range(&mut errors, arguments);
        errors
    }

    /// What `perform_reasoning` refuses.
    pub(super) fn reason(&self, arguments: &PyValue) -> Errors {
        let mut errors = Vec::new();
        self.required(&mut errors, arguments, "query", |query| self.text("query", query));
        let refused = match arguments.get("media_paths") {
            None | Some(PyValue::None) => None,
            Some(PyValue::List(paths)) if paths.iter().all(|path| matches!(path, PyValue::Str(_))) => {
                let there =
                    |path: &PyValue| matches!(path, PyValue::Str(path) if self.files.get(path).is_some());
                (!paths.iter().all(there)).then_some("no_media")
            }
            Some(_) => Some("media_type"),
        };
        if let Some(name) = refused {
            errors.push(("media_paths".to_owned(), PyValue::Str(self.words(name, &[]))));
        }
        errors
    }

    fn required(
        &self,
        errors: &mut Errors,
        arguments: &PyValue,
        name: &str,
        check: impl Fn(&PyValue) -> Option<String>,
    ) {
        let refused = match arguments.get(name) {
            Some(value) => check(value),
            None => Some(self.words("missing", &[("arg", name)])),
        };
        errors.extend(refused.map(|reason| (name.to_owned(), PyValue::Str(reason))));
    }

    fn video(&self, path: &PyValue) -> Option<String> {
        let name = ("arg_name", "video_path");
        let PyValue::Str(path) = path else {
            return Some(self.words("path_type", &[name, ("__name__", path.type_name())]));
        };
        if self.files.get(path).is_none() {
            return Some(self.words("no_file", &[name, ("path", path)]));
        }
        let allowed = format!("({})", ENDINGS.map(|ending| format!("'{ending}'")).join(", "));
        let values = [name, ("path", path.as_str()), ("valid_exts", &allowed)];
        (!is_video(&path.to_lowercase())).then(|| self.words("extension", &values))
    }

    fn text(&self, name: &str, value: &PyValue) -> Option<String> {
        let is_empty = !matches!(value, PyValue::Str(text) if !strip(text).is_empty());
        is_empty.then(|| self.words("empty_text", &[("arg_name", name)]))
    }

    /// `check_timestamp_range`, where one of the times is there.
    fn range(&self, errors: &mut Errors, arguments: &PyValue) {
        let names = ["timestamp_start", "timestamp_end"];
        let refused = match names.map(|name| arguments.get(name)) {
            [None, None] => None,
            [Some(start), Some(end)] => self.window(start, end).err(),
            _ => Some(self.words("together", &[("start_key", names[0]), ("end_key", names[1])])),
        };
        errors.extend(refused.map(|reason| ("timestamp_range".to_owned(), PyValue::Str(reason))));
    }

    fn window(&self, start: &PyValue, end: &PyValue) -> Result<(), String> {
        let named = |error: &'static str| move |reason: String| self.words(error, &[("reason", &reason)]);
        self.form("timestamp_start", start).map_err(named("start_error"))?;
        self.form("timestamp_end", end).map_err(named("end_error"))?;
        let first = self.time("timestamp_start", &shown(start)).map_err(named("start_error"))?;
        let last = self.time("timestamp_end", &shown(end)).map_err(named("end_error"))?;
        let values = [("start_ts", &*shown(start)), ("end_ts", &*shown(end))];
        match first.cmp(&last) {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Equal => Err(self.words("same", &values)),
            std::cmp::Ordering::Greater => Err(self.words("after", &values)),
        }
    }

    /// `check_valid_timestamp`.
    fn form(&self, name: &str, time: &PyValue) -> Result<(), String> {
        static FORM: std::sync::LazyLock<Regex> =
            std::sync::LazyLock::new(|| literal_regex(r"^(\d{1,2}:)?([0-5]?\d:)?[0-5]?\d\n?$"));
        let shown = shown(time);
        let values = [("arg_name", name), ("ts", shown.as_str())];
        match time {
            PyValue::Str(text) if strip(text).is_empty() => Err(self.words("empty_time", &values)),
            PyValue::Str(text) if FORM.is_match(text) => Ok(()),
            PyValue::Str(_) => Err(self.words("time_form", &values)),
            _ => Err(self.words("empty_time", &values)),
        }
    }

    /// `parse_timestamp` of a text of the right form: its seconds.
    fn time(&self, name: &str, time: &str) -> Result<u32, String> {
        let refused = |reason: &str| self.words(reason, &[("arg_name", name), ("ts", time)]);
        let fields = fields(time).ok_or_else(|| refused("time_parts"))?;
        let (hours, minutes, seconds) = match fields[..] {
            [minutes, seconds] => (0, minutes, seconds),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(refused("time_parts")),
        };
        match minutes <= 59 && seconds <= 59 {
            true => Ok(hours * 3600 + minutes * 60 + seconds),
            false => Err(refused("out_of_range")),
        }
    }
}
