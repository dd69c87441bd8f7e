//! One reply, read whole: what the server took out of the text is put back, kept apart as the chat API
//! has it, or refused, as dialect and profile say.

use super::Agent;
use crate::backend::{BackendError, Completion, ErrorClass, FinishReason, StoppedBy};
use crate::message::StructuredCall;
use crate::reference::Call;
use crate::settings::ToolDialect;

/// Server flags that keep a reply's text whole.
const WHOLE: &str = "start vLLM or SGLang without --reasoning-parser, --tool-call-parser and \
                     --enable-auto-tool-choice; transformers serve parses by itself, unless tokenizer_config.json \
                     of the model has a response_template without these fields";

/// Normalises a completion for the tool loop; the error where the plan cannot use it. `offered`: the request carried
/// tools.
pub(super) fn read(
    agent: &Agent,
    step: &str,
    offered: bool,
    max_tokens: u32,
    mut completion: Completion,
) -> (Completion, Option<BackendError>) {
    let Agent { plan, reference, .. } = agent;
    // Servers draw identifiers at random; by place they are the same in every run.
    for (index, call) in completion.tool_calls.iter_mut().enumerate() {
        call.id = format!("{}c{index:03}", step.replace('/', ""));
    }
    keep_stop(agent, &mut completion);
    let problem = problem(agent, offered, max_tokens, &completion);
    let taken_apart = !completion.tool_calls.is_empty() || has_reasoning(&completion);
    let keeps_calls = plan.dialect == ToolDialect::Native && offered;
    if problem.is_none() && taken_apart && !completion.reassembled && !keeps_calls {
        // A sub-agent or a forced answer under `native` has no calls to run: they are its text.
        let auto = plan.dialect != ToolDialect::Text;
        let reasoning = completion.reasoning.as_deref().filter(|_| plan.dialect == ToolDialect::Auto);
        if auto && (reasoning.is_some() || !completion.tool_calls.is_empty()) {
            completion.text = match reasoning {
                // No thought is closed in it: a reasoning parser takes the whole text for one.
                Some(text) if completion.is_only_thoughts() => text.to_owned(),
                _ => reference.syntax.rebuild(reasoning, &completion.text, &completion.tool_calls),
            };
            completion.reassembled = true;
        }
    }
    let problem = problem.map(|message| {
        let tries = completion.retries + 1;
        BackendError::new(ErrorClass::ServerParsed, message, tries)
    });
    (completion, problem)
}

/// Puts the text that ended a generation back, which servers cut off; where they do not say what it was, that which closes
/// a call. One that says that the model ended it has left the call open.
fn keep_stop(agent: &Agent, completion: &mut Completion) {
    let Some(agent_loop) = &agent.protocol.agent else { return };
    let is_open = |text: &str| agent.reference.syntax.has_unclosed_call(text);
    let ended = |stop: &&String| match &completion.stopped_by {
        StoppedBy::Text(said) => said == *stop && !completion.text.ends_with(said),
        StoppedBy::Model => false,
        StoppedBy::Unsaid => {
            completion.finish_reason == Some(FinishReason::Stop)
                && is_open(&completion.text)
                && !is_open(&format!("{}{stop}", completion.text))
        }
    };
    if let Some(stop) = agent_loop.sampling.params.stop.iter().find(ended) {
        completion.text.push_str(stop);
    }
}

fn has_reasoning(completion: &Completion) -> bool {
    completion.reasoning.as_ref().is_some_and(|reasoning| !reasoning.is_empty())
}

/// Why the reply cannot be used under this plan.
fn problem(agent: &Agent, offered: bool, max_tokens: u32, completion: &Completion) -> Option<String> {
    let Agent { plan, reference, .. } = agent;
    if completion.reassembled {
        return None;
    }
    let (calls, raw) = (&completion.tool_calls, plan.switches().raw_text);
    let profile = plan.profile();
    match plan.dialect {
        ToolDialect::Text if !calls.is_empty() => Some(format!(
            "the server took {} out of the reply, and dialect text reads calls in it: \
             use --tool-dialect auto, or {WHOLE}",
            counted(calls)
        )),
        ToolDialect::Native if offered && calls.is_empty() && !reference.syntax.calls(&completion.text, &agent.protocol.tool).is_empty() => {
            Some(
                "the reply has its tool calls in the text, and dialect native reads them in tool_calls: start vLLM with \
                 --enable-auto-tool-choice --tool-call-parser, SGLang with --tool-call-parser, or use --tool-dialect auto"
                    .to_owned(),
            )
        }
        ToolDialect::Text | ToolDialect::Native if raw && has_reasoning(completion) => Some(format!(
            "the server took the thoughts out of the reply, and profile {profile} scores the whole text: {WHOLE}; \
             or use --profile strict"
        )),
        ToolDialect::Auto if raw && (has_reasoning(completion) || !calls.is_empty()) => {
            let cut = completion.usage.is_some_and(|usage| usage.completion_tokens >= u64::from(max_tokens));
            let reasoning = completion.reasoning.as_deref();
            let exact = reference.syntax.rebuilds_exactly(reasoning, &completion.text, calls) && !cut;
            (!exact).then(|| {
                format!(
                    "the server took the reply apart ({}{} and {} characters of text), and profile {profile} needs the \
                     text as the model wrote it, which cannot be rebuilt from the parts: {WHOLE}; or use --profile strict",
                    counted(calls),
                    if has_reasoning(completion) { ", thoughts" } else { "" },
                    completion.text.chars().count()
                )
            })
        }
        _ => None,
    }
}

fn counted(calls: &[StructuredCall]) -> String {
    if calls.len() == 1 { "1 tool call".to_owned() } else { format!("{} tool calls", calls.len()) }
}

/// The calls of a reply that was read.
pub(super) fn calls(agent: &Agent, completion: &Completion) -> Vec<Call> {
    let (syntax, tool) = (agent.reference.syntax, &agent.protocol.tool);
    match agent.plan.dialect {
        ToolDialect::Native => {
            completion.tool_calls.iter().map(|call| syntax.structured(call, tool)).collect()
        }
        ToolDialect::Text | ToolDialect::Auto => syntax.calls(&completion.text, tool),
    }
}
