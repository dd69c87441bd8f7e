//! PyVision-Video (agents-x-project/PyVision-RL 62ca599): Python that the model writes over the video.
//!
//! Prompt, results and errors are the trainer's; its authors' evaluation is not released. Turns, images and tokens are
//! those of the paper's evaluation as others report it: 30 turns, 32 thousand tokens, temperature 0.01. Options are in
//! our words. A chat API ends the model's turn before a result, which the trainer's token stream does not.

use paravt_python::strip;
use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CodeLoop, CodeRules, CodeTexts, FailedCalls, Fidelity, Protocol, Sampling, Scored, Source,
    Template,
};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::reference::{Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;

use super::{MAX_ANSWER_CHARS, judged_answer, rule_score};
use crate::import::parts::{Parts, protocol, questions, slot, text};
use crate::import::{ImportError, Pinned, Release, Text, Texts};

/// PyVision-Video's rules; its episodes are those of [`Tool`](crate::pyvision::Tool).
pub const REFERENCE: Reference =
    Reference { name: "pyvision", syntax: &PyVision, scorer: &PyVision, agent_loop: None };

const TEMPLATES: &str = "verl_agents/verl/utils/dataset/rl_system_prompt_template.json";
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
    texts: &[
        Text::python("opening", TEMPLATES, 19318..22135),
        Text::python("video", DATA, 5635..5907).slots(&["width", "height", "frames", "fps"]),
        Text::python("open", TOOL, 14844..14876),
        Text::python("printed", TOOL, 14936..14970).slots(&["stdout"]),
        Text::python("heading", TOOL, 15030..15047),
        Text::python("close", TOOL, 15177..15213),
        Text::python("figure.open", TOOL, 13897..13929).slots(&["index"]),
        Text::python("figure.close", TOOL, 14058..14091).slots(&["index"]),
        Text::python("raised", TOOL, 16113..16171).slots(&["reason"]),
        Text::raw("neither.word", TOOL, 12305..12312),
        Text::python("neither", TOOL, 12153..12234),
        Text::python("forbidden", TOOL, 9990..10025),
        Text::python("late", TOOL, 5022..5041),
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
pub(crate) fn agent(rules: CodeRules) -> AgentLoop {
    let code = CodeLoop { turns: 30, failed_calls: FailedCalls::Stop, rules };
    AgentLoop {
        opening: Template::parse("{video_info}\n{question}"),
        scored: Scored::Conversation,
        sampling: Sampling {
            temperature: 0.01,
            params: SamplingParams { stop: vec!["</code>".to_owned()], ..SamplingParams::default() },
        },
        ..AgentLoop::new(Fidelity::Variant, code)
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

/// The template of the first prompt, with our name of the question.
fn prompt(texts: &Texts) -> Result<Template, ImportError> {
    texts.format("opening", &texts.text("opening")?.replace("{query}", "{question}"))
}

/// The texts of results: what a call printed, with and without figures, and the errors. A message is the same whether the
/// tool writes it at once or, with figures, in parts.
fn code_texts(texts: &Texts) -> Result<CodeTexts, ImportError> {
    let (open, close) = (texts.text("open")?, texts.text("close")?);
    let mut result = vec![text(&open)];
    result.extend(texts.template("printed")?.0);
    result.extend([slot("figures"), text(&close)]);
    let figure =
        [texts.template("figure.open")?.0, vec![slot("figure")], texts.template("figure.close")?.0].concat();
    Ok(CodeTexts {
        video: texts.template("video")?,
        result: merged(result),
        heading: texts.text("heading")?,
        figure: Template(figure),
        error: Template(vec![text(open), slot("reason"), text(close)]),
        raised: texts.template("raised")?,
        neither: texts.text("neither.word")? + &texts.text("neither")?,
        forbidden: texts.text("forbidden")?,
        late: texts.text("late")?,
    })
}

/// Neighbouring texts as one.
fn merged(found: Vec<Piece>) -> Template {
    let mut pieces: Vec<Piece> = Vec::new();
    for piece in found {
        match (pieces.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => pieces.push(piece),
        }
    }
    Template(pieces)
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    Ok(Protocol {
        reference: Some(REFERENCE.name.to_owned()),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: String::new(),
            tool: ("python", 1),
            questions: questions([("choice", "{question}\nOptions:\n{options}"), ("open", "{question}")]),
            agent: AgentLoop { opening: prompt(texts)?, ..agent(rules(code_texts(texts)?)) },
            max_tokens: 10_240,
        })
    })
}
