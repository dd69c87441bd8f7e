//! When an episode ends, and why (`workers/agent/parallel_env.py` lines 20 to 343).

use paravt_suite::protocol::{CodeLoop, FailedCalls};
use paravt_suite::record::EndReason;

/// What a turn of the model turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Code that ran to its end.
    Ran,
    Answered,
    Failed,
}

/// How far an episode is.
#[derive(Debug, Clone)]
pub struct Progress {
    max_turns: usize,
    goes_on_after_errors: bool,
    context_tokens: u64,
    /// Tokens that the first prompt counts for at least: the trainer pads it.
    prompt_tokens: u64,
    max_images: u64,
    /// Turns so far.
    pub turns: usize,
    /// Tokens of the context.
    pub tokens: u64,
    pub images: u64,
    /// Observations that the release counts as tool calls.
    pub calls: u32,
    pub end: Option<EndReason>,
}

impl Progress {
    /// Before the first turn.
    pub fn new(code: &CodeLoop) -> Self {
        let rules = &code.rules;
        Self {
            max_turns: code.turns,
            goes_on_after_errors: code.failed_calls == FailedCalls::Answer,
            context_tokens: rules.context_tokens.into(),
            prompt_tokens: rules.prompt_tokens.into(),
            max_images: rules.images.into(),
            turns: 0,
            tokens: 0,
            images: 0,
            calls: 0,
            end: None,
        }
    }

    /// Counts the first prompt.
    pub fn count_prompt(&mut self, tokens: u64) {
        self.tokens = tokens.max(self.prompt_tokens);
    }

    /// Counts a turn of the model. Where the episode goes on, an observation follows.
    pub fn count_turn(&mut self, tokens: u64, turn: Turn) -> Option<EndReason> {
        self.turns += 1;
        self.tokens += tokens;
        self.end = if self.tokens >= self.context_tokens {
            Some(EndReason::OverLength)
        } else if turn == Turn::Failed && !self.goes_on_after_errors {
            Some(EndReason::ErrorInAction)
        } else if turn == Turn::Answered {
            Some(EndReason::Done)
        } else if self.turns >= self.max_turns {
            Some(EndReason::ExceedMaxTurns)
        } else {
            self.calls += 1;
            None
        };
        self.end
    }

    /// Counts the tokens of an observation; one that does not fit is not appended.
    pub fn count_observation(&mut self, tokens: u64) -> Option<EndReason> {
        if self.tokens + tokens >= self.context_tokens {
            self.end = Some(EndReason::OverLength);
            return self.end;
        }
        self.tokens += tokens;
        None
    }

    /// Counts the images of an observation.
    pub fn count_images(&mut self, images: u64) -> Option<EndReason> {
        self.images += images;
        if images > 0 && self.images >= self.max_images {
            self.end = Some(EndReason::ExceedMaxImages);
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pyvision::protocol::rules;
    use paravt_suite::protocol::{CodeRules, CodeTexts};

    #[test]
    fn the_first_reason_in_the_releases_order_counts() {
        let rules = CodeRules { context_tokens: 100, ..rules(CodeTexts::default()) };
        let code = CodeLoop { turns: 2, failed_calls: FailedCalls::Stop, rules };
        let start = |code: &CodeLoop| {
            let mut progress = Progress::new(code);
            progress.count_prompt(50);
            progress
        };
        let acted = |tokens, turn| start(&code).count_turn(tokens, turn);
        assert_eq!(acted(50, Turn::Failed), Some(EndReason::OverLength));
        assert_eq!(acted(49, Turn::Failed), Some(EndReason::ErrorInAction));
        assert_eq!(acted(49, Turn::Answered), Some(EndReason::Done));
        assert_eq!(acted(49, Turn::Ran), None);
        let goes_on = CodeLoop { failed_calls: FailedCalls::Answer, ..code.clone() };
        assert_eq!(start(&goes_on).count_turn(1, Turn::Failed), None);
        let mut progress = start(&code);
        assert_eq!(progress.count_turn(1, Turn::Ran), None);
        assert_eq!(progress.clone().count_observation(49), Some(EndReason::OverLength));
        assert_eq!(progress.clone().count_images(32), Some(EndReason::ExceedMaxImages));
        assert_eq!(progress.count_observation(40).or(progress.count_images(31)), None);
        assert_eq!(progress.count_turn(1, Turn::Ran), Some(EndReason::ExceedMaxTurns));
        assert_eq!((progress.turns, progress.calls, progress.images, progress.tokens), (2, 1, 31, 92));
        let mut padded = code;
        padded.rules.prompt_tokens = 90;
        let mut progress = Progress::new(&padded);
        progress.count_prompt(50);
        assert_eq!(progress.count_turn(10, Turn::Ran), Some(EndReason::OverLength));
    }
}
