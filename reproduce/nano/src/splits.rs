//! One function per benchmark: its videos, its annotation file, its subtitles.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::questions::{Question, choice, first, grounding};
use crate::scene::{Event, Scene, Side};
use crate::tables::{self, doubles, half_lists, integers, text, text_lists};
use crate::{WorldError, WorldOptions, WorldRng};

/// Videos to encode: where each goes, and what it shows.
pub(crate) type Videos = Vec<(PathBuf, Scene)>;
/// A benchmark's maker: writes annotations and subtitles, and says which videos are needed.
pub(crate) type Maker = fn(&Path, &WorldOptions, &mut WorldRng) -> Result<Videos, WorldError>;

/// All benchmarks; Video-MME serves two splits.
pub(crate) const ALL: [Maker; 6] = [videomme, longvideobench, lvbench, mlvu, mmvu, charades];

/// Annotation files lie in the hub's cache, under a made-up revision.
const REVISION: &str = "0000000000000000000000000000000000000000";

fn snapshot(out: &Path, repo: &str, file: &str) -> Result<PathBuf, WorldError> {
    let cache = out.join("hub").join(format!("datasets--{}", repo.replace('/', "--")));
    tables::write_text(&cache.join("refs/main"), REVISION)?;
    Ok(cache.join("snapshots").join(REVISION).join(file))
}

/// One row: its video, the video's number and the question.
struct Asked {
    stem: String,
    video: usize,
    seconds: usize,
    question: Question,
}

/// Scenes for `PREFIX0.mp4`, … in a folder, and questions about them.
fn ask(folder: &Path, prefix: &str, options: &WorldOptions, rng: &mut WorldRng) -> (Videos, Vec<Asked>) {
    let (mut videos, mut asked) = (Vec::new(), Vec::new());
    for video in 0..options.videos {
        let scene = Scene::random(Side::Test, rng);
        let stem = format!("{prefix}{video}");
        for number in 0..options.questions {
            let question = if options.first && number % 2 == 1 {
                first(&scene, rng)
            } else {
                choice(&scene, Side::Test, video + number, rng)
            };
            asked.push(Asked { stem: stem.clone(), video, seconds: scene.seconds, question });
        }
        videos.push((folder.join(format!("{stem}.mp4")), scene));
    }
    (videos, asked)
}

fn videomme(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let (videos, asked) = ask(&out.join("videomme/data"), "nanoMME_", options, rng);
    for (number, (_, scene)) in videos.iter().enumerate() {
        // One video in three has no subtitles, as some have none in the original.
        if number % 3 != 2 {
            let path = out.join(format!("videomme/subtitle/nanoMME_{number}.srt"));
            tables::write_text(&path, &srt(scene))?;
        }
    }
    let durations = ["short", "medium", "long"];
    let lettered = |question: &Question| -> Vec<String> {
        ('A'..).zip(&question.options).map(|(letter, option)| format!("{letter}. {option}.")).collect()
    };
    let path = snapshot(out, "lmms-eval/Video-MME", "videomme/test-00000-of-00001.parquet")?;
    tables::write(
        &path,
        vec![
            ("video_id", text(asked.iter().map(|row| format!("{:03}", row.video + 1)))),
            ("duration", text(asked.iter().map(|row| durations[row.video % 3]))),
            ("domain", text(asked.iter().map(|row| ["Knowledge", "Life Record"][row.video % 2]))),
            ("sub_category", text(asked.iter().map(|_| "Shapes"))),
            ("url", text(asked.iter().map(|row| format!("https://example.org/{}", row.stem)))),
            ("videoID", text(asked.iter().map(|row| &row.stem))),
            (
                "question_id",
                text(
                    asked
                        .iter()
                        .enumerate()
                        .map(|(n, row)| format!("{:03}-{}", row.video + 1, n % options.questions.max(1) + 1)),
                ),
            ),
            ("task_type", text(asked.iter().map(|row| task_type(&row.question)))),
            ("question", text(asked.iter().map(|row| &row.question.text))),
            ("options", text_lists(asked.iter().map(|row| lettered(&row.question)))),
            ("answer", text(asked.iter().map(|row| row.question.letter().to_string()))),
        ],
    )?;
    Ok(videos)
}

