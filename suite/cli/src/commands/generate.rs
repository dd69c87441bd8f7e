//! `paravt-bench generate`: an answer to each conversation.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use paravt_files::read_text;
use paravt_suite::backend::{CallId, Completion, FinishReason, Generation, Memory, Request};
use paravt_suite::conversation::parse_conversation;
use serde_json::json;

use crate::commands::data::fetch::model_folder;
use crate::exit::{Exit, OrPreflight as _};
use crate::launch;
use crate::registry::BackendArgs;

/// Bytes that a file of messages may have, images in it included.
const MAX_FILE: u64 = 1 << 30;

/// Flags of `generate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// JSON files with OpenAI-style messages: a list, or an object with `messages`. Images are file://
    /// or data: URLs, videos file:// URLs. Several are answered one after the other.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    messages: Vec<PathBuf>,
    /// Maximum number of tokens to generate.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f64,
    /// Seed sent with the request [default: none is sent].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Request the id and log-probability (natural logarithm) of each token; --json prints them.
    #[arg(long)]
    logprobs: bool,
    /// Print JSON of each answer: text, token_ids, logprobs, finish_reason, prompt_tokens, completion_tokens, retries,
    /// seconds, first_token_seconds, memory (bytes, planned and at its peak); null where the backend does not report a value.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    args.backend.check_run()?;
    ensure!(
        args.temperature >= 0.0 && args.temperature.is_finite(),
        "--temperature: expected a number ≥ 0, got `{}`",
        args.temperature
    );
    let conversations = args.messages.iter().map(|path| {
        let shown = path.display();
        let text = read_text(path, MAX_FILE).with_context(|| format!("cannot read {shown}"))?;
        let value = serde_json::from_str(&text).with_context(|| format!("{shown}: not JSON"))?;
        parse_conversation(&value).with_context(|| shown.to_string())
    });
    let conversations: Vec<_> = conversations.collect::<anyhow::Result<_>>()?;
    let generation = Generation {
        max_tokens: args.max_tokens,
        temperature: args.temperature,
        sampling: args.backend.request.settings()?.sampling,
        seed: args.seed,
        logprobs: args.logprobs,
    };
    let answered = launch::runtime()?.block_on(async {
        let backend = args.backend.open(model_folder, launch::note).build("generate", None).await?;
        for (number, messages) in conversations.into_iter().enumerate() {
            let id = CallId::new(format!("generate{number}"), "turn0");
            let answer = backend.complete(&Request::new(id, messages, generation.clone())).await?;
            show(&answer, backend.memory(), args.json);
        }
        Ok::<_, anyhow::Error>(())
    });
    answered.or_preflight()?;
    Ok(Exit::Ok)
}

fn show(answer: &Completion, memory: Option<Memory>, json: bool) {
    if json {
        let finish = answer.finish_reason.as_ref().map(|reason| match reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Other(reason) => reason,
        });
        let description = json!({
            "text": answer.text,
            "token_ids": answer.token_ids,
            "logprobs": answer.logprobs,
            "finish_reason": finish,
            "prompt_tokens": answer.usage.map(|usage| usage.prompt_tokens),
            "completion_tokens": answer.usage.map(|usage| usage.completion_tokens),
            "retries": answer.retries,
            "seconds": answer.latency.as_secs_f64(),
            "first_token_seconds": answer.first_token.map(|time| time.as_secs_f64()),
            "memory": memory,
        });
        println!("{description:#}");
    } else {
        println!("{}", answer.text);
    }
}
