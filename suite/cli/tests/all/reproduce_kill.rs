//! A reproduction that is killed at any moment ends, after the same command again, with the weights and records of
//! an uninterrupted one.
//!
//! `PARAVT_KILLS` kills in each stage (2), `PARAVT_KILL_RECIPE` the file of another recipe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::recipes::{EMBEDDED, stage};
use crate::common::{bench, ok, stable_records, text};

/// The shared recipe with more steps and one evaluation. It saves often enough that two checkpoints push the first one
/// out.
fn recipe() -> String {
    let (recipe, _) = EMBEDDED.rsplit_once("[[stages]]").unwrap();
    let lines = recipe.lines().filter(|line| !line.starts_with("comparisons"));
    let mut recipe: String = lines.map(|line| format!("{line}\n")).collect();
    for (from, to) in [
        ("rows = 8\n", "rows = 16\n"),
        ("steps = 3\n", "steps = 8\n"),
        ("steps = 2\n", "steps = 4\n"),
        ("packs_per_step = 1\n", "packs_per_step = 2\n"),
        ("save_every = 2\n", "save_every = 1\n"),
    ] {
        assert_eq!(recipe.matches(from).count(), 1, "{from}");
        recipe = recipe.replace(from, to);
    }
    recipe
}

fn command(folder: &Path, out: &str) -> Command {
    let mut command = bench();
    command.current_dir(folder).args(["reproduce", "recipe.toml", "--out", out]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn is_done(out: &Path, name: &str) -> bool {
    stage(out, name).is_some_and(|folder| folder.join("stage.json").is_file())
}

/// What a reproduction ends with.
#[derive(Default)]
struct Results {
    /// SHA-256 of every file of the trained models, by stage and file name.
    models: BTreeMap<String, String>,
    /// Lines of the training logs without their times.
    steps: Vec<String>,
    /// Records of every split of every evaluation without their times.
    records: Vec<serde_json::Value>,
}

impl Results {
    fn read(out: &Path, stages: &[(String, f64)]) -> Self {
        let mut results = Self::default();
        for (name, _) in stages {
            let folder = stage(out, name).unwrap();
            if folder.join("final").is_dir() {
                results.read_training(name, &folder);
            }
            for run in folders(&folder).filter(|run| run.join("journal.jsonl").is_file()) {
                let records = stable_records(&run);
                assert!(!records.is_empty(), "{}", run.display());
                results.records.extend(records.iter().map(|record| serde_json::to_value(record).unwrap()));
            }
        }
        assert!(!results.models.is_empty() && !results.steps.is_empty() && !results.records.is_empty());
        results
    }

    fn read_training(&mut self, name: &str, folder: &Path) {
        for entry in std::fs::read_dir(folder.join("final")).unwrap() {
            let path = entry.unwrap().path();
            let hash = paravt_files::sha256_file(&path).unwrap();
            self.models.insert(format!("{name}/{}", path.file_name().unwrap().to_string_lossy()), hash);
        }
        assert!(self.models.contains_key(&format!("{name}/config.json")), "{:?}", self.models);
        for line in std::fs::read_to_string(folder.join("training.jsonl")).unwrap().lines() {
            let mut fields: serde_json::Value = serde_json::from_str(line).unwrap();
            fields.as_object_mut().unwrap().retain(|field, _| !field.contains("second"));
            self.steps.push(format!("{name} {fields}"));
        }
    }
}

/// The folders in a folder, sorted.
fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found.into_iter()
}

/// Stages in their order and how long each took, in seconds, from lines as "sft    took 12 s".
fn stages_of(told: &str) -> Vec<(String, f64)> {
    let stage = |line: &str| {
        let (line, seconds) = line.strip_suffix(" s")?.rsplit_once(" took ")?;
        let name = line.split_whitespace().next()?.to_owned();
        Some((name, seconds.parse::<f64>().ok()?.max(0.5)))
    };
    told.lines().filter_map(stage).collect()
}

/// Runs the command, and kills it after a share of the time that a stage takes, counted from its beginning.
fn kill(folder: &Path, name: &str, again: bool, after: Duration) -> bool {
    let out = folder.join("killed");
    let mut command = command(folder, "killed");
    if again {
        command.args(["--from", name]);
    }
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let begun = |out: &Path| stage(out, name).is_some_and(|folder| folder.join("begun.json").is_file());
    // The folder of an earlier try is there from the start.
    while !begun(&out) && child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(300)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(after);
    let hit = child.try_wait().unwrap().is_none() && !is_done(&out, name);
    let _ = child.kill();
    child.wait().unwrap();
    hit
}

#[test]
fn a_kill_at_any_moment_of_any_stage_changes_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let given = std::env::var_os("PARAVT_KILL_RECIPE").map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(folder.path().join("recipe.toml"), given.unwrap_or_else(recipe)).unwrap();
    let kills: u32 = std::env::var("PARAVT_KILLS").map_or(2, |count| count.parse().unwrap());

    let whole = ok(command(folder.path(), "whole"));
    let stages = stages_of(&text(&whole));
    assert!(stages.len() >= 6, "{stages:?}\n{}", text(&whole));

    let out = folder.path().join("killed");
    let mut hits = BTreeMap::new();
    // A stage goes on from its last checkpoint after each kill: many kills have the whole stage before them with
    // short ways between them.
    let reach = (5.0 / f64::from(kills)).min(1.0);
    for (name, seconds) in &stages {
        for number in 0..kills {
            // Steps of the golden section: moments everywhere in the stage, none of them twice.
            let share = (0.13 + f64::from(number) * 0.618_034).fract();
            let after = Duration::from_secs_f64(share * reach * seconds);
            let hit = kill(folder.path(), name, is_done(&out, name), after);
            *hits.entry(name.as_str()).or_insert(0) += u32::from(hit);
        }
        eprintln!(
            "{name}: {} of {kills} kills hit the stage ({seconds:.0} s undisturbed)",
            hits[name.as_str()]
        );
    }
    assert!(hits["sft"] + hits["rl"] > 0, "no kill hit a training");
    ok(command(folder.path(), "killed"));
    let expected = Results::read(&folder.path().join("whole"), &stages);
    let found = Results::read(&out, &stages);
    assert_eq!(found.models, expected.models, "files of the trained models");
    assert_eq!(found.steps, expected.steps, "steps of the training logs");
    assert_eq!(found.records, expected.records, "records");
    eprintln!(
        "equal to an undisturbed run: {} files of trained models, {} steps of training logs, {} records",
        expected.models.len(),
        expected.steps.len(),
        expected.records.len()
    );
    // Nothing half-made is left behind, and nothing is done again.
    for entry in std::fs::read_dir(out.join("stages")).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.join("stage.json").is_file(), "{}", path.display());
    }
    let again = command(folder.path(), "killed").output().unwrap();
    assert_eq!(text(&again).matches("(done before)").count(), stages.len(), "{}", text(&again));
}
