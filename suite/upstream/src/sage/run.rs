//! One sample of SAGE (`run_inference` of `sage/main.py`, `process_video` of `sage/eval/process.py`): the video first, then
//! text alone, one tool between two conversations, and all of it once more where a reply cannot be read.

use paravt_suite::protocol::{Overview, Stages, Template};
use paravt_suite::record::ToolCall;
use paravt_suite::staged::{Ask, Beginning, Shown, Stage, Staged};

use super::args::shown;
use super::files::{File, Files};
use super::times::{Fields, timestamp};
use super::tools::{Tools, Used, tagged};
use super::{clean_json, sampled_frames};
use crate::python::PyValue;

/// Why a try ends without an answer.
struct Unreadable;

/// What the next reply answers.
enum Waiting {
    /// Nothing: the sample begins.
    Nothing,
    /// The question with the video.
    Context,
    /// The question with text alone.
    Reasoner,
    /// What the tool of this call asked.
    Tool(Box<Used>),
}

/// A sample on its way.
pub struct Run {
    stages: Stages,
    turns: usize,
    overview: Overview,
    rate: f64,
    system: String,
    question: String,
    /// Says where the video is and how long.
    video: String,
    path: String,
    tools: Tools,
    waiting: Waiting,
    /// Tries that ended without an answer.
    tries: usize,
    /// Conversations with text alone in this try.
    rounds: usize,
    /// Conversations of this try whose reply can call a tool.
    replies: usize,
    context: String,
    previous: String,
    /// Results of this try by the numbered names of the calls.
    results: Vec<(String, PyValue)>,
}

impl Run {
    /// The sample before its first conversation.
    ///
    /// # Errors
    /// A text of the protocol cannot be filled, or the video has no frames.
    pub fn new(beginning: Beginning<'_>) -> Result<Self, String> {
        let Beginning { own, stages, system, question, video_name, video } = beginning;
        let filled = |template: &Template, values: &[(&str, &str)]| {
            template.render(values).map_err(|error| error.to_string())
        };
        let path = filled(&stages.path, &[("video_name", &video_name)])?;
        let files = Files::new(&path, video.frames, video.rate);
        let seconds = (video.frames as f64 / video.rate).trunc();
        let duration = timestamp(seconds, Fields::Hours)?;
        let shown = filled(&stages.video, &[("path", &path), ("duration", &duration)])?;
        let overview = own.overview().ok_or("the first conversation shows no frames")?;
        Ok(Self {
            turns: own.turns,
            overview,
            rate: video.rate,
            system: system.to_owned(),
            question,
            video: shown,
            path,
            tools: Tools::new(own.harness.errors.clone(), stages, files),
            stages: stages.clone(),
            waiting: Waiting::Nothing,
            tries: 0,
            rounds: 0,
            replies: 0,
            context: String::new(),
            previous: String::new(),
            results: Vec::new(),
        })
    }

    fn ask(&self, step: &str, system: &str, show: Shown, text: String, sampled: bool) -> Stage {
        Stage::Ask(Ask {
            step: format!("try{}/{step}", self.tries),
            system: system.to_owned(),
            shown: show,
            text,
            attempt: self.tries,
            temperature: (sampled && self.tries > 0).then_some(self.stages.retry_temperature),
        })
    }

    /// The frames of a part of the video.
    fn sampled(&self, file: Option<File>) -> Shown {
        Shown::Video(match file {
            Some(File::Video(clip)) => {
                let places = sampled_frames(&self.overview, clip.frames, self.rate);
                places.into_iter().map(|place| clip.first + place).collect()
            }
            Some(File::Frame(index)) => vec![index],
            None => Vec::new(),
        })
    }

    /// The conversation with the video, the first of a try.
    fn begin(&mut self) -> Stage {
        self.tools.begin_try();
        (self.rounds, self.replies) = (0, 0);
        self.results.clear();
        self.waiting = Waiting::Context;
        let text = format!("{}\n{}", self.question, self.video);
        self.ask("context", &self.system, self.sampled(self.tools.files.get(&self.path)), text, true)
    }

    fn again(&mut self) -> Stage {
        self.tries += 1;
        match self.tries < self.stages.tries {
            true => self.begin(),
            false => Stage::Done(String::new()),
        }
    }

    /// Reads the reply to the conversation with the video.
    fn read_context(&mut self, reply: &str) -> Result<Stage, Unreadable> {
        let body = fenced(reply).or_else(|| tagged(reply)).ok_or(Unreadable)?;
        let object = object(body)?;
        self.context = object.get("video_context").map_or_else(String::new, shown);
        let recommended = object.get("recommended_tools").filter(|tools| is_object(tools));
        let needed = recommended.and_then(|tools| tools.get("needed")).is_some_and(truthy);
        let none = PyValue::List(Vec::new());
        let calls = recommended.and_then(|tools| tools.get("tool_calls")).unwrap_or(&none);
        if needed && length(calls)? > 0 {
            return self.call(calls);
        }
        Ok(Stage::Done(answer(object.get("final_answer"))))
    }

    /// Reads the reply to a conversation with text alone.
    fn read_reasoner(&mut self, reply: &str) -> Result<Stage, Unreadable> {
        let body = tagged(reply).or_else(|| fenced(reply)).ok_or(Unreadable)?;
        let object = object(body)?;
        let final_answer = object.get("final_answer").filter(|answer| **answer != PyValue::None);
        let verdict = object.get("answerable").and_then(|answerable| answerable.get("verdict"));
        if verdict.is_some_and(truthy) {
            return match final_answer {
                Some(found) => Ok(Stage::Done(answer(Some(found)))),
                None => self.without_call(),
            };
        }
        match object.get("recommended_tools") {
            None | Some(PyValue::None) => self.without_call(),
            Some(tools @ PyValue::Dict(_)) if tools.get("needed").is_some_and(truthy) => {
                let none = PyValue::List(Vec::new());
                self.call(tools.get("tool_calls").unwrap_or(&none))
            }
            Some(PyValue::Dict(_)) => self.without_call(),
            Some(_) => Err(Unreadable),
        }
    }

