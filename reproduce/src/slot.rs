//! The folder of a stage's result, named by a hash of its settings and inputs, so that unchanged work is not repeated.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_suite::journal::JournalError;
use paravt_train::durable::{self, Listing};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::attempts;

/// Written into a stage's folder before its work begins.
const BEGUN: &str = "begun.json";
/// File in the folder of a stage with the error that ended its last attempt.
pub(crate) const ERROR: &str = "error.txt";
/// Written into a stage's folder when its work is done.
const DONE: &str = "stage.json";
/// Folder below that of the recipe that replaced results are moved to.
pub const DISCARDED: &str = "discarded";
/// Held by the process that works below a folder.
const LOCK: &str = ".lock";
/// Further tries to take it, and the time before each.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);
/// Incremented when the meaning of any stage's result changes: all folders then get other names.
const VERSION: u32 = 1;

/// The code that makes a stage: a hash over the sources of the crates that have a part in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Generated videos, questions and the base checkpoint.
    World,
    /// Trained weights.
    Training,
    /// Records of a model that is loaded in this process.
    Evaluation,
    /// Records of what was made from a release, which is verified by itself.
    Release,
    /// Records of a model behind a server. They stay valid across versions; each run's manifest names its binary.
    Served,
    /// Downloads, which are verified against the hub's hashes.
    Fetched,
    /// Training rows with the paths of this machine.
    Materialized,
    /// What the programs of the release make. It takes days and stays valid across versions.
    Launched,
}

impl Code {
    /// SHA-256 in lower-case hexadecimal.
    pub fn hash(self) -> &'static str {
        match self {
            Self::World => env!("PARAVT_CODE_WORLD"),
            Self::Training => env!("PARAVT_CODE_TRAINING"),
            Self::Evaluation => env!("PARAVT_CODE_EVALUATION"),
            Self::Release => "release",
            Self::Served => "served",
            Self::Fetched => "fetched",
            Self::Launched => "launched",
            // The next number where the rows that are written change.
            Self::Materialized => "materialized-1",
        }
    }
}

/// The folder of a stage's result.
#[derive(Debug, Clone)]
pub struct Slot {
    hash: String,
    folder: PathBuf,
    record: serde_json::Value,
    code: Code,
    /// Samples that are asked at most; the result for fewer is part of that for more.
    limit: Option<usize>,
}

/// State of a stage's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not begun.
    New,
    /// Begun by the same code and not finished; can be resumed.
    Begun,
    /// Done, and its files are as they were then.
    Done,
    /// Begun or done, and not usable: why.
    Unusable(String),
}

/// The fields of `stage.json` that are read back.
#[derive(Debug, Deserialize)]
struct Done {
    code: Option<String>,
    files: Option<Listing>,
    limit: Option<usize>,
}

impl Slot {
    /// The slot of a stage of this name, of settings and of the stages it builds on, made by some code. Its folder is
    /// below `root`.
    pub fn new(root: &Path, name: &str, inputs: &[&Slot], settings: &impl Serialize, code: Code) -> Self {
        let inputs: Vec<&str> = inputs.iter().map(|input| input.hash.as_str()).collect();
        let record = serde_json::json!({
            "stage": name, "version": VERSION, "settings": settings, "inputs": inputs
        });
        let digest = Sha256::digest(format!("{record:#}\n").as_bytes());
        let hash = durable::hex(&digest[..6]);
        let folder = root.join(format!("{name}-{hash}"));
        Self { hash, folder, record, code, limit: None }
    }

    /// The slot of so many samples at most. It has the same folder: more samples continue the result for fewer.
    #[must_use]
    pub fn limited(self, limit: Option<usize>) -> Self {
        Self { limit, ..self }
    }

    /// Where its result is, or will be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How far its work is. What other code made is unusable, unless `any_code`; so is a finished result of which
    /// a file is missing or has changed.
    pub fn state(&self, any_code: bool) -> State {
        let is_other = |code: Option<&str>| !any_code && code != Some(self.code.hash());
        let by_other = || State::Unusable("made by another version of the code".to_owned());
        if let Ok(text) = std::fs::read(self.folder.join(DONE)) {
            let done: Done = match serde_json::from_slice(&text) {
                Ok(done) => done,
                Err(error) => return State::Unusable(format!("{DONE} is damaged: {error}")),
            };
            let Some(files) = &done.files else {
                return State::Unusable("marked done by a version that did not list its files".to_owned());
            };
            if is_other(done.code.as_deref()) {
                return by_other();
            }
            if self.asks_more_than(&done) {
                return State::Begun;
            }
            return files.damage(&self.folder).map_or(State::Done, State::Unusable);
        }
        match std::fs::read_to_string(self.folder.join(BEGUN)) {
            Ok(code) if is_other(Some(code.trim())) => by_other(),
            Ok(_) => State::Begun,
            Err(_) if self.folder.is_dir() => {
                State::Unusable(format!("begun by a version that wrote no {BEGUN}"))
            }
            Err(_) => State::New,
        }
    }

