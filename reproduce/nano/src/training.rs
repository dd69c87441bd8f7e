//! The training world: videos, SFT rows and RL prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringBuilder, StructBuilder};
use arrow_schema::{DataType, Field, Fields};
use paravt_suite::message::Role;
use paravt_suite::protocol::{Protocol, render};
use paravt_suite::sample::Sample;
use paravt_suite::span::TimeSpan;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::policy;
use crate::questions::{Ask, Question, choice, first, grounding, order, perception};
use crate::samples::{Style, sample};
use crate::scene::{Scene, Side};
use crate::traces::{Case, Dispatch, Piece, Turn, description};
use crate::{WorldError, WorldRng, encode, protocol, rows, tables, world_rng};

/// Name of the file of SFT rows.
pub const SFT_FILE: &str = "paravt_sft_nano.parquet";
/// Name of the file of RL prompts.
pub const RL_FILE: &str = "paravt_rl_nano.parquet";

/// Size of the training data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSizes {
    /// Videos that rows and prompts share.
    pub videos: usize,
    /// SFT rows: 30 % with tool calls, as in the original, 40 % descriptions, 30 % direct answers.
    pub rows: usize,
    /// RL prompts: a fifth of them grounding, a tenth open, the others with options.
    pub prompts: usize,
    /// Another mixture of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture: Option<Mixture>,
    /// Whether half of the questions of rows and of prompts with options ask what comes first, which 64 frames show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

/// Tenths of other SFT rows: with calls, descriptions of windows, and, for what is left, answers from an overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// Rows of each kind with thoughts and answers in their tags. In the others a thought is plain text, calls are as the
    /// chat template has them, and an answer stands alone on the last line.
    pub tagged: u8,
    /// Rows that call for all windows at once.
    pub calls: u8,
    /// Rows that describe a window.
    pub descriptions: u8,
}

/// The model's turns without the tags of thoughts and answers.
fn untagged(mut turns: Vec<Turn>) -> Vec<Turn> {
    let own = turns.iter_mut().filter(|turn| turn.role == Role::Assistant);
    for piece in own.flat_map(|turn| &mut turn.parts) {
        if let Piece::Text(text) = piece {
            for (tags, plain) in
                [("<think>\n", ""), ("\n</think>\n", "\n"), ("<answer>", ""), ("</answer>", "")]
            {
                *text = text.replace(tags, plain);
            }
        }
    }
    turns
}

impl Default for TrainingSizes {
    fn default() -> Self {
        Self { videos: 120, rows: 1200, prompts: 240, mixture: None, first: false }
    }
}

/// Paths of the training data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingPaths {
    /// The folder that sentinels in the tables are completed with.
    pub root: PathBuf,
    /// SFT rows: `id`, `messages` (see [`crate::read_messages`]).
    pub sft: PathBuf,
    /// RL prompts: `prompt`, `videos`, `extra_info` (see [`crate::read_prompts`]).
    pub rl: PathBuf,
}

/// Overview frames of a trace: those that an RL prompt draws, small ones more often.
const BUDGETS: [usize; 8] = [4, 8, 8, 8, 16, 16, 32, 64];

/// Writes the training world below `out`.
///
/// # Errors
/// A file cannot be written, or FFmpeg has no H.264 encoder.
pub fn make_training(out: &Path, seed: u64, sizes: &TrainingSizes) -> Result<TrainingPaths, WorldError> {
    let mut rng = world_rng(seed ^ 0x7261_696e);
    let protocol = protocol::protocol();
    let scenes: Vec<Scene> = (0..sizes.videos.max(1)).map(|_| Scene::random(Side::Train, &mut rng)).collect();
    let videos = scenes.iter().enumerate().map(|(n, scene)| (out.join(sentinel(n)), scene.clone()));
    encode::all(&videos.collect::<Vec<_>>())?;
    let paths = TrainingPaths { root: out.to_owned(), sft: out.join(SFT_FILE), rl: out.join(RL_FILE) };
    let mut written = Vec::with_capacity(sizes.rows);
    for number in 0..sizes.rows {
        let video = number % scenes.len();
        let (kind, turns) = sft_row(&protocol, &scenes[video], sizes, &mut rng)?;
        written.push((format!("{kind}-{number:06}"), rows::messages(&turns, &sentinel(video)).to_string()));
    }
    tables::write(
        &paths.sft,
        vec![
            ("id", tables::text(written.iter().map(|row| &row.0))),
            ("messages", tables::text(written.iter().map(|row| &row.1))),
        ],
    )?;
    write_prompts(&paths.rl, &protocol, &scenes, sizes, &mut rng)?;
    Ok(paths)
}

fn sentinel(video: usize) -> String {
    format!("videos/nano_{video:04}.mp4")
}

