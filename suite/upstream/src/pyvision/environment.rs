//! One step of an episode: a turn of the model, and what the environment answers.

use paravt_jail::{Error, Figure, Outcome, Output};

use super::{Action, Observation, Rules, Texts, Turn, action, is_forbidden, neutral};

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionError {
    /// The turn has neither code nor an answer.
    Neither,
    /// The release's look at code found a call.
    Forbidden,
    /// The message of what the code raised, or that it ran too long or ended its interpreter: see [`Step::output`].
    Execution(String),
}

/// What a turn of the model led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the rules count it as.
    pub turn: Turn,
    /// The answer, where it is one.
    pub answer: Option<String>,
    /// Why it failed.
    pub error: Option<ActionError>,
    /// The next user turn, except after an answer. After an error, it is what [`OnError::FeedBack`](super::OnError) shows.
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
pub struct Environment<'a> {
    texts: &'a Texts,
    /// Whether [`is_forbidden`] code is refused.
    forbid: bool,
    /// Whether printed tokens and tags stay what they are, as in the release.
    verbatim: bool,
    /// Number of the next figure.
    figures: u64,
}

impl<'a> Environment<'a> {
    /// At the beginning of an episode. With `verbatim`, code can print tokens of the chat format, which the release
    /// takes for real ones.
    pub fn new(texts: &'a Texts, rules: &Rules, verbatim: bool) -> Self {
        Self { texts, forbid: rules.forbid, verbatim, figures: 0 }
    }

    /// Reads a turn, and runs its code by `run`.
    ///
    /// # Errors
    /// That of `run`: what the code does is an [`ActionError`].
    pub fn step(
        &mut self,
        turn: &str,
        run: impl FnOnce(&str) -> Result<Output, Error>,
    ) -> Result<Step, Error> {
        let code = match action(turn) {
            Action::Answer(answer) => {
                return Ok(Step { answer: Some(answer), ..Step::new(Turn::Answered, None) });
            }
            Action::Neither => return Ok(self.failed(ActionError::Neither)),
            Action::Code(code) if self.forbid && is_forbidden(&code) => {
                return Ok(self.failed(ActionError::Forbidden));
            }
            Action::Code(code) => code,
        };
        let output = run(&code)?;
        let message = match &output.outcome {
            Outcome::Done => return Ok(self.ran(output)),
            Outcome::Raised(message) => message.clone(),
            // The release waits for an interpreter that ended.
            Outcome::TimedOut | Outcome::Ended(_) => self.texts.timeout.clone(),
        };
        Ok(Step { output: Some(output), ..self.failed(ActionError::Execution(message)) })
    }

    fn ran(&mut self, mut output: Output) -> Step {
        let figures = std::mem::take(&mut output.figures);
        let shown = figures.len() as u64;
        let (text, neutralised) = self.text(&output.stdout);
        let observation = Observation::result(&text, self.figures, shown);
        if shown > 0 {
            // The release counts what its list holds, and code may change the list.
            self.figures = output.figures_total;
        }
        Step { figures, output: Some(output), neutralised, ..Step::new(Turn::Ran, Some(observation)) }
    }

    fn failed(&self, error: ActionError) -> Step {
        let (message, neutralised) = match &error {
            ActionError::Neither => (format!("Error: {}", self.texts.neither), 0),
            ActionError::Forbidden => (format!("Execution error: {}", self.texts.forbidden), 0),
            ActionError::Execution(message) => {
                let (message, neutralised) = self.text(message);
                (format!("Execution error: {message}"), neutralised)
            }
        };
        let step = Step::new(Turn::Failed, Some(Observation::error(&message)));
        Step { error: Some(error), neutralised, ..step }
    }

    fn text(&self, text: &str) -> (String, usize) {
        if self.verbatim {
            return (text.to_owned(), 0);
        }
        let (text, found) = neutral(text);
        (text.into_owned(), found)
    }
}
