//! Takes the upstream texts out of pinned Python files (ParaVT cf55249, `paravt/eval`, and of `paravt/rl` those of
//! sub-agents, which the evaluation has none of).
//!
//! No text of the release is part of this tree: constants, f-strings and conditions are found by their
//! names and shapes in the parsed source, so that a changed file is a named error, not a wrong text.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use paravt_suite::protocol::{
    Force, Instructions, PromptMode, Protocol, Source, Template, Tool, VideoPathSuffix, native,
};

use crate::import::shapes::{self, Module};
use crate::import::{Files, ImportError, Pinned, Release};

/// The driver.
const DRIVER: &str = "paravt/eval/driver.py";
/// The loaders.
const UTILS: &str = "paravt/eval/utils.py";
/// The sub-agent of rollouts.
pub const SUBAGENT: &str = "paravt/rl/subagents/crop_video/cropped_video.py";
/// The loop of rollouts.
pub const WORKFLOW: &str = "paravt/rl/workflow.py";

/// The release and its pinned files. Without those of rollouts (an `unpinned` source may lack them) a sub-agent is asked
/// in the words of the suite's own protocol.
pub static RELEASE: Release = Release {
    name: "paravt",
    repository: "EvolvingLMMs-Lab/ParaVT",
    commit: "cf55249",
    files: &[
        Pinned::new(DRIVER, "b85f7f02cb5ef29f2564ca7df8f144ba47a1da09b81ddc9ef6af65b6bfac7a08"),
        Pinned::new(UTILS, "c24d7442cea3b1826c441c7a09dba34076a6ce0215c8178ae9b107a2342948e3"),
        Pinned {
            path: SUBAGENT,
            sha256: "a1adde1f817535bf61c4742a6b21735f7db77a308e7d57fb18e792bee587bf94",
            optional: true,
        },
        Pinned {
            path: WORKFLOW,
            sha256: "e7c1a708631e6becf365611e3cb69016b80971a5a16bfb0688513019cb2ec016",
            optional: true,
        },
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

/// Slots of a question template.
const QUESTION_SLOTS: [&str; 5] = ["question", "caption", "options", "instruction", "subtitles_block"];

/// The driver's tool: the native protocol's, which was written for the same reader of calls, in the modes whose
/// names begin with `agentic_`.
pub fn tool() -> Tool {
    Tool { modes: [GENERAL, MINIMAL].map(PromptMode::named).into(), ..native::protocol().tool }
}

/// The protocol of the files' texts.
fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let driver = Module::parse(DRIVER, files.required(DRIVER)?)?;
    let utils = Module::parse(UTILS, files.required(UTILS)?)?;
    let own = native::protocol();
    let (subagent_prompt, subagent_response) = match (files.get(SUBAGENT), files.get(WORKFLOW)) {
        (Some(subagent), Some(workflow)) => subagent_texts(subagent, workflow)?,
        _ => (own.subagent_prompt, own.subagent_response),
    };
    let eval = driver.function("eval_one")?;
    let load = utils.function("load_samples")?;
    let (questions, option_line) = question_templates(&load)?;
    let (direct, other) = load.conditional_texts("mcq_instr", "prompt_mode", DIRECT)?;
    let (video_path, unless) = eval.template_unless(&["question", "video_name"])?;
    Ok(Protocol {
        name: RELEASE.name.to_owned(),
        source,
        system: system_texts(&driver)?,
        default_mode: PromptMode::named(GENERAL),
        tool: tool(),
        instructions: Instructions {
            modes: IndexMap::from([(PromptMode::named(DIRECT), direct)]),
            other,
            neutral: own.instructions.neutral,
            neutral_agentic: own.instructions.neutral_agentic,
            ..Instructions::default()
        },
        questions,
        option_line,
        option_separator: own.option_separator,
        option_forms: BTreeMap::new(),
        subtitles_block: load.template_if("sub_prefix", "sub_text", "subtitles")?,
        duration_note: own.duration_note,
        video_path: Some(VideoPathSuffix { template: video_path, unless }),
        force: force_texts(&eval)?,
        crop_response: eval.template_with(&["n", "start:.1f", "end:.1f"])?,
        crop_error: eval.template_with(&["start:.1f", "end:.1f"])?,
        call_error: own.call_error,
        subagent_response,
        subagent_prompt,
        frame_label: None,
        chat_tools: None,
        reference: None,
        agent: None,
        max_tokens: driver.integer("DEFAULT_MAX_TOKENS")?,
    })
}

/// What a sub-agent is asked, and how the main model gets its answer.
fn subagent_texts(subagent: &str, workflow: &str) -> Result<(Template, Template), ImportError> {
    let subagent = Module::parse(SUBAGENT, subagent)?.class("CroppedVideoSubagent")?;
    let prompt = subagent
        .function("build_prompt")?
        .assigned_template_with("prompt", &["start_clock", "end_clock", "duration:.1f"])?;
    let workflow = Module::parse(WORKFLOW, workflow)?.class("HierarchicalAgentWorkflow")?;
    let response = workflow.function("arun_episode")?.template_with(&["summary"])?;
    Ok((prompt, response))
}

fn system_texts(driver: &Module<'_>) -> Result<IndexMap<PromptMode, String>, ImportError> {
    let schema = driver.dumped_json("TOOL_SCHEMA")?;
    let mut texts = IndexMap::new();
    for (mode, constant, formatted) in [
        (DIRECT, "DIRECT_SYSTEM", false),
        ("reasoning", "REASONING_SYSTEM", false),
        (GENERAL, "GENERAL_AGENTIC_SYSTEM", true),
        (MINIMAL, "MINIMAL_AGENTIC_SYSTEM", true),
    ] {
        let text = driver.text(constant)?;
        let text = if formatted { shapes::format(&text, "tool_schema", &schema) } else { text };
        texts.insert(PromptMode::named(mode), text);
    }
    Ok(texts)
}

/// The question template of every data set, and the option line that all of them share.
fn question_templates(load: &Module<'_>) -> Result<(BTreeMap<String, Template>, Template), ImportError> {
    let mut questions = BTreeMap::new();
    let mut line: Option<Template> = None;
    for dataset in DATASETS {
        let branch = load.branch_for("dataset_name", dataset)?;
        let question = branch.assigned_template("question", &QUESTION_SLOTS)?;
        if question.has_slot("options") {
            let found = branch.joined_lines(&["letter", "option"])?;
            if *line.get_or_insert_with(|| found.clone()) != found {
                return Err(load.shape(format!("the same option line for {dataset} as for the others")));
            }
        }
        questions.insert(dataset.to_owned(), question);
    }
    // Upstream asks open-ended questions as choices; `strict` asks them in the suite's own words.
    questions.extend(native::protocol().questions.remove_entry("open"));
    Ok((questions, line.ok_or_else(|| load.shape("an option line with a letter".to_owned()))?))
}

fn force_texts(eval: &Module<'_>) -> Result<BTreeMap<String, Force>, ImportError> {
    let (choice, grounding) = eval.branches_on("is_mcq", "force")?;
    let force = |branch: &Module<'_>| -> Result<Force, ImportError> {
        Ok(Force { text: branch.text("force")?, max_tokens: branch.integer("force_max")? })
    };
    Ok(BTreeMap::from([
        ("choice".to_owned(), force(&choice)?),
        ("grounding".to_owned(), force(&grounding)?),
        // Upstream treats open-ended questions as choices; `strict` asks them in its own words.
        ("open".to_owned(), native::protocol().force["open"].clone()),
    ]))
}
