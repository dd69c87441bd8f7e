//! Qwen's own evaluations: that of Qwen3-VL on Video-MME (QwenLM/Qwen3-VL 9658872, `evaluation/VideoMME`), and the settings
//! of the models' cards in its words. One turn, choice questions.

use std::collections::{BTreeMap, BTreeSet};

use paravt_python::{split, strip};
use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Encoding, Fidelity, FramePolicy, Harness, Protocol, Sampling, SizeRule, Source, Template,
};
use paravt_suite::record::Score;
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_upstream::import::parts::{Parts, protocol, slot, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};

use crate::agent::{Agent, choice};
use crate::one_turn::{AllFrames, OneTurn, TOKEN, one_turn, video};

/// The rules of Qwen's evaluation, and its texts under four sets of settings.
pub(crate) const AGENT: Agent = Agent {
    reference: Some(Reference {
        name: "qwen3-vl",
        syntax: &OneTurn,
        scorer: &QwenVl,
        agent_loop: Some(&AllFrames),
    }),
    releases: &[&RELEASE, &QWEN3_VL_CARD, &QWEN35_CARD, &QWEN25_VL_CARD],
};

const DATA: &str = "evaluation/VideoMME/dataset_utils.py";

const FILES: &[Pinned] = &[
    Pinned::new(DATA, "e7e3be7b67098779a9793acbd3ecf79f71a58df5a3eb5e23dc65970716f25940"),
    Pinned::new(
        "evaluation/VideoMME/run_videomme.py",
        "7c19143966e510191b2668b46f4103d4bf4b894dc9e0902c64ee403a68fed13e",
    ),
    Pinned::new(
        "evaluation/VideoMME/eval_utils.py",
        "c0130311c63a3fb8363cbe5d46202abb66bf8d91c1f488e0160b795ca1f94079",
    ),
    Pinned::new(
        "evaluation/VideoMME/infer_instruct.sh",
        "640964e73547fed15aa8b6795990b3e0e7b0845adafc54e9fbb3c96f55c97849",
    ),
];

const TEXTS: &[Text] = &[
    Text::python("subtitles", DATA, 4385..4429),
    Text::raw("instruction", DATA, 4489..4602),
    Text::raw("letters", DATA, 4602..4618),
    Text::raw("instruction_end", DATA, 4618..4641),
    Text::python("question", DATA, 4657..4717).slots(&["question", "options"]),
];

/// Pixels of one visual token of Qwen3-VL.
const TOKEN_OF_3: u64 = 32 * 32;

/// The evaluation as `infer_instruct.sh` starts it: 512 frames, in at most 18,816 tokens before the processor makes
/// them smaller once more.
pub static RELEASE: Release = release("qwen3-vl", |texts, source| {
    let size = SizeRule::Qwen { side: 32, min: 3584, max: Some(401_408), total: Some(19_267_584) };
    let frames = FramePolicy { size, ..video((Some(4), 512), (0, None, None)) };
    let variants = BTreeSet::from(["videomme_wsub".to_owned()]);
    let harness = Harness { variants, ..Harness::default() };
    let agent = AgentLoop { harness, ..one_turn("{frames}{question}", frames, instruct()) };
    make("qwen3-vl", agent, 32_768, texts, source)
});

/// The settings of Qwen3-VL's report (arXiv 2511.21631, 5.9): up to 2,048 frames of at most 640 tokens, in at most 224 x
/// 1,024. On Charades-STA and MMVU it has others.
static QWEN3_VL_CARD: Release =
    release("qwen3-vl-card", |texts, source| make("qwen3-vl-card", long(instruct()), 16_384, texts, source));

/// The same frames, and tokens drawn as the cards of Qwen3.5 have it for videos. Of frames these say the 224 x 1,024
/// tokens alone (`longest_edge`).
static QWEN35_CARD: Release = release("qwen3.5-card", |texts, source| {
    make("qwen3.5-card", long(drawn(1.0, 0.95, 1.5)), 16_384, texts, source)
});

/// The settings of Qwen2.5-VL's report (arXiv 2502.13923, 3.3.4): up to 768 frames in at most 24,576 tokens; two frames a
/// second, and at least 48 tokens a frame, as a maintainer gives them for LVBench (QwenLM/Qwen3-VL, issue 715).
static QWEN25_VL_CARD: Release = release("qwen2.5-vl-card", |texts, source| {
    let total = u32::try_from(24_576 * TOKEN).ok();
    let frames = video((Some(4), 768), (48 * TOKEN, None, total));
    let frames = FramePolicy { keep_size: true, ..frames };
    let agent = one_turn("{frames}{question}", frames, Sampling::default());
    make("qwen2.5-vl-card", AgentLoop { fidelity: Fidelity::WordingOurs, ..agent }, 1024, texts, source)
});

/// Settings under which the texts are asked.
const fn release(name: &'static str, make: fn(&Texts, Source) -> Result<Protocol, ImportError>) -> Release {
    Release {
        name,
        repository: "QwenLM/Qwen3-VL",
        commit: "96588727e44c78b25ba03ea03b8e12f7e64fd0da",
        files: FILES,
        texts: TEXTS,
        make,
    }
}

