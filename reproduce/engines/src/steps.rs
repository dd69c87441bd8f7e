//! Steps of a training as the entry files write them, and the curves that are kept of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// File of the curves in the folder of a stage; reports read the same name in a run directory.
pub const CURVES: &str = "training.jsonl";
/// Bytes of a step's line; a longer one is passed over.
const LINE: usize = 1 << 20;

/// A step that was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Number of the step; the first is 1.
    pub step: usize,
    /// Its figures by the names of the curves.
    pub figures: BTreeMap<String, f64>,
    /// Figures that are not finite.
    pub not_finite: Vec<String>,
}

/// Names of the release's figures and of the curves that they become.
pub(crate) type Names = &'static [(&'static str, &'static str)];

/// Curves of SFT by the names of lmms-engine's trainer.
pub(crate) const SFT: Names = &[
    ("train/loss", "loss"),
    ("train/lr", "learning_rate"),
    ("train/grad_norm", "grad_norm"),
    ("train/tokens_per_second", "tokens_per_second"),
    ("perf/global_seq_len_avg", "tokens_per_rank"),
];

/// Curves of reinforcement learning by the names of AReaL's statistics.
pub(crate) const RL: Names = &[
    ("ppo_actor/task_reward/avg", "reward"),
    ("reward_breakdown/acc_reward", "reward_accuracy"),
    ("reward_breakdown/format_reward", "f_tau"),
    ("reward_breakdown/tool_reward", "reward_tool"),
    ("tool_stats/tool_call_count", "kappa"),
    ("tool_stats/tool_call_success", "tool_success"),
    ("tool_stats/tool_turns_used", "turns"),
    ("ppo_actor/kl_rewards/avg", "kl_reward"),
    ("ppo_actor/update/approx_kl/avg", "approx_kl"),
    ("ppo_actor/update/importance_weight/avg", "importance_weight"),
    ("ppo_actor/update/behave_imp_weight/avg", "behaviour_weight"),
    ("ppo_actor/update/clip_ratio/avg", "clip_fraction"),
    ("ppo_actor/update/entropy/avg", "entropy"),
    ("ppo_actor/update/actor_loss/avg", "loss"),
    ("ppo_actor/update/grad_norm", "grad_norm"),
    ("ppo_actor/update/lr", "learning_rate"),
    ("ppo_actor/update/update_successful", "updated"),
    ("ppo_actor/prompt_len/avg", "prompt_tokens"),
    ("ppo_actor/seq_len/avg", "sequence_tokens"),
    ("ppo_actor/no_eos_ratios/avg", "truncated"),
    ("rollout/accepted", "accepted"),
    ("rollout/rejected", "rejected"),
    ("timeperf/rollout", "rollout_seconds"),
    ("timeperf/train_step", "train_seconds"),
    ("timeperf/update_weights", "weight_update_seconds"),
];

impl Step {
    /// A step from a line of an entry file; the release counts steps from 0.
    fn parse(line: &[u8], names: Names) -> Option<Self> {
        let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
        let step = usize::try_from(fields.get("step")?.as_u64()?).ok()? + 1;
        let mut found = Self { step, figures: BTreeMap::new(), not_finite: Vec::new() };
        for (theirs, ours) in names {
            match fields.get(*theirs) {
                Some(Value::Number(number)) => {
                    found.figures.extend(number.as_f64().map(|value| ((*ours).to_owned(), value)));
                }
                Some(Value::String(_)) => found.not_finite.push((*ours).to_owned()),
                _ => {}
            }
        }
        Some(found)
    }

    /// A figure.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    fn line(&self) -> String {
        let mut fields = Map::from_iter([("step".to_owned(), json!(self.step))]);
        fields.extend(self.figures.iter().map(|(name, value)| (name.clone(), json!(value))));
        format!("{}\n", Value::Object(fields))
    }
}

/// Reads the lines that are added to a file.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    names: Names,
    offset: u64,
    line: Vec<u8>,
    is_long: bool,
}

impl Follower {
    /// Follows a file from its present end.
    pub(crate) fn at_end(path: &Path, names: Names) -> Self {
        let offset = std::fs::metadata(path).map_or(0, |about| about.len());
        Self { path: path.to_owned(), names, offset, line: Vec::new(), is_long: false }
    }

    /// Steps of the whole lines that were added since the last call. Lines that are no step are passed over.
    pub(crate) fn read(&mut self) -> Result<Vec<Step>> {
        let io = |source| Error::file("cannot read", &self.path, source);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        file.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        let mut steps = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut buffer).map_err(io)?;
            if count == 0 {
                return Ok(steps);
            }
            self.offset += count as u64;
            for part in buffer[..count].split_inclusive(|&byte| byte == b'\n') {
                self.is_long |= self.line.len() + part.len() > LINE;
                if !self.is_long {
                    self.line.extend_from_slice(part);
                }
                if part.ends_with(b"\n") {
                    steps.extend(Step::parse(&self.line, self.names).filter(|_| !self.is_long));
                    (self.line, self.is_long) = (Vec::new(), false);
                }
            }
        }
    }
}

