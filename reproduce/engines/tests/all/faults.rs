//! What can go wrong with a training in another program, with stand-ins that write what the real ones write.
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use paravt_engines::record::{RECORD, Record};
use paravt_engines::{CURVES, Error, Job, JobContext, Outcome, Paths, Update, Watch, merge, pick, rl, sft};

use crate::model::model;
use crate::standin;

/// Folder and stage of the process that is killed in [`a_kill_at_any_moment_leaves_no_process_and_is_resumed`].
const HOLDER: [&str; 2] = ["PARAVT_ENGINES_FOLDER", "PARAVT_ENGINES_STAGE"];

/// A folder with everything that the stages need, all of it stood in for.
struct Bench {
    root: PathBuf,
    environment: BTreeMap<String, String>,
    watch: Watch,
}

impl Bench {
    fn new(root: &Path) -> Self {
        standin::release(root);
        std::fs::create_dir_all(root.join("rows")).unwrap();
        for name in ["paravt_sft_b.parquet", "paravt_sft_videor1_50k.parquet", "paravt_rl.parquet"] {
            std::fs::write(root.join("rows").join(name), "rows").unwrap();
        }
        if !root.join("base").exists() {
            model(&root.join("base"), &[("a", vec![4], 0x3f80)]);
            model(&root.join("merged"), &[("a", vec![4], 0x3f81)]);
        }
        let watch = Watch {
            ready_seconds: 20.0,
            first_step_seconds: 20.0,
            replay_seconds: 0.0,
            stall_seconds: 20.0,
            grace_seconds: 2.0,
            poll_seconds: 0.02,
            ..Watch::default()
        };
        Self { root: root.to_owned(), environment: BTreeMap::new(), watch }
    }

    fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.insert(name.to_owned(), value.to_string());
        self
    }

    fn paths(&self) -> Paths {
        Paths {
            checkout: self.root.join("checkout"),
            engines: self.root.join("engines"),
            sft_environment: self.root.join("env"),
            rl_environment: self.root.join("env"),
            base: self.root.join("base"),
            sft_rows: self.root.join("rows"),
            rl_rows: self.root.join("rows/paravt_rl.parquet"),
        }
    }

    fn sft(&self) -> sft::Job {
        let settings = sft::Settings {
            processes: 2,
            steps: 12,
            stop_after: Some(8),
            save_every: 2,
            ..sft::Settings::default()
        };
        let (watch, environment) = (self.watch.clone(), self.environment.clone());
        sft::Job { settings, watch, environment, paths: self.paths() }
    }

    fn merge(&self) -> merge::Job {
        let sft::Job { settings, watch, mut environment, paths } = self.sft();
        environment.insert("STANDIN_MODEL".to_owned(), self.root.join("merged").display().to_string());
        merge::Job { sft: self.folder("sft"), settings, watch, environment, paths }
    }

    fn rl(&self) -> rl::Job {
        let settings = rl::Settings {
            steps: 9,
            pick: 7,
            trainers: 2,
            prompts: 2,
            save_every: 2,
            ..rl::Settings::default()
        };
        let (watch, environment) = (self.watch.clone(), self.environment.clone());
        let model = self.root.join("base");
        rl::Job { settings, watch, environment, paths: self.paths(), model, gpus: Vec::new() }
    }

    fn folder(&self, stage: &str) -> PathBuf {
        let folder = self.root.join("stages").join(stage);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn job(&self, stage: &str) -> Job {
        match stage {
            "sft" => Job::Sft(self.sft()),
            "merge" => Job::Merge(self.merge()),
            _ => Job::Rl(Box::new(self.rl())),
        }
    }

    /// Runs a stage; the notes of it, and how it ended.
    fn run(&self, stage: &str) -> (Vec<String>, Result<Outcome, Error>) {
        self.run_until(stage, &|| false)
    }

    fn run_until(&self, stage: &str, stopped: &dyn Fn() -> bool) -> (Vec<String>, Result<Outcome, Error>) {
        let (folder, mut notes) = (self.folder(stage), Vec::new());
        let mut observer = |update: Update<'_>| {
            if let Update::Note(note) = update {
                notes.push(note.to_owned());
            }
        };
        let ended =
            self.job(stage).run(&mut JobContext { folder: &folder, stopped, observer: &mut observer });
        (notes, ended)
    }

    fn failure(&self, stage: &str) -> String {
        self.run(stage).1.unwrap_err().to_string()
    }

    fn steps(&self, stage: &str) -> Vec<u64> {
        let text = std::fs::read_to_string(self.folder(stage).join(CURVES)).unwrap();
        let step =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64().unwrap();
        text.lines().map(step).collect()
    }

    fn record(&self, stage: &str) -> Record {
        serde_json::from_slice(&std::fs::read(self.folder(stage).join(RECORD)).unwrap()).unwrap()
    }

    /// Processes that a stage started and that still run.
    fn left(&self) -> Vec<String> {
        let folder = self.root.display().to_string();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let of = |name: &str| {
                String::from_utf8_lossy(&std::fs::read(entry.path().join(name)).unwrap_or_default())
                    .replace('\0', " ")
            };
            let (line, environ) = (of("cmdline"), of("environ"));
            if !line.is_empty() && environ.contains(&format!("PARAVT_STEPS={folder}")) {
                found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
            }
        }
        found
    }

    fn all_gone(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.left().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.left().is_empty()
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn sft_stops_in_order_after_its_checkpoint_and_is_merged() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    let (notes, ended) = bench.run("sft");
    assert_eq!(ended.unwrap(), Outcome::Complete, "{notes:?}");
    let steps = bench.steps("sft");
    assert_eq!(steps[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(steps.len() < 12, "it was not stopped: {steps:?}");
    assert!(bench.all_gone(), "{:?}", bench.left());
    let record = bench.record("sft");
    assert!(
        record.commands[0].starts_with("{sft_environment}/bin/torchrun --nproc_per_node=2"),
        "{record:?}"
    );
    let text = serde_json::to_string(&record).unwrap();
    assert!(!text.contains(&root.path().display().to_string()), "{text}");
    assert!(text.contains("sft.steps = 12; the release's recipe: 1500"), "{text}");
    // The rows in the order of the release's manifest, others after them.
    let manifest = std::fs::read_to_string(bench.folder("sft").join("scratch/manifest.yaml")).unwrap();
    assert!(manifest.find("videor1_50k").unwrap() < manifest.find("paravt_sft_b").unwrap(), "{manifest}");
    assert!(!manifest.contains("paravt_rl"));
    // Done already.
    assert_eq!(bench.run("sft").1.unwrap(), Outcome::Complete);
    assert_eq!(bench.record("sft").starts.len(), 1);

    let (notes, ended) = bench.run("merge");
    assert_eq!(ended.unwrap(), Outcome::Complete);
    assert!(notes[0].contains("1 tensors with 4 parameters"), "{notes:?}");
    assert!(merge::model(&bench.folder("merge")).join("sha256.json").is_file());
    model(&bench.root.join("merged"), &[("a", vec![4], 0x7fc0)]);
    let failure = bench.failure("merge");
    assert!(failure.contains("not finite"), "{failure}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_crash_after_a_step_is_resumed_and_one_without_a_step_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path())
        .with("STANDIN_FAULT", "crash@5")
        .with("STANDIN_ONCE", root.path().join("once").display());
    let (notes, ended) = bench.run("sft");
    assert_eq!(ended.unwrap(), Outcome::Complete);
    assert!(notes.iter().any(|note| note.contains("out of memory") && note.contains("1 of 2")), "{notes:?}");
    let starts = bench.record("sft").starts;
    assert_eq!(starts.iter().map(|start| start.resumed).collect::<Vec<_>>(), [0, 4]);
    let (crashed, exit) = (&starts[0], &starts[0].processes[0].exit);
    assert_eq!((crashed.step, exit.as_deref()), (Some(5), Some("exit status: 1")), "{crashed:?}");
    assert!(crashed.began > 0.0 && crashed.ended_at >= Some(crashed.began), "{crashed:?}");
    assert_eq!(bench.steps("sft")[..8], [1, 2, 3, 4, 5, 6, 7, 8], "each step once");

    let root = tempfile::tempdir().unwrap();
    let failure = Bench::new(root.path()).with("STANDIN_FAULT", "crash@0").failure("sft");
    assert!(
        failure.contains("sft: ended with exit status: 1") && failure.contains("out of memory"),
        "{failure}"
    );
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_silent_stall_and_missing_kernels_end_a_training() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(root.path()).with("STANDIN_FAULT", "stall@3");
    (bench.watch.stall_seconds, bench.watch.idle_seconds, bench.watch.restarts) = (0.6, 0.1, 0);
    let failure = bench.failure("sft");
    assert!(failure.contains("no step for") && failure.contains("lost peer"), "{failure}");
    assert!(bench.all_gone(), "{:?}", bench.left());

    let root = tempfile::tempdir().unwrap();
    let failure = Bench::new(root.path()).with("STANDIN_FAULT", "patch@0").failure("sft");
    assert!(failure.contains("go on without them") && failure.contains("monkey patch"), "{failure}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn rows_that_were_lost_on_the_way_end_a_training() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    let report = |rows: usize| serde_json::json!({"files": [{"name": "paravt_sft_b.parquet", "rows": rows}, {"name": "paravt_rl.parquet", "rows": rows}]});
    std::fs::write(root.path().join("rows/materialize.json"), report(4).to_string()).unwrap();
    let failure = bench.failure("sft");
    assert!(failure.contains("it read 3 rows, and 4 were written"), "{failure}");
    let failure = bench.failure("rl");
    assert!(failure.contains("it read 5 rows, and 4 were written"), "{failure}");
    std::fs::write(root.path().join("rows/materialize.json"), report(3).to_string()).unwrap();
    bench.run("sft").1.unwrap();
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn reinforcement_learning_ends_with_its_steps_and_the_chosen_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    let (notes, ended) = bench.run("rl");
    assert_eq!(ended.unwrap(), Outcome::Complete, "{notes:?}");
    assert_eq!(bench.steps("rl"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(bench.all_gone(), "{:?}", bench.left());
    let first = std::fs::read_to_string(bench.folder("rl").join(CURVES)).unwrap();
    assert!(first.starts_with("{\"step\":1,\"f_tau\":0.1,\"kappa\":1.5,\"reward\":0.5}"), "{first}");
    let (rl, folder) = (bench.folder("rl"), bench.folder("pick"));
    let mut job = pick::Job {
        rl,
        step: 7,
        base: bench
            .folder("rl")
            .join("scratch/experiments/checkpoints/someone/paravt/run/default/epoch0epochstep7globalstep7"),
    };
    let mut place = JobContext { folder: &folder, stopped: &|| false, observer: &mut |_| {} };
    Job::Pick(job.clone()).run(&mut place).unwrap();
    assert!(merge::model(&folder).join("model.safetensors").is_file());
    job.step = 2;
    let error = Job::Pick(job).run(&mut place).unwrap_err().to_string();
    assert!(error.contains("no checkpoint of step 2 (there are") && error.contains('7'), "{error}");
    // GPUs that nobody gave may be somebody else's.
    let job = rl::Job { gpus: vec!["4".to_owned(), "5".to_owned()], ..bench.rl() };
    let error = Job::Rl(Box::new(job)).run(&mut place).unwrap_err().to_string();
    assert!(error.contains("need 3 GPUs, 2 given: 4,5"), "{error}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_server_that_fails_or_dies_is_seen_at_once() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path()).with("STANDIN_SERVER", "crash");
    let began = Instant::now();
    let failure = bench.failure("rl");
    assert!(failure.contains("exception before it was ready") && failure.contains("cuDNN"), "{failure}");
    assert!(began.elapsed() < Duration::from_secs(15));

    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(root.path()).with("STANDIN_SERVER", "silent");
    bench.watch.ready_seconds = 0.5;
    assert!(bench.failure("rl").contains("server: not ready after 0.5 s"));

    // Both are restarted, and the training resumes from AReaL's state.
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path())
        .with("STANDIN_SERVER", "die@3")
        .with("STANDIN_STEP", "0.5")
        .with("STANDIN_ONCE", root.path().join("once").display());
    let (notes, ended) = bench.run("rl");
    assert_eq!(ended.unwrap(), Outcome::Complete, "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("exit status: 9 during the training")), "{notes:?}");
    let starts = bench.record("rl").starts;
    assert!(starts.len() == 2 && starts[1].resumed >= 2, "{starts:?}");
    let ran = |index: usize| {
        let ran = &starts[0].processes[index];
        (ran.name.as_str(), ran.pid > 0, ran.exit.clone().unwrap_or_default())
    };
    assert_eq!(ran(0), ("server", true, "exit status: 9".to_owned()));
    assert!(matches!(ran(1), ("trainer", true, exit) if exit.contains("signal")), "{starts:?}");
    // AReaL keeps the state of a step before it writes the step's line: a death between leaves no line of it.
    let steps = bench.steps("rl");
    let missing: Vec<u64> = (1..=9).filter(|step| !steps.contains(step)).collect();
    assert!(missing.is_empty() || missing == [starts[1].resumed as u64], "{steps:?} {starts:?}");
    assert_eq!(steps.len() + missing.len(), 9, "{steps:?}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn rollouts_that_all_fail_end_a_training() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(root.path()).with("STANDIN_FAULT", "lost@1");
    bench.watch.restarts = 0;
    let failure = bench.failure("rl");
    assert!(failure.contains("groups of answers were lost"), "{failure}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_torn_state_is_replaced_by_weights_in_a_trial_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(root.path())
        .with("STANDIN_FAULT", "crash@5")
        .with("STANDIN_ONCE", root.path().join("once").display());
    bench.watch.restarts = 0;
    bench.failure("rl");
    let trial = bench.folder("rl").join("scratch/experiments/checkpoints/someone/paravt/run");
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(trial.join("default/recover_checkpoint/__1_0.distcp"), "half").unwrap();
    let (notes, ended) = bench.run("rl");
    assert_eq!(ended.unwrap(), Outcome::Complete);
    assert!(
        notes[0].contains("__1_0.distcp is newer") && notes[1].contains("weights of step 4"),
        "{notes:?}"
    );
    assert_eq!(bench.steps("rl"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let config = std::fs::read_to_string(bench.folder("rl").join("scratch/config.yaml")).unwrap();
    assert!(
        config.contains("trial_name: \"run-from-4\"") && config.contains("total_train_steps: 5"),
        "{config}"
    );
    let reference = format!("ref.path: \"{}\"", root.path().join("base").display());
    assert!(config.contains(&reference), "the reference of the KL term stays: {config}");
    assert!(config.contains("actor.path: ") && config.contains("globalstep3"), "{config}");
    assert_eq!(bench.record("rl").starts[1].resumed, 4);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_kill_between_the_last_checkpoint_and_its_figures_leaves_nothing_to_train() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    let mut job = bench.rl();
    // The last step has a checkpoint and a state, which AReaL writes before the figures of the step.
    job.settings.steps = 8;
    let (job, folder) = (Job::Rl(Box::new(job)), bench.folder("rl"));
    let run = || job.run(&mut JobContext { folder: &folder, stopped: &|| false, observer: &mut |_| {} });
    assert_eq!(run().unwrap(), Outcome::Complete);
    let cut = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        std::fs::write(folder.join(name), &text[..last]).unwrap();
    };
    // Written by the trainer and not read from here.
    cut(CURVES);
    assert_eq!(run().unwrap(), Outcome::Complete);
    let starts = bench.record("rl").starts;
    assert_eq!((starts.len(), starts[1].resumed, starts[1].notes.len()), (2, 8, 0), "{starts:?}");
    assert!(starts[1].ended.as_ref().unwrap().contains("done before"), "{starts:?}");
    assert_eq!(bench.steps("rl"), [1, 2, 3, 4, 5, 6, 7, 8]);
    // Never written.
    cut(CURVES);
    cut("scratch/steps.jsonl");
    assert_eq!(run().unwrap(), Outcome::Complete);
    let starts = bench.record("rl").starts;
    assert!(starts[2].notes[0].contains("figures of step 8 are lost"), "{starts:?}");
    assert_eq!(bench.steps("rl"), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_training_that_the_user_stopped_is_resumed() {
    for stage in ["sft", "rl"] {
        let root = tempfile::tempdir().unwrap();
        let bench = Bench::new(root.path()).with("STANDIN_STEP", "0.1");
        let lines = bench.folder(stage).join(CURVES);
        let (_, ended) = bench.run_until(stage, &|| lines.is_file());
        assert_eq!(ended.unwrap(), Outcome::Interrupted);
        assert!(bench.all_gone(), "{:?}", bench.left());
        assert!(bench.record(stage).starts[0].ended.as_ref().unwrap().contains("stopped by the user"));
        assert_eq!(bench.run(stage).1.unwrap(), Outcome::Complete);
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_line_without_end_takes_no_memory() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(root.path()).with("STANDIN_FAULT", "line@2").with("STANDIN_MB", 1024);
    bench.watch.stall_seconds = 300.0;
    let before = resident();
    assert_eq!(bench.run("sft").1.unwrap(), Outcome::Complete);
    let log = std::fs::metadata(bench.folder("sft").join("scratch/sft.log")).unwrap().len();
    assert!(log < 1 << 16, "{log} bytes of log");
    assert!(resident() < before + (64 << 20), "{} bytes more", resident() - before);
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn missing_inputs_are_named_before_anything_starts() {
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    std::fs::remove_dir_all(root.path().join("env")).unwrap();
    for stage in ["sft", "rl"] {
        let failure = bench.failure(stage);
        assert!(failure.contains("bin/torchrun") && failure.contains("`environments`"), "{failure}");
    }
}

/// Runs a stage as a process of its own; ends it.
fn hold(folder: &str, stage: &str) -> ! {
    let mut bench = Bench::new(Path::new(folder));
    for name in ["STANDIN_STEP", "STANDIN_FAULT"] {
        if let Ok(value) = std::env::var(name) {
            bench = bench.with(name, value);
        }
    }
    let ended = bench.run(stage).1;
    if let Err(error) = &ended {
        eprintln!("{error}");
    }
    std::process::exit(i32::from(!matches!(ended, Ok(Outcome::Complete))));
}

/// This program with one test alone, which then is the process that runs a stage.
fn holder_of(test: &str, folder: &Path, stage: &str) -> Program {
    let mut program = Program::new(std::env::current_exe().unwrap());
    program.args(["--exact", &format!("faults::{test}"), "--include-ignored", "--nocapture"]);
    program.env(HOLDER[0], folder).env(HOLDER[1], stage);
    program
}

/// What [`holder_of`] asks of this process.
fn role() -> Option<[String; 2]> {
    let [folder, stage] = HOLDER.map(|name| std::env::var(name).ok());
    Some([folder?, stage?])
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_kill_at_any_moment_leaves_no_process_and_is_resumed() {
    if let Some([folder, stage]) = role() {
        hold(&folder, &stage);
    }
    for stage in ["sft", "rl"] {
        let root = tempfile::tempdir().unwrap();
        let bench = Bench::new(root.path());
        for number in 0..10_u64 {
            let mut program =
                holder_of("a_kill_at_any_moment_leaves_no_process_and_is_resumed", root.path(), stage);
            program.env("STANDIN_STEP", "0.15").stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = program.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(100 + number * 97));
            child.kill().unwrap();
            child.wait().unwrap();
            std::thread::sleep(Duration::from_millis(100));
            assert!(bench.all_gone(), "{stage} {number}: {:?}", bench.left());
        }
        let (notes, ended) = bench.run(stage);
        assert_eq!(ended.unwrap(), Outcome::Complete, "{notes:?}");
        // Each step once; of a step that was killed between its checkpoint and its figures, a note.
        let steps = bench.steps(stage);
        let noted: Vec<String> =
            bench.record(stage).starts.into_iter().flat_map(|start| start.notes).collect();
        let is_lost =
            |step: &u64| noted.iter().any(|note| note.contains(&format!("figures of step {step} are lost")));
        let expected: Vec<u64> =
            (1..=*steps.last().unwrap()).filter(|step| steps.contains(step) || !is_lost(step)).collect();
        assert_eq!(steps, expected, "{noted:?}");
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_full_disk_ends_a_training_with_its_reason_and_it_is_resumed() {
    if let Some([folder, stage]) = role() {
        hold(&folder, &stage);
    }
    let root = tempfile::tempdir().unwrap();
    let bench = Bench::new(root.path());
    // No file of this process and of what it starts may have more than a megabyte.
    let mut limited = Program::new("sh");
    limited.args(["-c", "ulimit -f 2048; trap '' XFSZ; exec \"$@\"", "sh"]);
    let holder =
        holder_of("a_full_disk_ends_a_training_with_its_reason_and_it_is_resumed", root.path(), "sft");
    limited.arg(holder.get_program()).args(holder.get_args());
    limited.env(HOLDER[0], root.path()).env(HOLDER[1], "sft").env("STANDIN_FAULT", "full@3").process_group(0);
    let output = limited.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("File too large"), "{text}");
    assert!(bench.all_gone(), "{:?}", bench.left());
    assert_eq!(bench.run("sft").1.unwrap(), Outcome::Complete);
}
