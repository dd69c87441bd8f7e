//! The batch script of a job.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use paravt_files::quote;

use crate::cluster::Error;

/// What all jobs have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub recipe: String,
    /// Absolute path of the folder of scripts and logs.
    pub folder: PathBuf,
    /// Where the commands run.
    pub dir: PathBuf,
    /// Further options of sbatch, in one word each.
    pub sbatch: Vec<String>,
    /// Those of the jobs that need no whole node, in the place of `sbatch`; empty for the same.
    pub cpu: Vec<String>,
    /// GPUs of a node; 0 asks for none.
    pub gpus: u32,
}

/// When a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Nothing,
    /// When the job before it has succeeded; it is cancelled if that fails.
    Success,
    /// When the job before it has ended in any way.
    End,
}

/// A command that is run on one node, or on one node for each element of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name, also that of its script and log.
    pub name: String,
    /// Program and arguments. `{element}` in them is the number of the array's element.
    pub words: Vec<String>,
    /// Folder whose programs come first on PATH.
    pub path: Option<String>,
    /// Number of the array's elements, counted from 1; `None` for one job.
    pub array: Option<usize>,
    /// Whether it needs a node of its own with its GPUs.
    pub whole_node: bool,
    pub after: After,
}

impl Job {
    /// Name of its script in the folder.
    pub fn file(&self) -> String {
        format!("{}.sbatch", self.name)
    }

    /// Name of its log in the folder; of an array, that of an element.
    pub fn log(&self, element: &str) -> String {
        if self.array.is_some() {
            format!("{}-{element}.log", self.name)
        } else {
            format!("{}.log", self.name)
        }
    }

    /// The script.
    ///
    /// # Errors
    /// An option, a path or a word that cannot be written into a script.
    pub fn script(&self, options: &Options) -> Result<String, Error> {
        let mut text = String::from("#!/bin/bash\n");
        let mut option = |line: &str| {
            let _ = writeln!(text, "#SBATCH {line}");
        };
        option(&format!("--job-name={}-{}", options.recipe, self.name));
        option("--nodes=1");
        option("--ntasks=1");
        if self.whole_node {
            option("--exclusive");
            option("--mem=0");
            if options.gpus > 0 {
                option(&format!("--gres=gpu:{}", options.gpus));
            }
        }
        if let Some(elements) = self.array {
            option(&format!("--array=1-{elements}"));
        }
        option(&format!("--chdir={}", quoted(&options.dir, false)?));
        let log = options.folder.join(self.log("%a"));
        option(&format!("--output={}", quoted(&log, true)?));
        // A job that is run again resumes, in the same log.
        option("--open-mode=append");
        option("--requeue");
        let has_own = !self.whole_node && !options.cpu.is_empty();
        for given in if has_own { &options.cpu } else { &options.sbatch } {
            let is_option = given.starts_with('-') && given.len() > 2 && !given.contains(char::is_control);
            if !is_option || given.contains(['"', '\'', '\\', '#']) {
                return Err(Error::Option(given.clone()));
            }
            option(given);
        }
        text.push_str("set -euo pipefail\n");
        if let Some(path) = &self.path {
            let _ = writeln!(text, "export PATH={}:\"$PATH\"", self.word(path));
        }
        let words: Vec<String> = self.words.iter().map(|word| self.word(word)).collect();
        let _ = writeln!(text, "exec {}", words.join(" "));
        Ok(text)
    }

    /// A word as the shell takes it.
    fn word(&self, word: &str) -> String {
        if self.array.is_none() || !word.contains("{element}") {
            return quote(word);
        }
        let parts =
            word.split("{element}").map(|part| if part.is_empty() { String::new() } else { quote(part) });
        parts.collect::<Vec<_>>().join("\"${SLURM_ARRAY_TASK_ID}\"")
    }
}

/// A path as the value of an option in a script; `%` of the path itself is doubled in a log's, where it stands for the
/// job's numbers.
fn quoted(path: &Path, is_log: bool) -> Result<String, Error> {
    let refuse = || Error::Path(path.to_owned());
    let text = path.to_str().ok_or_else(refuse)?;
    if text.contains(|c: char| c.is_control() || "\"'\\".contains(c)) {
        return Err(refuse());
    }
    let text = match (is_log, text.rsplit_once('/')) {
        (true, Some((folder, name))) => format!("{}/{name}", folder.replace('%', "%%")),
        _ => text.to_owned(),
    };
    Ok(if text.contains([' ', '#']) { format!("\"{text}\"") } else { text })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn job(words: &[&str], array: Option<usize>) -> Job {
        Job {
            name: "evaluate".to_owned(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
            path: Some("/data/my runs/env/eval/bin".to_owned()),
            array,
            whole_node: true,
            after: After::Success,
        }
    }

    fn options(folder: &str, sbatch: &[&str]) -> Options {
        let sbatch = sbatch.iter().map(|&option| option.to_owned()).collect();
        let (recipe, folder) = ("paravt-8b".to_owned(), folder.into());
        Options { recipe, folder, dir: "/home/me".into(), sbatch, cpu: Vec::new(), gpus: 8 }
    }

    fn script(job: &Job, options: &Options) -> String {
        job.script(options).unwrap()
    }

    #[test]
    fn a_script_of_an_array() {
        let cpu = vec!["--partition=cpu".to_owned()];
        let options = Options { cpu, ..options("/data/my runs/50%/slurm", &["--partition=gpu"]) };
        let words = [
            "/opt/paravt-bench", "reproduce", "--out", "/data/my runs/shard-{element}", "--shard",
            "{element}/4",
        ];
        insta::assert_snapshot!("array", script(&job(&words, Some(4)), &options));
        let one = Job { whole_node: false, path: None, ..job(&["echo", "it's {element}"], None) };
        insta::assert_snapshot!("one", script(&one, &options));
    }

    /// What a shell makes of the script is the words, whatever is in them.
    #[test]
    fn words_reach_the_program_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let words = [
            "printf", "%s\\n", "a b", "$HOME", "`id`", "it's", "\"", "{element}/{element}", "*", "",
            "x{element}y z",
        ];
        let path = folder.path().join("job.sbatch");
        std::fs::write(&path, script(&job(&words, Some(4)), &options("/a", &[]))).unwrap();
        let output = Command::new("bash").arg(&path).env("SLURM_ARRAY_TASK_ID", "3").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let expected = "a b\n$HOME\n`id`\nit's\n\"\n3/3\n*\n\nx3y z\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert!(Command::new("bash").arg("-n").arg(&path).status().unwrap().success());
        if let Ok(output) =
            Command::new("shellcheck").arg("--severity=warning").arg(&path).stdin(Stdio::null()).output()
        {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    }

    #[test]
    fn words_that_would_add_a_line_or_option_are_refused() {
        for option in ["partition=gpu", "--x\n#SBATCH --y", "-", "--comment='a", "--a#b", ""] {
            let refused = job(&["true"], None).script(&options("/a", &[option]));
            assert!(matches!(refused, Err(Error::Option(_))), "{option:?}");
        }
        for folder in ["/a\nb", "/a\"b", "/a\\b"] {
            let refused = job(&["true"], None).script(&options(folder, &[]));
            assert!(matches!(refused, Err(Error::Path(_))), "{folder:?}");
        }
    }
}