/// One turn over up to 2,048 frames.
fn long(sampling: Sampling) -> AgentLoop {
    let total = u32::try_from(224 * 1024 * TOKEN_OF_3).ok();
    let frames = FramePolicy {
        size: SizeRule::Qwen { side: 32, min: 4 * TOKEN_OF_3, max: Some(640 * TOKEN_OF_3), total },
        // As levels, a request has a gigabyte.
        encoding: Encoding::Jpeg(95),
        keep_size: true,
        ..video((Some(4), 2048), (0, None, None))
    };
    let agent = one_turn("{frames}{question}", frames, sampling);
    AgentLoop { fidelity: Fidelity::WordingOurs, ..agent }
}

/// How tokens of an Instruct model are drawn.
fn instruct() -> Sampling {
    drawn(0.7, 0.8, 1.5)
}

fn drawn(temperature: f64, top_p: f64, presence_penalty: f64) -> Sampling {
    Sampling {
        temperature,
        params: SamplingParams {
            top_p: Some(top_p),
            top_k: Some(20),
            repetition_penalty: Some(1.0),
            presence_penalty: Some(presence_penalty),
            ..SamplingParams::default()
        },
    }
}

/// Video-MME in the release's words, which name its four letters; other choice questions without them.
fn make(
    name: &'static str,
    agent: AgentLoop,
    max_tokens: u32,
    texts: &Texts,
    source: Source,
) -> Result<Protocol, ImportError> {
    let question = |letters: String| -> Result<Template, ImportError> {
        let instruction = texts.text("instruction")? + &letters + &texts.text("instruction_end")?;
        let mut pieces = vec![slot("subtitles_block"), text(instruction)];
        pieces.extend(texts.template("question")?.0);
        Ok(Template(pieces))
    };
    let mut questions = BTreeMap::new();
    for split in ["videomme", "videomme_wsub"] {
        questions.insert(split.to_owned(), question(texts.text("letters")?)?);
    }
    if name != RELEASE.name {
        questions.insert("choice".to_owned(), question(String::new())?);
    }
    let subtitles = [Piece::Text(texts.text("subtitles")?), slot("subtitles"), text("\n")];
    let parts =
        Parts { name, source, system: String::new(), tool: ("none", 1), questions, agent, max_tokens };
    Ok(Protocol {
        reference: Some(RELEASE.name.to_owned()),
        subtitles_block: Template(subtitles.into()),
        ..protocol(parts)
    })
}

struct QwenVl;

impl Scorer for QwenVl {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        choice(gold, letter(answer(text), letters), |found, gold| found == gold)
    }

    fn score_sample(&self, sample: &Sample, text: &str) -> Score {
        let (letters, reply) = (&sample.question.letters, answer(text));
        let found = letter(reply, letters).or_else(|| of_its_text(reply, sample));
        choice(&sample.gold, found, |found, gold| found == gold)
    }
}

/// What stands behind the last thought.
pub fn answer(reply: &str) -> &str {
    strip(reply.rsplit("</think>").next().unwrap_or(reply))
}

/// The one letter that is a word of the answer, or `Z` for a refusal (`can_infer_option`). An `A` among more than three
/// words may be an article and counts for none.
pub fn letter(answer: &str, letters: &str) -> Option<String> {
    const REFUSALS: [&str; 4] = [
        "Sorry, I can't help with images of people yet.",
        "I can't process this file.",
        "I'm sorry, but without the image provided",
        "Cannot determine the answer",
    ];
    if answer.contains("Failed to obtain answer via API") {
        return None;
    }
    if REFUSALS.iter().any(|refusal| answer.contains(refusal)) {
        return Some("Z".to_owned());
    }
    let plain = answer.replace(['.', '(', ')', '[', ']', ',', ':', ';', '!', '*', '#', '{', '}'], " ");
    let words: Vec<&str> = split(&plain).collect();
    let is_word = |letter: &char| words.iter().any(|word| word.chars().eq([*letter]));
    let found: Vec<char> = letters.chars().filter(is_word).collect();
    match found[..] {
        [_] if is_word(&'A') && words.len() > 3 => None,
        [letter] => Some(letter.to_string()),
        [] if is_word(&'Z') => Some("Z".to_owned()),
        _ => None,
    }
}

/// The one option whose text is part of the answer (`can_infer_text`). Replies that neither rule can read are scored by a
/// judge model in the release and as unparsed here.
fn of_its_text(answer: &str, sample: &Sample) -> Option<String> {
    let answer = answer.to_lowercase();
    let letters = sample.question.letters.chars();
    let named = letters.filter(|letter| {
        let option = sample.question.option_text(&letter.to_string());
        option.is_some_and(|option| answer.contains(&option.to_lowercase()))
    });
    let found: Vec<char> = named.collect();
    match found[..] {
        [letter] => Some(letter.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_release() {
        let found = |text| letter(answer(text), "ABCD");
        for (text, wanted) in [
            ("B", Some("B")),
            ("<think>A or C</think> **D.** ", Some("D")),
            ("The answer is (C)", Some("C")),
            ("A", Some("A")),
            ("A red car", Some("A")),
            ("It is A red car", None),
            ("B or C", None),
            ("Z", Some("Z")),
            ("Cannot determine the answer", Some("Z")),
            ("B: Failed to obtain answer via API", None),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(found(text).as_deref(), wanted, "{text}");
        }
    }
}
