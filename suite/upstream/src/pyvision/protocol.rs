//! PyVision (agents-x-project/PyVision-RL 62ca599): Python that the model writes over its video or its image.
//!
//! Prompt, results and errors are the trainer's; its authors' evaluation is not released. Turns, images and tokens are
//! those of the paper's evaluation as others report it: 30 turns, 32 thousand tokens, temperature 0.01. Options are in
//! our words. A chat API ends the model's turn before a result, which the trainer's token stream does not.

use paravt_python::strip;
use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CodeLoop, CodeRules, CodeTexts, FailedCalls, Fidelity, ImageClues, Protocol, Sampling, Scored,
    Source, Template,
};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::reference::{Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;

use super::observation::{IMAGE as IMAGE_TAG, TURN};
use super::{MAX_ANSWER_CHARS, judged_answer, rule_score};
use crate::import::parts::{Parts, protocol, questions, slot, text};
use crate::import::{ImportError, Pinned, Release, Text, Texts};

/// PyVision's rules; its episodes are those of [`Tool`](crate::pyvision::Tool).
pub const REFERENCE: Reference =
    Reference { name: "pyvision", syntax: &PyVision, scorer: &PyVision, agent_loop: None };

const TEMPLATES: &str = "verl_agents/verl/utils/dataset/rl_system_prompt_template.json";
const DATA: &str = "verl_agents/verl/utils/dataset/rl_dataset_wo_mm_hint.py";
const IMAGE_DATA: &str = "verl_agents/verl/utils/dataset/rl_dataset.py";
const TOOL: &str =
    "verl_agents/verl/workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py";
const IMAGE_TOOL: &str =
    "verl_agents/verl/workers/agent/envs/agents_x/safe_persis_python_exe_tool_w_image_hint.py";
const UNSEEN_TOOL: &str =
    "verl_agents/verl/workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_image_hint.py";

const REPOSITORY: &str = "agents-x-project/PyVision-RL";
const COMMIT: &str = "62ca599d05ba81854afa39b435780785bcdf1b1a";
const TEMPLATES_HASH: &str = "528327ed2221c355af6c18490e9d72e9f9a42a56ea408a7e5e10f473e8bb2413";
const DATA_HASH: &str = "00cfa98fb4b2dc2d2f25415bbdeea6826165985abb0dda9cfe12c0cef041a9d1";
/// The loop, and both verifiers.
const LOOP: Pinned = Pinned::new(
    "verl_agents/verl/workers/agent/parallel_env.py",
    "e2d51826a331e666f4afc8d4a67a17c2fe4e1b0e1ad60df773e36385d7ca8d4f",
);
const JUDGED: Pinned = Pinned::new(
    "verl_agents/verl/utils/reward_score/multi_task_verifier.py",
    "7bf58f912e19df270ba57c1ddf9d2216c54721103bc81b77c68b81142a72a6a3",
);
const MATCHED: Pinned = Pinned::new(
    "verl_agents/verl/utils/reward_score/rule_match_verify.py",
    "a21a1130b20d57baf21217813d19ad4ea054310eae6794d1d0c24a5ebab9a7bd",
);

/// PyVision-Video: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "pyvision-video",
    repository: REPOSITORY,
    commit: COMMIT,
    files: &[
        Pinned::new(TEMPLATES, TEMPLATES_HASH),
        Pinned::new(DATA, DATA_HASH),
        Pinned::new(TOOL, "fd6c8d01d8cce049035f708ea3854cde2ce76769a542884e2dae60ae1c5b91f6"),
        LOOP,
        JUDGED,
        MATCHED,
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
    make: make_video,
};

/// PyVision-Image (`with_mm_hint`): the first message shows the image, and the code has it as `image_clue_0`.
pub static IMAGE: Release = Release {
    name: "pyvision-image",
    repository: REPOSITORY,
    commit: COMMIT,
    files: &[
        Pinned::new(TEMPLATES, TEMPLATES_HASH),
        Pinned::new(IMAGE_DATA, "c432b98bc98618e560462b0292324bf621efd751ffeec072fec081f564cd9913"),
        Pinned::new(
            "verl_agents/verl/utils/dataset/vision_utils.py",
            "2b50704caddc94fc402151ff42679f03ef7e601fe7c5d59835ed3fa8b9cd81cf",
        ),
        Pinned::new(IMAGE_TOOL, "71729c3520aa4a022b12fa04d1cdabf4707317cbedba65b21a97dc71ac8302d3"),
        LOOP,
        JUDGED,
        MATCHED,
    ],
    texts: &[
        Text::python("image", IMAGE_DATA, 3454..3465),
        Text::python("opening", TEMPLATES, 6529..8904),
        Text::python("open", IMAGE_TOOL, 12_553..12_585),
        Text::python("printed", IMAGE_TOOL, 12_645..12_677).slots(&["stdout"]),
        Text::python("alone", IMAGE_TOOL, 13_486..13_637).slots(&["stdout"]),
        Text::python("heading", IMAGE_TOOL, 12_737..12_754),
        Text::python("close", IMAGE_TOOL, 12_884..12_920),
        Text::python("figure.open", IMAGE_TOOL, 11_608..11_640).slots(&["index"]),
        Text::python("figure.close", IMAGE_TOOL, 11_769..11_802).slots(&["index"]),
        Text::python("raised", IMAGE_TOOL, 13_818..13_876).slots(&["reason"]),
        Text::raw("neither.word", IMAGE_TOOL, 10_033..10_040),
        Text::python("neither", IMAGE_TOOL, 9881..9962),
        Text::python("forbidden", IMAGE_TOOL, 7769..7804),
        Text::python("late", IMAGE_TOOL, 4845..4864),
    ],
    make: make_image,
};

/// PyVision-Image without the image in the first message: only the code has it, as `image_hint_0`.
pub static UNSEEN: Release = Release {
    name: "pyvision-image-unseen",
    repository: REPOSITORY,
    commit: COMMIT,
    files: &[
        Pinned::new(TEMPLATES, TEMPLATES_HASH),
        Pinned::new(DATA, DATA_HASH),
        Pinned::new(UNSEEN_TOOL, "99b155474ff7ba40d32c2282b3550db5a149acfee47b20159e9aac6c72cbf1ed"),
        LOOP,
        JUDGED,
        MATCHED,
    ],
    texts: &[
        Text::python("opening", TEMPLATES, 24_467..26_701),
        Text::python("video", DATA, 4048..4195).slots(&["width", "height"]),
        Text::python("open", UNSEEN_TOOL, 13_378..13_410),
        Text::python("printed", UNSEEN_TOOL, 13_470..13_504).slots(&["stdout"]),
        Text::python("alone", UNSEEN_TOOL, 14_313..14_464).slots(&["stdout"]),
        Text::python("heading", UNSEEN_TOOL, 13_564..13_581),
        Text::python("close", UNSEEN_TOOL, 13_711..13_747),
        Text::python("figure.open", UNSEEN_TOOL, 12_431..12_463).slots(&["index"]),
        Text::python("figure.close", UNSEEN_TOOL, 12_592..12_625).slots(&["index"]),
        Text::python("raised", UNSEEN_TOOL, 14_645..14_703).slots(&["reason"]),
        Text::raw("neither.word", UNSEEN_TOOL, 10_837..10_844),
        Text::python("neither", UNSEEN_TOOL, 10_685..10_766),
        Text::python("forbidden", UNSEEN_TOOL, 8527..8562),
        Text::python("late", UNSEEN_TOOL, 4845..4864),
    ],
    make: make_unseen,
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
        clues: None,
        texts,
    }
}

