//! The folder of a stage's result, named by a hash of its settings and inputs, so that unchanged work is not repeated.

use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_files::{Listing, Lock};
use paravt_suite::journal::JournalError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::attempts;

/// Written into a stage's folder before its work begins.
const BEGUN: &str = "begun.json";
/// File in the folder of a stage with the error that ended its last attempt.
pub(crate) const ERROR: &str = "error.txt";
/// Written into a stage's folder when its work is done.
const DONE: &str = "stage.json";
/// Folder below that of the recipe that replaced results are moved to.
pub(crate) const DISCARDED: &str = "discarded";
/// Held by the process that works below a folder.
const LOCK: &str = ".lock";
/// Time that it is waited for: who asks for the status holds it for a moment.
const PATIENCE: Duration = Duration::from_millis(100);
/// Incremented when the meaning of any stage's result changes: all folders then get other names.
const VERSION: u32 = 1;

/// What a result is kept under, beside the name of its stage and those that it builds on.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Kind of the result and a number, such as `world-1`. The number is incremented by hand where the same settings
    /// give another result; an edit that changes none leaves finished results valid.
    pub version: &'static str,
    /// What the result depends on; part of the hash in the folder's name, so without paths of this machine.
    pub settings: Value,
    /// Maximum number of samples; the result for fewer is part of that for more.
    pub limit: Option<usize>,
}

impl Key {
    /// A result of a version of the code and of settings.
    pub fn new(version: &'static str, settings: impl Serialize) -> Self {
        Self { version, settings: json!(settings), limit: None }
    }
}

/// The folder of a stage's result.
#[derive(Debug, Clone)]
pub struct Slot {
    hash: String,
    folder: PathBuf,
    record: Value,
    /// Version of the code that makes it; see [`Key::version`].
    code: &'static str,
    /// Maximum number of samples; the result for fewer is part of that for more.
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
    code: String,
    files: Listing,
    limit: Option<usize>,
}

impl Slot {
    /// The slot of a stage of this name and key, and of the stages it builds on. Its folder is below `root`. Another
    /// maximum of samples has the same folder: more samples continue the result for fewer.
    pub fn new(root: &Path, name: &str, inputs: &[&Slot], key: &Key) -> Self {
        let inputs: Vec<&str> = inputs.iter().map(|input| input.hash.as_str()).collect();
        let record = json!({
            "stage": name, "version": VERSION, "settings": key.settings, "inputs": inputs
        });
        let hash = paravt_files::sha256(format!("{record:#}\n"))[..12].to_owned();
        let folder = root.join(format!("{name}-{hash}"));
        Self { hash, folder, record, code: key.version, limit: key.limit }
    }

    /// Where its result is, or will be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How far its work is. What other code made is unusable, unless `any_code`; so is a finished result of which
    /// a file is missing or has changed.
    pub fn state(&self, any_code: bool) -> State {
        let is_other = |code: &str| !any_code && code != self.code;
        let by_other = || State::Unusable("made by another version of the code".to_owned());
        if let Ok(text) = std::fs::read(self.folder.join(DONE)) {
            let done: Done = match serde_json::from_slice(&text) {
                Ok(done) => done,
                Err(error) => return State::Unusable(format!("{DONE} is damaged: {error}")),
            };
            if is_other(&done.code) {
                return by_other();
            }
            if self.asks_more_than(&done) {
                return State::Begun;
            }
            return done.files.damage(&self.folder).map_or(State::Done, State::Unusable);
        }
        match std::fs::read_to_string(self.folder.join(BEGUN)) {
            Ok(code) if is_other(code.trim()) => by_other(),
            Ok(_) => State::Begun,
            Err(_) if self.folder.is_dir() => State::Unusable(format!("it has no {BEGUN}")),
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
            paravt_files::remove(&self.folder.join(DONE))?;
            return attempts::begin(&self.folder);
        }
        // The folder appears with the note in it.
        let part = self.folder.with_added_extension("part");
        paravt_files::remove(&part)?;
        std::fs::create_dir_all(&part)?;
        std::fs::write(part.join(BEGUN), format!("{}\n", self.code))?;
        paravt_files::replace_dir(&part, &self.folder)?;
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
                || paravt_files::is_temporary(file)
                || [".part", ".old"].iter().any(|end| file.ends_with(end))
                || ["part", "run.log", BEGUN, DONE, ERROR].contains(&file)
                || paravt_engines::Job::scratch().contains(&name)
        };
        let files = Listing::of(&self.folder, passed_over)?;
        let mut record = self.record.clone();
        record["code"] = self.code.into();
        if let Some(limit) = self.limit {
            record["limit"] = limit.into();
        }
        if !deviations.is_empty() {
            record["deviations"] = deviations.into();
        }
        record["files"] = serde_json::to_value(files)?;
        paravt_files::sync_dir(&self.folder)?;
        paravt_files::write_atomic(&self.folder.join(DONE), format!("{record:#}\n").as_bytes())
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
        paravt_files::rename(&self.folder, &to)?;
        Ok(to)
    }
}

/// Takes the right to work below a folder, which is made where it is not there.
///
/// # Errors
/// Another process has it, or the folder cannot be written.
pub fn lock(folder: &Path) -> Result<Lock, JournalError> {
    let path = folder.join(LOCK);
    let taken = Lock::take(&path, PATIENCE);
    let taken = taken.map_err(|source| JournalError::Io { path, action: "cannot lock", source })?;
    taken.ok_or_else(|| JournalError::Locked { dir: folder.to_owned() })
}

/// Whether a process works below a folder.
pub(crate) fn is_locked(folder: &Path) -> bool {
    Lock::is_held(&folder.join(LOCK))
}

/// Whether the work in a stage's folder is marked as done.
pub(crate) fn is_done(folder: &Path) -> bool {
    folder.join(DONE).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(root: &Path, name: &str, inputs: &[&Slot], setting: u32) -> Slot {
        Slot::new(root, name, inputs, &Key::new("world-1", setting))
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
        let key = Key::new("served", 0);
        let limited = |limit| Slot::new(root.path(), "with-tool", &[], &Key { limit, ..key.clone() });
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
    fn damage_and_torn_marks_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let stage = stage(root.path(), "sft", &[], 0);
        let make = || {
            paravt_files::remove(stage.folder()).unwrap();
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

        make();
        let mark = stage.folder().join(DONE);
        std::fs::write(&mark, format!("{:#}\n", stage.record)).unwrap();
        assert!(unusable(&stage).contains("stage.json is damaged"));
        std::fs::remove_file(&mark).unwrap();
        std::fs::remove_file(stage.folder().join(BEGUN)).unwrap();
        assert!(unusable(&stage).contains("has no begun.json"));
    }

    #[test]
    fn a_result_of_another_version_of_its_code_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let of = |version| Slot::new(root.path(), "sft", &[], &Key::new(version, 0));
        let (before, now) = (of("training-1"), of("training-2"));
        assert_eq!(before.folder(), now.folder());
        before.begin().unwrap();
        assert!(unusable(&now).contains("another version"));
        assert_eq!([before.state(false), now.state(true)], [State::Begun, State::Begun]);
        before.finish(&[]).unwrap();
        assert!(unusable(&now).contains("another version"));
        assert_eq!([before.state(false), now.state(true)], [State::Done, State::Done]);
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
