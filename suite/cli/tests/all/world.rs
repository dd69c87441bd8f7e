//! The generated data root read back through every task, and what `data check` says about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::common::{SPLITS, bench, ends, ok, text, world};
use paravt_suite::data::DataRoot;
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::task::{Benchmark, Dataset, Task};

fn named(name: &str) -> &'static Benchmark {
    paravt_tasks::named(name).unwrap()
}

fn root(hf_home: &Path, data: Option<&Path>) -> DataRoot {
    DataRoot { hf_home: hf_home.to_owned(), data: data.map(Path::to_owned), videos: BTreeMap::new() }
}

fn load(task: &dyn Task, root: &DataRoot, profile: Profile) -> Dataset {
    task.load(root, profile).unwrap_or_else(|error| panic!("{}: {error}", task.spec().name))
}

fn line(sample: &Sample, video: &Path, base: &Path) -> String {
    let gold = match &sample.gold {
        Gold::Text { answer, .. } => format!("\"{answer}\""),
        other => other.to_string(),
    };
    let video = video.strip_prefix(base).expect("videos lie below the root");
    format!(
        "{} | {} | {} | {:?} {:?} [{}] | {gold} | {:?} | {:?}",
        sample.uid,
        sample.id,
        video.display(),
        sample.question.stem,
        sample.question.options,
        sample.question.letters,
        sample.evidence.map(|span| (span.start, span.end)),
        sample.flags
    )
}

/// Golden loads: what every split of the world becomes under every profile.
#[test]
fn every_split_loads_as_written() {
    for task in SPLITS.map(named) {
        let mut shown = String::new();
        for profile in Profile::ALL {
            let dataset = load(task, &root(world(), None), profile);
            let _ = writeln!(shown, "{profile}");
            for sample in &dataset.samples {
                let video = dataset.videos.resolve(&sample.video);
                assert!(video.is_file(), "{}", video.display());
                let _ = writeln!(shown, "  {}", line(sample, &video, world()));
            }
            assert_eq!(dataset.revision.as_deref(), Some("0".repeat(40).as_str()));
        }
        insta::assert_snapshot!(task.spec().name.as_str(), shown);
    }
}

#[test]
fn uids_are_unique_and_letters_are_the_gold_letters() {
    for task in SPLITS.map(named) {
        let mut samples = load(task, &root(world(), None), Profile::Strict).samples;
        for sample in &samples {
            if let Gold::Choice { answer } = &sample.gold {
                assert!(sample.question.letters.contains(answer.as_str()), "{}", sample.uid);
            }
        }
        let all = samples.len();
        samples.sort_by(|a, b| a.uid.cmp(&b.uid));
        samples.dedup_by(|a, b| a.uid == b.uid);
        assert_eq!((samples.len(), all > 0), (all, true), "{}", task.spec().name);
    }
}

#[test]
fn the_same_seed_makes_the_same_files_and_another_seed_others() {
    let make = |seed: &str| {
        let dir = tempfile::tempdir().unwrap();
        let small = ["--videos", "1", "--questions", "1", "--seed", seed];
        ok(bench().args(["data", "make", "--out"]).arg(dir.path()).args(small));
        dir
    };
    let read = |dir: &tempfile::TempDir| -> Vec<Vec<u8>> {
        ["lvbench/nanoLV_0.mp4", "videomme/subtitle/nanoMME_0.srt"]
            .map(|file| std::fs::read(dir.path().join(file)).unwrap())
            .into()
    };
    let (first, second, other) = (make("5"), make("5"), make("6"));
    assert!(read(&first) == read(&second), "the same seed");
    assert!(read(&first) != read(&other), "another seed");
}

fn annotation(task: &dyn Task) -> PathBuf {
    load(task, &root(world(), None), Profile::Release).files.remove(0)
}

#[test]
fn a_world_that_cannot_be_written_ends_as_a_precondition() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    // A file lies where a folder belongs: like a full disk, nothing that the command line says.
    let taken = dir.path().join("out");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("lvbench"), "").unwrap();
    for (out, code) in [(taken, 3), (dir.path().join("file/out"), 2)] {
        ends(code, bench().args(["data", "make", "--out"]).arg(&out), &[]);
    }
}

