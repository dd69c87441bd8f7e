//! The release's tool for the suite's loop: its rules over an episode of the jail.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use paravt_jail::{Error, Figure, Jail, Limits, Medium, Output};
use paravt_suite::code::{self, CodeError, CodeTool, Reply};
use paravt_suite::message::{Image, Part as MessagePart};
use paravt_suite::protocol::template::TemplateError;
use paravt_suite::protocol::{CodeLoop, CodeTexts, FileInfo, ImageClues};
use paravt_suite::record::{EndReason, RecordedFigure, ToolOutcome};
use serde_json::{Value, json};

use super::observation::tagged;
use super::{ActionError, Environment, Part, Progress, Step, StepError, Turn, neutral};

/// The release's tool with an interpreter of this machine.
#[derive(Debug, Clone)]
pub struct Tool {
    jail: Jail,
}

impl Tool {
    /// Asks an interpreter for its folders, and makes a jail with it once.
    ///
    /// # Errors
    /// bubblewrap or a package is missing, or the kernel forbids the jail.
    pub fn new(python: &Path) -> Result<Self, Error> {
        let jail = Jail::new(python, Limits::default())?;
        jail.check()?;
        Ok(Self { jail })
    }
}

impl CodeTool for Tool {
    fn begin(&self, code: &CodeLoop, files: &[PathBuf]) -> Result<Box<dyn code::Episode>, CodeError> {
        let rules = &code.rules;
        let (medium, shown) = match &rules.clues {
            None => (Medium::from(files.first().map_or(Path::new(""), PathBuf::as_path)), 0),
            Some(ImageClues { variable, shown }) => {
                let (files, variable, shown) = (files.to_vec(), variable.clone(), *shown);
                let count = if shown.is_some() { files.len() as u64 } else { 0 };
                (Medium::Images { files, variable, shown }, count)
            }
        };
        let limits = Limits { call: Duration::from_secs(rules.seconds.into()), ..self.jail.limits().clone() };
        let interpreter = self.jail.with_limits(limits).start(medium).map_err(portable)?;
        let environment = Environment::new(rules, shown);
        let mut progress = Progress::new(code);
        progress.images = shown;
        let limits = self.jail.limits().clone();
        let texts = rules.texts.clone();
        Ok(Box::new(Episode { interpreter, environment, progress, texts, limits, counted: None }))
    }

    fn versions(&self) -> &str {
        self.jail.versions()
    }
}

struct Episode {
    interpreter: paravt_jail::Episode,
    environment: Environment,
    progress: Progress,
    texts: CodeTexts,
    limits: Limits,
    /// Tokens of the conversation after the last turn, by the server's count.
    counted: Option<u64>,
}

impl code::Episode for Episode {
    fn open(&mut self) -> Result<FileInfo, CodeError> {
        let opened = self.interpreter.opened().map_err(portable)?;
        let broken =
            |field: &str, error: TemplateError| CodeError::Tool(format!("agent.code.texts.{field}: {error}"));
        let info = video_lines(&self.texts, opened).map_err(|error| broken("video", error))?;
        let shown = tagged(&self.texts, 0..opened.pictures.len() as u64);
        let shown = shown.map_err(|error| broken("figure", error))?;
        let shown = with_images(shown, opened.pictures.iter().cloned());
        Ok(FileInfo { info, width: opened.width, height: opened.height, shown })
    }

    fn step(&mut self, reply: &Reply<'_>) -> Result<code::Step, CodeError> {
        // A server counts a result when it has read it.
        if let Some(end) = self.count(reply.tokens) {
            return Ok(code::Step { end: Some(end), discarded: true, ..code::Step::default() });
        }
        let written = reply.tokens.map_or(0, |(_, written)| written);
        if reply.cut {
            let end = self.progress.count_turn(written, Turn::Failed);
            let reason = "the reply ended at the limit of tokens".to_owned();
            let call = Some((Value::Null, ToolOutcome::CodeFailed { reason }));
            // The trainer has no answer to it: nothing goes on.
            return Ok(code::Step {
                call,
                end: end.or(Some(EndReason::ErrorInAction)),
                ..code::Step::default()
            });
        }
        let interpreter = &mut self.interpreter;
        let step =
            self.environment.step(reply.text, |code| interpreter.run(code)).map_err(|error| match error {
                StepError::Jail(error) => portable(error),
                StepError::Text(_) => CodeError::Tool(error.to_string()),
            })?;
        let shown = step.figures.len() as u64;
        let end = self.progress.count_turn(written, step.turn).or_else(|| self.progress.count_images(shown));
        Ok(self.taken(step, end))
    }
}

