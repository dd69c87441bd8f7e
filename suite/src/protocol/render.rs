//! The texts that a model sees for one sample: a pure function of protocol, mode, switches and sample.

mod agent;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::template::TemplateError;
use super::{CallError, Force, PromptMode, Protocol, Template, UnknownMode};
use crate::message::{Image, Part};
use crate::profile::Switches;
use crate::sample::{Question, QuestionKind, Sample};
use crate::settings::ToolDialect;
use crate::text::fixed1;

pub(crate) use agent::with_last_turn;
pub use agent::{
    clip_response, code_opening, code_opening_text, frames_response, later_question, opening, system_of_try,
};

/// Errors of rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A template cannot be filled.
    #[error("{what}: {source}")]
    Slot { what: String, source: TemplateError },
    /// The protocol does not have the mode.
    #[error(transparent)]
    NoMode(#[from] UnknownMode),
    /// The protocol has no such text.
    #[error("protocol {protocol} has no {what}")]
    NoText { protocol: String, what: String },
}

/// The protocol's text for a kind of question.
fn of_kind<T>(texts: &BTreeMap<String, T>, kind: QuestionKind) -> Option<&T> {
    kind.text_keys().iter().find_map(|key| texts.get(*key))
}

fn no_text(protocol: &Protocol, what: String) -> RenderError {
    RenderError::NoText { protocol: protocol.name.clone(), what }
}

fn slot(what: &str) -> impl Fn(TemplateError) -> RenderError + '_ {
    move |source| RenderError::Slot { what: what.to_owned(), source }
}

/// The system text of a mode where calls travel by a dialect: under `native` the chat API says how a call
/// is written, and the text does not.
pub(crate) fn dialect_system_text<'a>(
    protocol: &'a Protocol,
    mode: &PromptMode,
    dialect: ToolDialect,
) -> Result<&'a str, RenderError> {
    let chat = protocol.chat_tools.as_ref().filter(|_| dialect == ToolDialect::Native);
    match chat.and_then(|chat| chat.system.get(mode)) {
        Some(text) => Ok(text),
        None => Ok(protocol.system_text(mode)?),
    }
}

/// The user text of a sample. `video_name` is the file's name; `duration` is in seconds, where known.
///
/// # Errors
/// The protocol has no template for the sample.
pub fn user_text(
    protocol: &Protocol,
    sample: &Sample,
    mode: &PromptMode,
    switches: &Switches,
    video_name: &str,
    duration: Option<f64>,
) -> Result<String, RenderError> {
    let text = question_text(protocol, &protocol.questions, sample, mode, switches, duration)?;
    match &protocol.video_path {
        Some(suffix) if protocol.offers_tool(mode) && !text.to_lowercase().contains(&suffix.unless) => suffix
            .template
            .render(&[("question", text.as_str()), ("video_name", video_name)])
            .map_err(slot("video path")),
        _ => Ok(text),
    }
}

/// The question of a sample in one of the texts for it.
fn question_text(
    protocol: &Protocol,
    texts: &BTreeMap<String, Template>,
    sample: &Sample,
    mode: &PromptMode,
    switches: &Switches,
    duration: Option<f64>,
) -> Result<String, RenderError> {
    let kind = sample.gold.kind();
    let template = texts
        .get(&sample.task)
        .filter(|_| !sample.gold.is_excluded_from_headline())
        .or_else(|| of_kind(texts, kind))
        .ok_or_else(|| {
            no_text(protocol, format!("question text for {} ({})", sample.task, kind.text_keys()[0]))
        })?;
    let question = &sample.question;
    let form = protocol.option_forms.get(&sample.task);
    let (line, separator) = match form {
        Some(form) => (&form.line, &form.separator),
        None => (&protocol.option_line, &protocol.option_separator),
    };
    let stem = match form.and_then(|form| form.line_break.as_deref()) {
        Some(line_break) => Cow::Owned(question.stem.replace('\n', line_break)),
        None => Cow::Borrowed(question.stem.as_str()),
    };
    let mut options = Vec::new();
    for (letter, option) in option_letters(question).zip(&question.options) {
        let letter = letter.to_string();
        let values = [("letter", letter.as_str()), ("option", option.as_str())];
        options.push(line.render(&values).map_err(slot("option line"))?);
    }
    let subtitles = question.subtitles.as_deref().unwrap_or_default();
    let block = if subtitles.is_empty() {
        String::new()
    } else {
        protocol.subtitles_block.render(&[("subtitles", subtitles)]).map_err(slot("subtitles"))?
    };
    let duration = match (&protocol.duration_note, duration) {
        (Some(note), Some(seconds)) => {
            note.render(&[("seconds", fixed1(seconds).as_str())]).map_err(slot("duration note"))?
        }
        _ => String::new(),
    };
    template
        .render(&[
            ("question", &stem),
            ("caption", &stem),
            ("options", options.join(separator).as_str()),
            ("instruction", instruction(protocol, mode, switches)),
            ("subtitles_block", block.as_str()),
            ("duration_note", duration.as_str()),
        ])
        .map_err(slot("question"))
}

