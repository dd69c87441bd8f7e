//! LongVideoBench's subtitles: a JSON list of timed lines.

use std::path::Path;

use serde_json::Value;

use super::DataError;

/// One line of subtitles.
#[derive(Debug, Clone, PartialEq)]
pub struct Cue {
    /// First second in the video.
    pub start: f64,
    /// Last second in the video.
    pub end: f64,
    /// What is said.
    pub text: String,
}

/// Reads a subtitle file. Both published forms are understood, `{"start", "end", "line"}` with
/// `HH:MM:SS.mmm` clocks and `{"timestamp": [start, end], "text"}` in seconds. Times count from
/// the start of the whole recording; `offset` (the column `starting_timestamp_for_subtitles`) is
/// where the published clip starts in it. An open end (null) becomes `duration`, that of the clip.
///
/// # Errors
/// The file cannot be read, is no such list, or a line has neither form: the error names the line.
pub fn read_cues(path: &Path, offset: f64, duration: f64) -> Result<Vec<Cue>, DataError> {
    let bytes = std::fs::read(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    let lines: Vec<Value> = serde_json::from_slice(&bytes).map_err(|error| DataError::Format {
        path: path.to_owned(),
        message: format!("this is no JSON list of subtitle lines: {error}"),
    })?;
    let read = |(row, line): (usize, &Value)| {
        let (column, cue) = if line.get("timestamp").is_some() {
            ("timestamp", seconds_form(line, offset, duration))
        } else {
            ("start", clock_form(line, offset))
        };
        cue.ok_or_else(|| DataError::Row {
            path: path.to_owned(),
            row,
            column: column.to_owned(),
            message: "no subtitle line: `start`, `end`, `line` or `timestamp`, `text` are needed".to_owned(),
        })
    };
    lines.iter().enumerate().map(read).collect()
}

fn seconds_form(line: &Value, offset: f64, duration: f64) -> Option<Cue> {
    let start = line["timestamp"][0].as_f64()? - offset;
    let end = match line["timestamp"].get(1) {
        None | Some(Value::Null) => duration,
        Some(end) => end.as_f64()? - offset,
    };
    Some(Cue { start, end, text: line["text"].as_str()?.to_owned() })
}

fn clock_form(line: &Value, offset: f64) -> Option<Cue> {
    let seconds = |name: &str| {
        let parts: Vec<f64> =
            line[name].as_str()?.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [hours, minutes, seconds] = parts[..] else { return None };
        Some(hours * 3600.0 + minutes * 60.0 + seconds - offset)
    };
    Some(Cue { start: seconds("start")?, end: seconds("end")?, text: line["line"].as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, offset: f64) -> Result<Vec<Cue>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v_en.json");
        std::fs::write(&path, json).unwrap();
        read_cues(&path, offset, 12.5).map_err(|error| error.to_string())
    }

    fn cue(start: f64, end: f64, text: &str) -> Cue {
        Cue { start, end, text: text.to_owned() }
    }

    #[test]
    fn both_forms_are_shifted_to_the_clip() {
        let clocks = r#"[{"start": "01:00:01.500", "end": "01:00:03.000", "line": "hi"}]"#;
        assert_eq!(read(clocks, 3600.0).unwrap(), [cue(1.5, 3.0, "hi")]);
        let seconds = r#"[{"timestamp": [7, 8.25], "text": "hi"}, {"timestamp": [9.0, null], "text": "on"}]"#;
        assert_eq!(read(seconds, 5.0).unwrap(), [cue(2.0, 3.25, "hi"), cue(4.0, 12.5, "on")]);
    }

    #[test]
    fn a_line_of_neither_form_is_named() {
        let message = read(r#"[{"timestamp": [1.0, 2.0], "text": "a"}, {"start": "x"}]"#, 0.0).unwrap_err();
        assert!(message.contains("v_en.json") && message.contains("row 1"), "{message}");
        assert!(read("{", 0.0).unwrap_err().contains("no JSON list"));
    }
}
