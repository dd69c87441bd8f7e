//! Checkpoints of lmms-engine's trainer: which are complete; the others are moved aside.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::Result;
use crate::files;

/// Beginning of their names. The trainer takes every name that starts with it for one, and its rest for the step.
pub(crate) const NAME: &str = "checkpoint";
/// What each process writes: folder and beginning of the file.
const PARTS: [(&str, &str); 4] = [
    ("pytorch_model_fsdp_0", "model"),
    ("optimizer", "optimizer"),
    ("extra_state", "extra_state"),
    ("dataloader_state", "dataloader_state"),
];
/// What the first process writes last.
const CONFIG: &str = "config.json";
/// Bytes of the record that ends a zip file, as `torch.save` writes.
const ZIP_END: i64 = 22;

/// The first missing or truncated file of a checkpoint written by so many processes; `None` where it is complete.
pub(crate) fn damage(folder: &Path, processes: usize) -> Option<String> {
    for (part, file) in PARTS {
        for rank in 0..processes {
            let name = format!("{part}/{file}_world_size_{processes}_rank_{rank}.pt");
            match ends_as_zip(&folder.join(&name)) {
                Ok(true) => {}
                Ok(false) => return Some(format!("{name} is truncated")),
                Err(error) => return Some(format!("{name}: {error}")),
            }
        }
    }
    let config =
        std::fs::read(folder.join(CONFIG)).map(|text| serde_json::from_slice::<serde_json::Value>(&text));
    match config {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(format!("{CONFIG}: {error}")),
        Err(error) => Some(format!("{CONFIG}: {error}")),
    }
}

/// Whether a file ends with the record that closes a zip file.
fn ends_as_zip(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < ZIP_END.unsigned_abs() {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-ZIP_END))?;
    let mut record = [0; 4];
    file.read_exact(&mut record)?;
    Ok(&record == b"PK\x05\x06")
}

/// The step in the name of a checkpoint.
fn step(path: &Path) -> Option<usize> {
    files::name(path).strip_prefix(NAME)?.strip_prefix('-')?.parse().ok()
}

/// Moves incomplete checkpoints into `aside`. Returns the step of the last complete one, 0 where there is none, and
/// a line about each that was moved.
pub(crate) fn tidy(folder: &Path, aside: &Path, processes: usize) -> Result<(usize, Vec<String>)> {
    let (mut last, mut notes) = (0, Vec::new());
    for path in files::entries(folder)? {
        if !files::name(&path).starts_with(NAME) {
            continue;
        }
        let wrong = match step(&path) {
            None => Some("its name has no step".to_owned()),
            Some(_) => damage(&path, processes),
        };
        let Some(wrong) = wrong else {
            last = last.max(step(&path).unwrap_or_default());
            continue;
        };
        files::set_aside(&path, aside)?;
        notes.push(format!("{} was moved aside: {wrong}", files::name(&path)));
    }
    Ok((last, notes))
}

/// Keeps the checkpoint of a step where the trainer's own limit does not remove it.
pub(crate) fn keep(folder: &Path, step: usize, kept: &Path, processes: usize) -> Result<()> {
    let from = folder.join(format!("{NAME}-{step}"));
    if damage(kept, processes).is_none() || damage(&from, processes).is_some() {
        return Ok(());
    }
    files::link_folder(&from, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, processes: usize) {
        for (part, file) in PARTS {
            std::fs::create_dir_all(folder.join(part)).unwrap();
            for rank in 0..processes {
                let name = format!("{part}/{file}_world_size_{processes}_rank_{rank}.pt");
                let mut bytes = b"PK\x03\x04 weights".to_vec();
                bytes.extend_from_slice(b"PK\x05\x06");
                bytes.extend_from_slice(&[0; 18]);
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
        std::fs::write(folder.join(CONFIG), "{}").unwrap();
    }

    #[test]
    fn incomplete_checkpoints_are_moved_aside() {
        let root = tempfile::tempdir().unwrap();
        let (folder, aside) = (root.path().join("checkpoints"), root.path().join("partial"));
        for step in [100, 200, 300, 1000] {
            write(&folder.join(format!("checkpoint-{step}")), 2);
        }
        assert_eq!(tidy(&folder, &aside, 2).unwrap(), (1000, Vec::new()));
        let torn = folder.join("checkpoint-1000");
        let shard = torn.join("optimizer/optimizer_world_size_2_rank_1.pt");
        let bytes = std::fs::read(&shard).unwrap();
        std::fs::write(&shard, &bytes[..bytes.len() - 3]).unwrap();
        std::fs::remove_file(folder.join("checkpoint-300").join(CONFIG)).unwrap();
        std::fs::create_dir(folder.join("checkpoint-tmp")).unwrap();
        let (last, notes) = tidy(&folder, &aside, 2).unwrap();
        assert_eq!((last, notes.len()), (200, 3), "{notes:?}");
        assert!(notes[0].contains("rank_1.pt is truncated"), "{notes:?}");
        assert!(!torn.exists() && aside.join("checkpoint-1000").is_dir());
        // Written by another number of processes: cannot be resumed.
        assert_eq!(tidy(&folder, &aside, 4).unwrap().0, 0);
        assert_eq!(tidy(&root.path().join("none"), &aside, 2).unwrap().0, 0);
    }

    #[test]
    fn a_kept_checkpoint_survives_the_removal_of_its_original() {
        let root = tempfile::tempdir().unwrap();
        let kept = root.path().join("kept/checkpoint-4");
        std::fs::create_dir(root.path().join("kept")).unwrap();
        keep(root.path(), 4, &kept, 2).unwrap();
        assert!(!kept.exists());
        write(&root.path().join("checkpoint-4"), 2);
        keep(root.path(), 4, &kept, 2).unwrap();
        files::remove(&root.path().join("checkpoint-4")).unwrap();
        assert_eq!(damage(&kept, 2), None);
    }
}