/// The letters that options are shown with: the row's own, which may leave one out (MMVU).
fn option_letters(question: &Question) -> Box<dyn Iterator<Item = char> + '_> {
    if question.letters.chars().count() == question.options.len() {
        Box::new(question.letters.chars())
    } else {
        Box::new('A'..)
    }
}

/// See quirk `inverted_instruction`; without it there may be a neutral text for the modes with and without the
/// tool, which does not stand before the text of a mode in [`Instructions::always`](super::Instructions::always).
fn instruction<'a>(protocol: &'a Protocol, mode: &PromptMode, switches: &Switches) -> &'a str {
    let texts = &protocol.instructions;
    let neutral = if protocol.has_tool(mode) { &texts.neutral_agentic } else { &texts.neutral };
    match neutral {
        Some(text) if !switches.inverted_instruction && !texts.always.contains(mode) => text,
        _ => texts.modes.get(mode).unwrap_or(&texts.other),
    }
}

/// The forced final answer of a question kind.
pub fn force(protocol: &Protocol, kind: QuestionKind) -> Result<&Force, RenderError> {
    let missing = || no_text(protocol, format!("forced answer for {} questions", kind.text_keys()[0]));
    of_kind(&protocol.force, kind).ok_or_else(missing)
}

/// The text beside `n` frames of a crop.
pub fn crop_response(protocol: &Protocol, n: usize, start: f64, end: f64) -> Result<String, RenderError> {
    let (n, start, end) = (n.to_string(), fixed1(start), fixed1(end));
    protocol
        .crop_response
        .render(&[("n", n.as_str()), ("start", start.as_str()), ("end", end.as_str())])
        .map_err(slot("crop response"))
}

/// The response to a crop that failed.
pub fn crop_error(protocol: &Protocol, start: f64, end: f64, reason: &str) -> Result<String, RenderError> {
    crop_error_by(&protocol.crop_error, start, end, reason)
}

/// The same by another text than the protocol's own.
pub fn crop_error_by(template: &Template, start: f64, end: f64, reason: &str) -> Result<String, RenderError> {
    let (start, end) = (fixed1(start), fixed1(end));
    let values = [("start", start.as_str()), ("end", end.as_str()), ("reason", reason)];
    template.render(&values).map_err(slot("crop error"))
}

/// Why a call cannot be run, in the protocol's words.
pub fn call_reason(protocol: &Protocol, error: &CallError) -> Result<String, RenderError> {
    let tool = &protocol.tool;
    match error {
        CallError::NotAnObject { found } => tool.not_an_object.render(&[("found", found)]),
        CallError::TooLarge => tool.too_large.render(&[]),
        CallError::Unreadable { reason } => Ok(reason.clone()),
    }
    .map_err(slot("reason of a call that cannot be run"))
}

/// The response to a call that could not be understood.
pub fn call_error(protocol: &Protocol, reason: &str) -> Result<String, RenderError> {
    protocol.call_error.render(&[("reason", reason)]).map_err(slot("call error"))
}

/// Frames as parts of a message, each after its label where the protocol has labels.
pub fn frame_parts(protocol: &Protocol, images: &[Arc<Image>]) -> Result<Vec<Part>, RenderError> {
    labelled(protocol, images.iter().map(|image| (image, image.origin.map(|origin| origin.time))))
}