    /// A reply that neither answers nor calls.
    fn without_call(&mut self) -> Result<Stage, Unreadable> {
        let result = self.tools.words("unanswered", &[]);
        Ok(self.result("None".to_owned(), &PyValue::Dict(Vec::new()), PyValue::Str(result)))
    }

    /// Runs the first of the calls.
    fn call(&mut self, calls: &PyValue) -> Result<Stage, Unreadable> {
        let turn = self.replies_before();
        let used = self.tools.call(calls, turn).map_err(|_raised| Unreadable)?;
        let Some(question) = &used.question else { return Ok(self.used(used, None)) };
        let show = match &question.media[..] {
            [] => Shown::Nothing,
            [path, ..] if question.as_video => self.sampled(self.tools.files.get(path)),
            paths => Shown::Images(
                paths
                    .iter()
                    .filter_map(|path| match self.tools.files.get(path)? {
                        File::Frame(index) => Some(index),
                        File::Video(_) => None,
                    })
                    .collect(),
            ),
        };
        let stage =
            self.ask(&format!("tool{}", self.rounds), &self.stages.aside, show, question.text.clone(), false);
        self.waiting = Waiting::Tool(Box::new(used));
        Ok(stage)
    }

    /// Number of the reply that a call stands in, among all that can have one.
    fn replies_before(&self) -> usize {
        self.tools.replies - 1
    }

    fn used(&mut self, used: Used, reply: Option<&str>) -> Stage {
        let (name, arguments) = (used.name.clone(), used.arguments.clone());
        let result = self.tools.finish(used, reply, self.rate);
        self.result(name, &arguments, result)
    }

    /// Puts a result down and asks with it.
    fn result(&mut self, name: String, arguments: &PyValue, result: PyValue) -> Stage {
        let words = [("tool_call", name.as_str()), ("arguments", &shown(arguments))];
        self.previous = self.tools.words("call", &words);
        PyValue::insert(&mut self.results, name, result);
        self.rounds += 1;
        if self.rounds > self.turns {
            return Stage::Done(self.tools.words("exhausted", &[(LIMIT, &self.turns.to_string())]));
        }
        let line = |(name, result): &(String, PyValue)| {
            self.tools.words("result", &[("tool_call", name), ("result", &shown(result))])
        };
        let results: String = self.results.iter().map(line).collect();
        let values = [
            ("previous", self.previous.as_str()),
            ("context", &self.context),
            ("question", &self.question),
            ("video", &self.video),
            ("results", &results),
        ];
        let text = self.stages.message.render(&values).unwrap_or_else(|error| error.to_string());
        self.waiting = Waiting::Reasoner;
        self.ask(&format!("reasoner{}", self.rounds), &self.stages.reasoner, Shown::Nothing, text, true)
    }
}

/// Slot of the maximum of conversations with text alone.
const LIMIT: &str = "max_num_iterative_reasoner_calls";

impl Staged for Run {
    fn next(&mut self, reply: Option<&str>) -> Stage {
        let reply = reply.unwrap_or_default();
        let read = match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => return self.begin(),
            Waiting::Tool(used) => return self.used(*used, Some(reply)),
            Waiting::Context => {
                self.tools.replies += 1;
                self.read_context(reply)
            }
            Waiting::Reasoner => {
                self.tools.replies += 1;
                self.read_reasoner(reply)
            }
        };
        read.unwrap_or_else(|Unreadable| self.again())
    }

    fn calls(&mut self) -> Vec<ToolCall> {
        std::mem::take(&mut self.tools.record)
    }
}

/// What stands in the first block of a Markdown fence.
fn fenced(reply: &str) -> Option<&str> {
    let (_, body) = reply.split_once("```json")?;
    let body = body.split("```json").next().unwrap_or(body);
    Some(body.split("```").next().unwrap_or(body))
}

fn object(text: &str) -> Result<PyValue, Unreadable> {
    clean_json(text).ok().filter(is_object).ok_or(Unreadable)
}

fn is_object(value: &PyValue) -> bool {
    matches!(value, PyValue::Dict(_))
}

/// The answer as a text; nothing where there is none.
fn answer(found: Option<&PyValue>) -> String {
    found.filter(|answer| **answer != PyValue::None).map_or_else(String::new, shown)
}

/// `bool()`.
fn truthy(value: &PyValue) -> bool {
    match value {
        PyValue::None => false,
        PyValue::Bool(value) => *value,
        PyValue::Int(digits) => digits.bytes().any(|digit| (b'1'..=b'9').contains(&digit)),
        PyValue::Float(value) => *value != 0.0,
        PyValue::Str(text) => !text.is_empty(),
        PyValue::List(items) => !items.is_empty(),
        PyValue::Dict(items) => !items.is_empty(),
    }
}

/// `len()`.
fn length(value: &PyValue) -> Result<usize, Unreadable> {
    match value {
        PyValue::Str(text) => Ok(text.len()),
        PyValue::List(items) => Ok(items.len()),
        PyValue::Dict(items) => Ok(items.len()),
        PyValue::None | PyValue::Bool(_) | PyValue::Int(_) | PyValue::Float(_) => Err(Unreadable),
    }
}
