//! A recipe as Slurm jobs: the scripts run by bash here, and jobs of a real Slurm where `ci/target8/slurm` has started one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::recipes::{served, stage};
use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, stable_records, text, until, world};

struct World {
    folder: tempfile::TempDir,
    server: Server,
    data: PathBuf,
}

impl World {
    fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recipe = served("owner/model", "engine = \"vllm\"");
        std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
        Self { folder, server: Server::start(script), data: world().to_owned() }
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, out: &str, extra: &[&str]) -> Command {
        let mut command = bench();
        command.current_dir(self.at()).args(["reproduce", "small.toml", "--out", out]);
        command.args(["--protocol", "native", "--limit", "5", "--tries", "1"]);
        command.args(["--base-url", &self.server.base_url, "--data"]).arg(&self.data).args(extra);
        command
    }

    fn launch(&self, extra: &[&str]) -> Command {
        let flags = ["--launcher", "slurm", "--shards", "3", "--node-gpus", "0"];
        self.command("my out", &[&flags, extra].concat())
    }

    /// Writes the scripts as on a machine without Slurm, which is refused afterwards.
    fn write(&self, extra: &[&str]) {
        ends(3, self.launch(extra).env("PATH", ""), &["--launcher local"]);
    }

    /// Runs a script as an element of the array.
    fn script(&self, name: &str, element: u32) -> Command {
        let mut bash = Command::new("bash");
        bash.arg(self.slurm(&format!("{name}.sbatch"))).env("SLURM_ARRAY_TASK_ID", element.to_string());
        bash.current_dir(self.at());
        bash
    }

    /// A file below the folder of the jobs.
    fn slurm(&self, name: &str) -> PathBuf {
        self.at().join("my out/slurm").join(name)
    }

    /// The run directory of a stage.
    fn run(&self, out: &str, name: &str, split: &str) -> PathBuf {
        stage(&self.at().join(out), name).unwrap().join(split)
    }
}

const EVALUATIONS: [(&str, &str); 4] = [
    ("with-tool-mlvu", "mlvu"),
    ("no-tool-mlvu", "mlvu"),
    ("with-tool-charades", "charades"),
    ("no-tool-charades", "charades"),
];

#[test]
fn shards_of_an_array_are_merged_to_what_one_machine_makes() {
    let world = World::new(Script::default());
    let plan = ends(0, world.launch(&["--plan"]), &[]);
    assert!(!world.at().join("my out").exists(), "{plan}");
    world.write(&[]);
    for name in ["prepare", "evaluate", "collect"] {
        let script = std::fs::read_to_string(world.slurm(&format!("{name}.sbatch"))).unwrap();
        assert!(plan.contains(&script), "{plan}");
    }
    for (name, element) in [("prepare", 0), ("evaluate", 1), ("evaluate", 2), ("evaluate", 3)] {
        ok(world.script(name, element));
    }
    ends(0, world.script("collect", 0), &["with-tool-mlvu: 3 shards merged", "MLVU"]);
    let mut status = bench();
    ends(0, status.current_dir(world.at()).args(["status", "my out"]), &["4 of 4 stages are done"]);
    ok(world.command("alone", &[]));
    for (stage, split) in EVALUATIONS {
        let (merged, alone) = (world.run("my out", stage, split), world.run("alone", stage, split));
        assert_eq!(stable_records(&merged), stable_records(&alone), "{stage}");
        let summary = |run: &Path| std::fs::read_to_string(run.join("summary.json")).unwrap();
        let figures = |run: &Path| {
            let value: serde_json::Value = serde_json::from_str(&summary(run)).unwrap();
            (value["complete"].clone(), value["n_expected"].clone(), value["metrics"].clone())
        };
        assert_eq!(figures(&merged), figures(&alone), "{stage}");
        assert_eq!(
            merged.parent().unwrap().file_name(),
            alone.parent().unwrap().file_name(),
            "the same stage"
        );
    }
}

#[test]
fn an_element_that_failed_is_named_with_the_command_that_runs_it_again() {
    let world = World::new(Script::default());
    world.write(&["--only", "mlvu"]);
    // The second element cannot write its folder.
    std::fs::write(world.slurm("shard-2"), "in the way").unwrap();
    for element in [1, 2, 3] {
        let output = world.script("evaluate", element).output().unwrap();
        assert_eq!(output.status.success(), element != 2, "{}", text(&output));
        assert!(element != 2 || text(&output).contains("shard-2"), "{}", text(&output));
    }
    let words = ["shard 2/3 is not done: with-tool-mlvu, no-tool-mlvu; see ", "sbatch --array=2 "];
    let said = ends(4, world.script("collect", 0), &words);
    assert!(!said.contains("shard 1/3"), "{said}");
    std::fs::remove_file(world.slurm("shard-2")).unwrap();
    ok(world.script("evaluate", 2));
    ends(0, world.script("collect", 0), &["with-tool-mlvu: 3 shards merged"]);
    assert_eq!(stable_records(&world.run("my out", "no-tool-mlvu", "mlvu")).len(), 5);
}

