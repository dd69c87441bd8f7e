//! Splits by their names, and where their data lies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
pub(crate) use paravt_backends::Flags as BackendArgs;
use paravt_suite::data::DataRoot;
use paravt_suite::task::{Benchmark, Task as _};

/// Tasks of the user.
#[derive(Default, clap::Args)]
pub(crate) struct TaskFiles {
    /// Task of your own: a TOML file that maps columns of your rows to samples; repeatable [default: none].
    #[arg(id = "task_files", long = "task", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl TaskFiles {
    /// The tasks of the files, and those of the build by their names.
    pub(crate) fn and(&self, names: &[String]) -> anyhow::Result<Vec<&'static Benchmark>> {
        let mut selected = paravt_tasks::select(names)?;
        for file in &self.files {
            if let Some(split) =
                file.to_str().filter(|name| paravt_tasks::named(name).is_some() && !file.exists())
            {
                bail!(
                    "--task {split}: no such file; `{split}` is a built-in split, which is named without --task"
                );
            }
            let task = Benchmark::from_file(file)?;
            let name = &task.spec().name;
            if paravt_tasks::named(name).is_some() {
                bail!("{}: name: `{name}` is a built-in task; choose another name", file.display());
            }
            if selected.iter().any(|other| other.spec().name == *name) {
                bail!("{}: name: another task file has the name `{name}`, too", file.display());
            }
            // Tasks of the build live as long as the process; so do the few of one command.
            selected.push(Box::leak(Box::new(task)));
        }
        Ok(selected)
    }

    /// Whether none is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// Folders of the data.
#[derive(clap::Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Data root, laid out as lmms-eval and ParaVT leave it [default: $HF_HOME, else ~/.cache/huggingface].
    #[arg(long, value_name = "DIR")]
    hf_home: Option<PathBuf>,
    /// Folder to search before the data root: the same layout, or the files of one benchmark [default: none].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl DataArgs {
    /// Variables that show another program the same folder for downloads; empty where the environment does already.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let given = self.data.as_ref().or(self.hf_home.as_ref());
        let absolute = given.and_then(|folder| std::path::absolute(folder).ok());
        absolute.map(|folder| ("HF_HOME".to_owned(), folder.display().to_string())).into_iter().collect()
    }

    /// Refuses folders, and tasks of files, where no data are read.
    pub(crate) fn check_unused(&self, files: &TaskFiles, unless: &str) -> anyhow::Result<()> {
        let given = [
            ("--data", self.data.is_some()),
            ("--hf-home", self.hf_home.is_some()),
            ("--task", !files.is_empty()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                bail!("{flag}: without {unless} no data are read; add {unless}, or leave {flag} out")
            }
            None => Ok(()),
        }
    }

    /// Flags and environment as one plan.
    pub(crate) fn root(&self) -> anyhow::Result<DataRoot> {
        if let Some(data) = &self.data {
            match std::fs::metadata(data) {
                Ok(there) if there.is_dir() => {}
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("--data {}", data.display()));
                }
                _ => bail!("--data {}: no such folder", data.display()),
            }
        }
        let from_env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let hf_home = self.hf_home.clone().or_else(paravt_fetch::home);
        // Without a home, the folder that was named is all there is.
        let hf_home = hf_home.or_else(|| self.data.clone());
        let videos: BTreeMap<String, PathBuf> =
            [("mlvu", "PARAVT_MLVU_VIDEO_DIR"), ("mmvu", "PARAVT_MMVU_VIDEO_DIR")]
                .into_iter()
                .filter_map(|(benchmark, name)| Some((benchmark.to_owned(), from_env(name)?)))
                .collect();
        Ok(DataRoot {
            hf_home: hf_home.context("neither --hf-home nor --data is given, nor $HF_HOME nor $HOME set")?,
            data: self.data.clone(),
            videos,
        })
    }

    /// The same; of tasks that are all of files, whose data lie beside them, no root need be named.
    pub(crate) fn root_of(&self, tasks: &[&Benchmark]) -> anyhow::Result<DataRoot> {
        let folders: Option<Vec<&Path>> = tasks.iter().map(|task| task.folder()).collect();
        let beside = folders.and_then(|folders| folders.first().copied());
        self.root().or_else(|error| match beside {
            Some(folder) if self.data.is_none() => Ok(DataRoot::new(folder)),
            _ => Err(error),
        })
    }
}