/// The template of the first prompt, with our names of its slots.
fn prompt(texts: &Texts) -> Result<Template, ImportError> {
    let text =
        texts.text("opening")?.replace("{query}", "{question}").replace("{image_info}", "{video_info}");
    texts.format("opening", &text)
}

/// The texts of results: what a call printed, with and without figures, and the errors. A message is the same whether the
/// tool writes it at once or, with figures, in parts; of images it is not, and `printed` is that without figures.
fn code_texts(texts: &Texts, video: Template, printed: Option<Template>) -> Result<CodeTexts, ImportError> {
    let (open, close) = (texts.text("open")?, texts.text("close")?);
    let mut result = vec![text(&open)];
    result.extend(texts.template("printed")?.0);
    result.extend([slot("figures"), text(&close)]);
    let figure =
        [texts.template("figure.open")?.0, vec![slot("figure")], texts.template("figure.close")?.0].concat();
    Ok(CodeTexts {
        video,
        result: merged(result),
        printed,
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

/// The text of a result without figures, which the tool writes with the chat format around it.
fn alone(texts: &Texts) -> Result<Template, ImportError> {
    let mut pieces = texts.template("alone")?.0;
    let last = pieces.len().saturating_sub(1);
    for (place, piece) in pieces.iter_mut().enumerate() {
        let Piece::Text(text) = piece else { continue };
        if place == 0 {
            *text = text.strip_prefix(TURN.0).unwrap_or(text).to_owned();
        }
        if place == last {
            *text = text.strip_suffix(TURN.1).unwrap_or(text).to_owned();
        }
    }
    Ok(Template(pieces))
}

fn make_video(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let found = code_texts(texts, texts.template("video")?, None)?;
    Ok(make(RELEASE.name, source, AgentLoop { opening: prompt(texts)?, ..agent(rules(found)) }))
}

fn make_image(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let found = code_texts(texts, Template::default(), Some(alone(texts)?))?;
    let (variable, shown) = ("image_clue".to_owned(), Some([3136, 2_000_000]));
    let rules = CodeRules { clues: Some(ImageClues { variable, shown }), ..rules(found) };
    let between = texts.text("image")?.replace(IMAGE_TAG, "");
    let opening = [vec![slot("frames"), text(between)], prompt(texts)?.0].concat();
    Ok(make(IMAGE.name, source, AgentLoop { opening: merged(opening), ..agent(rules) }))
}

fn make_unseen(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let found = code_texts(texts, texts.template("video")?, Some(alone(texts)?))?;
    let clues = ImageClues { variable: "image_hint".to_owned(), shown: None };
    let rules = CodeRules { clues: Some(clues), ..rules(found) };
    Ok(make(UNSEEN.name, source, AgentLoop { opening: prompt(texts)?, ..agent(rules) }))
}

fn make(name: &'static str, source: Source, agent: AgentLoop) -> Protocol {
    let texts = [
        // As it is published: its options and their instruction are part of the text.
        ("vstar", "{question}"),
        ("choice", "{question}\nOptions:\n{options}"),
        ("open", "{question}"),
    ];
    let questions =
        questions(texts).into_iter().filter(|(split, _)| split != "vstar" || name != RELEASE.name);
    Protocol {
        reference: Some(REFERENCE.name.to_owned()),
        ..protocol(Parts {
            name,
            source,
            system: String::new(),
            tool: ("python", 1),
            questions: questions.collect(),
            agent,
            max_tokens: 10_240,
        })
    }
}