/// Any question about a scene, and how it is written.
fn question(scene: &Scene, firsts: bool, rng: &mut WorldRng) -> (Question, Style) {
    let question = match rng.random_range(0..10) {
        _ if firsts && rng.random_bool(0.5) => first(scene, rng),
        0..3 => grounding(*scene.events.choose(rng).unwrap_or(&scene.events[0])),
        3..6 => order(scene, rng),
        6..9 => perception(scene, Side::Train, rng),
        _ => choice(scene, Side::Train, 2, rng),
    };
    let style = Style::random(&question.ask, rng);
    (question, style)
}

/// One SFT row: what kind it is, and its conversation.
fn sft_row(
    protocol: &Protocol,
    scene: &Scene,
    sizes: &TrainingSizes,
    rng: &mut WorldRng,
) -> Result<(&'static str, Vec<Turn>), WorldError> {
    let (question, style) = question(scene, sizes.first, rng);
    let sample = sample(&question, style, "nano", Path::new("nano.mp4"));
    let nframes = *BUDGETS.choose(rng).unwrap_or(&BUDGETS[0]);
    let case = Case { scene, question: &question, style, sample: &sample, nframes };
    if let Some(mixture) = sizes.mixture {
        return mixed_row(protocol, case, mixture, rng);
    }
    match rng.random_range(0..10) {
        0..3 => tool_row(protocol, &case, rng),
        3..7 => {
            let window = window(scene, rng);
            Ok(("description", description(protocol, &sample, scene, &window)?))
        }
        _ => {
            let (kind, mode) = if rng.random_bool(0.5) {
                ("direct", protocol::direct())
            } else {
                ("reasoning", protocol::reasoning())
            };
            // Where the overview shows nothing, guesses teach little: most rows have the many frames.
            let seen = Case { nframes: if rng.random_bool(0.5) { 64 } else { nframes }, ..case };
            Ok((kind, seen.direct(protocol, &mode)?))
        }
    }
}

/// A row of another mixture. Half of the overviews have 64 frames, from which much can be answered; a third of the answers
/// from an overview are given where the tool is offered.
fn mixed_row(
    protocol: &Protocol,
    case: Case<'_>,
    mixture: Mixture,
    rng: &mut WorldRng,
) -> Result<(&'static str, Vec<Turn>), WorldError> {
    let case = Case { nframes: if rng.random_bool(0.5) { 64 } else { case.nframes }, ..case };
    let tenth = rng.random_range(0..10);
    let (kind, turns) = if tenth < mixture.calls {
        let turns = case.with_tool(protocol, Dispatch::Parallel)?;
        ("parallel", turns.ok_or_else(|| WorldError::Frames("no window shows the evidence".to_owned()))?)
    } else if tenth < mixture.calls + mixture.descriptions {
        ("description", description(protocol, case.sample, case.scene, &window(case.scene, rng))?)
    } else if rng.random_range(0..3) == 0 {
        ("overview", case.listed(protocol, &protocol.default_mode)?)
    } else {
        ("reasoning", case.listed(protocol, &protocol::reasoning())?)
    };
    let tagged = rng.random_range(0..10) < mixture.tagged;
    Ok((kind, if tagged { turns } else { untagged(turns) }))
}

fn tool_row(
    protocol: &Protocol,
    case: &Case<'_>,
    rng: &mut WorldRng,
) -> Result<(&'static str, Vec<Turn>), WorldError> {
    // What 64 frames show needs no call: half of those rows answer at once.
    if case.nframes == 64 && rng.random_bool(0.5) && !case.evidence_in_overview()?.is_empty() {
        return Ok(("overview", case.direct(protocol, &protocol.default_mode)?));
    }
    let (kind, dispatch) = match rng.random_range(0..10) {
        0..7 => ("parallel", Dispatch::Parallel),
        7..9 => ("sequential", Dispatch::OneByOne),
        _ => ("capped", Dispatch::Capped),
    };
    match case.with_tool(protocol, dispatch)? {
        Some(turns) => Ok((kind, turns)),
        // All windows at once always find it.
        None => case
            .with_tool(protocol, Dispatch::Parallel)?
            .map(|turns| ("parallel", turns))
            .ok_or_else(|| WorldError::Frames("no window shows the evidence".to_owned())),
    }
}

/// A window that the policy asks for: of the grid, or around a moment of an event.
pub(crate) fn window(scene: &Scene, rng: &mut impl rand::Rng) -> std::ops::Range<u64> {
    let event = *scene.events.choose(rng).unwrap_or(&scene.events[0]);
    let second = rng.random_range(event.moments());
    let ask = if rng.random_bool(0.6) { Ask::Grounding { event } } else { Ask::Perception { second } };
    let windows = policy::windows(&ask, scene.seconds);
    windows.choose(rng).cloned().unwrap_or(0..4)
}

