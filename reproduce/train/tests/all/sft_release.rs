//! The released SFT loader's tokens, positions, trained tokens and packs, as `ci/sft_oracle.py` recorded them from the
//! real code on rows and media that are made here again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::prompt::Prompter;
use paravt_train::example::Example;
use paravt_train::release::{Encoder, Layout, LeftOut, Loader, ReleaseRow};
use paravt_upstream::python::Random;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Golden {
    media: BTreeMap<String, (String, String, f64, String)>,
    rows: BTreeMap<String, Value>,
    folders: BTreeMap<String, Folder>,
    packing: Packing,
    shuffles: BTreeMap<usize, Vec<usize>>,
}

#[derive(Deserialize)]
struct Folder {
    /// Fields that a file of the embedded base model gets, by the file's name.
    changes: BTreeMap<String, serde_json::Map<String, Value>>,
    rows: BTreeMap<String, Option<Encoded>>,
}

#[derive(Deserialize)]
struct Encoded {
    ids: Vec<i64>,
    trained: Vec<i64>,
    positions: [Vec<i64>; 3],
    image_grids: Vec<[usize; 3]>,
    video_grids: Vec<[usize; 3]>,
    /// Mean and standard deviation of the videos' patches, or of the images' where there is no video.
    pixels: Option<[f64; 2]>,
}

#[derive(Deserialize)]
struct Packing {
    tokens: usize,
    rows: Vec<Value>,
    loaders: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    ranks: usize,
    workers: usize,
    packs: usize,
    /// Rank, batch, pack, rows.
    epoch: Vec<Vec<Vec<Vec<usize>>>>,
}

/// What runs stand for: `[value, count, value, count, …]`.
fn unrolled(runs: &[i64]) -> Vec<i64> {
    runs.chunks(2).flat_map(|run| std::iter::repeat_n(run[0], run[1] as usize)).collect()
}

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sft_release.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn make_media(media: &BTreeMap<String, (String, String, f64, String)>, folder: &Path) {
    for (name, (size, rate, seconds, more)) in media {
        let source = format!("testsrc2=size={size}:rate={rate}:duration={seconds}");
        let status = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-y", "-f", "lavfi", "-i", &source])
            .args(more.split_whitespace())
            .arg(folder.join(name))
            .status();
        assert!(status.unwrap().success(), "{name}");
    }
}

/// The embedded base model's folder with changes.
fn encoder(changes: &BTreeMap<String, serde_json::Map<String, Value>>, folder: &Path) -> Encoder {
    std::fs::create_dir_all(folder).unwrap();
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nano/base");
    for entry in std::fs::read_dir(base).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    for (name, change) in changes {
        let path = folder.join(name);
        let mut json: serde_json::Map<String, Value> =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        json.extend(change.clone());
        std::fs::write(path, serde_json::to_vec(&json).unwrap()).unwrap();
    }
    let config = Config::read(folder).unwrap();
    Encoder::read(folder, Arc::new(Prompter::read(folder, &config).unwrap())).unwrap()
}

fn encode(encoder: &Encoder, messages: &Value, media: &Path) -> Result<Example, LeftOut> {
    encoder.encode(&ReleaseRow::of_json(messages, media)?)
}

