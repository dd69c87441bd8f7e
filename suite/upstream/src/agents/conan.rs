//! Conan (OuyangKun10/Conan b4805ae, `Conan-Eval`): three prompts, stamped frames, clips that the model asks for.

use std::collections::BTreeMap;

use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Encoding, FailedCalls, Fidelity, Filter, FramePolicy, OptionForm, Overview, Protocol,
    Sampling, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, Look, Looks, Reference, Tag, ToolSyntax, View};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use serde_json::json;

use super::{Parts, choice, format_template, protocol, shape};
use crate::conan::{clip_frames, clips, letter, overview, seconds, stamp};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};

/// Conan's rules.
pub const REFERENCE: Reference = Reference::of("conan", &Conan);

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

impl Looks for Conan {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        Look::at(overview(video.frames, wanted.frames), video.rate)
    }

    fn look(&self, call: &Call, view: &View<'_>) -> Result<Look, String> {
        let (video, stamps) = (view.video, call.value["clips"].as_array().into_iter().flatten());
        let clips: Vec<(f64, f64)> = stamps
            .filter_map(|clip| Some((seconds(clip[0].as_str()?)?, seconds(clip[1].as_str()?)?)))
            .collect();
        // The release knows what it has shown by the stamps.
        let history: Vec<f64> =
            view.seen.iter().filter_map(|&index| seconds(&stamp(index, video.rate))).collect();
        let frames = clip_frames(video.frames, video.rate, &clips, &history, view.max_frames);
        if frames.is_empty() {
            return Err("every frame of the video was shown".to_owned());
        }
        Ok(Look::at(frames, video.rate))
    }
}

impl Scorer for Conan {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, letter(text), |found, gold| found.to_lowercase() == gold.trim().to_lowercase())
    }
}

/// The three prompts of a file: of the first turn, of later ones, of the last.
fn prompts(files: &Files, file: &'static str) -> Result<[Template; 3], ImportError> {
    let module = Module::parse(file, files.required(file)?)?;
    let prompt = |name: &str| format_template(file, name, &module.text(name)?);
    Ok([prompt("Prompt_temp_init_mc")?, prompt("Prompt_temp_round_mc")?, prompt("Prompt_temp_final_mc")?])
}

/// The prompt where every option line, the last one too, ends with a line break.
fn with_line_end(prompt: &Template) -> Result<Template, ImportError> {
    let (before, after) =
        prompt.around("options").ok_or_else(|| shape(TEXTS, "the slot {options} in every prompt"))?;
    let options = [Piece::Slot("options".to_owned()), Piece::Text("\n".to_owned())];
    Ok(Template(before.0.into_iter().chain(options).chain(after.0).collect()))
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let (shared, lvbench) = (prompts(files, TEXTS)?, prompts(files, LVBENCH)?);
    let of_turn = |turn: usize| -> Result<BTreeMap<String, Template>, ImportError> {
        let lines = with_line_end(&shared[turn])?;
        Ok(BTreeMap::from([
            ("videomme".to_owned(), shared[turn].clone()),
            ("longvideobench".to_owned(), lines.clone()),
            ("mlvu".to_owned(), lines),
            ("lvbench".to_owned(), lvbench[turn].clone()),
        ]))
    };
    let agent = AgentLoop {
        round: of_turn(1)?,
        last: of_turn(2)?,
        failed_calls: FailedCalls::Stop,
        frames: Some(FramePolicy {
            overview: Some(Overview { frames: 16, ..Overview::default() }),
            ..FramePolicy::new(SizeRule::LongSide(448), Filter::Lanczos, Encoding::Jpeg(75))
        }),
        sampling: Sampling { temperature: 1.0, ..Sampling::default() },
        ..AgentLoop::new(Fidelity::Exact, 3)
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
            questions: of_turn(0)?,
            agent,
            max_tokens: 4000,
        })
    })
}