/// `training.jsonl` of a stage: each step once, in order.
#[derive(Debug)]
pub(crate) struct Curves {
    path: PathBuf,
    lines: BTreeMap<usize, String>,
}

impl Curves {
    /// The log so far; an incomplete last line is ignored.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(CURVES);
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::file("cannot read", &path, error)),
        };
        let parsed = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(|line| {
            let fields: Map<String, Value> = serde_json::from_str(line).ok()?;
            let step = usize::try_from(fields.get("step")?.as_u64()?).ok()?;
            Some((step, line.to_owned()))
        });
        let curves = Self { path, lines: parsed.collect() };
        if curves.text() != text {
            curves.rewrite()?;
        }
        Ok(curves)
    }

    pub(crate) fn last(&self) -> usize {
        self.lines.last_key_value().map_or(0, |(step, _)| *step)
    }

    /// Adds the steps up to one that earlier starts wrote to `lines` and that are missing here: this process was killed
    /// before it read them. `offset` steps are behind the first that the lines count.
    pub(crate) fn fill(&mut self, lines: &Path, names: Names, offset: usize, upto: usize) -> Result<()> {
        let mut follower = Follower { offset: 0, ..Follower::at_end(lines, names) };
        let mut found = BTreeMap::new();
        for mut step in follower.read()? {
            step.step += offset;
            if step.step <= upto && !self.lines.contains_key(&step.step) {
                found.insert(step.step, step.line());
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        self.lines.extend(found);
        self.rewrite()
    }

    /// Removes the steps after one: a training that resumes there makes them again.
    pub(crate) fn cut(&mut self, after: usize) -> Result<()> {
        if self.last() > after {
            self.lines.split_off(&(after + 1));
            self.rewrite()?;
        }
        Ok(())
    }

    /// Adds a step. One that is in the log already was made again after a resume: it and those after it are replaced.
    pub(crate) fn add(&mut self, step: &Step) -> Result<()> {
        if step.step <= self.last() {
            self.cut(step.step - 1)?;
        }
        let line = step.line();
        let file = File::options().create(true).append(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|source| Error::file("cannot write", &self.path, source))?;
        self.lines.insert(step.step, line);
        Ok(())
    }

    fn text(&self) -> String {
        self.lines.values().map(String::as_str).collect()
    }

    fn rewrite(&self) -> Result<()> {
        crate::files::write(&self.path, self.text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_steps_when_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        std::fs::write(&path, "{\"step\": 0, \"train/loss\": 9}\n").unwrap();
        let mut follower = Follower::at_end(&path, SFT);
        assert!(follower.read().unwrap().is_empty(), "what an earlier start wrote is not read again");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"not json\n{\"step\": 1, \"train/loss\": 2.5, \"train/grad_norm\": \"nan\"}\n{\"st")
            .unwrap();
        let steps = follower.read().unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].step, steps[0].figure("loss")), (2, Some(2.5)));
        assert_eq!(steps[0].not_finite, ["grad_norm"]);
        file.write_all(b"ep\": 2, \"train/lr\": 1e-6}\n").unwrap();
        assert_eq!(follower.read().unwrap()[0].figure("learning_rate"), Some(1e-6));
        file.write_all(&vec![b'x'; LINE + 5]).unwrap();
        file.write_all(b"\n{\"step\": 3}\n").unwrap();
        assert_eq!(follower.read().unwrap()[0].step, 4);
        assert!(follower.line.is_empty());
    }

    #[test]
    fn a_step_that_is_made_again_replaces_what_followed() {
        let folder = tempfile::tempdir().unwrap();
        let step = |step, loss: f64| Step {
            step,
            figures: [("loss".to_owned(), loss)].into(),
            not_finite: Vec::new(),
        };
        let mut curves = Curves::open(folder.path()).unwrap();
        for (number, loss) in [(1, 4.0), (2, 3.0), (3, 2.0), (2, 2.5)] {
            curves.add(&step(number, loss)).unwrap();
        }
        let path = folder.path().join(CURVES);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"step\":3,\"lo").unwrap();
        let mut curves = Curves::open(folder.path()).unwrap();
        let expected = "{\"step\":1,\"loss\":4.0}\n{\"step\":2,\"loss\":2.5}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        curves.cut(1).unwrap();
        // Written by the program and not read before the kill: of a trial that began after one step.
        let lines = folder.path().join("steps.jsonl");
        let text =
            "{\"step\":0,\"train/loss\":9}\n{\"step\":1,\"train/loss\":7}\n{\"step\":0,\"train/loss\":8}\n";
        std::fs::write(&lines, text).unwrap();
        curves.fill(&lines, SFT, 1, 2).unwrap();
        let expected = "{\"step\":1,\"loss\":4.0}\n{\"step\":2,\"loss\":8.0}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        curves.cut(1).unwrap();
        assert_eq!((curves.last(), std::fs::read_to_string(&path).unwrap().lines().count()), (1, 1));
    }
}
