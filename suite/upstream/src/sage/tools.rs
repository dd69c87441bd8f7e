//! SAGE's visual tools (`sage/src/functions/tools`, `sage/src/api/base_api.py`) and how their calls are read
//! (`parse_tool_call`, `fix_args` and `execute_tool_call` of `sage/main.py`).

use std::collections::BTreeMap;

use paravt_suite::message::FrameOrigin;
use paravt_suite::protocol::{Stages, Template};
use paravt_suite::record::{ToolCall, ToolOutcome};
use serde_json::json;

use super::args::{Checks, fields, is_video, shown};
use super::clean_json;
use super::files::{Clip, File, Files};
use super::times::{Fields, fixed, seconds, seconds_of, timestamp};
use crate::python::{PyValue, repr, strip};

/// Cuts frames or a clip out of a video.
pub(super) const EXTRACT: &str = "extract_parts_from_timestamp";
/// Asks the model about text, images or a clip.
pub(super) const REASON: &str = "perform_reasoning";
/// Asks the model for a moment in a clip.
pub(super) const IDENTIFY: &str = "identify_timestamps_visually";

/// An exception that ends the try.
pub(super) struct Raised;

/// A call that was read.
pub(super) struct Used {
    /// Its name with its number.
    pub(super) name: String,
    /// The arguments that the tool has.
    pub(super) arguments: PyValue,
    /// What it asks the model.
    pub(super) question: Option<Question>,
    /// Its result, where it asks nothing, or why it failed.
    done: Result<PyValue, String>,
    /// The reply that it stands in.
    turn: usize,
    /// The window that it names, in seconds of its file.
    window: Option<(f64, f64)>,
    /// Whether the arguments were refused.
    refused: bool,
}

/// What a tool asks the model.
pub(super) struct Question {
    /// Its text.
    pub(super) text: String,
    /// Files in front of the text.
    pub(super) media: Vec<String>,
    /// Whether the first of them is shown as a video, the others not at all.
    pub(super) as_video: bool,
    /// Arguments that the answer is kept under.
    key: String,
    /// For a moment: the key of its clip.
    moment: Option<Moment>,
}

struct Moment {
    start: f64,
    key: String,
}

/// The tools of a sample: its files, and answers that are given once more.
pub(super) struct Tools {
    /// Files of the sample; they stay there over all tries.
    pub(super) files: Files,
    /// Replies that could have a call.
    pub(super) replies: usize,
    /// Calls for the record.
    pub(super) record: Vec<ToolCall>,
    words: BTreeMap<String, Template>,
    grounding: Template,
    /// See [`Stages::keeps_media`].
    keeps_media: bool,
    numbers: BTreeMap<String, usize>,
    answers: BTreeMap<String, PyValue>,
}

