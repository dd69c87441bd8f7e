//! The release's tool for the suite's loop: its rules over an episode of the jail.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use paravt_jail::{Error, Jail, Limits, Output};
use paravt_suite::code::{self, CodeError, CodeTool, Reply};
use paravt_suite::message::{Image, Part as MessagePart};
use paravt_suite::protocol::template::TemplateError;
use paravt_suite::protocol::{CodeLoop, CodeTexts};
use paravt_suite::record::{EndReason, RecordedFigure, ToolOutcome};
use serde_json::{Value, json};

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
    fn begin(&self, code: &CodeLoop, video: &Path) -> Result<Box<dyn code::Episode>, CodeError> {
        let rules = &code.rules;
        let limits = Limits { call: Duration::from_secs(rules.seconds.into()), ..self.jail.limits().clone() };
        let interpreter = self.jail.with_limits(limits).start(video).map_err(portable)?;
        let (environment, progress) = (Environment::new(rules), Progress::new(code));
        let limits = self.jail.limits().clone();
        let texts = rules.texts.clone();
        Ok(Box::new(Episode { interpreter, environment, progress, texts, limits, counted: None }))
    }

    fn versions(&self) -> &str {
        self.jail.versions()
    }
}

/// One episode.
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
    fn video_info(&mut self) -> Result<String, CodeError> {
        let video = self.interpreter.video().map_err(portable)?;
        video_lines(&self.texts, &video)
            .map_err(|error| CodeError::Tool(format!("agent.code.texts.video: {error}")))
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
        let mut images = step.figures.into_iter().map(|figure| {
            let image = Image::new("image/png", figure.png, figure.width, figure.height, None);
            MessagePart::Image(Arc::new(image))
        });
        let parts = step.observation.into_iter().flat_map(|observation| observation.parts);
        let observation = joined(parts.filter_map(|part| match part {
            Part::Text(text) => Some(MessagePart::Text(text)),
            Part::Figure(_) => images.next(),
        }));
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
    let figure = |figure: &paravt_jail::Figure| RecordedFigure {
        sha256: paravt_files::sha256(&figure.png),
        width: figure.width,
        height: figure.height,
    };
    ToolOutcome::Ran { stdout: output.stdout.clone(), figures: step.figures.iter().map(figure).collect() }
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

/// The lines on the video in the first prompt (`utils/dataset/rl_dataset_wo_mm_hint.py:178`): its "length" is the number
/// of frames, its "sample" rate the average one of the file.
///
/// # Errors
/// The template asks for something else.
pub fn video_lines(texts: &CodeTexts, video: &paravt_jail::Video) -> Result<String, TemplateError> {
    let [width, height] = [video.width, video.height].map(|side| side.to_string());
    let (frames, fps) = (video.frames.to_string(), format!("{:.2}", video.fps));
    texts.video.render(&[("width", &width), ("height", &height), ("frames", &frames), ("fps", &fps)])
}
