//! `paravt-bench ask`: one question about one video, its tool calls shown as they happen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::builder::NonEmptyStringValueParser;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_reports::terminal::counted;
use paravt_suite::agent::{Agent, Bound, Reference};
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, FinishReason, Request};
use paravt_suite::evaluate::{self, RunError};
use paravt_suite::frames::CachedFrames;
use paravt_suite::message::{Content, Part};
use paravt_suite::protocol::Tool;
use paravt_suite::record::{Record, ToolOutcome};
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::videos::VideoStore;

use crate::commands::asked;
use crate::commands::data::fetch::model_folder;
use crate::commands::run::PlanArgs;
use crate::exit::{Exit, OrPreflight as _};
use crate::launch;
use crate::registry::BackendArgs;

/// Flags of `ask`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Video file, of any format that FFmpeg reads.
    video: PathBuf,
    /// Question; with --ground, the event to find.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    question: String,
    /// Option of a choice question; repeat the flag for each, at most 26 [default: none, an open question].
    #[arg(long = "option", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    options: Vec<String>,
    /// Ask when the event happens; the answer is an interval in seconds.
    #[arg(long, conflicts_with = "options")]
    ground: bool,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(args.video.exists(), "{}: no such file", args.video.display());
    ensure!(args.video.is_file(), "{}: not a file; name a video file", args.video.display());
    ensure!(args.options.len() <= 26, "--option: expected at most 26, got {}", args.options.len());
    args.backend.check_run()?;
    let chosen = args.plan.chosen(&[])?;
    let Bound { protocol, reference } = chosen.bound.clone();
    let plan = args.plan.config(&args.backend.request)?.plan(&protocol)?;
    let sample = sample(&args.video, &args.question, &args.options, args.ground);
    evaluate::check_medium(&protocol, &plan, ("the question", false))?;
    evaluate::check_texts(&protocol, &plan, [&sample]).map_err(RunError::from)?;
    if plan.channel.samples_here() {
        paravt_media::probe(&args.video).with_context(|| args.video.display().to_string())?;
    }
    let runtime = launch::runtime()?;
    let backend = runtime
        .block_on(args.backend.open(model_folder, launch::note).build("ask", Some(&plan)))
        .or_preflight()?;
    launch::note_text(&asked::of_one(&backend.describe(), &chosen, &plan));
    plan.warnings().for_each(|warning| launch::warn(&warning));
    args.plan.warn(&plan, &protocol);
    launch::warn_without_effect(&args.backend, &plan);
    let record = runtime.block_on(async {
        let agent = Agent {
            backend: Arc::new(Narrator { backend, reference, tool: protocol.tool.clone() }),
            protocol,
            protocol_hash: String::new(),
            reference,
            plan,
            frames: Arc::new(CachedFrames::default()),
            code: None,
            videos: VideoStore::default(),
        };
        agent.run(&sample).await
    });
    Ok(conclude(&record, args.options.len()))
}

/// The question as a sample. There is no gold answer; its kind chooses the question's form.
fn sample(video: &Path, question: &str, options: &[String], ground: bool) -> Sample {
    let gold = match (ground, options.is_empty()) {
        (true, _) => Gold::Interval { start: 0.0, end: 0.0 },
        (false, true) => Gold::open(""),
        (false, false) => Gold::Choice { answer: String::new() },
    };
    let question = Question {
        stem: question.to_owned(),
        options: options.to_vec(),
        letters: letters(options.len()).concat(),
        subtitles: None,
    };
    Sample::new("ask", "ask/0".to_owned(), 0, video.to_owned(), question, gold)
}

/// Prints the answer and what went wrong on the way to it.
fn conclude(record: &Record, options: usize) -> Exit {
    for call in &record.transcript.tool_calls {
        if let ToolOutcome::CropFailed { reason } | ToolOutcome::Malformed { reason } = &call.outcome {
            eprintln!("turn {}, call {}: no frames: {reason}", call.turn, call.index);
        }
    }
    if record.transcript.dropped_calls > 0 {
        let dropped = counted(record.transcript.dropped_calls, "tool call");
        eprintln!("{dropped} beyond --max-parallel not run");
    }
    if let Some(loss) = &record.transcript.frame_loss {
        eprintln!("the model saw no overview: {loss}");
    }
    if let Some(error) = &record.error {
        eprintln!("error: {}: {}", error.step, error.message);
        // A file that is no video is wrong on every machine, as for `frames`.
        return if error.step == "open" { Exit::Usage } else { Exit::Incomplete };
    }
    let gold = &record.sample.gold;
    match record.score.prediction.as_deref() {
        // The rules of the release take any letter.
        Some(other)
            if matches!(gold, Gold::Choice { .. }) && !letters(options).contains(&other.to_owned()) =>
        {
            println!("answer: `{other}`, which is not an option; {}", expected(gold, options));
        }
        Some(prediction) => println!("answer: {prediction}"),
        None => println!("answer: none found in the text above; {}", expected(gold, options)),
    }
    Exit::Ok
}

fn letters(options: usize) -> Vec<String> {
    ('A'..='Z').take(options).map(String::from).collect()
}

/// What an answer had to be.
fn expected(gold: &Gold, options: usize) -> String {
    match gold {
        Gold::Choice { .. } => format!("expected one of the letters {}", letters(options).join(", ")),
        Gold::Interval { .. } => "expected an interval in seconds, such as 2.0 to 4.5".to_owned(),
        Gold::Text { .. } | Gold::Number { .. } => "expected the answer as text".to_owned(),
    }
}

/// Prints what goes to a backend and what comes back.
struct Narrator {
    backend: Arc<dyn Backend>,
    reference: Reference,
    tool: Tool,
}

impl Backend for Narrator {
    fn describe(&self) -> BackendInfo {
        self.backend.describe()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        async move {
            eprintln!("── {}: {}", request.id.step, describe_media(request));
            let answer = self.backend.complete(request).await?;
            if let Some(reasoning) = &answer.reasoning {
                eprintln!("   thinks: {}", reasoning.trim());
            }
            println!("{}", answer.text.trim());
            if answer.finish_reason == Some(FinishReason::Length) {
                eprintln!("   (cut off at {} tokens)", request.generation.max_tokens);
            }
            let syntax = self.reference.syntax;
            let structured = answer.tool_calls.iter().map(|call| syntax.structured(call, &self.tool));
            for call in structured.chain(syntax.calls(&answer.text, &self.tool)) {
                match call.window {
                    Ok(window) => eprintln!("   looks at {:.1} s to {:.1} s", window.start, window.end),
                    Err(error) => eprintln!("   tool call that cannot be run: {error}"),
                }
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// How much of the video a request shows.
fn describe_media(request: &Request) -> String {
    let parts = request.messages.iter().flat_map(|message| match &message.content {
        Content::Parts(parts) => parts.as_slice(),
        Content::Text(_) => &[],
    });
    let (mut images, mut videos) = (0, 0);
    for part in parts {
        match part {
            Part::Image(_) => images += 1,
            Part::Video(_) | Part::Frames(_) => videos += 1,
            Part::Text(_) => {}
        }
    }
    let (messages, frames) = (counted(request.messages.len(), "message"), counted(images, "frame"));
    match videos {
        0 => format!("{messages}, {frames}"),
        _ => format!("{messages}, {frames}, the video by reference"),
    }
}