fn task_type(question: &Question) -> &'static str {
    match question.kind() {
        "colour" => "Attribute Perception",
        "order" => "Temporal Reasoning",
        _ => "Object Recognition",
    }
}

/// A narrator names each event as it happens, in the published font tags.
fn srt(scene: &Scene) -> String {
    let clock = |seconds: f64| {
        let milliseconds = (seconds * 1000.0) as u64;
        let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
        format!("00:{minutes:02}:{:02},{:03}", rest / 1000, rest % 1000)
    };
    let cues = scene.events.iter().enumerate().map(|(number, event)| {
        format!(
            "{}\n{} --> {}\n<font color=\"white\" size=\".72c\">{}</font>\n",
            number + 1,
            clock(event.start),
            clock(event.end),
            event.name()
        )
    });
    cues.collect::<Vec<_>>().join("\n")
}

fn longvideobench(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let base = out.join("datasets/longvideobench");
    let (videos, asked) = ask(&base.join("videos"), "nanoLVB_", options, rng);
    for (number, (_, scene)) in videos.iter().enumerate() {
        let cue = |event: &Event| json!({"timestamp": [event.start, event.end], "text": format!("{}", event.name())});
        let cues: Vec<_> = scene.events.iter().map(cue).collect();
        let path = base.join(format!("subtitles/nanoLVB_{number}_en.json"));
        tables::write_text(&path, &serde_json::Value::from(cues).to_string())?;
    }
    let option = |index: usize| {
        text(
            asked
                .iter()
                .map(move |row| row.question.options.get(index).map_or("N/A", String::as_str).to_owned()),
        )
    };
    let path = snapshot(out, "longvideobench/LongVideoBench", "validation-00000-of-00001.parquet")?;
    let per_video = options.questions.max(1);
    tables::write(
        &path,
        vec![
            ("video_id", text(asked.iter().map(|row| &row.stem))),
            ("id", text(asked.iter().enumerate().map(|(n, row)| format!("{}_{}", row.stem, n % per_video)))),
            ("video_path", text(asked.iter().map(|row| format!("{}.mp4", row.stem)))),
            ("subtitle_path", text(asked.iter().map(|row| format!("{}_en.json", row.stem)))),
            ("correct_choice", integers(asked.iter().map(|row| row.question.answer as i64))),
            ("question", text(asked.iter().map(|row| &row.question.text))),
            ("option0", option(0)),
            ("option1", option(1)),
            ("option2", option(2)),
            ("option3", option(3)),
            ("option4", option(4)),
            ("duration", doubles(asked.iter().map(|row| row.seconds as f64))),
            ("duration_group", integers(asked.iter().map(|row| [60, 600][row.video % 2]))),
            ("question_category", text(asked.iter().map(|row| ["S2O", "TOS"][row.video % 2]))),
            ("topic_category", text(asked.iter().map(|_| "KA-Knowledge-Art"))),
            ("starting_timestamp_for_subtitles", doubles(asked.iter().map(|_| 0.0))),
        ],
    )?;
    Ok(videos)
}

fn lvbench(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let (videos, asked) = ask(&out.join("lvbench"), "nanoLV_", options, rng);
    let clock = |seconds: u64| format!("{:02}:{:02}", seconds / 60, seconds % 60);
    let labels = |row: &Asked| match row.question.kind() {
        "order" => vec!["event understanding", "temporal grounding"],
        "colour" => vec!["key information retrieval"],
        _ => vec!["entity recognition"],
    };
    let path = snapshot(out, "lmms-eval/LVBench", "data/train-00000-of-00001.parquet")?;
    tables::write(
        &path,
        vec![
            ("video_path", text(asked.iter().map(|row| format!("{}.mp4", row.stem)))),
            ("uid", text((0..asked.len()).map(|number| number.to_string()))),
            ("question", text(asked.iter().map(|row| row.question.embedded()))),
            ("question_type", text_lists(asked.iter().map(labels))),
            ("answer", text(asked.iter().map(|row| row.question.letter().to_string()))),
            (
                "time_reference",
                text(asked.iter().map(|row| {
                    format!("{}-{}", clock(row.question.evidence.0), clock(row.question.evidence.1))
                })),
            ),
            ("type", text(asked.iter().map(|row| ["tv", "cartoon"][row.video % 2]))),
            ("key", text(asked.iter().map(|row| &row.stem))),
        ],
    )?;
    Ok(videos)
}

