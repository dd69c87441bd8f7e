//! Conan (OuyangKun10/Conan b4805ae, `Conan-Eval`): three prompts, stamped frames, clips that the model asks for.
//!
//! The history of a conversation is known to the release by the stamps alone, which are floored to seconds: the
//! frames that count as seen are those at whole seconds, and a frame of the overview can be shown again.

use std::collections::{BTreeMap, BTreeSet};

use paravt_python::{float, floor_div, pattern, split, strip};
use paravt_suite::agent::Reference;
use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Encoding, FailedCalls, Fidelity, Filter, FrameLoop, FramePolicy, OptionForm, Overview,
    Protocol, Sampling, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, CallContext, CallResult, FrameChoice, FrameRules, Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::json;

use crate::agent::{Agent, choice};

/// Conan: its rules and its texts.
pub(crate) const AGENT: Agent =
    Agent { reference: Some(Reference::of("conan", &Conan)), releases: &[&RELEASE] };

const TEXTS: &str = "Conan-Eval/prompt_temp.py";
const LVBENCH: &str = "Conan-Eval/lvbench.py";

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "conan",
    repository: "OuyangKun10/Conan",
    commit: "b4805ae8ae746dccf6d1aea7a2dc46d416368692",
    files: &[
        Pinned::new(TEXTS, "cb91dec75b98c39bf44ca36fe91ab82d957da03bb9beb8f66ff058a1ab034266"),
        Pinned::new(LVBENCH, "d42624cbbc9910161cf1430b73e2139befbd144333684a02390da4342aa2c329"),
        Pinned::new(
            "Conan-Eval/videomme.py",
            "9a04b554ed7f8c16e34914fba8f6fa604c1ee0c07cf22d5adb8d486b6f1e8a38",
        ),
        Pinned::new(
            "Conan-Eval/longvideobench.py",
            "6ada337196692fd8d129bf7065ecf6edbaf8d5885f9c26379adc74924c9aad20",
        ),
        Pinned::new("Conan-Eval/mlvu.py", "48ca052202ffe46f97aa6c7b0cb99120db7f4203d581f116ea2d6e30ec463a35"),
        Pinned::new(
            "Conan-Eval/utils.py",
            "19e4ed878451d355763c743108a44ae82ca9121b63c9d623f5c70f1c236d437c",
        ),
        Pinned::new(
            "Conan-Eval/video_io.py",
            "3ef91e90d15945ee3aa017702f64e45b57ae0dce684ba10f3f5d78e0e0f4e20a",
        ),
        Pinned::new("Conan-Eval/run.sh", "62132fd21408befb916c5f1ec6c6b24ec61fce66d1b8824bd192c19b11e4a9fb"),
    ],
    texts: &[
        Text::python("first", TEXTS, 20..1316),
        Text::python("round", TEXTS, 1338..1607),
        Text::python("last", TEXTS, 1629..1961),
        Text::python("lvbench.first", LVBENCH, 454..1732),
        Text::python("lvbench.round", LVBENCH, 1754..2005),
        Text::python("lvbench.last", LVBENCH, 2027..2341),
    ],
    make,
};

struct Conan;

impl ToolSyntax for Conan {
    fn tags(&self) -> &'static [Tag] {
        &[("<clip>", "</clip>")]
    }

    /// One call of all clips; its window reaches from the first start to the last end.
    fn calls(&self, text: &str, _tool: &Tool) -> Vec<Call> {
        let clips = clips(text);
        let ends = clips.iter().filter_map(|(start, end)| Some((seconds(start)?, seconds(end)?)));
        let window = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let call = window.map(|(start, end)| Call {
            value: json!({ "clips": clips }),
            window: Ok(TimeSpan::new(start, end)),
        });
        call.into_iter().collect()
    }
}