    /// Whether a result is for fewer samples than are asked.
    fn asks_more_than(&self, done: &Done) -> bool {
        done.limit.is_some_and(|done| self.limit.is_none_or(|asked| asked > done))
    }

    /// Makes the folder, and notes the code that does the work and when it begins; to be called before it.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn begin(&self) -> std::io::Result<()> {
        if self.folder.join(BEGUN).is_file() {
            // It is not done any more: of the files that it lists, some will change.
            match std::fs::remove_file(self.folder.join(DONE)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => return attempts::begin(&self.folder),
            }
        }
        // The folder appears with the note in it.
        let part = durable::beside(&self.folder, ".part");
        durable::remove_folder(&part)?;
        std::fs::create_dir_all(&part)?;
        std::fs::write(part.join(BEGUN), format!("{}\n", self.code.hash()))?;
        durable::replace_folder(&part, &self.folder)?;
        attempts::begin(&self.folder)
    }

    /// Notes how the work that was begun has ended, done or not.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn ended(&self, how: String) -> std::io::Result<()> {
        attempts::end(&self.folder, how)
    }

    /// Marks its work as done: writes `stage.json` with its settings, its inputs, its deviations from the published code
    /// and the SHA-256 of its files. Hidden files, checkpoints, logs and unfinished parts are not listed.
    ///
    /// # Errors
    /// A file cannot be read, or the mark cannot be written.
    pub fn finish(&self, deviations: &[String]) -> std::io::Result<()> {
        let passed_over = |name: &str| {
            let file = name.rsplit('/').next().unwrap_or(name);
            file.starts_with('.')
                || file.starts_with("step-")
                || [".part", ".old"].iter().any(|end| file.ends_with(end))
                || ["part", "run.log", BEGUN, DONE, ERROR].contains(&file)
                || paravt_engines::Job::scratch().contains(&name)
        };
        let files = Listing::of(&self.folder, passed_over)?;
        let mut record = self.record.clone();
        record["code"] = self.code.hash().into();
        if let Some(limit) = self.limit {
            record["limit"] = limit.into();
        }
        if !deviations.is_empty() {
            record["deviations"] = deviations.into();
        }
        record["files"] = serde_json::to_value(files)?;
        durable::sync_folder(&self.folder)?;
        durable::write(&self.folder.join(DONE), format!("{record:#}\n").as_bytes())
    }

    /// Moves its result into a folder, under a name that is free there, so that its work is done again. Returns where it
    /// is then.
    ///
    /// # Errors
    /// The folder cannot be moved.
    pub fn discard(&self, into: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(into)?;
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let mut names = (1..).map(|number: u32| into.join(format!("{name}.{number}")));
        let to = names.find(|to| !to.exists()).unwrap_or_else(|| into.join(&*name));
        std::fs::rename(&self.folder, &to)?;
        Ok(to)
    }
}