#[test]
fn what_the_jobs_cannot_have_is_refused_before_anything_is_written() {
    let world = World::new(Script::default());
    for (flags, word) in [
        (&["--until", "serve"][..], "--until"),
        (&["--shard", "1/2"], "--shard"),
        (&["--sbatch-option=partition"], "--partition=gpu"),
        (&["--shards=0"], "--shards"),
    ] {
        ends(2, world.launch(flags), &[word]);
    }
    assert!(!world.at().join("my out").exists());
}

/// Jobs of the Slurm that `SLURM_CONF` names, of one node.
mod real_cluster {
    use super::*;

    /// The words that a command of Slurm prints.
    fn slurm(program: &str, args: &[&str]) -> Vec<String> {
        let output = ok(Command::new(program).args(args));
        String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// Slurm waits two minutes before it starts a requeued job.
    const SECONDS: u64 = 400;

    impl World {
        /// A server that answers slowly enough for a job to be seen at work.
        fn slow() -> Self {
            Self::new(Script { delay: Duration::from_millis(400), ..Script::default() })
        }

        fn submitted(&self) {
            ok(self.launch(&["--only", "mlvu"]));
        }

        /// The number of the job of a name.
        fn job(&self, name: &str) -> String {
            let text = std::fs::read_to_string(self.slurm("jobs.json")).unwrap();
            let jobs: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
            let job = jobs.iter().find(|job| job["name"] == name).unwrap();
            job["id"].as_str().unwrap().to_owned()
        }

        /// Waits until an element of the array has written records.
        fn at_work(&self, element: u32) {
            let shard = self.slurm(&format!("shard-{element}"));
            until("an element at work", SECONDS, || {
                let runs = stage(&shard, "with-tool-mlvu");
                runs.is_some_and(|runs| runs.join("mlvu/journal.jsonl").is_file())
            });
        }

        /// Waits for all jobs to end; the log of the last.
        fn collected(&self) -> String {
            let queue = || slurm("squeue", &["--noheader", "--format=%A"]);
            until("all jobs ended", SECONDS, || queue().is_empty());
            std::fs::read_to_string(self.slurm("collect.log")).unwrap_or_default()
        }

        fn merged(&self, said: &str) {
            assert!(said.contains("with-tool-mlvu: 3 shards merged"), "{said}");
            assert_eq!(stable_records(&self.run("my out", "with-tool-mlvu", "mlvu")).len(), 5);
        }
    }

    #[test]
    #[ignore = "needs Slurm: run by ci/target8/slurm"]
    fn shards_run_one_after_the_other_and_a_second_submission_waits() {
        let world = World::slow();
        world.submitted();
        ends(3, world.launch(&["--only", "mlvu"]), &["scancel "]);
        world.merged(&world.collected());
        // Everything is done: another submission asks nothing.
        let asked = world.server.requests.load(std::sync::atomic::Ordering::SeqCst);
        world.submitted();
        world.collected();
        assert_eq!(world.server.requests.load(std::sync::atomic::Ordering::SeqCst), asked);
    }

    #[test]
    #[ignore = "needs Slurm: run by ci/target8/slurm"]
    fn a_cancelled_element_is_named_and_its_command_runs_it_again() {
        let world = World::slow();
        world.submitted();
        world.at_work(2);
        slurm("scancel", &[&format!("{}_2", world.job("evaluate"))]);
        let said = world.collected();
        assert!(said.contains("shard 2/3 is not done: "), "{said}");
        let command = said.lines().find_map(|line| line.split_once("this: sbatch ")).unwrap().1;
        let (array, script) = command.split_once(' ').unwrap();
        // Quoted for a shell: the folder has a space.
        slurm("sbatch", &["--parsable", array, script.trim_matches('\'')]);
        world.collected();
        world.submitted();
        world.merged(&world.collected());
    }

    #[test]
    #[ignore = "needs Slurm: run by ci/target8/slurm"]
    fn a_requeued_element_continues_in_the_same_log() {
        let world = World::slow();
        world.submitted();
        world.at_work(1);
        slurm("scontrol", &["requeue", &format!("{}_1", world.job("evaluate"))]);
        world.merged(&world.collected());
        let log = std::fs::read_to_string(world.slurm("evaluate-1.log")).unwrap();
        assert!(log.matches("with-tool-mlvu").count() >= 2, "{log}");
    }

    #[test]
    #[ignore = "needs Slurm: run by ci/target8/slurm"]
    fn after_a_failed_first_job_nothing_is_evaluated() {
        let mut world = World::new(Script::default());
        world.data = world.at().join("empty");
        std::fs::create_dir(&world.data).unwrap();
        ok(world.launch(&[]));
        let said = world.collected();
        assert!(said.contains("shard 1/3 is not done") && said.contains("shard 3/3 is not done"), "{said}");
        let log = std::fs::read_to_string(world.slurm("prepare.log")).unwrap();
        assert!(log.contains("mlvu"), "{log}");
        assert!(!world.slurm("evaluate-1.log").exists(), "{log}");
        assert_eq!(world.server.requests.load(std::sync::atomic::Ordering::SeqCst), 0);
    }
}