/// The same with the times that are shown, in seconds; a frame without one has no label.
pub fn labelled<'a>(
    protocol: &Protocol,
    frames: impl Iterator<Item = (&'a Arc<Image>, Option<f64>)>,
) -> Result<Vec<Part>, RenderError> {
    let between = protocol.agent.as_ref().map_or("", |agent_loop| agent_loop.label_separator.as_str());
    let mut parts = Vec::new();
    for (index, (image, time)) in frames.enumerate() {
        if let (Some(label), Some(time)) = (&protocol.frame_label, time) {
            let frame = image.origin.map_or(index, |origin| origin.index);
            let label = frame_label(label, index, frame, time)?;
            parts.push(Part::Text(if index > 0 { format!("{between}{label}") } else { label }));
        }
        parts.push(Part::Image(Arc::clone(image)));
    }
    Ok(parts)
}

fn frame_label(label: &Template, index: usize, frame: usize, time: f64) -> Result<String, RenderError> {
    let (tenths, hundredths) = (fixed1(time), format!("{time:.2}"));
    let (hours, minutes) = (hours_clock(time), clock(time));
    let (index, frame) = (index.to_string(), frame.to_string());
    let values = [
        ("time", tenths.as_str()),
        ("time2", hundredths.as_str()),
        ("hms", hours.as_str()),
        ("mmss", minutes.as_str()),
        ("index", index.as_str()),
        ("frame", frame.as_str()),
    ];
    label.render(&values).map_err(slot("frame label"))
}

/// Seconds as `HH:MM:SS`, rounded down.
fn hours_clock(seconds: f64) -> String {
    let whole = |value: f64| value.trunc() as i64;
    let rest = seconds.rem_euclid(3600.0);
    format!(
        "{:02}:{:02}:{:02}",
        whole(seconds.div_euclid(3600.0)),
        whole(rest / 60.0),
        whole(seconds.rem_euclid(60.0))
    )
}

/// Seconds as `mm:ss`, both rounded down: what Python's `int(s // 60)` and `int(s % 60)` make of them.
fn clock(seconds: f64) -> String {
    let rest = seconds.rem_euclid(60.0);
    let minutes = ((seconds - rest) / 60.0).round() as i64;
    format!("{minutes:02}:{:02}", rest as i64)
}

/// Prompt of a sub-agent about the frames of its window.
pub fn subagent_prompt(
    protocol: &Protocol,
    sample: &Sample,
    start: f64,
    end: f64,
    n: usize,
) -> Result<String, RenderError> {
    let clocks = (clock(start), clock(end), fixed1(end - start));
    let (n, start, end) = (n.to_string(), fixed1(start), fixed1(end));
    let values = [
        ("question", sample.question.stem.as_str()),
        ("n", n.as_str()),
        ("start", start.as_str()),
        ("end", end.as_str()),
        ("start_clock", clocks.0.as_str()),
        ("end_clock", clocks.1.as_str()),
        ("duration", clocks.2.as_str()),
    ];
    protocol.subagent_prompt.render(&values).map_err(slot("sub-agent prompt"))
}

/// The response that carries a sub-agent's summary.
pub fn subagent_response(
    protocol: &Protocol,
    start: f64,
    end: f64,
    summary: &str,
) -> Result<String, RenderError> {
    let (start, end) = (fixed1(start), fixed1(end));
    let values = [("start", start.as_str()), ("end", end.as_str()), ("summary", summary)];
    protocol.subagent_response.render(&values).map_err(slot("sub-agent response"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::sample;
    use crate::profile::Profile;
    use crate::protocol::native;

    #[test]
    fn clocks_are_rounded_down_as_python_rounds() {
        for (seconds, shown) in [
            (0.0, "00:00"),
            (-0.0, "00:00"),
            (59.99, "00:59"),
            (60.0, "01:00"),
            (3725.5, "62:05"),
            (-5.0, "-1:55"),
            (-60.0, "-1:00"),
            (1e6, "16666:40"),
        ] {
            assert_eq!(clock(seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn options_are_shown_with_the_rows_own_letters() {
        let shown = |letters: &str, options: &[&str]| {
            let mut sample = sample("u");
            sample.question.letters = letters.into();
            sample.question.options = options.iter().map(|&option| option.into()).collect();
            let switches = Profile::Release.switches();
            user_text(&native::protocol(), &sample, &PromptMode::named("direct"), &switches, "v.mp4", None)
                .unwrap()
        };
        assert!(shown("ABE", &["x", "y", "z"]).contains("A. x\nB. y\nE. z"));
        assert!(shown("", &["x", "y"]).contains("A. x\nB. y"), "a row without letters of its own");
    }
}