impl FrameRules for Conan {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        FrameChoice::at(overview(video.frames, wanted.frames), video.rate)
    }

    fn run(&self, call: &Call, context: &CallContext<'_>) -> Result<CallResult, String> {
        let (video, stamps) = (context.video, call.value["clips"].as_array().into_iter().flatten());
        let clips: Vec<(f64, f64)> = stamps
            .filter_map(|clip| Some((seconds(clip[0].as_str()?)?, seconds(clip[1].as_str()?)?)))
            .collect();
        // The release knows what it has shown by the stamps.
        let history: Vec<f64> =
            context.seen.iter().filter_map(|&index| seconds(&stamp(index, video.rate))).collect();
        let frames = clip_frames(video.frames, video.rate, &clips, &history, context.max_frames);
        if frames.is_empty() {
            return Err("every frame of the video was shown".to_owned());
        }
        Ok(CallResult::Frames(FrameChoice::at(frames, video.rate)))
    }
}

impl Scorer for Conan {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, letter(text), |found, gold| found.to_lowercase() == gold.trim().to_lowercase())
    }
}

/// Words of an answer beyond which it is not one, unless it has a letter.
const MAX_WORDS: usize = 10;
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='L';
/// Openings that are taken out of an answer, in this order (`extract_characters`).
const OPENINGS: [&str; 12] = [
    "The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is",
    "The correct option is", "Best answer:", "Best option:", "Answer:", "Option:", "The correct answer",
    "The correct option",
];

/// Indices of the first frames (`uniform_sample_idx`): multiples of `total / count`, rounded half to even.
pub fn overview(total: usize, count: usize) -> Vec<usize> {
    if total <= count {
        return (0..total).collect();
    }
    let step = total as f64 / count as f64;
    (0..count).map(|index| (index as f64 * step).round_ties_even() as usize).collect()
}

/// `HH:MM:SS` of a frame, rounded down (`idx_to_timestamp`).
pub fn stamp(index: usize, fps: f64) -> String {
    let seconds = index as f64 / fps;
    let hours = floor_div(seconds, 3600.0) as u64;
    let minutes = floor_div(seconds % 3600.0, 60.0) as u64;
    format!("{hours:02}:{minutes:02}:{:02}", (seconds % 60.0) as u64)
}