/// RL prompts as `paravt/rl/data/dataset.py` reads them: `prompt` is a list of role and content with
/// `<video>` in it, `videos` a list of paths, `extra_info` JSON with `answer` and `question_type`.
/// Beside those, `extra_info` has the duration in seconds and the suite's sample.
fn write_prompts(
    path: &Path,
    protocol: &Protocol,
    scenes: &[Scene],
    sizes: &TrainingSizes,
    rng: &mut WorldRng,
) -> Result<(), WorldError> {
    let mut prompts = Structs::new(["role", "content"]);
    let mut videos = Structs::new(["video"]);
    let mut extra = Vec::with_capacity(sizes.prompts);
    for number in 0..sizes.prompts {
        let video = number % scenes.len();
        let scene = &scenes[video];
        let (question, style) = match number % 10 {
            0..2 => (grounding(*scene.events.choose(rng).unwrap_or(&scene.events[0])), Style::Plain),
            2 => (perception(scene, Side::Train, rng), Style::Open),
            kind => {
                let firsts = sizes.first && kind % 2 == 1;
                let question =
                    if firsts { first(scene, rng) } else { choice(scene, Side::Train, number % 3, rng) };
                let style = Style::random(&question.ask, rng);
                (question, style)
            }
        };
        let name = sentinel(video);
        let sample = sample(&question, style, &format!("rl-{number:05}"), Path::new(&name));
        let duration = scene.seconds as f64;
        let switches = paravt_suite::profile::Profile::Paper.switches();
        let mode = &protocol.default_mode;
        let file = name.rsplit('/').next().unwrap_or_default();
        let user = render::user_text(protocol, &sample, mode, &switches, file, Some(duration))?;
        let system = protocol.system_text(mode).map_err(render::RenderError::from)?;
        prompts.push(&[&["system", system], &["user", &format!("<video>{user}")]]);
        videos.push(&[&[&format!("file://{name}")]]);
        let (answer, question_type) = gold(&sample);
        extra.push(
            json!({"answer": answer, "question_type": question_type, "duration": duration, "sample": sample})
                .to_string(),
        );
    }
    tables::write(
        path,
        vec![("prompt", prompts.finish()), ("videos", videos.finish()), ("extra_info", tables::text(extra))],
    )
}

/// The answer as the reward reads it, and the type of the question.
fn gold(sample: &Sample) -> (String, &'static str) {
    match sample.gold.interval() {
        Some(TimeSpan { start, end }) => (format!("[{start:?}, {end:?}]"), "tvg"),
        None if sample.question.letters.is_empty() => (sample.gold.to_string(), "oe"),
        None => (sample.gold.to_string(), "mcq"),
    }
}

/// A column of lists of structs of text.
struct Structs {
    fields: usize,
    builder: ListBuilder<StructBuilder>,
}

impl Structs {
    fn new<const N: usize>(names: [&str; N]) -> Self {
        let fields: Fields =
            names.iter().map(|name| Arc::new(Field::new(*name, DataType::Utf8, true))).collect();
        Self { fields: N, builder: ListBuilder::new(StructBuilder::from_fields(fields, 0)) }
    }

    fn push(&mut self, items: &[&[&str]]) {
        for item in items {
            let structs = self.builder.values();
            for index in 0..self.fields {
                if let Some(field) = structs.field_builder::<StringBuilder>(index) {
                    field.append_value(item[index]);
                }
            }
            structs.append(true);
        }
        self.builder.append(true);
    }

    fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds of rows with what the model says in them.
    fn rows(tagged: u8, calls: u8) -> Vec<(&'static str, String)> {
        let mut rng = world_rng(3);
        let scene = Scene::random(Side::Train, &mut rng);
        let mixture = Some(Mixture { tagged, calls, descriptions: 2 });
        let sizes = TrainingSizes { mixture, ..TrainingSizes::default() };
        let said = |turns: &[Turn]| {
            let own = turns.iter().filter(|turn| turn.role == Role::Assistant).flat_map(|turn| &turn.parts);
            own.map(|piece| format!("{piece:?}")).collect::<String>()
        };
        let row = |_| {
            let (kind, turns) = sft_row(&protocol::protocol(), &scene, &sizes, &mut rng).unwrap();
            (kind, said(&turns))
        };
        (0..200).map(row).collect()
    }

    #[test]
    fn rows_of_a_mixture_have_its_kinds_and_its_form() {
        let count = |rows: &[(&str, String)], kind: &str| rows.iter().filter(|row| row.0 == kind).count();
        let native = rows(0, 4);
        assert!((60..100).contains(&count(&native, "parallel")), "four tenths");
        assert!((25..60).contains(&count(&native, "description")), "two tenths");
        assert!(count(&native, "reasoning") > count(&native, "overview"), "two thirds without the tool");
        let has_tags = |(_, said): &&(&str, String)| said.contains("<answer>") || said.contains("think>");
        assert_eq!(native.iter().filter(has_tags).count(), 0);
        assert!(
            native.iter().any(|(_, said)| said.contains("<tool_call>")),
            "calls have theirs in every form"
        );
        let tagged = rows(10, 4);
        assert!(tagged.iter().filter(|row| row.0 != "description").all(|row| has_tags(&row)));
        assert!((20..60).contains(&rows(2, 0).iter().filter(has_tags).count()), "two tenths of eight tenths");
        assert_eq!(count(&rows(2, 0), "parallel"), 0);
    }
}
