//! What servers say in their refusals, by what it means.

/// How servers say that a conversation is too long, in small letters; the parts around a `*` stand in this order. The
/// statuses are 400, 403, 413 and 422, with llama.cpp, Ollama and engines behind routers 500 as well.
pub(crate) const TOO_LONG: [&str; 47] = [
    // vLLM, SGLang, OpenAI, Azure, OpenRouter, Mistral, LMDeploy, LM Studio ("greater than"), Ollama ("exceeds the"),
    // Together ("less than the").
    "context length",
    "context_length_exceeded",
    // vLLM, for a prompt and for the tokens of a request.
    "maximum model length",
    "max_model_len",
    "longer than the model",
    // vLLM where its images are: it checks the text, in which an image is one token, and gives the answer what is left.
    "max_tokens must be at least 1, got",
    // SGLang, without and with a limit of its own.
    "input length*exceeds the maximum",
    "reduce the length of the",
    // llama.cpp (ggml-org/llama.cpp#15780, #19774), and its Python server.
    "context size",
    "exceed_context_size",
    "exceed context window",
    "prompt exceeds n_ctx",
    // OpenAI since GPT-5, MiniMax, LiteLLM's class of the error.
    "context window",
    "contextwindowexceeded",
    "exceed the configured limit",
    // Anthropic, Z.ai.
    "prompt is too long",
    "context limit",
    "model_context_window_exceeded",
    "prompt exceeds max length",
    "prompt 超长",
    "tokens in request more than max tokens allowed",
    // Amazon Bedrock, Ollama.
    "input is too long",
    "prompt too long",
    "input tokens exceeds maximum length",
    "prompt tokens*exceed model maximum",
    // Gemini.
    "input token count*exceeds",
    "input exceeds the maximum number of tokens",
    // xAI, GitHub, Moonshot, DashScope, Volcengine, SiliconFlow.
    "maximum prompt length",
    "prompt token count*exceeds",
    "exceeded model token limit",
    "range of input length should be",
    "input token length is too long",
    "exceed max message tokens",
    "prompt_tokens*must be less than max_seq_len",
    // TGI (router/src/validation.rs).
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens` must be <=",
    // Cohere (docs.cohere.com/reference/errors): its "too many tokens: max tokens must be" is about the answer.
    "too many tokens: size limit exceeded",
    "too many tokens: total number of tokens in the prompt",
    "too many tokens: minimal context could not be added",
    // DeepInfra; TensorRT-LLM (tensorrt_llm/llmapi/llm.py, executor/base_worker.py), alone and behind routers.
    "exceeds maximum input length",
    "exceeds maximum sequence length",
    "sum of prompt length*should not exceed",
    "is greater than `max_seq_len`",
    // LMDeploy before 0.11, as the text of a reply.
    "responsetype.input_length_error",
    // mistral.rs, Xinference, AI21.
    "prompt sequence length is greater than",
    "exceeds model's max length",
    "prompt has too many tokens",
];

/// Words of a refusal by a limit in time that is smaller than the request (OpenAI with status 429, Groq with 413), which
/// no pause meets.
pub(crate) const NEVER_FITS: [&str; 1] = ["request too large*limit*requested"];

/// Words of a limit in time, which a retry or a pause meets.
pub(crate) const RATE: [&str; 6] =
    ["rate limit", "rate_limit", "per min", "per day", "too many requests", "insufficient_quota"];

/// Faults of the moment that vLLM answers with status 400, as it does every `RuntimeError` before generation: two
/// threads in one tokenizer.
pub(crate) const TRANSIENT: [&str; 1] = ["already borrowed"];

/// Whether a text has one of the phrases, whatever its case.
pub(crate) fn says(said: &str, phrases: &[&str]) -> bool {
    let said = said.to_lowercase();
    let in_order = |phrase: &str| {
        let mut rest = said.as_str();
        phrase.split('*').all(|part| {
            let after = rest.split_once(part).map(|(_, after)| after);
            rest = after.unwrap_or_default();
            after.is_some()
        })
    };
    phrases.iter().any(|phrase| in_order(phrase))
}
