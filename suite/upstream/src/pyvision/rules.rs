//! When an episode ends, and why (`workers/agent/parallel_env.py` lines 20 to 343).

use std::time::Duration;

/// Why an episode ended; the numbers are the release's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The model answered.
    Done = 1,
    /// The context is full.
    OverLength = 2,
    /// The last turn that is allowed was no answer.
    ExceedMaxTurns = 3,
    /// As many images as the context may have.
    ExceedMaxImages = 4,
    /// An action failed: see [`ActionError`](super::ActionError).
    ErrorInAction = 5,
}

/// What follows on an action that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// The episode ends, as in the trainer of the release.
    Terminate,
    /// The model reads the error, as in PyVision before it (agents-x-project/PyVision,
    /// `inference_engine/vis_inference_demo_gpt.py`).
    FeedBack,
}

/// Limits of an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Turns of the model.
    pub turns: u32,
    /// Tokens of one turn; a turn that reaches them failed.
    pub turn_tokens: u32,
    /// Tokens of prompt, turns and observations: a context that reaches them is full.
    pub context_tokens: u32,
    /// Tokens that the first prompt counts for at least: the trainer pads it.
    pub prompt_tokens: u32,
    /// Images at which the episode ends.
    pub images: u32,
    /// Time of one call, for [`Limits`](paravt_jail::Limits).
    pub call: Duration,
    /// Sampling temperature.
    pub temperature: f64,
    /// What follows on an action that failed.
    pub on_error: OnError,
    /// Whether code that [`is_forbidden`](super::is_forbidden) is an error. The jail stops what that look is for.
    pub forbid: bool,
}

impl Rules {
    /// The evaluation of the paper as others report it: 30 turns, 32 thousand tokens. The authors' harness is not
    /// released.
    pub const PAPER_EVAL: Self = Self {
        turns: 30,
        turn_tokens: 10_240,
        context_tokens: 32_768,
        prompt_tokens: 0,
        images: 32,
        call: Duration::from_secs(30),
        temperature: 0.01,
        on_error: OnError::Terminate,
        forbid: true,
    };
    /// Validation inside the released trainer: a prompt padded to 32000 tokens, and 20480 for the rest.
    pub const TRAINER_VAL: Self =
        Self { context_tokens: 52_480, prompt_tokens: 32_000, temperature: 0.0, ..Self::PAPER_EVAL };

    /// Rules by the name of their preset.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "paper-eval" => Some(Self::PAPER_EVAL),
            "trainer-val" => Some(Self::TRAINER_VAL),
            _ => None,
        }
    }
}

/// What a turn of the model turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Code that ran to its end.
    Ran,
    /// An answer.
    Answered,
    /// An error.
    Failed,
}

/// How far an episode is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Turns so far.
    pub turns: u32,
    /// Tokens of the context.
    pub tokens: u64,
    /// Images in the context.
    pub images: u32,
    /// Observations that the release counts as tool calls.
    pub calls: u32,
    /// Why it ended.
    pub end: Option<EndReason>,
}

impl Progress {
    /// Before the first turn.
    pub fn new(rules: &Rules, prompt_tokens: u32) -> Self {
        let tokens = u64::from(prompt_tokens.max(rules.prompt_tokens));
        Self { turns: 0, tokens, images: 0, calls: 0, end: None }
    }

    /// Counts a turn of the model. Where the episode goes on, an observation follows.
    pub fn acted(&mut self, rules: &Rules, tokens: u32, turn: Turn) -> Option<EndReason> {
        self.turns += 1;
        self.tokens += u64::from(tokens);
        let goes_on = rules.on_error == OnError::FeedBack;
        self.end = if self.tokens >= u64::from(rules.context_tokens) {
            Some(EndReason::OverLength)
        } else if turn == Turn::Failed && !goes_on {
            Some(EndReason::ErrorInAction)
        } else if turn == Turn::Answered {
            Some(EndReason::Done)
        } else if self.turns >= rules.turns {
            Some(EndReason::ExceedMaxTurns)
        } else {
            self.calls += 1;
            None
        };
        self.end
    }

    /// Counts an observation; one that does not fit is not appended.
    pub fn observed(&mut self, rules: &Rules, tokens: u32, images: u32) -> Option<EndReason> {
        if self.tokens + u64::from(tokens) >= u64::from(rules.context_tokens) {
            self.end = Some(EndReason::OverLength);
            return self.end;
        }
        self.tokens += u64::from(tokens);
        self.images += images;
        if images > 0 && self.images >= rules.images {
            self.end = Some(EndReason::ExceedMaxImages);
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_in_the_releases_order_counts() {
        let rules = Rules { turns: 2, context_tokens: 100, ..Rules::PAPER_EVAL };
        let acted = |tokens, turn| Progress::new(&rules, 50).acted(&rules, tokens, turn);
        assert_eq!(acted(50, Turn::Failed), Some(EndReason::OverLength));
        assert_eq!(acted(49, Turn::Failed), Some(EndReason::ErrorInAction));
        assert_eq!(acted(49, Turn::Answered), Some(EndReason::Done));
        assert_eq!(acted(49, Turn::Ran), None);
        let feed_back = Rules { on_error: OnError::FeedBack, ..rules };
        assert_eq!(Progress::new(&feed_back, 50).acted(&feed_back, 1, Turn::Failed), None);
        let mut progress = Progress::new(&rules, 50);
        assert_eq!(progress.acted(&rules, 1, Turn::Ran), None);
        assert_eq!(progress.clone().observed(&rules, 49, 40), Some(EndReason::OverLength));
        assert_eq!(progress.clone().observed(&rules, 48, 32), Some(EndReason::ExceedMaxImages));
        assert_eq!(progress.observed(&rules, 40, 31), None);
        assert_eq!(progress.acted(&rules, 1, Turn::Ran), Some(EndReason::ExceedMaxTurns));
        assert_eq!((progress.turns, progress.calls, progress.images, progress.tokens), (2, 1, 31, 92));
    }
}
