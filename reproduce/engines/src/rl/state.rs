//! What an earlier start of AReaL left: checkpoints, and the recovery state that a training can resume from.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::experiments;
use crate::error::Result;
use crate::files;

/// Steps whose checkpoints are kept beside the chosen one and the last.
const EVERY: usize = 50;
/// Checkpoints that are kept because they are the last.
const LAST: usize = 2;
/// State that is written in place, step after step.
const STATE: &str = "recover_checkpoint";
/// Files of [`INFO`] that AReaL reads when it recovers.
const INFO_FILES: [&str; 6] = [
    "step_info.json", "saver_info.json", "evaluator_info.json", "stats_logger_info.json",
    "checkpoint_info.json", "dataloader_info.pkl",
];
/// Where the state belongs to; written after it.
const INFO: &str = "recover_info";

/// A checkpoint as a model folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Save {
    /// Step, counted from 0.
    pub(crate) step: usize,
    pub(crate) path: PathBuf,
}

/// What a start resumes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum From {
    /// The model of the stage before.
    Scratch,
    /// AReaL's own state after so many steps, in the trial that began after so many.
    State(usize, usize),
    /// A checkpoint's weights after so many steps; moments of the optimiser and the place in the data are lost.
    Weights(usize, PathBuf),
}

/// Name of the experiment in the folders of AReaL.
pub(crate) const EXPERIMENT: &str = "paravt";
/// Name of the first trial in AReaL's folders.
const TRIAL: &str = "run";
/// Prefix of the names of trials that resume from the weights of a checkpoint; the number of earlier steps follows.
const LATER: &str = "run-from-";

/// Name of the trial that begins after so many steps: AReaL counts its steps from 0, so they are kept apart.
pub(crate) fn trial(offset: usize) -> String {
    if offset == 0 { TRIAL.to_owned() } else { format!("{LATER}{offset}") }
}

/// Trials of a stage with the steps behind them, in order; below `checkpoints/USER/EXPERIMENT`, of which one user is
/// all there is.
fn trials(folder: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let mut found = Vec::new();
    for user in files::entries(&experiments(folder).join("checkpoints"))? {
        for path in files::entries(&user.join(EXPERIMENT))? {
            let name = files::name(&path);
            let offset = if name == TRIAL {
                Some(0)
            } else {
                name.strip_prefix(LATER).and_then(|text| text.parse().ok())
            };
            found.extend(offset.map(|offset| (offset, path.clone())));
        }
    }
    found.sort();
    Ok(found)
}

/// Steps behind the last trial.
pub(crate) fn offset(folder: &Path) -> Result<usize> {
    Ok(trials(folder)?.last().map_or(0, |(offset, _)| *offset))
}

/// The whole checkpoints of a stage, by step.
pub(crate) fn saves(folder: &Path) -> Result<Vec<Save>> {
    let mut found = Vec::new();
    for (offset, trial) in trials(folder)? {
        for path in files::entries(&trial.join("default"))? {
            let step =
                files::name(&path).rsplit_once("globalstep").and_then(|(_, step)| step.parse::<usize>().ok());
            if let Some(step) = step
                && paravt_hub::checkpoint::is_whole(&path)
            {
                found.push(Save { step: offset + step, path });
            }
        }
    }
    found.sort_by_key(|save| save.step);
    Ok(found)
}

/// What the next start resumes from, and why not from a later step. Checkpoints of the end of an epoch, between those of
/// every `save_every` steps, are passed over: what follows them would be saved at other steps.
pub(crate) fn resume(folder: &Path, save_every: usize) -> Result<(From, Vec<String>)> {
    let mut notes = Vec::new();
    if let Some((offset, trial)) = trials(folder)?.pop() {
        match state(&trial) {
            Ok(step) => return Ok((From::State(offset + step + 1, offset), notes)),
            Err(None) => {}
            Err(Some(why)) => notes.push(format!("AReaL's recovery state cannot be used: {why}")),
        }
    }
    let mut saves = saves(folder)?;
    saves.retain(|save| (save.step + 1).is_multiple_of(save_every));
    let Some(save) = saves.pop() else { return Ok((From::Scratch, notes)) };
    notes.push(format!(
        "resuming from the weights of step {}; the optimizer's moments and the position in the data are lost",
        save.step + 1
    ));
    Ok((From::Weights(save.step + 1, save.path), notes))
}

