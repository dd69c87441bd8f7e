//! Scripts are written and submitted, each with its dependency on the one before.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use paravt_files::write_atomic;
use serde::{Deserialize, Serialize};

use crate::cluster::script::{After, Job, Options};
use crate::cluster::{Error, io};

/// Numbers of the jobs that were submitted last.
const JOBS: &str = "jobs.json";

/// A job that Slurm has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitted {
    pub name: String,
    pub id: String,
}

/// Writes the scripts of jobs into their folder, which is made; returns their paths.
///
/// # Errors
/// An option or a path that cannot be written into a script, a file that cannot be written.
pub fn write(jobs: &[Job], options: &Options) -> Result<Vec<PathBuf>, Error> {
    let folder = &options.folder;
    let scripts: Vec<String> = jobs.iter().map(|job| job.script(options)).collect::<Result<_, Error>>()?;
    std::fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
    let write = |(job, script): (&Job, String)| {
        let path = folder.join(job.file());
        write_atomic(&path, script.as_bytes()).map_err(io("write", &path))?;
        Ok(path)
    };
    jobs.iter().zip(scripts).map(write).collect()
}

/// Submits the scripts of jobs with `sbatch`. Jobs that were submitted from this folder before must have ended. When
/// one is refused, those before it are cancelled.
///
/// # Errors
/// No Slurm, jobs that have not ended, a job that Slurm refuses.
pub fn submit(jobs: &[Job], scripts: &[PathBuf], folder: &Path) -> Result<Vec<Submitted>, Error> {
    refuse_queued(folder)?;
    let mut submitted: Vec<Submitted> = Vec::new();
    for (job, script) in jobs.iter().zip(scripts) {
        let mut sbatch = Command::new("sbatch");
        sbatch
            .arg("--parsable")
            .args(dependency(job.after, submitted.last()))
            .arg(script)
            .stdin(Stdio::null());
        let output = sbatch.output().map_err(Error::NoSlurm)?;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        // `NUMBER` or `NUMBER;CLUSTER`, after what the cluster has to say.
        let id = answer.lines().last().and_then(|line| line.trim().split(';').next()).unwrap_or_default();
        if !output.status.success() || id.parse::<u64>().is_err() {
            let ids: Vec<&str> = submitted.iter().map(|job| job.id.as_str()).collect();
            if !ids.is_empty() {
                let _ = Command::new("scancel").args(ids).status();
            }
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Refused { script: script.clone(), message, submitted });
        }
        submitted.push(Submitted { name: job.name.clone(), id: id.to_owned() });
        let path = folder.join(JOBS);
        let text = serde_json::to_string_pretty(&submitted).expect("plain data");
        write_atomic(&path, (text + "\n").as_bytes()).map_err(io("write", &path))?;
    }
    Ok(submitted)
}

/// Options that make a job wait for the one before it.
pub(crate) fn dependency(after: After, before: Option<&Submitted>) -> Vec<String> {
    match (after, before) {
        (After::Nothing, _) | (_, None) => Vec::new(),
        (After::Success, Some(job)) => {
            vec![format!("--dependency=afterok:{}", job.id), "--kill-on-invalid-dep=yes".to_owned()]
        }
        (After::End, Some(job)) => vec![format!("--dependency=afterany:{}", job.id)],
    }
}

/// Refuses a second submission while jobs of the first would work in the same folders.
fn refuse_queued(folder: &Path) -> Result<(), Error> {
    let path = folder.join(JOBS);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io("read", &path)(error)),
    };
    let jobs: Vec<Submitted> =
        serde_json::from_str(&text).map_err(|error| io("read", &path)(error.into()))?;
    let ids = jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>().join(",");
    if ids.is_empty() {
        return Ok(());
    }
    let mut squeue = Command::new("squeue");
    squeue.args(["--noheader", "--format=%A", &format!("--jobs={ids}")]).stdin(Stdio::null());
    // Numbers that Slurm has forgotten make it fail when all of them are.
    let output = squeue.output().map_err(Error::NoSlurm)?;
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut queued: Vec<&str> = answer.split_whitespace().collect();
    queued.sort_unstable();
    queued.dedup();
    if queued.is_empty() {
        return Ok(());
    }
    Err(Error::Queued { folder: folder.to_owned(), jobs: queued.join(" ") })
}
