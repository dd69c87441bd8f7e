//! The interpreter: where its files lie, and that it has the packages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::Error;

/// Time for the interpreter to say where its files lie.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of its answer.
const MAX_BYTES: u64 = 64 << 10;

/// Packages are looked up and not imported: they are imported in the jail.
const QUESTION: &str = r"
import importlib.metadata as metadata, json, os, platform, sys
packages, missing = [], []
for name in ('decord', 'matplotlib', 'numpy', 'pillow'):
    try:
        packages.append(f'{name} {metadata.version(name)}')
    except metadata.PackageNotFoundError:
        missing.append(name)
folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, os.path.dirname(sys.executable)}
folders |= {path for path in sys.path if os.path.isdir(path)}
folders |= {os.path.realpath(folder) for folder in folders | {os.path.dirname(os.path.realpath(sys.executable))}}
versions = ', '.join([f'Python {platform.python_version()}'] + packages)
print(json.dumps({'executable': sys.executable, 'folders': sorted(folders), 'versions': versions, 'missing': missing}))
";

/// An interpreter of this machine.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Python {
    pub executable: PathBuf,
    /// Folders that it reads, none below another.
    pub folders: Vec<PathBuf>,
    pub versions: String,
    missing: Vec<String>,
}

impl Python {
    pub(crate) fn find(program: &Path) -> Result<Self, Error> {
        let failed = |reason: String| Error::Python { python: program.to_owned(), reason };
        let mut command = std::process::Command::new(program);
        command.args(["-I", "-c", QUESTION]);
        let output = paravt_supervise::output(&mut command, MAX_BYTES, LIMIT, &|| false)
            .map_err(|error| failed(error.to_string()))?
            .ok_or_else(|| failed(format!("no answer within {} s", LIMIT.as_secs())))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let mut python: Self =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        if !python.missing.is_empty() {
            let names = python.missing.join(" ");
            let program = paravt_files::quote_path(program);
            return Err(failed(format!("it lacks packages: {program} -m pip install {names}")));
        }
        // Sorted by the interpreter: a folder comes before those below it.
        let mut roots: Vec<PathBuf> = Vec::new();
        for folder in python.folders {
            if !roots.iter().any(|root| folder.starts_with(root)) {
                roots.push(folder);
            }
        }
        python.folders = roots;
        Ok(python)
    }

    /// That no folder of the interpreter shows the code a video, or what lies beside it, or a whole home.
    pub(crate) fn check_hides(&self, video: &Path) -> Result<(), Error> {
        let home = std::env::home_dir().filter(|home| home.components().count() > 1);
        let hidden: Vec<PathBuf> = [Some(video.to_owned()), home].into_iter().flatten().collect();
        let mut folders =
            self.folders.iter().map(PathBuf::as_path).chain(crate::command::SYSTEM.map(Path::new));
        let shown = folders.find_map(|folder| {
            let held = hidden.iter().find(|path| path.starts_with(folder))?;
            Some(Error::Exposed { folder: folder.to_owned(), holds: held.clone() })
        });
        shown.map_or(Ok(()), Err)
    }
}