fn assert_equal(name: &str, ours: &Example, theirs: &Encoded) {
    assert_eq!(ours.ids.iter().map(|id| i64::from(*id)).collect::<Vec<_>>(), unrolled(&theirs.ids), "{name}");
    let mut trained: Vec<bool> = unrolled(&theirs.trained).iter().map(|&trained| trained == 1).collect();
    // Nothing predicts the first token.
    trained[0] = false;
    assert_eq!(ours.trained, trained, "{name}: trained");
    for (axis, steps) in theirs.positions.iter().enumerate() {
        let mut position = 0;
        let wanted = unrolled(steps).into_iter().map(|step| {
            position += step;
            position
        });
        let ours: Vec<i64> = ours.positions.iter().map(|position| i64::from(position[axis])).collect();
        assert_eq!(ours, wanted.collect::<Vec<_>>(), "{name}: positions of axis {axis}");
    }
    for (videos, wanted) in [(false, &theirs.image_grids), (true, &theirs.video_grids)] {
        let media = ours.media.iter().filter(|medium| medium.is_video == videos);
        let grids: Vec<[usize; 3]> =
            media.map(|medium| medium.patches.grid).map(|grid| [grid.t, grid.h, grid.w]).collect();
        assert_eq!(grids, *wanted, "{name}: grids");
    }
    let Some([mean, deviation]) = theirs.pixels else { return };
    let of_videos = !theirs.video_grids.is_empty();
    let values: Vec<f64> = ours
        .media
        .iter()
        .filter(|medium| medium.is_video == of_videos)
        .flat_map(|medium| medium.patches.values())
        .map(f64::from)
        .collect();
    let found = values.iter().sum::<f64>() / values.len() as f64;
    let spread =
        (values.iter().map(|value| (value - found).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    // 8 bits after the second resizing, and another decoder: about one level of 255.
    assert!(
        (found - mean).abs() < 0.01 && (spread - deviation).abs() < 0.01,
        "{name}: {found} {spread}, {mean} {deviation}"
    );
}

#[test]
#[ignore = "needs ffmpeg: run by ci/test"]
fn rows_are_encoded_as_the_released_loader_encodes_them() {
    let (golden, folder) = (golden(), tempfile::tempdir().unwrap());
    make_media(&golden.media, folder.path());
    for (label, recorded) in &golden.folders {
        let encoder = encoder(&recorded.changes, &folder.path().join(label.replace(' ', "-")));
        assert_eq!(recorded.rows.len(), golden.rows.len());
        for (name, theirs) in &recorded.rows {
            let name = format!("{label}: {name}");
            match (encode(&encoder, &golden.rows[name.split_once(": ").unwrap().1], folder.path()), theirs) {
                (Ok(ours), Some(theirs)) => assert_equal(&name, &ours, theirs),
                (Err(reason), None) => println!("{name}: left out: {reason}"),
                (Ok(_), None) => panic!("{name}: the released loader leaves it out"),
                (Err(reason), Some(_)) => panic!("{name}: {reason}"),
            }
        }
    }
}

#[test]
#[ignore = "needs ffmpeg: run by ci/test"]
fn rows_are_shuffled_sliced_and_packed_as_the_released_loader_does() {
    let (golden, folder) = (golden(), tempfile::tempdir().unwrap());
    make_media(&golden.media, folder.path());
    let encoder = encoder(&BTreeMap::new(), &folder.path().join("base"));
    let encoded: Vec<Result<Example, LeftOut>> =
        golden.packing.rows.iter().map(|row| encode(&encoder, row, folder.path())).collect();
    let row_of = |example: &Example| {
        encoded.iter().position(|other| other.as_ref().is_ok_and(|other| other.ids == example.ids)).unwrap()
    };
    for Recorded { ranks, workers, packs, epoch } in &golden.packing.loaders {
        let label = format!("{ranks} ranks, {workers} workers, {packs} packs");
        let layout = Layout { ranks: *ranks, workers: (*workers).max(1) };
        let loader = Loader::new(encoded.len(), layout, golden.packing.tokens, *packs).unwrap();
        let mut progress = loader.start();
        let (mut left_out, mut over_long) = (0, 0);
        // Two epochs: a rank that is through begins again by itself.
        for step in 0..2 * epoch.iter().map(Vec::len).max().unwrap() {
            // As a resumed training knows it.
            let text = serde_json::to_string(&progress).unwrap();
            progress = serde_json::from_str(&text).unwrap();
            let made = loader.step(&mut progress, |row| encoded[row].clone()).unwrap();
            let rows: Vec<Vec<Vec<usize>>> = made
                .ranks
                .iter()
                .map(|packs| packs.iter().map(|pack| pack.iter().map(row_of).collect()).collect())
                .collect();
            let wanted: Vec<_> = epoch.iter().map(|batches| batches[step % batches.len()].clone()).collect();
            assert_eq!(rows, wanted, "{label}: step {step}");
            (left_out, over_long) = (left_out + made.left_out.len(), over_long + made.over_long);
        }
        assert!(left_out >= 1 && over_long >= 1, "{label}: {left_out} left out, {over_long} too long");
    }
}

#[test]
fn shuffles_are_those_of_python() {
    for (count, wanted) in golden().shuffles {
        let mut order: Vec<usize> = (0..count).collect();
        Random::seeded(42).shuffle(&mut order);
        assert_eq!(order[..wanted.len()], wanted[..], "{count}");
    }
}

#[test]
fn too_many_workers_are_refused() {
    // Six rows in slices of one: the seventh worker's slice begins past the last row, and the released loader raises.
    let error = Loader::new(6, Layout { ranks: 1, workers: 8 }, 512, 1).err().unwrap().to_string();
    assert!(error.contains("rank 0 has 6 rows, too few for 8 workers"), "{error}");
    assert!(Loader::new(6, Layout { ranks: 1, workers: 6 }, 512, 1).is_ok());
}
