//! PyVision-Video (agents-x-project/PyVision-RL 62ca599): Python that the model writes over the video.
//!
//! Prompt, results and errors are the trainer's; its authors' evaluation is not released. Turns, images and tokens are
//! those of the paper's evaluation as others report it: 30 turns, 32 thousand tokens, temperature 0.01. Options are in
//! our words. A chat API ends the model's turn before a result, which the trainer's token stream does not.

use paravt_python::{PyValue, literal_regex, loads, strip};
use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CodeRules, CodeTexts, FailedCalls, Fidelity, Protocol, Sampling, Scored, Source, Template,
};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::reference::{Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use regex::Regex;

use super::{MAX_ANSWER_CHARS, judged_answer, rule_score};
use crate::import::parts::{Parts, format_template, protocol, questions, shape};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};

/// PyVision-Video's rules; its episodes are those of [`Tool`](crate::pyvision::Tool).
pub const REFERENCE: Reference =
    Reference { name: "pyvision", syntax: &PyVision, scorer: &PyVision, agent_loop: None };

const TEMPLATES: &str = "verl_agents/verl/utils/dataset/rl_system_prompt_template.json";
/// Key of the template that the data set with text-only prompts takes.
const TEMPLATE: &str = "vis_tool_with_img_info_video_v4";
const DATA: &str = "verl_agents/verl/utils/dataset/rl_dataset_wo_mm_hint.py";
const TOOL: &str =
    "verl_agents/verl/workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py";

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "pyvision-video",
    repository: "agents-x-project/PyVision-RL",
    commit: "62ca599d05ba81854afa39b435780785bcdf1b1a",
    files: &[
        Pinned::new(TEMPLATES, "528327ed2221c355af6c18490e9d72e9f9a42a56ea408a7e5e10f473e8bb2413"),
        Pinned::new(DATA, "00cfa98fb4b2dc2d2f25415bbdeea6826165985abb0dda9cfe12c0cef041a9d1"),
        Pinned::new(TOOL, "fd6c8d01d8cce049035f708ea3854cde2ce76769a542884e2dae60ae1c5b91f6"),
        Pinned::new(
            "verl_agents/verl/workers/agent/parallel_env.py",
            "e2d51826a331e666f4afc8d4a67a17c2fe4e1b0e1ad60df773e36385d7ca8d4f",
        ),
        Pinned::new(
            "verl_agents/verl/utils/reward_score/multi_task_verifier.py",
            "7bf58f912e19df270ba57c1ddf9d2216c54721103bc81b77c68b81142a72a6a3",
        ),
        Pinned::new(
            "verl_agents/verl/utils/reward_score/rule_match_verify.py",
            "a21a1130b20d57baf21217813d19ad4ea054310eae6794d1d0c24a5ebab9a7bd",
        ),
    ],
    make,
};

struct PyVision;

/// Code is not a window of the video: its tool reads it.
impl ToolSyntax for PyVision {
    fn tags(&self) -> &'static [Tag] {
        &[("<code>", "</code>")]
    }
}

impl Scorer for PyVision {
    /// What the verifier takes for the answer of a whole response, by the rule that the release has beside its judge.
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let unparsed = Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None };
        let Some(answer) = judged_answer(text) else { return unparsed };
        let value = match gold {
            Gold::Choice { answer: letter } => rule_score(answer, letter),
            Gold::Number { answer: number } => rule_score(answer, &number.to_string()),
            Gold::Text { answer: text, .. } => f64::from(u8::from(answer == strip(text))),
            Gold::Interval { .. } => return unparsed,
        };
        let counts = answer.chars().count() < MAX_ANSWER_CHARS;
        Score {
            outcome: Outcome::Scored,
            value: if counts { value } else { 0.0 },
            prediction: Some(answer.to_owned()),
            rule: Some("verifier".to_owned()),
        }
    }
}

/// The loop of the paper's evaluation.
pub(crate) fn agent(code: CodeRules) -> AgentLoop {
    AgentLoop {
        opening: Template::parse("{video_info}\n{question}"),
        failed_calls: FailedCalls::Stop,
        scored: Scored::Conversation,
        code: Some(code),
        sampling: Sampling { temperature: 0.01, stop: vec!["</code>".to_owned()], ..Sampling::default() },
        ..AgentLoop::new(Fidelity::Variant, 30)
    }
}

/// Its limits.
pub(crate) fn rules(texts: CodeTexts) -> CodeRules {
    CodeRules {
        seconds: 30,
        images: 32,
        context_tokens: 32_768,
        prompt_tokens: 0,
        forbid: true,
        verbatim: false,
        texts,
    }
}

/// The template of the first prompt.
fn prompt(files: &Files) -> Result<Template, ImportError> {
    let wanted = || shape(TEMPLATES, TEMPLATE);
    let Ok(PyValue::Dict(templates)) = loads(files.required(TEMPLATES)?) else { return Err(wanted()) };
    let text = templates.into_iter().find_map(|(key, value)| match value {
        PyValue::Str(text) if key == TEMPLATE => Some(text),
        _ => None,
    });
    let template = format_template(TEMPLATES, TEMPLATE, &text.ok_or_else(wanted)?)?;
    Ok(renamed(template, &[("query", "question")]))
}

