//! How an error is printed: what failed with its causes, then, where its type says what helps, a hint.

use std::io::{self, IsTerminal as _};

use anstream::{AutoStream, ColorChoice};
use paravt_reports::terminal::{Text, Tone};
use paravt_suite::backend::{BackendError, ErrorClass};
use paravt_suite::evaluate::RunError;
use paravt_suite::protocol::render::RenderError;
use paravt_suite::record::SampleErrorClass;
use paravt_suite::redact;

use crate::output;

/// Prints an error on standard error; on a terminal folded and coloured.
pub(crate) fn print(error: &anyhow::Error) {
    let message = redact::urls(&causes(error));
    let hint = hint(error);
    if !io::stderr().is_terminal() && AutoStream::choice(&io::stderr()) == ColorChoice::Never {
        eprintln!("error: {message}");
        hint.iter().for_each(|hint| eprintln!("hint: {hint}"));
        return;
    }
    output::show_error(&folded(&message, hint));
}

/// The lines for a terminal.
fn folded(message: &str, hint: Option<&str>) -> Text {
    let mut text = Text::default();
    let mut lines = message.lines();
    text.toned("", "error:", Tone::Bad, &format!(" {}", lines.next().unwrap_or_default()));
    lines.for_each(|line| text.line(line));
    if let Some(hint) = hint {
        text.toned("", "hint:", Tone::Good, &format!(" {hint}"));
    }
    text
}

/// The message of an error and of its causes. A cause that the message before it quotes is left out.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<BackendError>() {
            // Nothing was sent: the class and the number of tries say nothing.
            Some(error) if error.tries == 0 => error.message.clone(),
            _ => cause.to_string(),
        };
        // The layers of the HTTP client below which the cause stands.
        let cause = cause.replace("client error (Connect): ", "").replace("tcp connect error: ", "");
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// An error whose remedy depends on the command that it ended.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&causes(&self.error))
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

/// The same error, printed with this remedy.
pub(crate) fn with_hint(error: anyhow::Error, hint: String) -> anyhow::Error {
    Hinted { error, hint }.into()
}

/// The remedy of an error of a server, and one that the command has given. The messages of other errors name it.
fn hint(error: &anyhow::Error) -> Option<&str> {
    if let Some(hinted) = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>()) {
        return Some(&hinted.hint);
    }
    let no_text = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(RunError::Prompt(RenderError::NoText { .. })))
    };
    if error.chain().any(no_text) {
        return Some(
            "use --protocol native, which has texts for every task, or write the text in a protocol file",
        );
    }
    let error: &BackendError = error.chain().find_map(|cause| cause.downcast_ref())?;
    of_call(error.class, &error.message)
}

/// How a user goes on after a run that has ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continue {
    /// `run` with `--resume`, which refuses other settings of the run.
    Resume,
    /// The command of a recipe again; other settings are other stages.
    Repeat,
}

impl std::fmt::Display for Continue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Resume => "continue with --resume",
            Self::Repeat => "repeat the command",
        })
    }
}

/// The remedy of a failed call of a run, and how the run goes on after it.
pub(crate) fn in_run(error: &BackendError, then: Continue) -> Option<String> {
    let BackendError { class, message, .. } = error;
    let remedy = of_call(*class, message)?;
    let is_resumed = then == Continue::Resume;
    Some(match class {
        // What the server can do about it, before the flags that a resumed run must leave alone.
        ErrorClass::ContextLength => {
            let (larger, smaller) = match remedy {
                LONGER => ("serve the model with a longer context", "--nframes or --max-tokens"),
                _ => (
                    "raise the limit of a request's size at the proxy (nginx: client_max_body_size)",
                    "--nframes or --max-image-kb",
                ),
            };
            let smaller =
                if is_resumed { format!("; or lower {smaller} in a new --out") } else { String::new() };
            format!("{larger}, then {then}{smaller}")
        }
        ErrorClass::BadRequest if is_resumed && message.contains("404 Not Found") => format!(
            "{remedy}; a corrected --base-url continues with --resume, another --model requires a new --out"
        ),
        // A field is a setting of the run.
        _ if is_resumed && remedy.contains("--body-field") => format!("{remedy}, in a new --out"),
        _ => format!("{remedy}; then {then}"),
    })
}

