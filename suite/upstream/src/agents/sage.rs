//! SAGE (allenai/SAGE b5d9c93) with its visual tools alone: conversations of two messages each, tools that ask the model
//! again.
//!
//! The release needs a web search, a speech recogniser and a second model. `drop_tool_call_files` leaves out the tools of
//! the first two, `TOOL_CALL_MODEL=None` has the model itself asked; the order of the tools, which is that of a folder
//! there, is that of the files' names. It evaluates none of the suite's splits: options and the reading of a letter are
//! in our words, and where the video lies is as its own benchmarks have it.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Encoding, Fidelity, Filter, FramePolicy, Harness, Overview, Protocol, Sampling, SentAs,
    SizeRule, Source, Stages, Template,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Look, Looks, Reference, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::staged::{Beginning, Staged};

use super::{Parts, choice, protocol, questions, shape};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};
use crate::python::{PyValue, dumps, strip};
use crate::sage::{Run, sampled_frames};

/// SAGE's rules.
pub const REFERENCE: Reference = Reference::of("sage", &Sage);

const CONTEXT: &str = "sage/prompts/sage/context_vlm.txt";
const REASONER: &str = "sage/prompts/sage/iterative_reasoner.txt";
const MESSAGE: &str = "sage/prompts/sage/iterative_reasoner_msg.txt";
const GROUNDING: &str = "sage/prompts/visual_temporal_grounding.txt";
const MAIN: &str = "sage/main.py";
const API: &str = "sage/src/api/base_api.py";
const MODEL: &str = "sage/src/api/qwen_vl.py";
const ARGUMENTS: &str = "sage/src/functions/utils/args_check.py";
const PARSER: &str = "sage/utils/json_parser.py";
/// Tools in the order in which the model reads of them.
const TOOLS: [&str; 3] = [
    "sage/src/functions/tools/extract.py",
    "sage/src/functions/tools/reason.py",
    "sage/src/functions/tools/temporal.py",
];

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "sage",
    repository: "allenai/SAGE",
    commit: "b5d9c932b25fcbdbb80e7ae9ffb0cd741308bee8",
    files: &[
        Pinned::new(CONTEXT, "fa8c38891d3640d234c1852a57b8c3a03a46fad5fb29a4c8d6232dec87722cb3"),
        Pinned::new(REASONER, "55c4f85a8bd66c53e82ca5f97912a429cce1b0e71cb1161cbcc4144c252d60ec"),
        Pinned::new(MESSAGE, "225ee850b79e18cedf7379a5396b1aaa82bb0e6418223161aab9e27e9a5dd881"),
        Pinned::new(GROUNDING, "afa09404af0ae300429ec65c4da10f4fc93b4b5277e4a18d862fac5cb5346ddd"),
        Pinned::new(MAIN, "a510e6367ef42dde048d40844115cad7fb71391b68874f2245ed2b94f1b2dae1"),
        Pinned::new(API, "2839bdf73fbbf0adb64bddaddcc6de91ac0426d86e3606eb5d6f8216d11bec3c"),
        Pinned::new(MODEL, "dd376fd6c8c9a7691a8598d7c412b14564e9ea1ba028f6acf7f31183131d3677"),
        Pinned::new(ARGUMENTS, "80f5fff12a5b97337ecd9609f944c63de90f38b693d8bee73603076b0e45612f"),
        Pinned::new(PARSER, "fc3478cf7905038ad2b2c35e221666cc218e1bb5ad7ea90987479465b4111bef"),
        Pinned::new(TOOLS[0], "05bf3f698949ea5dea823903ffcb667437865b38d286dc7a70abd3df17b543b7"),
        Pinned::new(TOOLS[1], "9fadf198ca998cf6f15b1211ef94b593c3ed9db8eb91f0fdda7ea803af31de4a"),
        Pinned::new(TOOLS[2], "b92c093406d7e638ad994506dfabf4c554474dedd5b63d19f316d0e4c3315bb9"),
        Pinned::new(
            "sage/src/context_vlm.py",
            "edc082c030bcc2095adbe75652bf9e39b2293919760050d66225c143d73255d7",
        ),
        Pinned::new(
            "sage/src/api/response.py",
            "b675081b1112ed27ed7fa4860e8a222769b82da1c2f10ed5712be0c6aa60645d",
        ),
        Pinned::new(
            "sage/src/functions/utils/extract.py",
            "2a07ed771b8ec1acf9c58403efbff3a4e37b96358c4551a510ef564221c8f460",
        ),
        Pinned::new(
            "sage/src/functions/utils/temporal.py",
            "44c92423468feeccdec7025ce3c9fef6e0069073bbbec084a85fb1c4e2d1f164",
        ),
        Pinned::new(
            "sage/src/functions/utils/utils.py",
            "cff9ce2f39e5e87d718fc9f0aeb89578788775d0161308bf8f1c35895fa830b6",
        ),
        Pinned::new(
            "sage/src/models/qwen_vl/vision_process.py",
            "805b293da76f59a325160c4639a163b700616e8666f26ced109923e870205732",
        ),
    ],
    make,
};

