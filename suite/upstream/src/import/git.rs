//! Git objects and refs of a repository that is not trusted.
//!
//! A repository's own configuration can name programs: promisor remotes that fetch a missing object
//! (`remote.*.uploadpack`, `core.sshCommand`), `core.fsmonitor`, pagers, text converters, filters,
//! hooks, includes. None of it is read here: git works in an empty repository of ours, which borrows
//! the other's object folder, and refs are read as plain files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use paravt_files::read_limited;

/// Asked now and then while git works: true to stop it.
pub type Cancel<'a> = dyn Fn() -> bool + Sync + 'a;

/// Bytes that one upstream file may have; the pinned ones have 35 thousand.
pub(super) const MAX_FILE: u64 = 4 << 20;
/// Time that reading one object may take: a repository may hold pipes where git expects packs.
const READ_LIMIT: Duration = Duration::from_secs(60);
/// Time that a clone may take.
const CLONE_LIMIT: Duration = Duration::from_secs(1800);
/// Bytes of a ref, of `HEAD`, of a `.git` file.
const MAX_REF: u64 = 4096;
const MAX_PACKED_REFS: u64 = 64 << 20;
/// Characters of standard error that are shown.
const MAX_MESSAGE: usize = 4096;

/// A repository's objects and refs.
pub(super) struct Repository {
    /// The empty repository in which git runs.
    own: tempfile::TempDir,
    /// Folder of objects and refs, which all work trees share.
    common: PathBuf,
}

impl Repository {
    /// The repository whose root or git directory `folder` is; `None` where it is neither. A folder
    /// inside another repository is not that repository.
    ///
    /// # Errors
    /// The temporary repository cannot be made.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, String> {
        let Some(git_dir) = git_dir(folder) else { return Ok(None) };
        let common = match read_line(&git_dir.join("commondir")) {
            Some(path) => git_dir.join(path),
            None => git_dir,
        };
        let Ok(objects) = common.join("objects").canonicalize() else { return Ok(None) };
        let own = empty_repository(&objects)?;
        Ok(Some(Self { own, common }))
    }

    /// Hash that a full ref name (`refs/…`) stands for.
    fn reference(&self, name: &str) -> Option<String> {
        let plain = name.starts_with("refs/") && name.split('/').all(|part| !part.is_empty() && part != "..");
        if !plain {
            return None;
        }
        let loose = read_line(&self.common.join(name)).filter(|hash| is_hash(hash));
        loose.or_else(|| {
            let packed = read_limited(&self.common.join("packed-refs"), MAX_PACKED_REFS).ok()?;
            let packed = String::from_utf8(packed).ok()?;
            let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(hash, packed)| *packed == name && is_hash(hash)).map(|(hash, _)| hash.to_owned())
        })
    }

    /// Text of a file in a commit: of a hash, its beginning, or a tag or branch of that name.
    ///
    /// # Errors
    /// Git's message, also for a missing object: it is not fetched.
    pub(super) fn blob(&self, commit: &str, file: &str, cancel: &Cancel<'_>) -> Result<String, String> {
        let by_hash = self.show(commit, file, cancel);
        let named = ["refs/tags", "refs/heads"].map(|folder| self.reference(&format!("{folder}/{commit}")));
        match (by_hash, named.into_iter().flatten().next()) {
            (Err(_), Some(hash)) => self.show(&hash, file, cancel),
            (shown, _) => shown,
        }
    }

    fn show(&self, commit: &str, file: &str, cancel: &Cancel<'_>) -> Result<String, String> {
        if !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("`{commit}` is not a commit hash"));
        }
        let mut command = isolated_git(self.own.path());
        command.env("GIT_DIR", self.own.path()).args(["cat-file", "blob", &format!("{commit}:{file}")]);
        let output = output(command, READ_LIMIT, cancel)?;
        String::from_utf8(output).map_err(|_| "not UTF-8".to_owned())
    }
}

/// Clones a remote repository without a work tree, under the user's own configuration (proxies,
/// credentials) but with no hook or helper of a template.
pub(super) fn clone(from: &str, into: &Path, cancel: &Cancel<'_>) -> Result<(), String> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| names_a_repository(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.env("GIT_ALLOW_PROTOCOL", "https:http:ssh:git").env("GIT_TERMINAL_PROMPT", "0");
    command.args([
        "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "transfer.bundleURI=false",
    ]);
    command.args(["clone", "--quiet", "--bare", "--template=", "--"]).args([from]).arg(into);
    output(command, CLONE_LIMIT, cancel).map(drop)
}

/// Set inside a git hook, where they would name another repository.
fn names_a_repository(variable: &str) -> bool {
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"]
        .contains(&variable)
}

/// Git with no configuration but that of its repository, no environment but the search path.
fn isolated_git(home: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().current_dir(home).env("HOME", home).env("LC_ALL", "C");
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ] {
        command.env(name, value);
    }
    command
}

/// A bare repository without objects of its own; written by hand so that no template is copied.
fn empty_repository(objects: &Path) -> Result<tempfile::TempDir, String> {
    let path = objects.to_str().filter(|path| !path.contains('\n'));
    let path = path.ok_or("the path of the repository is not UTF-8 on one line")?;
    let make = || -> std::io::Result<tempfile::TempDir> {
        let own = tempfile::Builder::new().prefix("paravt-protocol-").tempdir()?;
        std::fs::create_dir_all(own.path().join("objects/info"))?;
        std::fs::create_dir_all(own.path().join("refs"))?;
        std::fs::write(own.path().join("HEAD"), "ref: refs/heads/main\n")?;
        std::fs::write(own.path().join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")?;
        std::fs::write(own.path().join("objects/info/alternates"), format!("{path}\n"))?;
        Ok(own)
    };
    make().map_err(|error| format!("cannot make a temporary repository: {error}"))
}

/// The git directory of a work tree's root, or the folder itself where it is one.
fn git_dir(folder: &Path) -> Option<PathBuf> {
    let inner = folder.join(".git");
    if inner.is_dir() {
        return Some(inner);
    }
    if inner.exists() {
        // Of a linked work tree or a submodule.
        let line = read_line(&inner)?;
        return Some(folder.join(line.strip_prefix("gitdir:")?.trim()));
    }
    (folder.join("HEAD").is_file() && folder.join("objects").is_dir()).then(|| folder.to_owned())
}

fn read_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_limited(path, MAX_REF).ok()?).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Standard output of a command that ends well within the limits; otherwise its message.
fn output(mut command: Command, limit: Duration, cancel: &Cancel<'_>) -> Result<Vec<u8>, String> {
    let ended = paravt_supervise::output(&mut command, MAX_FILE + 1, limit, &|| cancel());
    let Some(output) = ended.map_err(|error| format!("cannot run git: {error}"))? else {
        let late = format!("git did not finish within {} s", limit.as_secs());
        return Err(if cancel() { "interrupted".to_owned() } else { late });
    };
    if output.stdout.len() as u64 > MAX_FILE {
        return Err(format!("larger than the limit of {MAX_FILE} bytes"));
    }
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().chars().take(MAX_MESSAGE).collect())
}
