//! A recipe as Slurm jobs, which a stand-in for `sbatch` runs on this machine; with `PARAVT_SLURM` set, the `sbatch` on
//! PATH.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::recipes::{served, stage};
use crate::common::server::{Script, Server};
use crate::common::{bench, stable_records, text, world};

/// Takes a script as sbatch does, runs each element of its array, one after the other, and waits for nobody: when it
/// answers, the job has ended. A file with the job's number holds whether all elements succeeded.
const SBATCH: &str = r#"#!/bin/bash
set -u
state=$SLURM_STANDIN; id=$(($(cat "$state/last" 2>/dev/null || echo 100) + 1)); echo $id > "$state/last"
for word in "$@"; do case $word in
  --dependency=afterok:*) [ "$(cat "$state/${word##*:}")" = ok ] || { echo cancelled > "$state/$id"; echo $id; exit 0; } ;;
  --dependency=afterany:*) [ -f "$state/${word##*:}" ] || exit 1 ;;
  --parsable|--kill-on-invalid-dep=yes) ;;
  --array=*) range=${word#--array=} ;;
  -*) echo "sbatch: unrecognized option '$word'" >&2; exit 1 ;;
  *) script=$word ;;
esac; done
option() { sed -n "s/^#SBATCH --$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" "$script"; }
[ -n "$(option chdir)" ] && cd "$(option chdir)"
given=$(option array); range=${range:-${given:-}}
case $range in '') elements=0 ;; *-*) elements=$(seq "${range%-*}" "${range#*-}") ;; *) elements=${range//,/ } ;; esac
result=ok
for element in $elements; do
  log=$(option output); log=${log//%a/$element}
  SLURM_JOB_ID=$id SLURM_ARRAY_TASK_ID=$element bash "$script" >> "$log" 2>&1 || result=failed
done
echo $result > "$state/$id"
echo "$id;standin"
"#;

struct World {
    folder: tempfile::TempDir,
    server: Server,
}

impl World {
    fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recipe = served("owner/model", "engine = \"vllm\"");
        std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        for (name, script) in
            [("sbatch", SBATCH), ("squeue", "#!/bin/sh\ncat \"$SLURM_STANDIN/queue\" 2>/dev/null\n")]
        {
            std::fs::write(programs.join(name), script).unwrap();
            std::fs::set_permissions(programs.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder, server: Server::start(script) }
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, out: &str, extra: &[&str]) -> Command {
        let mut command = bench();
        command.current_dir(self.at()).args([
            "reproduce",
            "small.toml",
            "--out",
            out,
            "--protocol",
            "native",
        ]);
        command
            .args(["--limit", "5", "--tries", "1", "--base-url", &self.server.base_url, "--data"])
            .arg(world());
        command.args(extra).env("SLURM_STANDIN", self.at());
        if std::env::var_os("PARAVT_SLURM").is_none() {
            let path = std::env::var("PATH").unwrap();
            command.env("PATH", format!("{}:{path}", self.at().join("bin").display()));
        }
        command
    }

    fn submit(&self, extra: &[&str]) -> Output {
        let flags = ["--launcher", "slurm", "--shards", "3", "--node-gpus", "0"];
        self.command("my out", &[&flags, extra].concat()).output().unwrap()
    }

    /// A file below the folder of the jobs.
    fn slurm(&self, name: &str) -> PathBuf {
        self.at().join("my out/slurm").join(name)
    }

    /// Waits for the last job, where jobs do not end with their submission; its log.
    fn collected(&self) -> String {
        let until = Instant::now() + Duration::from_secs(240);
        while std::env::var_os("PARAVT_SLURM").is_some() && Instant::now() < until {
            let output = Command::new("squeue").args(["--noheader", "--format=%A"]).output().unwrap();
            if output.status.success() && output.stdout.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        std::fs::read_to_string(self.slurm("collect.log")).unwrap_or_default()
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
    let plan = world.submit(&["--plan"]);
    assert!(plan.status.success() && !world.at().join("my out").exists(), "{}", text(&plan));
    let output = world.submit(&[]);
    assert!(output.status.success(), "{}", text(&output));
    let said = world.collected();
    for name in ["prepare", "evaluate", "collect"] {
        let script = std::fs::read_to_string(world.slurm(&format!("{name}.sbatch"))).unwrap();
        assert!(text(&plan).contains(&script), "{}", text(&plan));
    }
    assert!(said.contains("with-tool-mlvu: 3 shards merged") && said.contains("MLVU"), "{said}");
    let whole = world.command("alone", &[]).output().unwrap();
    assert!(whole.status.success(), "{}", text(&whole));
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
    // Everything is done: a second submission asks nothing.
    let asked = world.server.requests.load(std::sync::atomic::Ordering::SeqCst);
    assert!(world.submit(&[]).status.success());
    assert_eq!(world.collected().matches("shards merged").count(), 4, "{}", world.collected());
    assert_eq!(world.server.requests.load(std::sync::atomic::Ordering::SeqCst), asked);
}

#[test]
fn an_element_that_failed_is_named_and_the_next_submission_does_what_is_left() {
    let world = World::new(Script::default());
    // The second element cannot write its folder.
    std::fs::create_dir_all(world.slurm("")).unwrap();
    std::fs::write(world.slurm("shard-2"), "in the way").unwrap();
    assert!(world.submit(&["--only", "mlvu"]).status.success());
    let said = world.collected();
    assert!(said.contains("shard 2/3 is not done: with-tool-mlvu, no-tool-mlvu; see "), "{said}");
    assert!(said.contains("sbatch --array=2 ") && !said.contains("shard 1/3"), "{said}");
    let log = std::fs::read_to_string(world.slurm("evaluate-2.log")).unwrap();
    assert!(log.contains("shard-2"), "{log}");
    std::fs::remove_file(world.slurm("shard-2")).unwrap();
    let before = world.server.requests.load(std::sync::atomic::Ordering::SeqCst);
    assert!(world.submit(&["--only", "mlvu"]).status.success());
    let said = world.collected();
    assert!(said.contains("with-tool-mlvu: 3 shards merged"), "{said}");
    assert_eq!(stable_records(&world.run("my out", "no-tool-mlvu", "mlvu")).len(), 5);
    let asked = world.server.requests.load(std::sync::atomic::Ordering::SeqCst) - before;
    assert!(asked > 0 && asked < before, "{asked} requests for one shard of three, {before} before");
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
        let output = world.submit(flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output));
        assert!(text(&output).contains(word), "{}", text(&output));
    }
    assert!(!world.at().join("my out").exists());
    if std::env::var_os("PARAVT_SLURM").is_some() {
        return;
    }
    // Jobs that wait, and a machine without Slurm.
    assert!(world.submit(&[]).status.success());
    std::fs::write(world.at().join("queue"), "102\n102\n").unwrap();
    let output = world.submit(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("scancel 102"), "{}", text(&output));
    std::fs::remove_dir_all(world.at().join("my out")).unwrap();
    let output = world.command("my out", &["--launcher", "slurm"]).env("PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("--launcher local"), "{}", text(&output));
}
