//! Records as frames: one row per sample, per breakdown label and per tool call.

mod aggregate;
mod bands;
mod of_record;
mod per_sample;
mod shares;
mod sums;

use paravt_suite::profile::Switches;
use paravt_suite::record::{Outcome, Record, ToolOutcome};
use paravt_suite::sample::QuestionKind;
use paravt_suite::summary::counts;

use crate::statistics::mean;
use crate::table::{Table, TableBuilder};

pub(crate) use aggregate::by_agent_extraction;
pub use aggregate::{Digest, FrameCounts, Spread};
pub use bands::{evidence, order, titles};
pub(crate) use of_record::frames_of;
pub use of_record::{Seen, cluster_name, overview, seen, video_length};
pub(crate) use per_sample::{draws, majority, per_sample};
pub use shares::Shares;
pub use sums::BINS;
pub(crate) use sums::Sums;

/// The samples of a run, a row per record. `video` is the sample's cluster ([`cluster_name`]); `counted` says whether it counts in the
/// split's mean, `parallel_calls` is the largest number of calls in one turn. `epoch` stands in the files of repeated
/// runs alone, `own_score` in those of agents with an extraction of their own; `gold_text` and `chosen` are the texts of the gold option and of the chosen one.
pub fn samples(switches: &Switches, records: &[Record]) -> Table {
    finish(basic(switches, records))
}

/// The same with what questions about single samples need: kind and row of the question, tags as a JSON object of lists,
/// flags, rule of the answer, length of the video, position of the evidence.
pub fn samples_in_full(switches: &Switches, records: &[Record]) -> Table {
    let tags =
        |record: &Record| serde_json::to_string(&record.sample.tags).expect("a map of texts serialises");
    let kind = |record: &Record| match record.sample.gold.kind() {
        QuestionKind::Choice => "choice".to_owned(),
        QuestionKind::Grounding => "grounding".to_owned(),
        QuestionKind::Open => "open".to_owned(),
        QuestionKind::Number => "number".to_owned(),
    };
    let samples = basic(switches, records)
        .count("row", "row", |record| record.sample.row)
        .text("kind", "kind", kind)
        .text("tags", "tags", tags)
        .text("flags", "flags", |record| record.sample.flags.join(" "))
        .text("rule", "rule", |record| record.score.rule.clone())
        .real("first_token_seconds", "first token (s)", |record| {
            mean(of_record::token_times(record).map(|times| times.first))
        })
        .real("token_seconds", "time per token (s)", |record| {
            mean(of_record::token_times(record).filter_map(|times| times.further))
        })
        .flag("forced", "forced", |record| record.transcript.forced)
        .flag("truncated", "truncated", |record| record.transcript.truncated)
        .ends(
            [("evidence_start_seconds", "evidence from (s)"), ("evidence_end_seconds", "to (s)")],
            |record| record.sample.evidence.map(|evidence| (evidence.start, evidence.end)),
        );
    finish(samples)
}

fn basic<'a>(switches: &'a Switches, records: &'a [Record]) -> TableBuilder<'a, Record> {
    let outcome = |record: &Record| match record.score.outcome {
        Outcome::Scored => "scored".to_owned(),
        Outcome::Unparsed => "unparsed".to_owned(),
        Outcome::Error => "error".to_owned(),
    };
    Table::of("samples", "Samples", records)
        .text("sample", "sample", |record| record.sample.uid.clone())
        .text("video", "video", cluster_name)
        .text("gold", "gold", |record| record.sample.gold.to_string())
        .text("answer", "answer", |record| record.score.prediction.clone())
        .text("outcome", "outcome", outcome)
        .text("error", "error", |record| Some(record.error.as_ref()?.class.as_str().to_owned()))
        .real("score", "score", |record| record.score.value)
        .flag("counted", "counted", |record| counts(record, switches))
        .count("turns", "turns", of_record::turns)
        .count("calls", "calls", |record| record.transcript.tool_calls.len())
        .count("parallel_calls", "parallel calls", of_record::parallel_width)
        .count("prompt_tokens", "prompt tokens", |record| {
            of_record::tokens(record, |usage| usage.prompt_tokens)
        })
        .count("completion_tokens", "completion tokens", |record| {
            of_record::tokens(record, |usage| usage.completion_tokens)
        })
        .real("seconds", "seconds", |record| record.measured.seconds)
        .real("media_seconds", "media seconds", |record| record.measured.media_seconds)
        .real("video_seconds", "video (s)", video_length)
        .count("overview_frames", "overview frames", |record| seen(record).overview)
        .count("crop_frames", "crop frames", |record| seen(record).crops)
        .count("sub_agent_frames", "frames of sub-agents", |record| seen(record).sub_agents)
}

/// The table, with what comparisons and repeated runs need beside its columns.
fn finish(samples: TableBuilder<'_, Record>) -> Table {
    samples
        .for_views()
        .real("chance", "chance", bands::chance)
        .count("epoch", "epoch", |record| record.epoch)
        .real("own_score", "score by its own extraction", |record| {
            Some(record.agent_score.as_ref()?.score.value)
        })
        .text("gold_text", "gold option", |record| record.sample.gold_text().map(str::to_owned))
        .text("chosen", "chosen option", of_record::chosen)
        .table()
}

/// The tool calls of a run. `start_share` and `end_share` are shares of the video's length, where both are known and
/// the window is not empty.
pub fn calls(records: &[Record]) -> Table {
    let calls: Vec<_> = records
        .iter()
        .flat_map(|record| {
            let length = video_length(record);
            record
                .transcript
                .tool_calls
                .iter()
                .map(move |call| (record, call, of_record::window(call, length)))
        })
        .collect();
    Table::of("calls", "Tool calls", &calls)
        .text("sample", "sample", |(record, ..)| record.sample.uid.clone())
        .count("turn", "turn", |(_, call, _)| call.turn)
        .count("index", "call", |(_, call, _)| call.index)
        .text("outcome", "outcome", |(_, call, _)| {
            let outcome = match call.outcome {
                ToolOutcome::Frames { .. } => "frames",
                ToolOutcome::Text { .. } => "text",
                ToolOutcome::Summary { .. } => "summary",
                ToolOutcome::CropFailed { .. } => "crop_failed",
                ToolOutcome::Malformed { .. } => "malformed",
                ToolOutcome::Ran { .. } => "ran",
                ToolOutcome::CodeFailed { .. } => "code_failed",
                ToolOutcome::Served => "served",
            };
            outcome.to_owned()
        })
        .real("start_seconds", "start (s)", |(_, call, _)| call.start)
        .real("end_seconds", "end (s)", |(_, call, _)| call.end)
        .ends([("start_share", "start"), ("end_share", "end")], |(.., window)| *window)
        .for_views()
        .count("epoch", "epoch", |(record, ..)| record.epoch)
        .table()
}