/// The remedy of a failed model call.
fn of_call(class: ErrorClass, message: &str) -> Option<&'static str> {
    match class {
        ErrorClass::Connection => Some("start the server, or correct --base-url"),
        ErrorClass::Timeout => {
            Some("raise --request-timeout, or lower --concurrency if the server is overloaded")
        }
        ErrorClass::RateLimited => Some(
            "lower --concurrency or --max-requests, or give the server's limits by --requests-per-minute and \
             --tokens-per-minute",
        ),
        ErrorClass::Unauthorized => {
            Some("set OPENAI_API_KEY to a key of this server, or send another header with --header-env")
        }
        ErrorClass::BadRequest if message.contains("404 Not Found") => {
            Some("--model must be a model that the server lists (GET /v1/models), --base-url ends in /v1")
        }
        ErrorClass::BadRequest => paravt_backends::remedy(message),
        ErrorClass::Server if message.contains("--media-io-kwargs") => {
            Some("start the server with the flag that the message names")
        }
        ErrorClass::ContextLength if message.contains("413 Payload") => Some(TOO_MANY_BYTES),
        ErrorClass::ContextLength => Some(LONGER),
        ErrorClass::Server => Some("look into the server's log for the cause"),
        ErrorClass::Malformed => {
            Some("check that --base-url is the chat API itself (…/v1), and the server's log")
        }
        // A list of models is empty, too, and says so.
        ErrorClass::EmptyReply if message.contains("neither text nor tool calls") => Some(
            "try the same request with `paravt-bench ask`; a model that ends at once often has another chat template than it \
             was trained with",
        ),
        ErrorClass::TooLarge => Some("raise --max-reply-bytes"),
        ErrorClass::EmptyReply | ErrorClass::ServerParsed | ErrorClass::NotRecorded | ErrorClass::Engine => {
            None
        }
    }
}

const TOO_MANY_BYTES: &str = "raise the limit of a request's size at the proxy (nginx: client_max_body_size), or lower \
                              --nframes or --max-image-kb";

/// What to do about a conversation that does not fit.
const LONGER: &str = "lower --nframes or --max-tokens, or serve the model with a longer context";

