//! One step of an episode: a turn of the model, and what the environment answers.

use paravt_jail::{Error, Figure, Outcome, Output};
use paravt_suite::protocol::CodeRules;
use paravt_suite::protocol::template::TemplateError;

use super::{Action, Observation, Turn, action, is_forbidden, neutral};

/// Bytes that the pixels of a figure may have; the jail bounds their number.
const MAX_PIXEL_BYTES: usize = 1 << 30;

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionError {
    /// The turn has neither code nor an answer.
    Neither,
    /// The release's look at code found a call.
    Forbidden,
    /// The message of what the code raised, or that it ran too long or ended its interpreter: see [`Step::output`].
    Execution(String),
    /// It showed a figure that is not an image.
    Figure(String),
}

/// What a turn of the model led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the rules count it as.
    pub turn: Turn,
    /// The code that was to run.
    pub code: Option<String>,
    /// The answer, where it is one.
    pub answer: Option<String>,
    /// Why it failed.
    pub error: Option<ActionError>,
    /// The next user turn, except after an answer. After an error, it is what the model reads where the episode goes on.
    pub observation: Option<Observation>,
    /// Figures of the observation, in order.
    pub figures: Vec<Figure>,
    /// What the call gave back, less the figures.
    pub output: Option<Output>,
    /// Tokens and tags in its output that were made text.
    pub neutralised: usize,
}

impl Step {
    fn new(turn: Turn, observation: Option<Observation>) -> Self {
        Self {
            turn,
            code: None,
            answer: None,
            error: None,
            observation,
            figures: Vec::new(),
            output: None,
            neutralised: 0,
        }
    }
}

/// The tool of one episode (`workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py`).
#[derive(Debug, Clone)]
pub struct Environment {
    rules: CodeRules,
    /// Number of the next figure.
    figures: u64,
}

/// Why a step cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The code cannot be run.
    #[error(transparent)]
    Jail(#[from] Error),
    /// A text of the protocol asks for something else.
    #[error("the result of the code: {0}")]
    Text(#[from] TemplateError),
}

impl Environment {
    /// At the beginning of an episode; `shown` is the number of images in its first message.
    pub fn new(rules: &CodeRules, shown: u64) -> Self {
        Self { rules: rules.clone(), figures: shown }
    }

    /// Reads a turn, and runs its code by `run`.
    ///
    /// # Errors
    /// That of `run`: what the code does is an [`ActionError`].
    pub fn step(
        &mut self,
        turn: &str,
        run: impl FnOnce(&str) -> Result<Output, Error>,
    ) -> Result<Step, StepError> {
        let code = match action(turn) {
            Action::Answer(answer) => {
                return Ok(Step { answer: Some(answer), ..Step::new(Turn::Answered, None) });
            }
            Action::Neither => return Ok(self.failed(ActionError::Neither)?),
            Action::Code(code) => code,
        };
        let step = if self.rules.forbid && is_forbidden(&code) {
            self.failed(ActionError::Forbidden)?
        } else {
            self.ran(run(&code)?)?
        };
        Ok(Step { code: Some(code), ..step })
    }

    fn ran(&mut self, mut output: Output) -> Result<Step, TemplateError> {
        let figures = std::mem::take(&mut output.figures);
        let error = match &output.outcome {
            Outcome::Done => figures.iter().find_map(broken).map(ActionError::Figure),
            Outcome::Raised(message) => Some(ActionError::Execution(message.clone())),
            // The release waits for an interpreter that ended.
            Outcome::TimedOut | Outcome::Ended(_) => {
                Some(ActionError::Execution(self.rules.texts.late.clone()))
            }
        };
        if let Some(error) = error {
            return Ok(Step { output: Some(output), ..self.failed(error)? });
        }
        let shown = figures.len() as u64;
        let (text, neutralised) = self.text(&output.stdout);
        let observation = Observation::result(&self.rules.texts, &text, self.figures, shown)?;
        if shown > 0 {
            // The release counts what its list holds, and code may change the list.
            self.figures = output.figures_total;
        }
        Ok(Step { figures, output: Some(output), neutralised, ..Step::new(Turn::Ran, Some(observation)) })
    }

    fn failed(&self, error: ActionError) -> Result<Step, TemplateError> {
        let texts = &self.rules.texts;
        let raised = |message: &str| texts.raised.render(&[("reason", message)]);
        let (reason, neutralised) = match &error {
            ActionError::Neither => (texts.neither.clone(), 0),
            ActionError::Forbidden => (raised(&texts.forbidden)?, 0),
            ActionError::Execution(message) | ActionError::Figure(message) => {
                let (message, neutralised) = self.text(message);
                (raised(&message)?, neutralised)
            }
        };
        let step = Step::new(Turn::Failed, Some(Observation::error(texts, &reason)?));
        Ok(Step { error: Some(error), neutralised, ..step })
    }

    fn text(&self, text: &str) -> (String, usize) {
        if self.rules.verbatim {
            return (text.to_owned(), 0);
        }
        let (text, found) = neutral(text);
        (text.into_owned(), found)
    }
}

/// Why a figure, which code may have forged, cannot be decoded.
fn broken(figure: &Figure) -> Option<String> {
    let decode = || -> Result<(), png::DecodingError> {
        let limits = png::Limits { bytes: MAX_PIXEL_BYTES };
        let mut reader =
            png::Decoder::new_with_limits(std::io::Cursor::new(&figure.png), limits).read_info()?;
        let size = reader.output_buffer_size().filter(|size| *size <= MAX_PIXEL_BYTES);
        reader.next_frame(&mut vec![0; size.ok_or(png::DecodingError::LimitsExceeded)?])?;
        Ok(())
    };
    decode().err().map(|error| error.to_string())
}