#[test]
fn annotations_are_found_in_every_place_and_under_the_former_owner() {
    let task = named("lvbench");
    let published = "data/train-00000-of-00001.parquet";
    let former = "hub/datasets--lmms-lab--LVBench/snapshots/abc/data/train-00000-of-00001.parquet";
    for place in ["train-00000-of-00001.parquet", published, "lvbench/train-00000-of-00001.parquet", former] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(annotation(task), &path).unwrap();
        let dataset = load(task, &root(Path::new("/nowhere"), Some(dir.path())), Profile::Paper);
        assert_eq!(dataset.files, [path]);
        assert_eq!(dataset.revision.as_deref(), (place == former).then_some("abc"), "{place}");
    }
}

#[test]
fn videos_are_taken_from_the_root_that_holds_them() {
    let dir = tempfile::tempdir().unwrap();
    for task in [named("lvbench"), named("mlvu")] {
        std::fs::copy(annotation(task), dir.path().join(annotation(task).file_name().unwrap())).unwrap();
        // Annotations in --data, videos where lmms-eval left them.
        let dataset = load(task, &root(world(), Some(dir.path())), Profile::Paper);
        assert!(dataset.files[0].starts_with(dir.path()));
        let lies = |sample: &Sample| dataset.videos.resolve(&sample.video).is_file();
        assert!(dataset.samples.iter().all(lies), "{}", task.spec().name);
    }
}

#[test]
fn a_video_folder_given_apart_stands_alone() {
    let mut root = root(world(), None);
    root.videos.insert("mlvu".into(), PathBuf::from("/apart"));
    let dataset = load(named("mlvu"), &root, Profile::Release);
    assert_eq!(dataset.samples[0].video, Path::new("mlvu/nanoML_0.mp4"));
    assert_eq!(dataset.videos.resolve(&dataset.samples[0].video), Path::new("/apart/nanoML_0.mp4"));
}