/// The remedy of a sample that failed without a model call.
pub(crate) fn of_sample(class: SampleErrorClass, task: &str) -> Option<String> {
    match class {
        SampleErrorClass::VideoMissing | SampleErrorClass::FrameLoss => {
            let task = if paravt_tasks::named(task).is_some() { task } else { "--task FILE" };
            Some(format!(
                "`paravt-bench data check {task} --decode` names every video that is missing or damaged"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_that_is_quoted_is_not_repeated() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let quoted = anyhow::Error::new(missing()).context(format!("a.toml: {}", missing()));
        assert_eq!(causes(&quoted), "a.toml: entity not found");
        let plain = Err::<(), _>(missing()).context("cannot read a.toml").unwrap_err();
        assert_eq!(causes(&plain), "cannot read a.toml: entity not found");
    }

    #[test]
    fn a_terminal_gets_lines_of_80_columns() {
        let message = format!("lvbench: {}\n  | second line", "annotation file not found ".repeat(9));
        let text = folded(&message, Some(&"start the server, or correct --base-url; ".repeat(3)));
        let shown = text.to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(
            shown.starts_with("error: lvbench: ") && shown.contains("\n  | second line\nhint: "),
            "{shown}"
        );
        let colours = text.coloured();
        assert!(colours.starts_with("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m lvbench"), "{colours:?}");
    }

    #[test]
    fn errors_of_a_server_have_hints() {
        let error =
            |class, message: &str, tries| anyhow::Error::new(BackendError::new(class, message, tries));
        let refused = error(ErrorClass::Connection, "http://h/v1: connection refused", 2).context("model");
        assert_eq!(hint(&refused), Some("start the server, or correct --base-url"));
        assert_eq!(causes(&refused), "model: http://h/v1: connection refused (Connection, 2 tries)");
        let unsent = error(ErrorClass::BadRequest, "base URL 1: write http://HOST:PORT/v1", 0);
        assert_eq!(causes(&unsent), "base URL 1: write http://HOST:PORT/v1");
        assert_eq!(hint(&unsent), None);
        let missing = error(ErrorClass::BadRequest, "404 Not Found: no model `a`", 1);
        assert!(hint(&missing).is_some());
        let advice = |class, message, then| in_run(&BackendError::new(class, message, 1), then).unwrap();
        for (class, message, words) in [
            (ErrorClass::Server, "500 Internal Server Error: broken", "server's log"),
            (ErrorClass::Malformed, "the reply is not a chat completion", "--base-url is the chat API"),
            (ErrorClass::EmptyReply, "the reply has neither text nor tool calls", "paravt-bench ask"),
            (ErrorClass::TooLarge, "the reply is larger", "--max-reply-bytes"),
        ] {
            let found = advice(class, message, Continue::Resume);
            assert!(found.contains(words) && found.ends_with("; then continue with --resume"), "{found}");
        }
        let bytes = advice(ErrorClass::ContextLength, "413 Payload Too Large: <html>", Continue::Resume);
        assert!(
            bytes.contains("client_max_body_size), then continue with --resume; or lower --nframes"),
            "{bytes}"
        );
        let own = "400 Bad Request: Unsupported value: 'temperature' does not support 0 with this model";
        let own = advice(ErrorClass::BadRequest, own, Continue::Resume);
        assert!(own.contains("--body-field temperature=") && own.ends_with("in a new --out"), "{own}");
        let missing = of_sample(SampleErrorClass::VideoMissing, "mlvu").unwrap();
        assert!(missing.contains("data check mlvu --decode"), "{missing}");
        let own = of_sample(SampleErrorClass::VideoMissing, "mine").unwrap();
        assert!(own.contains("data check --task FILE --decode"), "{own}");
        let after = |class| advice(class, "404 Not Found", Continue::Resume);
        assert!(after(ErrorClass::Connection).ends_with("; then continue with --resume"));
        for class in [ErrorClass::BadRequest, ErrorClass::ContextLength] {
            // A resumed run refuses another model, number of frames or token limit.
            let after = after(class);
            assert!(after.contains("a new --out") && !after.ends_with("--resume"), "{after}");
            // A recipe has neither flag.
            let repeated = advice(class, "404 Not Found", Continue::Repeat);
            assert!(repeated.ends_with("then repeat the command"), "{repeated}");
        }
        let tools =
            "400 Bad Request: \"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser";
        for (message, remedy) in [
            ("400 Bad Request: At most 10 image(s) may be provided in one prompt.", "--limit-mm-per-prompt"),
            (
                "400 Bad Request: Cannot load local files without `--allowed-local-media-path`.",
                "holds the videos",
            ),
            ("500 …: [Errno 2] No such file or directory: '/data/404/a.mp4'", "its own disk"),
            (tools, "--tool-call-parser"),
        ] {
            let advice = advice(ErrorClass::BadRequest, message, Continue::Resume);
            assert!(advice.contains(remedy) && advice.ends_with("; then continue with --resume"), "{advice}");
        }
        let frames = "the server shows the model about 32 frames of a.mp4: start vLLM with --media-io-kwargs";
        assert_eq!(
            advice(ErrorClass::Server, frames, Continue::Resume),
            "start the server with the flag that the message names; then continue with --resume"
        );
    }
}