impl Tools {
    /// Tools with the words of the release.
    pub(super) fn new(words: BTreeMap<String, Template>, stages: &Stages, files: Files) -> Self {
        Self {
            files,
            replies: 0,
            record: Vec::new(),
            words,
            grounding: stages.grounding.clone(),
            keeps_media: stages.keeps_media,
            numbers: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Calls are numbered from 1 in each try.
    pub(super) fn begin_try(&mut self) {
        self.numbers.clear();
    }

    /// A text of the release with its values.
    pub(super) fn words(&self, name: &str, values: &[(&str, &str)]) -> String {
        self.checks().words(name, values)
    }

    fn checks(&self) -> Checks<'_> {
        Checks { words: &self.words, files: &self.files }
    }

    fn numbered(&mut self, name: &str) -> String {
        let number = self.numbers.entry(name.to_owned()).or_insert(0);
        *number += 1;
        format!("{name}_#{number}")
    }

    /// Reads the first of the calls and runs it as far as it goes without the model.
    pub(super) fn call(&mut self, calls: &PyValue, turn: usize) -> Result<Used, Raised> {
        let first = match calls {
            PyValue::List(calls) => calls.first().filter(|call| matches!(call, PyValue::Dict(_))),
            _ => None,
        };
        let named = match first.and_then(|call| Some((call, call.get("name")?))) {
            Some((call, PyValue::Str(name))) => Some((call, name.as_str())),
            // No key of a dictionary.
            Some((_, PyValue::List(_) | PyValue::Dict(_))) => return Err(Raised),
            _ => None,
        };
        let known = named.filter(|(_, name)| [EXTRACT, REASON, IDENTIFY].contains(name));
        let Some((call, tool)) = known else {
            let name = self.numbered("None");
            let reason = self.words("no_call", &[]);
            let call = first.unwrap_or(calls).to_json();
            self.note(turn, call, None, ToolOutcome::Malformed { reason: reason.clone() });
            let arguments = PyValue::Dict(Vec::new());
            let done = Ok(PyValue::Str(reason));
            return Ok(Used { name, arguments, question: None, done, turn, window: None, refused: true });
        };
        let name = self.numbered(tool);
        let given = call.get("arguments").cloned().unwrap_or(PyValue::Dict(Vec::new()));
        let PyValue::Dict(given) = self.with_known_paths(given)? else { return Err(Raised) };
        let arguments = PyValue::Dict(given.into_iter().filter(|(key, _)| has(tool, key)).collect());
        let errors = match tool {
            EXTRACT => self.checks().extract(&arguments),
            REASON => self.checks().reason(&arguments),
            _ => self.checks().identify(&arguments),
        };
        let refused = !errors.is_empty();
        let (mut question, mut window) = (None, None);
        let done = if refused {
            let values = [("name", name.as_str()), ("errors", &repr(&PyValue::Dict(errors)))];
            Err(self.words("refused", &values))
        } else {
            match tool {
                EXTRACT => self.extract(&arguments, &mut window),
                REASON => self.reason(&arguments, &mut question),
                _ => self.identify(&arguments, &mut question, &mut window),
            }
        };
        Ok(Used { name, arguments, question, done, turn, window, refused })
    }

    /// `fix_args`: paths of files that are there under another folder.
    fn with_known_paths(&self, mut arguments: PyValue) -> Result<PyValue, Raised> {
        let PyValue::Dict(items) = &mut arguments else { return Err(Raised) };
        for (name, value) in items.iter_mut() {
            match (name.as_str(), &mut *value) {
                ("video_path", PyValue::Str(path)) => *path = self.known_path(path, true)?,
                // Only a list or an object without this text is not looked for as a file.
                ("video_path", PyValue::List(items)) if !items.contains(&PyValue::Str(".mp4".to_owned())) => {
                }
                ("video_path", PyValue::Dict(items)) if items.iter().all(|(key, _)| key != ".mp4") => {}
                ("video_path", _) => return Err(Raised),
                ("media_paths", PyValue::List(paths)) => {
                    let mut found = Vec::new();
                    for path in paths.drain(..) {
                        let is_there = match &path {
                            PyValue::Str(path) => self.files.exists(path),
                            // The first three numbers are open files.
                            PyValue::Bool(_) => true,
                            PyValue::Int(digits) => ["0", "1", "2"].contains(&digits.as_str()),
                            _ => return Err(Raised),
                        };
                        found.extend(match path {
                            path if is_there => self.keeps_media.then_some(path),
                            PyValue::Str(path) => Some(PyValue::Str(self.known_path(&path, false)?)),
                            _ => return Err(Raised),
                        });
                    }
                    *paths = found;
                }
                _ => {}
            }
        }
        Ok(arguments)
    }

    fn known_path(&self, path: &str, only_videos: bool) -> Result<String, Raised> {
        let names: Vec<&str> = path.split('/').collect();
        let (file, before) = names.split_last().ok_or(Raised)?;
        let found = match () {
            () if self.files.exists(path) => None,
            () if path.contains(".mp4") => self.files.below(&[file]),
            () if only_videos => None,
            () => self.files.below(&[before.last().ok_or(Raised)?, file]),
        };
        Ok(found.unwrap_or_else(|| path.to_owned()))
    }

    /// The file and the times of a call on a video: the file's path, its part, its length, start and end as written.
    fn on_video(
        &self,
        arguments: &PyValue,
        function: &str,
    ) -> Result<(String, Clip, u32, [String; 2]), String> {
        let path = arguments.get("video_path").map_or_else(String::new, shown);
        let times = ["timestamp_start", "timestamp_end"].map(|name| arguments.get(name).map(shown));
        let [Some(start), Some(end)] = times else {
            return Err(missing(function, &["timestamp_start", "timestamp_end"]));
        };
        match self.files.get(&path) {
            Some(File::Video(clip)) if is_video(&path) => {
                Ok((path, clip, self.files.duration(clip), [start, end]))
            }
            _ => Err(self.words("video_extension", &[("video_path", &path)])),
        }
    }

    fn extract(&mut self, arguments: &PyValue, window: &mut Option<(f64, f64)>) -> Result<PyValue, String> {
        let (path, clip, duration, times) = self.on_video(arguments, EXTRACT)?;
        let [start, end] = times.map(|time| fixed(&fields(&time).unwrap_or_default(), duration, false));
        let (start, end) = (seconds(&start)?, seconds(&end)?);
        *window = Some((start, end));
        let clips = matches!(arguments.get("extract_type"), Some(PyValue::Str(kind)) if kind == "subclips");
        let paths = match clips {
            true => vec![self.files.cut(&path, clip, start, end)?],
            false => self.files.save_frames(&path, clip, start, end)?,
        };
        let paths = paths.into_iter().map(PyValue::Str).collect();
        Ok(PyValue::Dict(vec![("media_paths".to_owned(), PyValue::List(paths))]))
    }

    fn reason(&self, arguments: &PyValue, question: &mut Option<Question>) -> Result<PyValue, String> {
        let text = arguments.get("query").map_or_else(String::new, shown);
        let media: Vec<String> = match arguments.get("media_paths") {
            Some(PyValue::List(paths)) => paths.iter().map(shown).collect(),
            Some(_) => return Err("object of type 'NoneType' has no len()".to_owned()),
            None => return Err(missing("BaseAPI.perform_reasoning", &["media_paths"])),
        };
        let as_video = media.iter().any(|path| is_video(path));
        let mut sorted = media.clone();
        sorted.sort_unstable();
        let key = json!([text, sorted, as_video]).to_string();
        if let Some(answer) = self.answers.get(&key) {
            return Ok(answer.clone());
        }
        *question = Some(Question { text, media, as_video, key, moment: None });
        Ok(PyValue::None)
    }

    fn identify(
        &mut self,
        arguments: &PyValue,
        question: &mut Option<Question>,
        window: &mut Option<(f64, f64)>,
    ) -> Result<PyValue, String> {
        let (path, clip, duration, times) =
            self.on_video(arguments, "BaseAPI.identify_timestamps_visually")?;
        let event = arguments.get("event").map_or_else(String::new, shown);
        let key = |path: &str, times: &[String; 2]| json!([path, event, times]).to_string();
        if let Some(answer) = self.answers.get(&key(&path, &times)) {
            return Ok(answer.clone());
        }
        let times = times.map(|time| fixed(&fields(&time).unwrap_or_default(), duration, true));
        let [begin, end] = &times;
        let values = [("event", event.as_str()), ("begin", begin), ("end", end)];
        let text = self.grounding.render(&values).map_err(|error| error.to_string())?;
        let (start, stop) = (seconds(begin)?, seconds(end)?);
        let values = [("timestamp_start", begin.as_str()), ("timestamp_end", end)];
        if begin == end {
            return Err(self.words("moment_same", &values));
        }
        if start > stop {
            return Err(self.words("moment_reversed", &values));
        }
        *window = Some((start, stop));
        let cut = self.files.cut(&path, clip, start, stop)?;
        let moment = Some(Moment { start, key: key(&cut, &times) });
        *question = Some(Question { text, media: vec![cut], as_video: true, key: String::new(), moment });
        Ok(PyValue::None)
    }

    /// The result of a call, `reply` the answer to its question; the call goes into the record.
    pub(super) fn finish(&mut self, used: Used, reply: Option<&str>, rate: f64) -> PyValue {
        let Used { name, arguments, question, done, turn, window, refused } = used;
        if name.starts_with("None_#") {
            return done.unwrap_or_else(PyValue::Str);
        }
        let result = match (question, reply) {
            (Some(Question { key, moment: None, .. }), Some(reply)) => {
                let answer = vec![("answer".to_owned(), PyValue::Str(reply.to_owned()))];
                self.answers.insert(key, PyValue::Dict(answer.clone()));
                Ok(PyValue::Dict(answer))
            }
            (Some(Question { moment: Some(moment), .. }), Some(reply)) => self.moment(&moment, reply),
            _ => done,
        };
        let call = json!({ "name": name, "arguments": arguments.to_json() });
        let outcome = match &result {
            Ok(result) => match self.frames(result, rate) {
                frames if frames.is_empty() => ToolOutcome::Summary { frames, text: shown(result) },
                frames => ToolOutcome::Frames { frames },
            },
            Err(reason) if refused => ToolOutcome::Malformed { reason: reason.clone() },
            Err(reason) => ToolOutcome::CropFailed { reason: reason.clone() },
        };
        self.note(turn, call, window, outcome);
        result.unwrap_or_else(|reason| {
            let values = [("name", &*name), ("reason", &*reason), ("arguments", &*shown(&arguments))];
            PyValue::Str(self.words("failed", &values))
        })
    }

    fn moment(&mut self, moment: &Moment, reply: &str) -> Result<PyValue, String> {
        let mut found = match tagged(reply) {
            None => PyValue::Str(reply.to_owned()),
            Some(body) => clean_json(body).map_err(|reason| self.words("no_json", &[("reason", &reason)]))?,
        };
        if let PyValue::Dict(items) = &mut found {
            let times = items.iter().find(|(key, _)| key == "timestamps").map(|(_, times)| times.clone());
            let mut times = times.unwrap_or(PyValue::Dict(Vec::new()));
            let PyValue::Dict(fields) = &mut times else {
                return Err(format!("'{}' object has no attribute 'get'", times.type_name()));
            };
            shift(fields, moment.start)?;
            PyValue::insert(items, "timestamps".to_owned(), times);
        }
        self.answers.insert(moment.key.clone(), found.clone());
        Ok(found)
    }

    /// Positions of the frames that a result names.
    fn frames(&self, result: &PyValue, rate: f64) -> Vec<FrameOrigin> {
        let Some(PyValue::List(paths)) = result.get("media_paths") else { return Vec::new() };
        let index = |path: &PyValue| match self.files.get(&shown(path))? {
            File::Frame(index) => Some(FrameOrigin { index, time: index as f64 / rate }),
            File::Video(_) => None,
        };
        paths.iter().filter_map(index).collect()
    }

    fn note(
        &mut self,
        turn: usize,
        call: serde_json::Value,
        window: Option<(f64, f64)>,
        outcome: ToolOutcome,
    ) {
        let (start, end) = (window.map(|window| window.0), window.map(|window| window.1));
        self.record.push(ToolCall { turn, index: 0, call, start, end, outcome });
    }
}

/// Times of a clip before its start are taken for those since its start.
fn shift(times: &mut Vec<(String, PyValue)>, start: f64) -> Result<(), String> {
    let time = |name: &str| {
        let found = times.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        found.filter(|value| *value != PyValue::None)
    };
    let (Some(first), Some(last)) = (time("start"), time("end")) else { return Ok(()) };
    if first == last || seconds_of(&first)? >= start {
        return Ok(());
    }
    for (name, value) in [("start", first), ("end", last)] {
        let shifted = timestamp(start + seconds_of(&value)?, Fields::Seconds)?;
        PyValue::insert(times, name.to_owned(), PyValue::Str(shifted));
    }
    Ok(())
}

/// What stands in the first `<json>` block, up to the next.
pub(super) fn tagged(reply: &str) -> Option<&str> {
    let (_, body) = reply.split_once("<json>")?;
    let body = strip(body.split("<json>").next().unwrap_or(body));
    Some(strip(body.split("</json>").next().unwrap_or(body)))
}

/// Whether a tool has an argument.
fn has(tool: &str, name: &str) -> bool {
    match tool {
        REASON => ["query", "media_paths"].contains(&name),
        EXTRACT => ["video_path", "timestamp_start", "timestamp_end", "extract_type"].contains(&name),
        _ => ["video_path", "event", "timestamp_start", "timestamp_end"].contains(&name),
    }
}

/// Python's words for a call without arguments that it needs.
fn missing(function: &str, names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let plural = if names.len() > 1 { "s" } else { "" };
    let count = names.len();
    format!("{function}() missing {count} required positional argument{plural}: {}", quoted.join(" and "))
}