struct Sage;

/// Calls are read by the sample's own run.
impl ToolSyntax for Sage {}

impl Looks for Sage {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        Look::at(sampled_frames(wanted, video.frames, video.rate), video.rate)
    }

    fn staged(&self, beginning: Beginning<'_>) -> Result<Box<dyn Staged>, String> {
        Ok(Box::new(Run::new(beginning)?))
    }
}

impl Scorer for Sage {
    /// The letter that an answer begins with. The release asks a judge.
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, letter(text).map(String::from), |found, gold| found == gold)
    }
}

fn letter(answer: &str) -> Option<char> {
    let mut rest = strip(answer).trim_start_matches('(').chars();
    let letter = rest.next().filter(char::is_ascii_uppercase)?;
    rest.next().is_none_or(|c| !c.is_alphanumeric()).then_some(letter)
}

/// A text whose slots stand between `<<<` and `>>>`, under our names.
fn marked(file: &'static str, text: &str, names: &[(&str, &str)]) -> Result<Template, ImportError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, (mark, after))) =
        rest.split_once("<<<").and_then(|(before, behind)| Some((before, behind.split_once(">>>")?)))
    {
        let ours = names.iter().find(|(theirs, _)| *theirs == mark).map(|(_, ours)| *ours);
        let ours = ours.ok_or_else(|| shape(file, format!("no other slots than {names:?}")))?;
        pieces.extend([Piece::Text(before.to_owned()), Piece::Slot(ours.to_owned())]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces.retain(|piece| *piece != Piece::Text(String::new()));
    match names.iter().all(|(_, ours)| pieces.contains(&Piece::Slot((*ours).to_owned()))) {
        true => Ok(Template(pieces)),
        false => Err(shape(file, format!("slots {names:?}"))),
    }
}

/// The tools as system texts list them.
fn tools(files: &Files) -> Result<String, ImportError> {
    let mut lines = Vec::new();
    for file in TOOLS {
        for schema in Module::parse(file, files.required(file)?)?.schemas() {
            let kind = ("type".to_owned(), PyValue::Str("function".to_owned()));
            lines.push(dumps(&PyValue::Dict(vec![kind, ("function".to_owned(), schema)]), false));
        }
    }
    Ok(format!("<tools>\n{}\n</tools>", lines.join("\n")))
}

fn with_tools(files: &Files, file: &'static str) -> Result<String, ImportError> {
    let template = marked(file, files.required(file)?, &[("tools", "tools")])?;
    template.render(&[("tools", &tools(files)?)]).map_err(|error| shape(file, error.to_string()))
}

/// Texts by our names.
type Words = BTreeMap<String, Template>;

fn named(words: &mut Words, names: &[&str], texts: Vec<Template>) {
    words.extend(names.iter().map(|name| (*name).to_owned()).zip(texts));
}

/// Words for arguments that are refused.
fn refusals(words: &mut Words, files: &Files) -> Result<(), ImportError> {
    let module = Module::parse(ARGUMENTS, files.required(ARGUMENTS)?)?;
    type Check = (&'static str, &'static [&'static str], &'static [&'static [&'static str]]);
    let checks: [Check; 6] = [
        ("check_file_exists", &["path_type", "no_file"], &[&["arg_name", "__name__"], &["arg_name", "path"]]),
        (
            "check_valid_extension",
            &["path_type", "extension"],
            &[&["arg_name", "__name__"], &["arg_name", "path", "valid_exts"]],
        ),
        ("check_valid_timestamp", &["empty_time", "time_form"], &[&["arg_name", "ts"], &["arg_name", "ts"]]),
        ("check_in_allowed_values", &["allowed"], &[&["arg_name", "value", "allowed"]]),
        ("check_non_empty_string", &["empty_text"], &[&["arg_name"]]),
        (
            "parse_timestamp",
            &["out_of_range", "no_minutes", "out_of_range", "no_hours", "time_parts"],
            &[&["arg_name", "ts"] as &[&str]; 5],
        ),
    ];
    for (function, names, slots) in checks {
        named(words, names, module.function(function)?.refusals(slots)?);
    }
    let range = module.function("check_timestamp_range")?;
    let both: &[&str] = &["start_ts", "end_ts"];
    let texts =
        range.refusals(&[&["err_start"], &["err_end"], &["err"], &["err"], both, both, both, both])?;
    let names = ["start_error", "end_error", "start_again", "end_again", "after", "same", "short", "long"];
    let texts = texts
        .into_iter()
        .map(|text| super::pyvision::renamed(text, &[("err_start", "reason"), ("err_end", "reason")]));
    named(words, &names, texts.collect());
    let missing = module.class("ArgsValidator")?.function("validate")?.template_with(&["arg"])?;
    let together = module.function("patch_validator_with_timestamp_range")?.function("new_validate")?;
    let together = together.template_with(&["start_key", "end_key"])?;
    named(words, &["missing", "together"], vec![missing, together]);
    let media = module.sentences("perform_reasoning_args_validator");
    if media.len() != 2 {
        return Err(shape(ARGUMENTS, "two sentences on media_paths"));
    }
    let text = |text: String| Template(vec![Piece::Text(text)]);
    named(words, &["no_media", "media_type"], media.into_iter().map(text).collect());
    Ok(())
}

/// Words of results and of what goes wrong in a tool, by the names that the rules have for them; what is said of a video.
fn words(files: &Files) -> Result<(Words, Template), ImportError> {
    let mut words = Words::new();
    refusals(&mut words, files)?;
    let main = Module::parse(MAIN, files.required(MAIN)?)?.class("SAGE")?;
    let execute = main.function("execute_tool_call")?;
    let text = |text: String| Template(vec![Piece::Text(text)]);
    let run = main.function("run_inference")?;
    let mut failed = execute.keyed_templates("result").into_iter();
    let failed = failed.find(|text| text.slots().eq(["name", "reason", "arguments"]));
    let video = main
        .function("get_iterative_reasoner_results")?
        .template_with(&["video_path", "timestamp_format"])?;
    named(
        &mut words,
        &["no_call", "unanswered", "exhausted", "failed", "call", "result"],
        vec![
            text(main.function("get_tool_calls")?.keyed_text("result")?),
            text(run.keyed_text("result")?),
            run.template_with(&["max_num_iterative_reasoner_calls"])?,
            failed.ok_or_else(|| shape(MAIN, "the result of a failed call"))?,
            main.function("format_tool_calls_args")?.template_with(&["tool_call", "arguments"])?,
            main.function("format_tool_calls")?.template_with(&["tool_call", "result"])?,
        ],
    );
    named(&mut words, &["refused"], execute.raised(&[&["name", "errors"]])?);
    let times: &[&str] = &["timestamp_start", "timestamp_end"];
    let identify = Module::parse(API, files.required(API)?)?.class("BaseAPI")?;
    let identify = identify.function("identify_timestamps_visually")?;
    let texts = identify.raised(&[
        &["video_path"],
        &["video_path"],
        times,
        times,
        &["timestamp_end", "video_duration"],
    ])?;
    let names = ["video_extension", "video_missing", "moment_same", "moment_reversed", "moment_behind"];
    named(&mut words, &names, texts);
    let parser = Module::parse(PARSER, files.required(PARSER)?)?.function("clean_json")?;
    named(&mut words, &["no_json"], parser.raised(&[&["reason"]])?);
    let video = super::pyvision::renamed(video, &[("video_path", "path"), ("timestamp_format", "duration")]);
    Ok((words, video))
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let (errors, video) = words(files)?;
    let model = Module::parse(MODEL, files.required(MODEL)?)?.class("QwenVL")?;
    let slots = [
        ("previous_tool_call", "previous"),
        ("visual_context", "context"),
        ("query", "question"),
        ("video_info", "video"),
        ("tools_so_far", "results"),
    ];
    let moment = [("begin", "begin"), ("end", "end"), ("event", "event")];
    let stages = Stages {
        path: Template::parse("data/videos/{video_name}"),
        video,
        reasoner: with_tools(files, REASONER)?,
        message: marked(MESSAGE, files.required(MESSAGE)?, &slots)?,
        aside: model.function("_prepare_input")?.keyed_text("content")?,
        grounding: marked(GROUNDING, files.required(GROUNDING)?, &moment)?,
        keeps_media: false,
        tries: 5,
        retry_temperature: 0.7,
        // The processor's default: the release gives it frames and no rate.
        rate: 2.0,
    };
    let token = 28 * 28;
    let agent = AgentLoop {
        harness: Harness { errors, variants: BTreeSet::new(), ..Harness::default() },
        frames: Some(FramePolicy {
            overview: Some(Overview { frames: 128, fps: Some(1.0), at_least: Some(1) }),
            sent_as: SentAs::Video,
            ..FramePolicy::new(
                SizeRule::Qwen { min: token, max: Some(48 * token), total: None },
                Filter::Bicubic,
                Encoding::Png,
            )
        }),
        stages: Some(stages),
        sampling: Sampling { top_p: Some(0.9), repetition_penalty: Some(1.0), ..Sampling::default() },
        ..AgentLoop::new(Fidelity::Variant, 10)
    };
    let mut made = protocol(Parts {
        name: RELEASE.name,
        source,
        system: with_tools(files, CONTEXT)?,
        tool: ("perform_reasoning", 128),
        questions: questions([("choice", "{question}\nOptions:\n{options}"), ("open", "{question}")]),
        agent,
        max_tokens: 32_768,
    });
    made.option_line = Template::parse("({letter}) {option}");
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_with_its_letter() {
        for (answer, found) in [
            ("B", Some('B')),
            (" (C) a dog", Some('C')),
            ("D.", Some('D')),
            ("A1", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(letter(answer), found, "{answer}");
        }
    }

    #[test]
    fn marks_become_slots() {
        let read = |text: &str| marked("file", text, &[("a", "b")]);
        assert_eq!(read("x<<<a>>>y").unwrap(), Template::parse("x{b}y"));
        assert!(read("x").is_err() && read("<<<a>>><<<c>>>").is_err());
    }
}