/// The right to work below a folder, as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the right to work below a folder, which is made where it is not there.
///
/// # Errors
/// Another process has it, or the folder cannot be written.
pub fn lock(folder: &Path) -> Result<Lock, JournalError> {
    let io = |path: &Path, action| {
        let path = path.to_owned();
        move |source| JournalError::Io { path, action, source }
    };
    std::fs::create_dir_all(folder).map_err(io(folder, "cannot make the folder"))?;
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(io(&path, "cannot open the lock"))?;
    // Who asks for the status holds it for a moment.
    let mut taken = file.try_lock();
    for _ in 0..TRIES {
        if taken.is_ok() {
            break;
        }
        std::thread::sleep(PAUSE);
        taken = file.try_lock();
    }
    match taken {
        Ok(()) => Ok(Lock { _file: file }),
        Err(std::fs::TryLockError::WouldBlock) => Err(JournalError::Locked { dir: folder.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(io(&path, "cannot lock")(source)),
    }
}

/// Whether a process works below a folder.
pub(crate) fn is_locked(folder: &Path) -> bool {
    let file = File::open(folder.join(LOCK));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

/// Whether the work in a stage's folder is marked as done.
pub(crate) fn is_done(folder: &Path) -> bool {
    folder.join(DONE).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(root: &Path, name: &str, inputs: &[&Slot], setting: u32) -> Slot {
        Slot::new(root, name, inputs, &setting, Code::World)
    }

    #[test]
    fn a_stage_is_another_when_its_settings_or_inputs_are() {
        let root = tempfile::tempdir().unwrap();
        let stage = |name, inputs: &[&Slot], setting| stage(root.path(), name, inputs, setting);
        let (one, two) = (stage("world", &[], 1), stage("world", &[], 2));
        assert_eq!(one.folder(), stage("world", &[], 1).folder());
        assert_ne!(one.folder(), two.folder());
        assert_ne!(stage("sft", &[&one], 0).folder(), stage("sft", &[&two], 0).folder());
        assert_eq!(one.state(false), State::New);
        one.begin().unwrap();
        assert_eq!(one.state(false), State::Begun);
        one.finish(&[]).unwrap();
        assert_eq!([one.state(false), two.state(false)], [State::Done, State::New]);
        assert_eq!(stage("world", &[], 1).state(false), State::Done);
        let folder = root.path().join("old");
        let moved = one.discard(&folder).unwrap();
        assert_eq!(one.state(false), State::New);
        assert!(moved.join(DONE).is_file());
        one.begin().unwrap();
        assert_ne!(one.discard(&folder).unwrap(), moved);
    }

    #[test]
    fn more_samples_continue_the_result_for_fewer() {
        let root = tempfile::tempdir().unwrap();
        let limited = |limit| stage(root.path(), "with-tool", &[], 0).limited(limit);
        let (few, all) = (limited(Some(2)), limited(None));
        assert_eq!(few.folder(), all.folder());
        few.begin().unwrap();
        few.finish(&[]).unwrap();
        let states = [Some(1), Some(2), Some(3), None].map(|limit| limited(limit).state(false));
        assert_eq!(states, [State::Done, State::Done, State::Begun, State::Begun]);
        // Killed on the way: neither is done.
        all.begin().unwrap();
        assert_eq!([few.state(false), all.state(false)], [State::Begun, State::Begun]);
        all.finish(&[]).unwrap();
        assert_eq!([few.state(false), all.state(false)], [State::Done, State::Done]);
    }

    fn unusable(stage: &Slot) -> String {
        match stage.state(false) {
            State::Unusable(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn damage_and_marks_of_other_versions_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let stage = stage(root.path(), "sft", &[], 0);
        let make = || {
            durable::remove_folder(stage.folder()).unwrap();
            stage.begin().unwrap();
            std::fs::create_dir(stage.folder().join("final")).unwrap();
            std::fs::write(stage.folder().join("final/config.json"), "{}").unwrap();
            std::fs::write(stage.folder().join("step-000001"), "a checkpoint").unwrap();
            stage.finish(&[]).unwrap();
            assert_eq!(stage.state(false), State::Done);
        };
        make();
        std::fs::remove_file(stage.folder().join("step-000001")).unwrap();
        assert_eq!(stage.state(false), State::Done, "checkpoints are not part of the result");
        std::fs::remove_file(stage.folder().join("final/config.json")).unwrap();
        assert_eq!(unusable(&stage), "final/config.json is missing");

        // As the version before this one marked it.
        make();
        let mark = stage.folder().join(DONE);
        std::fs::write(&mark, format!("{:#}\n", stage.record)).unwrap();
        assert!(unusable(&stage).contains("did not list its files"));
        std::fs::remove_file(&mark).unwrap();
        std::fs::remove_file(stage.folder().join(BEGUN)).unwrap();
        assert!(unusable(&stage).contains("wrote no begun.json"));

        // Other code.
        make();
        for name in [DONE, BEGUN] {
            let path = stage.folder().join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text.replace(Code::World.hash(), "0123")).unwrap();
            assert!(unusable(&stage).contains("another version"), "{name}");
            if name == DONE {
                assert_eq!(stage.state(true), State::Done);
                std::fs::remove_file(&path).unwrap();
            }
        }
        assert_eq!(stage.state(true), State::Begun);
    }

    #[test]
    fn one_process_works_below_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("out");
        let held = lock(&folder).unwrap();
        assert!(matches!(lock(&folder), Err(JournalError::Locked { .. })));
        drop(held);
        lock(&folder).unwrap();
    }
}