/// The step that AReaL's state belongs to; the error is `None` if nothing was saved.
fn state(trial: &Path) -> std::result::Result<usize, Option<String>> {
    let (state, info) = (trial.join("default").join(STATE), trial.join(INFO));
    let written = files::entries(&state).map_err(|error| Some(error.to_string()))?;
    if written.is_empty() && !info.join(INFO_FILES[0]).is_file() {
        return Err(None);
    }
    if let Some(name) = INFO_FILES.iter().find(|name| !info.join(name).is_file()) {
        return Err(Some(format!("{INFO}/{name} is missing")));
    }
    let is_part = |path: &&PathBuf| {
        path.extension().is_some_and(|end| end == "distcp") || files::name(path) == ".metadata"
    };
    let parts: Vec<&PathBuf> = written.iter().filter(is_part).collect();
    if parts.len() < 2 || !parts.iter().any(|path| files::name(path) == ".metadata") {
        return Err(Some(format!("{STATE} lacks shards or their list")));
    }
    // A killed save leaves shards of a later step beside the metadata of an earlier one.
    let noted = modified(&info.join(INFO_FILES[0]));
    if let Some(newer) = parts.iter().find(|path| modified(path) > noted) {
        return Err(Some(format!("{STATE}/{} is newer than its metadata", files::name(newer))));
    }
    let read =
        |name: &str| -> Option<Value> { serde_json::from_slice(&std::fs::read(info.join(name)).ok()?).ok() };
    if let Some(name) = INFO_FILES.iter().find(|name| name.ends_with(".json") && read(name).is_none()) {
        return Err(Some(format!("{INFO}/{name} is truncated")));
    }
    // A complete pickle ends with its STOP opcode, `.`.
    let pickle = std::fs::read(info.join(INFO_FILES[5])).unwrap_or_default();
    if pickle.last() != Some(&b'.') {
        return Err(Some(format!("{INFO}/{} is truncated", INFO_FILES[5])));
    }
    let step = read(INFO_FILES[0]).and_then(|info| usize::try_from(info.get("global_step")?.as_u64()?).ok());
    step.ok_or_else(|| Some(format!("{INFO}/{} names no step", INFO_FILES[0])))
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// Moves recovery states that are not used to where AReaL does not look for them.
pub(crate) fn set_aside(folder: &Path) -> Result<()> {
    let aside = folder.join("scratch/partial");
    for (_, trial) in trials(folder)? {
        for path in [trial.join("default").join(STATE), trial.join(INFO)] {
            if path.exists() {
                files::set_aside(&path, &aside)?;
            }
        }
    }
    Ok(())
}

/// Removes checkpoints that are neither chosen, nor among the last, nor every 50th, nor what the last trial began from,
/// whose files its programs may still read.
pub(crate) fn prune(folder: &Path, pick: usize) -> Result<()> {
    let (saves, start) = (saves(folder)?, offset(folder)?);
    let old = saves.len().saturating_sub(LAST);
    for save in &saves[..old] {
        let is_kept = save.step == pick || (save.step + 1).is_multiple_of(EVERY) || save.step + 1 == start;
        if !is_kept {
            files::remove(&save.path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(trial: &Path, step: usize) -> PathBuf {
        let path = trial.join(format!("default/epoch0epochstep{step}globalstep{step}"));
        crate::standin::model(&path, &[("a", vec![3], 1)]);
        path
    }

    fn state(trial: &Path, step: usize) {
        let (state, info) = (trial.join("default").join(STATE), trial.join(INFO));
        std::fs::create_dir_all(&state).unwrap();
        std::fs::create_dir_all(&info).unwrap();
        for name in ["__0_0.distcp", "__1_0.distcp", ".metadata"] {
            std::fs::write(state.join(name), "x").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        for name in INFO_FILES {
            std::fs::write(info.join(name), "{}").unwrap();
        }
        std::fs::write(info.join("dataloader_info.pkl"), b"\x80\x04].").unwrap();
        std::fs::write(info.join("step_info.json"), format!("{{\"global_step\": {step}}}")).unwrap();
    }

    #[test]
    fn a_torn_state_is_replaced_by_the_last_whole_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        let trial = experiments(folder).join("checkpoints/someone/paravt").join(TRIAL);
        assert_eq!(resume(folder, 5).unwrap(), (From::Scratch, Vec::new()));
        let four = save(&trial, 4);
        state(&trial, 4);
        assert_eq!(resume(folder, 5).unwrap(), (From::State(5, 0), Vec::new()));
        // The save of the next step was killed.
        let nine = save(&trial, 9);
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(trial.join("default").join(STATE).join("__1_0.distcp"), "later").unwrap();
        let (from, notes) = resume(folder, 5).unwrap();
        assert_eq!(from, From::Weights(10, nine.clone()));
        assert!(notes[0].contains("__1_0.distcp is newer") && notes[1].contains("are lost"), "{notes:?}");
        // So was that of the checkpoint.
        let weights = nine.join("model.safetensors");
        let bytes = std::fs::read(&weights).unwrap();
        std::fs::write(&weights, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(resume(folder, 5).unwrap().0, From::Weights(5, four));
        set_aside(folder).unwrap();
        // A trial that went on from these weights counts from 0 again.
        let later = trial.with_file_name("run-from-5");
        save(&later, 4);
        state(&later, 4);
        assert_eq!(resume(folder, 5).unwrap().0, From::State(10, 5));
        assert_eq!(saves(folder).unwrap().last().unwrap().step, 9);
        files::remove(&later).unwrap();
        assert!(!trial.join(INFO).exists() && resume(folder, 5).unwrap().1.len() == 1);
        // Notes that were cut.
        for (name, text) in [("saver_info.json", "{"), ("dataloader_info.pkl", "x"), ("step_info.json", "{}")]
        {
            state(&trial, 4);
            std::fs::write(trial.join(INFO).join(name), text).unwrap();
            let notes = resume(folder, 5).unwrap().1;
            assert!(notes[0].contains(name), "{notes:?}");
        }
    }

    #[test]
    fn old_checkpoints_are_removed_and_the_chosen_one_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let trial = experiments(root.path()).join("checkpoints/someone/paravt").join(TRIAL);
        for step in [4, 9, 14, 49, 54, 59, 64, 69] {
            save(&trial, step);
        }
        prune(root.path(), 54).unwrap();
        let left: Vec<usize> = saves(root.path()).unwrap().iter().map(|save| save.step).collect();
        assert_eq!(left, [49, 54, 64, 69]);
        // A trial that began from the weights of step 65.
        std::fs::create_dir(trial.with_file_name("run-from-65")).unwrap();
        for step in [74, 79] {
            save(&trial, step);
        }
        prune(root.path(), 54).unwrap();
        let left: Vec<usize> = saves(root.path()).unwrap().iter().map(|save| save.step).collect();
        assert_eq!(left, [49, 54, 64, 74, 79]);
    }
}