/// Slots under our names.
fn renamed(mut template: Template, names: &[(&str, &str)]) -> Template {
    for piece in &mut template.0 {
        if let Piece::Slot(slot) = piece
            && let Some((_, ours)) = names.iter().find(|(theirs, _)| theirs == slot)
        {
            *slot = (*ours).to_owned();
        }
    }
    template
}

/// A raw turn of the user without the marks of the chat format.
fn turn(raw: &Template) -> Option<Template> {
    let mut pieces = raw.0.clone();
    if let Some(Piece::Text(first)) = pieces.first_mut() {
        *first = first.strip_prefix("\n<|im_start|>user\n")?.to_owned();
    }
    if let Some(Piece::Text(last)) = pieces.last_mut() {
        *last = last.strip_suffix("<|im_end|>\n<|im_start|>assistant\n")?.to_owned();
    }
    Some(Template(pieces))
}

/// The texts of results: what a call printed, with and without figures, and the errors.
fn texts(files: &Files) -> Result<CodeTexts, ImportError> {
    let text = files.required(TOOL)?;
    let module = Module::parse(TOOL, text)?;
    let execute = module.class("MultiModalPythonTool_wo_Video_Hint")?.function("execute")?;
    let wanted = |what: &str| shape(TOOL, what);
    let turns: Vec<Template> = execute.sums("obs").iter().filter_map(turn).collect();
    let of = |slot: &'static str| turns.iter().filter(move |turn| turn.slots().eq([slot]));
    let plain = of("obs_content").next().ok_or_else(|| wanted("the result without figures"))?;
    let (result, heading, figure) =
        with_figures(&execute).ok_or_else(|| wanted("the result with figures"))?;
    let filled = |template: &Template, name: &str| template.render(&[(name, "1"), ("figures", "")]).ok();
    if filled(plain, "obs_content") != filled(&result, "stdout") {
        return Err(wanted("one result with and without figures"));
    }
    // All errors are written alike, and one reason has a word in front.
    let errors: Vec<&Template> = of("error_msg").collect();
    let around = |template: &Template| {
        let (before, after) = template.around("error_msg")?;
        Some((before.render(&[]).ok()?, after.render(&[]).ok()?))
    };
    let (word, error) = errors
        .first()
        .zip(
            errors
                .iter()
                .min_by_key(|template| around(template).map_or(usize::MAX, |(before, _)| before.len())),
        )
        .and_then(|(first, plain)| {
            Some((around(first)?.0.strip_prefix(&around(plain)?.0)?.to_owned(), *plain))
        })
        .ok_or_else(|| wanted("the errors"))?;
    let sentence = execute.sums("error_msg").into_iter().next().and_then(|first| first.render(&[]).ok());
    let raised = |pattern: &Regex| pattern.captures(text).map(|found| found[1].to_owned());
    let forbidden = literal_regex(r#"if regex\.search\([^\n]*\n\s*raise RuntimeError\("([^"]+)"\)"#);
    let data = Module::parse(DATA, files.required(DATA)?)?.function("transfer_to_rl_form_video")?;
    let video = data.template_with(&["width", "height", "video_length", "fps:.2f"])?;
    Ok(CodeTexts {
        video: renamed(video, &[("video_length", "frames")]),
        result,
        heading,
        figure,
        error: renamed(error.clone(), &[("error_msg", "reason")]),
        raised: renamed(execute.template_with(&["error"])?, &[("error", "reason")]),
        neither: word + &sentence.ok_or_else(|| wanted("the error of a turn without code"))?,
        forbidden: raised(&forbidden).ok_or_else(|| wanted("the error of forbidden code"))?,
        late: module.class("PersistentWorker")?.function("execute")?.keyed_text("error")?,
    })
}

/// The result with figures, what stands before them, and what stands around each: the tool writes them piece by piece.
fn with_figures(execute: &Module<'_>) -> Option<(Template, String, Template)> {
    let pieces = execute.keyed_templates("text");
    let has = |slot: &'static str| move |piece: &&Template| piece.slots().eq([slot]);
    let mut tags = pieces.iter().filter(has("image_clue_idx"));
    let slot = |name: &str| Piece::Slot(name.to_owned());
    let figure = [tags.next()?.0.clone(), vec![slot("figure")], tags.next()?.0.clone()].concat();
    let figure = renamed(Template(figure), &[("image_clue_idx", "index")]);
    let at = pieces.iter().position(|piece| has("obs_content")(&piece))?;
    let (before, printed) = (pieces.get(at.checked_sub(1)?)?, &pieces[at]);
    let (heading, after) = (pieces.get(at + 1)?, pieces.get(at + 2)?);
    let result = [before.0.clone(), printed.0.clone(), vec![slot("figures")], after.0.clone()].concat();
    let result = merged(renamed(Template(result), &[("obs_content", "stdout")]));
    Some((result, heading.render(&[]).ok()?, figure))
}

/// Neighbouring texts as one.
fn merged(template: Template) -> Template {
    let mut pieces: Vec<Piece> = Vec::new();
    for piece in template.0 {
        match (pieces.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => pieces.push(piece),
        }
    }
    Template(pieces)
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    Ok(Protocol {
        reference: Some(REFERENCE.name.to_owned()),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: String::new(),
            tool: ("python", 1),
            questions: questions([("choice", "{question}\nOptions:\n{options}"), ("open", "{question}")]),
            agent: AgentLoop { opening: prompt(files)?, ..agent(rules(texts(files)?)) },
            max_tokens: 10_240,
        })
    })
}