/// What `data check` prints, its exit code asserted.
fn check(arguments: &[&str], root: &Path, code: i32) -> String {
    let mut command = bench();
    command.env("HF_HOME", "/nowhere").args(["data", "check"]).args(arguments).arg("--data").arg(root);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_says_what_is_missing_and_what_would_provide_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mlvu/test-00000-of-00001.parquet");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::copy(annotation(named("mlvu")), &path).unwrap();
    std::fs::write(dir.path().join("mlvu/video_part_3.zip"), "PK").unwrap();
    let said = check(&["mlvu"], dir.path(), 1).replace(dir.path().to_str().unwrap(), "ROOT");
    let expected = [
        "data root: ROOT",
        "data root: /nowhere",
        "mlvu               6/2174 rows     0/1122 videos  INCOMPLETE",
        "  6 of 2174 published rows",
        "  the rows name 3 of 1122 published videos",
        "  3 videos missing: mlvu/nanoML_0.mp4, mlvu/nanoML_1.mp4, …",
        "    (video_part_1.zip … video_part_8.zip of sy1998/MLVU_dev)",
        "  1 archive to unpack into mlvu: mlvu/video_part_3.zip",
        "-v lists every file",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let all = check(&["mlvu", "-v"], dir.path(), 1);
    for name in ["nanoML_0.mp4", "nanoML_1.mp4", "nanoML_2.mp4", "SHA-256"] {
        assert!(all.contains(name), "{all}");
    }
    assert_eq!(all.matches(dir.path().to_str().unwrap()).count(), 1, "the root is printed once: {all}");
}

#[test]
fn check_fits_eighty_columns_with_one_line_for_each_thing() {
    let empty = tempfile::tempdir().unwrap();
    for root in [empty.path(), world()] {
        let said = check(&[], root, 1);
        for split in SPLITS {
            let lines = said.lines().filter(|line| line.split_whitespace().next() == Some(split));
            assert_eq!(lines.count(), 1, "{said}");
        }
        let wide = said.lines().filter(|line| !line.starts_with("data root") && line.chars().count() > 80);
        assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}

#[test]
fn check_notices_videos_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    ok(bench().args(["data", "make", "--out"]).arg(dir.path()));
    let video = |number: usize| dir.path().join(format!("lvbench/nanoLV_{number}.mp4"));
    let whole = std::fs::read(video(0)).unwrap();
    std::fs::write(video(0), &whole[..3000]).unwrap();
    std::fs::write(video(1), "").unwrap();
    std::fs::remove_file(video(2)).unwrap();
    ok(std::process::Command::new("mkfifo").arg(video(2)));
    let said = check(&["lvbench", "-v"], dir.path(), 1);
    assert!(said.contains("3 videos damaged"), "{said}");
    for number in 0..3 {
        assert!(said.contains(&format!("lvbench/nanoLV_{number}.mp4: ")), "{said}");
    }
    assert!(said.contains("nanoLV_1.mp4: empty") && said.contains("not a regular file"), "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&check(&["lvbench", "--json"], dir.path(), 1)).unwrap();
    assert_eq!(json[0]["unreadable_videos"].as_array().unwrap().len(), 3);
    assert_eq!(json[0]["missing_videos"], serde_json::json!([]));
    let sound = check(&["charades", "--decode", "--json"], dir.path(), 1);
    let sound: serde_json::Value = serde_json::from_str(&sound).unwrap();
    assert_eq!(sound[0]["unreadable_videos"], serde_json::json!([]), "sound videos pass");
    let decoded = sound[0]["decoded_videos"].as_array().unwrap();
    assert_eq!(decoded.len(), sound[0]["videos"].as_u64().unwrap() as usize);
    assert!(decoded.iter().all(|video| video["frames"].as_u64() > Some(1) && video["codec"] == "h264"));
}

#[test]
fn decoded_frames_are_kept_until_a_file_changes() {
    let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    ok(bench().args(["data", "make", "--out"]).arg(dir.path()));
    let decode = || {
        let mut command = bench();
        command
            .env("PARAVT_BENCH_CACHE", cache.path())
            .args(["data", "check", "lvbench", "--decode", "--json"]);
        let output = command.arg("--data").arg(dir.path()).output().unwrap();
        let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        checks[0].clone()
    };
    let first = decode();
    assert_eq!(first["decoded_videos"].as_array().unwrap().len(), 3, "{first}");
    let kept = cache.path().join("decoded.json");
    let written = std::fs::read_to_string(&kept).unwrap();
    assert!(!written.contains(dir.path().to_str().unwrap()), "{written}");
    // What is kept is believed as long as the file is the same.
    let path = dir.path().join("lvbench/nanoLV_0.mp4");
    std::fs::write(&kept, written.replace("\"codec\":\"h264\"", "\"codec\":\"kept\"")).unwrap();
    assert!(decode()["decoded_videos"].as_array().unwrap().iter().all(|video| video["codec"] == "kept"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let changed = decode();
    assert_eq!(changed["unreadable_videos"].as_array().unwrap().len(), 1, "{changed}");
    assert_eq!(changed["decoded_videos"].as_array().unwrap().len(), 2, "{changed}");
}

#[test]
fn check_counts_subtitles_and_answers_in_json() {
    let said = check(&["videomme_wsub", "--json"], world(), 1);
    let checks: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(checks[0]["subtitles"], serde_json::json!([2, 744]));
    assert_eq!(checks[0]["missing_videos"], serde_json::json!([]));
    let hash = paravt_suite::data::sha256_file(&annotation(named("videomme_wsub"))).unwrap();
    assert_eq!(checks[0]["sha256"], serde_json::json!(hash));
    let findings = checks[0]["findings"].to_string();
    let provider = r#""files":"subtitle.zip","repository":"lmms-eval/Video-MME","revision":"ead1408f"#;
    assert!(findings.contains(provider), "{findings}");
    assert!(findings.contains(r#""kind":"revision""#), "{findings}");
}

#[test]
fn check_of_an_empty_root_names_the_annotation_file_of_every_split() {
    let dir = tempfile::tempdir().unwrap();
    let said = check(&[], dir.path(), 1);
    for (split, file) in SPLITS.iter().zip([
        "videomme/test-00000-of-00001.parquet of lmms-eval/Video-MME",
        "videomme/test-00000-of-00001.parquet of lmms-eval/Video-MME",
        "validation-00000-of-00001.parquet of longvideobench/LongVideoBench",
        "data/train-00000-of-00001.parquet of lmms-eval/LVBench",
        "mlvu/test-00000-of-00001.parquet of sy1998/MLVU_dev",
        "validation.json of yale-nlp/MMVU",
        "data/test-00000-of-00001.parquet of lmms-eval/charades_sta",
    ]) {
        let line = said.lines().position(|line| line.split_whitespace().next() == Some(split)).unwrap();
        let next = said.lines().nth(line + 1).unwrap();
        assert_eq!(next.trim(), format!("missing: {file}"), "{said}");
    }
}
