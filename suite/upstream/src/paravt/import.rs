//! The texts of ParaVT cf55249: `paravt/eval`, and of `paravt/rl` those of sub-agents, which the evaluation has none of.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use paravt_suite::protocol::{
    Force, Instructions, PromptMode, Protocol, Source, Tool, VideoPathSuffix, native,
};

use crate::import::{ImportError, Pinned, Release, Text, Texts};

const DRIVER: &str = "paravt/eval/driver.py";
/// The loaders.
const UTILS: &str = "paravt/eval/utils.py";
/// The sub-agent of rollouts.
const SUBAGENT: &str = "paravt/rl/subagents/crop_video/cropped_video.py";
/// The loop of rollouts.
const WORKFLOW: &str = "paravt/rl/workflow.py";

/// The release: its pinned files and the texts in them.
pub static RELEASE: Release = Release {
    name: "paravt",
    repository: "EvolvingLMMs-Lab/ParaVT",
    commit: "cf55249",
    files: &[
        Pinned::new(DRIVER, "b85f7f02cb5ef29f2564ca7df8f144ba47a1da09b81ddc9ef6af65b6bfac7a08"),
        Pinned::new(UTILS, "c24d7442cea3b1826c441c7a09dba34076a6ce0215c8178ae9b107a2342948e3"),
        Pinned::new(SUBAGENT, "a1adde1f817535bf61c4742a6b21735f7db77a308e7d57fb18e792bee587bf94"),
        Pinned::new(WORKFLOW, "e7c1a708631e6becf365611e3cb69016b80971a5a16bfb0688513019cb2ec016"),
    ],
    texts: &[
        Text::python("tool_schema", DRIVER, 3649..4337),
        Text::python("direct", DRIVER, 4580..4748),
        Text::python("reasoning", DRIVER, 4777..5024),
        Text::python("agentic_general", DRIVER, 5256..6057),
        Text::python("agentic_minimal", DRIVER, 6399..6792),
        Text::python("video_path", DRIVER, 17032..17103).slots(&["question", "video_name"]),
        Text::python("video_path.unless", DRIVER, 16975..16987),
        Text::python("seen", DRIVER, 19634..19758).slots(&["n", "start", "end"]),
        Text::python("lost", DRIVER, 20111..20185).slots(&["start", "end"]),
        Text::python("force.choice", DRIVER, 20369..20446),
        Text::python("force.grounding", DRIVER, 20558..20776),
        Text::python("instruction.direct", UTILS, 7740..7880),
        Text::python("instruction.other", UTILS, 7929..7966),
        Text::python("subtitles", UTILS, 9781..9840).slots(&["subtitles"]),
        Text::python("option_line", UTILS, 11088..11109).slots(&["letter", "option"]),
        Text::python("videomme", UTILS, 8537..8603).slots(&["question", "options", "instruction"]),
        Text::python("videomme_wsub", UTILS, 9955..10033)
            .slots(&["subtitles_block", "question", "options", "instruction"]),
        Text::python("longvideobench", UTILS, 11471..11537).slots(&["question", "options", "instruction"]),
        Text::python("lvbench", UTILS, 12106..12140).slots(&["question", "instruction"]),
        Text::python("mlvu", UTILS, 13793..13859).slots(&["question", "options", "instruction"]),
        Text::python("mmvu", UTILS, 16165..16231).slots(&["question", "options", "instruction"]),
        Text::python("charades", UTILS, 17116..17617).slots(&["caption"]),
        Text::python("subagent.prompt", SUBAGENT, 2530..3160)
            .slots(&["start_clock", "end_clock", "duration"]),
        Text::python("subagent.response", WORKFLOW, 22771..22827).slots(&["summary"]),
    ],
    make,
};

/// Mode of one call whose instruction mentions the tool (quirk `inverted_instruction`).
const DIRECT: &str = "direct";
/// Tool loop with the verbose system text.
const GENERAL: &str = "agentic_general";
/// Tool loop with the bare tool schema.
const MINIMAL: &str = "agentic_minimal";

/// Data sets that the upstream loader knows; also our split names.
const DATASETS: [&str; 7] =
    ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"];

/// The driver's tool: the native protocol's, which was written for the same reader of calls, in the modes whose
/// names begin with `agentic_`.
pub fn tool() -> Tool {
    Tool { modes: [GENERAL, MINIMAL].map(PromptMode::named).into(), ..native::protocol().tool }
}

/// The protocol of the release's texts.
fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let own = native::protocol();
    let mut questions = BTreeMap::new();
    for dataset in DATASETS {
        questions.insert(dataset.to_owned(), texts.template(dataset)?);
    }
    // Upstream asks open-ended questions as choices; `strict` asks them in the suite's own words.
    questions.extend(own.questions.get_key_value("open").map(|(kind, text)| (kind.clone(), text.clone())));
    Ok(Protocol {
        name: RELEASE.name.to_owned(),
        source,
        system: system_texts(texts)?,
        default_mode: PromptMode::named(GENERAL),
        images: false,
        tool: tool(),
        instructions: Instructions {
            modes: IndexMap::from([(PromptMode::named(DIRECT), texts.text("instruction.direct")?)]),
            other: texts.text("instruction.other")?,
            neutral: own.instructions.neutral,
            neutral_agentic: own.instructions.neutral_agentic,
            ..Instructions::default()
        },
        questions,
        option_line: texts.template("option_line")?,
        option_separator: own.option_separator,
        option_forms: BTreeMap::new(),
        subtitles_block: texts.template("subtitles")?,
        duration_note: own.duration_note,
        video_path: Some(VideoPathSuffix {
            template: texts.template("video_path")?,
            unless: texts.text("video_path.unless")?,
        }),
        force: BTreeMap::from([
            ("choice".to_owned(), Force { text: texts.text("force.choice")?, max_tokens: 64 }),
            ("grounding".to_owned(), Force { text: texts.text("force.grounding")?, max_tokens: 128 }),
            // Upstream treats open-ended questions as choices; `strict` asks them in its own words.
            ("open".to_owned(), own.force["open"].clone()),
        ]),
        crop_response: texts.template("seen")?,
        crop_error: texts.template("lost")?,
        call_error: own.call_error,
        subagent_response: texts.template("subagent.response")?,
        subagent_prompt: texts.template("subagent.prompt")?,
        frame_label: None,
        chat_tools: None,
        reference: None,
        agent: None,
        max_tokens: 2048,
    })
}

/// The system text of each mode; those of modes with the tool have its schema.
fn system_texts(texts: &Texts) -> Result<IndexMap<PromptMode, String>, ImportError> {
    let schema = texts.text("tool_schema")?;
    let mut found = IndexMap::new();
    for mode in [DIRECT, "reasoning"] {
        found.insert(PromptMode::named(mode), texts.text(mode)?);
    }
    for mode in [GENERAL, MINIMAL] {
        let filled = texts.template(mode)?.render(&[("tool_schema", &schema)]);
        let text = filled.map_err(|error| texts.error(mode, error.to_string()))?;
        found.insert(PromptMode::named(mode), text);
    }
    Ok(found)
}
