//! What is counted of a rollout.

use std::collections::BTreeSet;

use paravt_suite::message::Role;
use paravt_suite::record::{ModelCall, RecordedPart, ToolCall, ToolOutcome, Transcript};

use crate::structure::Structure;

/// Counts of one rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RolloutFigures {
    pub calls: usize,
    /// Of them, those that came back with a summary.
    pub succeeded: usize,
    /// Turns with a call that came back.
    pub tool_turns: usize,
    /// Turns of the main agent.
    pub turns: usize,
    /// Tokens the main agent generated.
    pub generated: usize,
    /// Tokens the sub-agents generated.
    pub subagent_tokens: usize,
    /// Overview frames.
    pub frames: usize,
    /// Whether the last turn of the main agent ended at the token limit.
    pub truncated: bool,
    /// Generated tokens that left training because the next prompt tokenises them otherwise.
    pub retokenised: usize,
    /// Format reward of the whole conversation by [`vanilla`](crate::reward::RewardConfig::vanilla), whatever the
    /// training is rewarded for.
    pub compliance: f64,
    /// Where its turns keep the form.
    pub structure: Structure,
}

impl RolloutFigures {
    /// Those of a transcript whose overview had so many frames.
    pub(super) fn of(transcript: &Transcript, frames: usize) -> Self {
        let mut structure = Structure::default();
        let turns = transcript.messages.iter().filter(|message| message.role == Role::Assistant);
        for part in turns.flat_map(|message| &message.parts) {
            if let RecordedPart::Text { text } = part {
                structure.add(text);
            }
        }
        let succeeded = |call: &&ToolCall| matches!(call.outcome, ToolOutcome::Summary { .. });
        let tokens = |sub: bool| -> u64 {
            let calls = transcript.calls.iter().filter(|call| call.is_subagent() == sub);
            calls.filter_map(|call| call.usage).map(|usage| usage.completion_tokens).sum()
        };
        let came_back = || transcript.tool_calls.iter().filter(succeeded);
        let own = || transcript.calls.iter().filter(|call| !call.is_subagent());
        Self {
            calls: transcript.tool_calls.len() + transcript.dropped_calls,
            succeeded: came_back().count(),
            tool_turns: came_back().map(|call| call.turn).collect::<BTreeSet<_>>().len(),
            turns: own().count(),
            subagent_tokens: tokens(true) as usize,
            frames,
            truncated: own().next_back().is_some_and(ModelCall::is_cut),
            structure,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use paravt_suite::backend::FinishReason;

    use super::*;

    /// Figures of calls of the model, and of tool calls by turn.
    fn figures(calls: &[(&str, FinishReason)], tool_calls: &[(usize, ToolOutcome)]) -> RolloutFigures {
        let call = |(step, reason): &(&str, FinishReason)| ModelCall {
            step: (*step).to_owned(),
            finish_reason: Some(reason.clone()),
            ..ModelCall::default()
        };
        let tool_call = |(turn, outcome): &(usize, ToolOutcome)| ToolCall {
            turn: *turn,
            index: 0,
            call: serde_json::Value::Null,
            start: None,
            end: None,
            outcome: outcome.clone(),
        };
        let transcript = Transcript {
            calls: calls.iter().map(call).collect(),
            tool_calls: tool_calls.iter().map(tool_call).collect(),
            ..Transcript::default()
        };
        RolloutFigures::of(&transcript, 8)
    }

    #[test]
    fn turns_with_a_call_that_came_back_count_once() {
        let summary = || ToolOutcome::Summary { frames: Vec::new(), text: "a cat".to_owned() };
        let failed = || ToolOutcome::CropFailed { reason: "no frames".to_owned() };
        let calls = [(0, summary()), (0, summary()), (0, failed()), (1, failed()), (2, summary())];
        let found = figures(&[], &calls);
        assert_eq!((found.calls, found.succeeded, found.tool_turns), (5, 3, 2));
        assert_eq!(figures(&[], &[]).tool_turns, 0);
    }

    #[test]
    fn a_rollout_is_truncated_by_its_own_last_turn() {
        use FinishReason::{Length, Stop};
        let truncated = |calls: &[(&str, FinishReason)]| figures(calls, &[]).truncated;
        assert!(!truncated(&[("turn0", Stop), ("turn0/sub0", Length), ("turn1", Stop)]), "a summary");
        assert!(!truncated(&[("turn0", Length), ("turn0/sub0", Stop), ("turn1", Stop)]), "it went on");
        assert!(truncated(&[("turn0", Stop), ("turn0/sub0", Stop), ("turn1", Length)]));
        assert!(truncated(&[("turn0", Stop), ("turn0/sub0", Stop), ("force", Length)]));
        assert!(!truncated(&[]));
    }
}
