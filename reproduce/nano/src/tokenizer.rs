//! A small tokenizer in Qwen's format, learned from the world's own texts.

use paravt_suite::message::{Content, Part};
use tokenizers::decoders::byte_level::ByteLevel as Decoder;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use crate::curriculum::{Curriculum, Skill};
use crate::scene::{KINDS, kind_name};
use crate::{WorldError, protocol};

/// Control tokens, left out of decoded text.
pub(crate) const SPECIAL: [&str; 7] = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
];
/// Tags that are one token and part of the text, as in Qwen3.
const TAGS: [&str; 6] =
    ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];

/// What is one piece before merges, besides the names of the world: the fixed parts of a tool call and
/// the answer's tags, a number, a word with the space before it, a line break, a mark. A name or a
/// number that is one token is found and copied in one step, which a model this small learns far sooner
/// than to copy it in parts.
const PIECES: &str = r#"\n\{"name": "crop_video", "arguments": \{"start_time": |, "end_time": |\}\}\n|</?answer>|\n|\p{N}+| ?[\p{L}_]+| ?[^\s\p{L}\p{N}]|\s+"#;

/// Numbers below are one token each: no video of the world has as many seconds.
const NUMBERS: usize = 200;

/// Upper bound of the vocabulary; the world's texts fill less.
const VOCABULARY: usize = 1500;

/// Trains the tokenizer; always the same one.
pub(crate) fn tokenizer() -> Result<Tokenizer, WorldError> {
    let fail = |error: tokenizers::Error| WorldError::Tokenizer(error.to_string());
    let mut tokenizer = Tokenizer::new(BPE::default());
    let pattern = SplitPattern::Regex(format!("{}|{PIECES}", names().join("|")));
    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(fail)?;
    let bytes = ByteLevel::new(false, true, false);
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![split.into(), bytes.into()])));
    tokenizer.with_decoder(Some(Decoder::default()));
    let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(VOCABULARY)
        .min_frequency(2)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(SPECIAL.iter().map(|token| AddedToken::from(*token, true)).collect())
        .build()
        .into();
    tokenizer.train(&mut trainer, corpus()?.into_iter()).map_err(fail)?;
    tokenizer.add_tokens(TAGS.iter().map(|tag| AddedToken::from(*tag, false))).map_err(fail)?;
    Ok(tokenizer)
}

/// All names, each with the space before it.
fn names() -> Vec<String> {
    (0..KINDS).map(|kind| format!(" {}", kind_name(kind))).collect()
}

/// Everything that is said in the world, cut where tags stand, which are tokens already.
fn corpus() -> Result<Vec<String>, WorldError> {
    let mut texts: Vec<String> = ["system", "user", "assistant"].map(str::to_owned).into();
    // Twice, so that each word is worth its merges.
    for _ in 0..2 {
        texts.extend(names());
        texts.extend((0..NUMBERS).map(|number| number.to_string()));
        texts.extend(protocol_texts());
    }
    let mut curriculum = Curriculum::new(0);
    for number in 0..600 {
        let skill = Skill::ALL[if number < 20 { number % 2 } else { 2 + number % 5 }];
        for message in curriculum.row(skill)?.messages {
            match message.content {
                Content::Text(text) => texts.push(text),
                Content::Parts(parts) => texts.extend(parts.into_iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text),
                    Part::Image(_) | Part::Video(_) | Part::Frames(_) => None,
                })),
            }
        }
    }
    let cut = |text: String| TAGS.iter().fold(text, |text, tag| text.replace(tag, "\0"));
    Ok(texts
        .into_iter()
        .flat_map(|text| cut(text).split('\0').map(str::to_owned).collect::<Vec<_>>())
        .collect())
}

/// All literal texts of the protocol.
fn protocol_texts() -> Vec<String> {
    let protocol = protocol();
    let force = protocol.force.values().map(|force| force.text.clone());
    let mut texts: Vec<String> = protocol.system.into_values().chain(force).collect();
    let templates = protocol.questions.values().chain([
        &protocol.subtitles_block, &protocol.crop_response, &protocol.crop_error, &protocol.call_error,
    ]);
    for template in templates {
        texts.extend(template.0.iter().filter_map(|piece| match piece {
            paravt_suite::protocol::template::Piece::Text(text) => Some(text.clone()),
            paravt_suite::protocol::template::Piece::Slot(_) => None,
        }));
    }
    texts
}