impl Episode {
    /// Counts what came before a reply, where the server counts tokens.
    fn count(&mut self, tokens: Option<(u64, u64)>) -> Option<EndReason> {
        let (before, written) = tokens?;
        let end = match self.counted {
            None => {
                self.progress.count_prompt(before);
                None
            }
            Some(counted) => self.progress.count_observation(before.saturating_sub(counted)),
        };
        self.counted = Some(before + written);
        end
    }

    fn taken(&self, step: Step, end: Option<EndReason>) -> code::Step {
        let output = step.output.as_ref();
        let outcome = match &step.error {
            Some(error) => Some(failed(error)),
            None => output.map(|output| ran(output, &step)),
        };
        let call = outcome.map(|outcome| {
            let value = step.code.as_ref().map_or(Value::Null, |code| json!({ "code": code }));
            (value, outcome)
        });
        let is_limited = |output: &Output| {
            output.text_is_cut(&self.limits) || output.figures_made > step.figures.len() as u64
        };
        let limited = step.error.is_none() && output.is_some_and(is_limited);
        let restarted = output.is_some_and(|output| output.restarted);
        let parts = step.observation.into_iter().flat_map(|observation| observation.parts);
        let observation = with_images(parts, step.figures);
        code::Step {
            call,
            observation: if end.is_some() { Vec::new() } else { observation },
            end,
            discarded: false,
            answer: step.answer,
            neutralised: step.neutralised,
            limited,
            restarted,
        }
    }
}

fn failed(error: &ActionError) -> ToolOutcome {
    match error {
        ActionError::Neither => ToolOutcome::Malformed { reason: "neither code nor an answer".to_owned() },
        ActionError::Forbidden => ToolOutcome::CodeFailed { reason: "forbidden".to_owned() },
        ActionError::Execution(message) => ToolOutcome::CodeFailed { reason: message.clone() },
        ActionError::Figure(message) => ToolOutcome::CodeFailed { reason: format!("a figure: {message}") },
    }
}

fn ran(output: &Output, step: &Step) -> ToolOutcome {
    let figure = |figure: &Figure| RecordedFigure {
        sha256: paravt_files::sha256(&figure.png),
        width: figure.width,
        height: figure.height,
    };
    ToolOutcome::Ran { stdout: output.stdout.clone(), figures: step.figures.iter().map(figure).collect() }
}

/// The parts of a message, each figure with its picture.
fn with_images(
    parts: impl IntoIterator<Item = Part>,
    figures: impl IntoIterator<Item = Figure>,
) -> Vec<MessagePart> {
    let mut images = figures.into_iter().map(|figure| {
        let image = Image::new("image/png", figure.png, figure.width, figure.height, None);
        MessagePart::Image(Arc::new(image))
    });
    joined(parts.into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(MessagePart::Text(text)),
        Part::Figure(_) => images.next(),
    }))
}

/// Neighbouring texts as one.
fn joined(parts: impl Iterator<Item = MessagePart>) -> Vec<MessagePart> {
    let mut all: Vec<MessagePart> = Vec::new();
    for part in parts {
        match (all.last_mut(), part) {
            (Some(MessagePart::Text(before)), MessagePart::Text(text)) => before.push_str(&text),
            (_, part) => all.push(part),
        }
    }
    all
}

/// An error as records keep it: without folders of this machine.
fn portable(error: Error) -> CodeError {
    match error {
        Error::Start { message, .. } => CodeError::Video(neutral(&message).0.into_owned()),
        Error::Exposed { .. } => CodeError::Tool(
            "the interpreter of --code-python lies in a folder with the videos; use one in a folder of its own \
             (python3 -m venv DIR)"
                .to_owned(),
        ),
        Error::Io { action, source, .. } => {
            CodeError::Tool(format!("the jail of the code tool cannot {action}: {source}"))
        }
        error @ (Error::NoBubblewrap | Error::Refused { .. }) => CodeError::Tool(error.to_string()),
        Error::Python { reason, .. } => CodeError::Tool(format!("the interpreter of the code tool: {reason}")),
    }
}

/// The lines on the video or the image in the first prompt (`utils/dataset/rl_dataset_wo_mm_hint.py:126` and `:178`): the
/// "length" of a video is the number of frames, its "sample" rate the average one of the file.
pub fn video_lines(texts: &CodeTexts, video: &paravt_jail::Opened) -> Result<String, TemplateError> {
    let [width, height] = [video.width, video.height].map(|side| side.to_string());
    let (frames, fps) = (video.frames.to_string(), format!("{:.2}", video.fps));
    texts.video.render(&[("width", &width), ("height", &height), ("frames", &frames), ("fps", &fps)])
}
