//! Materialized rows against the release's rule, on rows that Python wrote in the published shapes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use paravt_fetch::{FetchError, Materialize, Materialized, Media, PathForm, materialize};

fn python(arguments: &[&Path], first: &str) -> String {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/materialize_rule.py");
    let output = Command::new(python).arg(script).arg(first).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        python(&[&world.at("rows")], "make");
        let media = world.at("media");
        for folder in ["longvt_source", "museg", "selfqa/ünï", "elsewhere"] {
            std::fs::create_dir_all(media.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", media.join("museg/link")).unwrap();
        for file in [
            "longvt_source/videor1_0.mp4", "longvt_source/videor1_1.mp4", "longvt_source/p_1.png",
            "selfqa/ünï/b.mp4", "elsewhere/c.mp4",
        ] {
            std::fs::write(media.join(file), file).unwrap();
        }
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn materialize(
        &self,
        out: &str,
        form: PathForm,
    ) -> (Result<Materialized, FetchError>, Vec<(PathBuf, Media)>) {
        let opened = Mutex::new(Vec::new());
        let probe = |path: &Path, media: Media| {
            opened.lock().unwrap().push((path.to_owned(), media));
            if path.ends_with("videor1_1.mp4") { Err("no video stream".to_owned()) } else { Ok(()) }
        };
        let (rows, media, out) = (self.at("rows"), self.at("media"), self.at(out));
        let reported = AtomicUsize::new(0);
        let progress = |done: usize, all: usize| {
            assert!((1..=all).contains(&done), "{done} of {all}");
            reported.fetch_add(1, Ordering::Relaxed);
        };
        let work =
            Materialize { rows: &rows, media: &media, out: &out, form, probe: &probe, progress: &progress };
        let done = materialize(&work);
        let mut opened = opened.into_inner().unwrap();
        assert_eq!(reported.into_inner(), opened.len(), "one call for each medium");
        opened.sort();
        (done, opened)
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn rows_equal_those_of_the_release() {
    let world = World::new();
    let (done, _) = world.materialize("out", PathForm::Uri);
    let done = done.unwrap();
    let counts = python(&[&world.at("rows"), &world.at("media"), &world.at("out")], "compare");
    let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
    assert_eq!(done.files.len(), 4);
    for file in &done.files {
        let missing = serde_json::to_value(&file.missing_references).unwrap();
        assert_eq!(missing, counts[&file.name], "{}", file.name);
    }
    let rows: Vec<usize> = done.files.iter().map(|file| file.rows).collect();
    assert_eq!(rows, [40, 40, 6, 40]);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn plain_paths_stay_when_materialized_again() {
    let world = World::new();
    let (first, _) = world.materialize("out", PathForm::Plain);
    assert!(first.unwrap().files.iter().all(|file| file.references > 0));
    let out = world.at("out");
    let text = std::fs::read(out.join("paravt_sft_nested.parquet")).unwrap();
    assert!(!text.windows(8).any(|bytes| bytes == b"file:///"), "no address, only paths");
    let (rows, media, again) = (out.clone(), world.at("media"), world.at("again"));
    let probe = |_: &Path, _: Media| Ok(());
    let work = Materialize {
        rows: &rows,
        media: &media,
        out: &again,
        form: PathForm::Plain,
        probe: &probe,
        progress: &|_, _| {},
    };
    let second = materialize(&work).unwrap();
    assert!(second.files.iter().all(|file| file.references == 0), "{second:?}");
    python(&[&out, &media, &again], "compare");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn every_medium_is_opened_once_and_every_miss_is_listed_once() {
    let world = World::new();
    let (done, opened) = world.materialize("out", PathForm::Plain);
    let done = done.unwrap();
    assert!(!done.is_complete());
    let media = world.at("media");
    let expected = [
        ("elsewhere/c.mp4", Media::Video),
        ("longvt_source/p_1.png", Media::Image),
        ("longvt_source/videor1_0.mp4", Media::Video),
        ("longvt_source/videor1_1.mp4", Media::Video),
        ("selfqa/ünï/b.mp4", Media::Video),
    ];
    assert_eq!(opened, expected.map(|(path, kind)| (media.join(path), kind)));
    let unreadable: Vec<_> =
        done.unreadable.iter().map(|one| (one.path.as_str(), one.reason.as_str())).collect();
    assert_eq!(unreadable, [("longvt_source/videor1_1.mp4", "no video stream")]);
    assert_eq!(done.media, opened.len() + done.missing.len());
    assert!(
        done.missing.is_sorted() && done.missing.contains(&"museg/none.mp4".to_owned()),
        "{:?}",
        done.missing
    );
    let mut once = done.missing.clone();
    once.dedup();
    assert_eq!(once, done.missing);
    let report = std::fs::read_to_string(world.at("out/materialize.json")).unwrap();
    assert!(!report.contains(world.dir.path().to_str().unwrap()), "no path of this machine");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn rows_that_the_walk_cannot_read_are_named() {
    let world = World::new();
    std::fs::copy(world.at("rows/other.parquet"), world.at("rows/paravt_z.parquet")).unwrap();
    let error = world.materialize("out", PathForm::Plain).0.unwrap_err().to_string();
    assert!(error.contains("paravt_z.parquet: rows 0 to 0") && error.contains("not json"), "{error}");
    assert!(!world.at("out/paravt_z.parquet").exists());
    std::fs::write(world.at("rows/paravt_a.parquet"), "torn").unwrap();
    let error = world.materialize("out", PathForm::Plain).0.unwrap_err().to_string();
    assert!(error.contains("paravt_a.parquet: not a parquet file"), "{error}");
    let error = world.materialize("rows", PathForm::Plain).0.unwrap_err().to_string();
    assert!(error.contains("name another"), "{error}");
}