fn mlvu(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let (videos, asked) = ask(&out.join("MLVU/video"), "nanoML_", options, rng);
    let kind = |row: &Asked| match row.question.kind() {
        "order" => "order",
        "colour" => "plotQA",
        _ => "needle",
    };
    let path = snapshot(out, "sy1998/MLVU_dev", "mlvu/test-00000-of-00001.parquet")?;
    tables::write(
        &path,
        vec![
            ("video_name", text(asked.iter().map(|row| format!("{}.mp4", row.stem)))),
            ("duration", doubles(asked.iter().map(|row| row.seconds as f64))),
            ("question", text(asked.iter().map(|row| format!("{}\n", row.question.embedded())))),
            ("candidates", text_lists(asked.iter().map(|row| row.question.options.clone()))),
            ("answer", text(asked.iter().map(|row| row.question.letter().to_string()))),
            ("task_type", text(asked.iter().map(kind))),
            ("question_id", text((0..asked.len()).map(|number| format!("Q{number}")))),
        ],
    )?;
    Ok(videos)
}

fn mmvu(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let subjects = ["Art", "Modern Physics", "Computer Science"];
    let (mut videos, mut rows) = (Vec::new(), Vec::new());
    for number in 0..options.videos {
        let subject = subjects[number % subjects.len()];
        let in_repository = format!("videos/{}/{number}.mp4", subject.replace(' ', "_"));
        let scene = Scene::random(Side::Test, rng);
        for question in 0..options.questions {
            // Every third row is open-ended: all choices empty, free text as the answer. Such rows ask for a
            // name, as those of the training data do.
            let open = rows.len() % 3 == 2;
            let kind = if open { 0 } else { number + question };
            let asked = choice(&scene, Side::Test, kind, rng);
            let shown =
                |index: usize| if open { "" } else { asked.options.get(index).map_or("", String::as_str) };
            rows.push(json!({
                "id": format!("validation_{}", rows.len()),
                "video": format!("https://huggingface.co/datasets/yale-nlp/MMVU/resolve/main/{in_repository}"),
                "youtube_url": "",
                "question_type": if open { "open-ended" } else { "multiple-choice" },
                "metadata": {"subject": subject, "textbook": "", "rationale": "", "knowledge": []},
                "question": asked.text,
                "choices": {"A": shown(0), "B": shown(1), "C": shown(2), "D": shown(3), "E": ""},
                "answer": if open { asked.options[asked.answer].clone() } else { asked.letter().to_string() },
            }));
        }
        videos.push((snapshot(out, "yale-nlp/MMVU", &in_repository)?, scene));
    }
    let path = snapshot(out, "yale-nlp/MMVU", "validation.json")?;
    tables::write_text(&path, &serde_json::Value::from(rows).to_string())?;
    Ok(videos)
}

fn charades(out: &Path, options: &WorldOptions, rng: &mut WorldRng) -> Result<Videos, WorldError> {
    let mut rows: Vec<(String, String, Event)> = Vec::new();
    let mut videos = Vec::new();
    for number in 0..options.videos {
        let scene = Scene::random(Side::Test, rng);
        let name = format!("NANO{number}.mp4");
        let step = (scene.events.len() / options.questions.max(1)).max(1);
        for event in scene.events.iter().step_by(step).take(options.questions) {
            rows.push((name.clone(), grounding(*event).text, *event));
        }
        videos.push((out.join("charades_sta/Charades_v1_480").join(&name), scene));
    }
    let path = snapshot(out, "lmms-eval/charades_sta", "data/test-00000-of-00001.parquet")?;
    tables::write(
        &path,
        vec![
            ("video", text(rows.iter().map(|(video, _, _)| video))),
            ("caption", text(rows.iter().map(|(_, caption, _)| caption))),
            ("timestamp", half_lists(rows.iter().map(|(_, _, event)| vec![event.start, event.end]))),
        ],
    )?;
    Ok(videos)
}
