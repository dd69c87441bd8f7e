//! The format reward with Exploration Anchoring (`paravt/rl/rewards/format.py`).

use paravt_python::strip;
use paravt_suite::text::between;
use paravt_upstream::paravt::toolcall::has_parseable_tool_call;

use super::RewardConfig;
use super::text::{has_substantive_think, think_before_tool};

/// Tags that should come in pairs.
const BALANCED: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<tool_call>", "</tool_call>"),
    ("<tool_code>", "</tool_code>"),
    ("<answer>", "</answer>"),
];

/// `compute_format_reward`. The sums are made in upstream's order: equal to the last bit.
pub fn format_reward(completion: &str, config: &RewardConfig) -> f64 {
    let has = |tag: &str| completion.contains(tag);
    let think = has_substantive_think(completion);
    let answer = between(completion, "<answer>", "</answer>").any(|body| !strip(body).is_empty());
    let (for_think, for_open, for_close) =
        if config.answer_suffix { (0.2, 0.3, 0.2) } else { (0.3, 0.2, 0.1) };
    let mut score = 0.0;
    if think {
        score += for_think;
    }
    if answer {
        score += for_open;
        score += for_close;
    }
    if config.anchor_weight > 0.0 {
        let mut bonus = 0.0;
        if has("</think>") && think {
            bonus += 0.4;
            if answer {
                bonus += 0.3;
            }
        }
        if has("<think>") && !has("</think>") {
            bonus -= 0.3;
        }
        score += config.anchor_weight * bonus;
    }
    if think && has_parseable_tool_call(completion) && think_before_tool(completion) {
        score += 0.3;
    }
    let count = |tag: &str| completion.matches(tag).count();
    if score > 0.0 && BALANCED.iter().all(|(open, close)| count(open) == count(close)) {
        score += 0.1;
    }
    if config.strict {
        return score.clamp(0.0, 1.0);
    }
    // Upstream has a ceiling and no floor; Python's `min` keeps a NaN that stands first.
    if score > 1.0 { 1.0 } else { score }
}