/// Seconds of a stamp (`_to_seconds`).
pub fn seconds(stamp: &str) -> Option<f64> {
    let mut parts = stamp.split(':').map(float);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Stamps of the clips in the first `<clip>` of a reply that end after their start (`identify_clip`). Any makes
/// the conversation go on, an answer beside them or not (`identify_replay`).
pub fn clips(reply: &str) -> Vec<(&str, &str)> {
    pattern! { CLIP = r"(\d{1,2}:\d{2}:\d{2})\s*-\s*(\d{1,2}:\d{2}:\d{2})" }
    let Some(body) = between(reply, "<clip>", "</clip>").next() else { return Vec::new() };
    let pairs = CLIP.captures_iter(body).map(|found| {
        let [start, end] = found.extract().1;
        (start, end)
    });
    pairs.filter(|(start, end)| seconds(start) < seconds(end)).collect()
}

/// Frames of clips (`clips_to_frame_indices`), ascending; `clips` and the stamps of the frames seen, `history`, in
/// seconds.
///
/// A clip has one frame, and a share of those that are left by the number of its unseen frames. What is missing then
/// comes from the whole video, evenly. Only where the video has no other unseen frame are there fewer than `count`.
/// Of clips with equal shares the later is first at the remainder: numpy's `argsort` is stable for so few, but for its
/// AVX-512 and AVX2 sorts of release 2, whose order is that of the machine.
pub fn clip_frames(
    total: usize,
    fps: f64,
    clips: &[(f64, f64)],
    history: &[f64],
    count: usize,
) -> Vec<usize> {
    let frame = |seconds: f64| (seconds * fps).round_ties_even();
    let seen: BTreeSet<usize> = history
        .iter()
        .map(|at| frame(*at))
        .filter(|index| (0.0..total as f64).contains(index))
        .map(|index| index as usize)
        .collect();
    let unseen: Vec<usize> = (0..total).filter(|index| !seen.contains(index)).collect();
    let clips: Vec<Vec<usize>> = clips
        .iter()
        .map(|(start, end)| (frame(*start).max(0.0), frame(*end).min(total as f64 - 1.0)))
        .filter(|(start, end)| start < end)
        .map(|(start, end)| (start as usize..=end as usize).filter(|index| !seen.contains(index)).collect())
        .collect();
    if clips.is_empty() {
        let few = unseen.len() <= count;
        return if few { unseen } else { distinct(spread(&unseen, count)) };
    }
    let mut chosen = BTreeSet::new();
    for (frames, share) in clips.iter().zip(shares(&clips, count)) {
        chosen.extend(if frames.len() <= share { frames.clone() } else { spread(frames, share) });
    }
    if chosen.len() > count {
        return distinct(spread(&Vec::from_iter(chosen), count));
    }
    padded(chosen, &unseen, count)
}

/// How many frames each clip has: one, and a part of what is left, by its number of frames.
fn shares(clips: &[Vec<usize>], count: usize) -> Vec<usize> {
    let left = count.saturating_sub(clips.len());
    let sum: f64 = clips.iter().map(|frames| frames.len() as f64).sum();
    let part = |frames: &Vec<usize>| if sum > 0.0 { frames.len() as f64 / sum * left as f64 } else { 0.0 };
    let mut shares: Vec<usize> = clips.iter().map(|frames| part(frames) as usize).collect();
    let remainder = left.saturating_sub(shares.iter().sum());
    let mut order: Vec<usize> = (0..clips.len()).collect();
    order.sort_by_key(|clip| clips[*clip].len());
    for clip in order.iter().rev().cycle().take(remainder) {
        shares[*clip] += 1;
    }
    shares.into_iter().map(|share| share + 1).collect()
}

/// `count` frames: what is chosen, unseen frames of the whole video, and at last the same again.
fn padded(mut chosen: BTreeSet<usize>, unseen: &[usize], count: usize) -> Vec<usize> {
    let rest: Vec<usize> = unseen.iter().copied().filter(|index| !chosen.contains(index)).collect();
    let missing = count - chosen.len();
    if missing == 0 || rest.is_empty() {
        return chosen.into_iter().collect();
    }
    chosen.extend(if rest.len() <= missing { rest } else { spread(&rest, missing) });
    let mut frames: Vec<usize> = chosen.iter().copied().cycle().take(count).collect();
    frames.sort_unstable();
    frames
}

/// `count` of the items, evenly, the first and the last among them; for a count of one the first.
fn spread(items: &[usize], count: usize) -> Vec<usize> {
    if count <= 1 {
        return items[..count.min(items.len())].to_vec();
    }
    let step = (items.len() - 1) as f64 / (count - 1) as f64;
    (0..count).map(|index| items[(index as f64 * step).round_ties_even() as usize]).collect()
}

fn distinct(frames: Vec<usize>) -> Vec<usize> {
    frames.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The letter of a reply (`extract_answer`, `extract_characters`): that of the first `<answer>`, or of the whole
/// reply where no `<answer>` is opened. `None` where there is none, empty where the answer has too many words
/// besides. Compared without case.
pub fn letter(reply: &str) -> Option<String> {
    let answer = match between(reply, "<answer>", "</answer>").next() {
        Some(answer) => strip(answer),
        None if reply.contains("<answer>") => return None,
        None => reply,
    };
    let mut answer = strip(answer).to_owned();
    for opening in OPENINGS {
        answer = answer.replace(opening, "");
    }
    match answer.chars().find(|c| LETTERS.contains(c)) {
        None if split(&answer).count() > MAX_WORDS => Some(String::new()),
        letter => letter.map(String::from),
    }
}

/// The prompt where every option line, the last one too, ends with a line break.
fn with_line_end(prompt: &Template) -> Template {
    let lined = |piece: Piece| match piece {
        Piece::Slot(slot) if slot == "options" => vec![Piece::Slot(slot), Piece::Text("\n".to_owned())],
        other => vec![other],
    };
    Template(prompt.0.iter().cloned().flat_map(lined).collect())
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let of_turn = |turn: &str| -> Result<BTreeMap<String, Template>, ImportError> {
        let shared = texts.template(turn)?;
        let lines = with_line_end(&shared);
        Ok(BTreeMap::from([
            ("videomme".to_owned(), shared),
            ("longvideobench".to_owned(), lines.clone()),
            ("mlvu".to_owned(), lines),
            ("lvbench".to_owned(), texts.template(&format!("lvbench.{turn}"))?),
        ]))
    };
    let policy = FramePolicy {
        overview: Some(Overview { frames: 16, ..Overview::default() }),
        ..FramePolicy::new(SizeRule::LongSide(448), Filter::Lanczos, Encoding::Jpeg(75))
    };
    let frames = FrameLoop {
        round: of_turn("round")?,
        last: of_turn("last")?,
        failed_calls: FailedCalls::Stop,
        ..FrameLoop::new(3, policy)
    };
    let agent = AgentLoop {
        sampling: Sampling { temperature: 1.0, ..Sampling::default() },
        ..AgentLoop::new(Fidelity::Exact, frames)
    };
    let on_one_line = OptionForm {
        line: Template::parse("{letter}. {option}"),
        separator: ", ".to_owned(),
        line_break: None,
    };
    Ok(Protocol {
        option_forms: BTreeMap::from([("videomme".to_owned(), on_one_line)]),
        crop_response: Template::parse("{frames}{prompt}"),
        frame_label: Some(Template::parse("{hms}")),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: String::new(),
            tool: ("clip", 8),
            questions: of_turn("first")?,
            agent,
            max_tokens: 4000,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_clip_and_what_pads_it() {
        let history: Vec<f64> =
            overview(3000, 16).iter().map(|index| seconds(&stamp(*index, 30.0)).unwrap()).collect();
        let frames = |clips: &[(f64, f64)]| clip_frames(3000, 30.0, clips, &history, 8);
        assert_eq!(frames(&[(10.0, 20.0)]), [300, 343, 386, 429, 471, 514, 557, 600]);
        assert_eq!(frames(&[(10.0, 20.0), (60.0, 65.0)]), [300, 375, 450, 525, 600, 1800, 1875, 1950]);
        let whole = [1, 429, 857, 1285, 1715, 2143, 2571, 2999];
        assert_eq!((frames(&[(10.0, 10.0)]), frames(&[(300.0, 360.0)])), (whole.to_vec(), whole.to_vec()));
        let ten: Vec<(f64, f64)> = (0..10).map(|at| (f64::from(at), f64::from(at) + 1.0)).collect();
        assert_eq!(frames(&ten), [1, 30, 90, 120, 150, 181, 240, 270]);
        let short = clip_frames(100, 1.0, &[(10.0, 12.0)], &[], 8);
        assert_eq!(short, [0, 10, 11, 12, 27, 51, 75, 99], "the rest is from the whole video");
    }

    #[test]
    fn a_video_without_enough_frames_is_repeated_or_left_short() {
        assert_eq!(clip_frames(2, 1.0, &[(0.0, 1.0)], &[], 8), [0, 1], "no other frame: not repeated");
        assert_eq!(clip_frames(3, 1.0, &[(0.0, 1.0)], &[], 8), [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(clip_frames(3, 1.0, &[(0.0, 1.0)], &[0.0, 1.0, 2.0], 8), [0; 0]);
        assert_eq!(clip_frames(0, 1.0, &[(0.0, 1.0)], &[], 8), [0; 0]);
    }

    #[test]
    fn overview_and_stamps() {
        let expected = [0, 6, 12, 19, 25, 31, 38, 44, 50, 56, 62, 69, 75, 81, 88, 94];
        assert_eq!(overview(100, 16), expected);
        assert_eq!(overview(3, 16), [0, 1, 2]);
        assert_eq!(stamp(90_000, 25.0), "01:00:00");
        assert_eq!(stamp(29, 30.0), "00:00:00");
    }

    #[test]
    fn replies() {
        assert_eq!(clips("<clip>00:00:10 - 0:00:20, 00:00:09-00:00:09</clip>"), [("00:00:10", "0:00:20")]);
        assert!(clips("<clip>1:00-2:00</clip>").is_empty() && clips("00:00:10-00:00:20").is_empty());
        for (reply, expected) in [
            ("<answer>The answer is C</answer>", Some("C")),
            ("<answer>  (d) because </answer>", None),
            ("<answer>Dog</answer>", Some("D")),
            ("<answer>A", None),
            ("text B", Some("B")),
            ("one two three four five six seven eight nine ten eleven", Some("")),
        ] {
            assert_eq!(letter(reply).as_deref(), expected, "{reply}");
        }
    }
}
