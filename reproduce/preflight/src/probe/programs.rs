//! What programs say.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::Environment;

/// Time that a program gets to say its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// Loads one library of an environment and prints the version that it reports.
const LIBRARY: &str = r#"
import ctypes, glob, os, sys, sysconfig
pattern, name, by_reference = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
found = sorted(glob.glob(os.path.join(sysconfig.get_paths()["purelib"], pattern)))
if not found:
    sys.exit(f"{pattern} is not in the environment")
function = getattr(ctypes.CDLL(found[-1]), name)
if by_reference:
    version = ctypes.c_int()
    if function(ctypes.byref(version)) != 0:
        sys.exit(f"{name} failed")
    print(version.value)
else:
    function.restype = ctypes.c_size_t
    print(function())
"#;

/// Standard output of a program that ends with 0 in time.
///
/// # Errors
/// It does not start, ends otherwise, or takes longer: what it wrote last.
pub(crate) fn run(program: &str, arguments: &[&str], patience: Duration) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let id = child.id();
    // The pipes are read while it runs: a full one would stop it.
    let mut readers = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        readers.push(std::thread::spawn(move || read(pipe)));
    }
    if let Some(pipe) = child.stderr.take() {
        readers.push(std::thread::spawn(move || read(pipe)));
    }
    let until = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} (pid {id}) did not end in {} s", patience.as_secs()));
            }
            Err(error) => return Err(format!("{program}: {error}")),
        }
    };
    let mut texts = readers.into_iter().map(|reader| reader.join().unwrap_or_default());
    let (output, error) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    if status.success() {
        return Ok(if output.trim().is_empty() { error } else { output });
    }
    let last = error.lines().chain(output.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} ended with {status}: {}", last.trim()))
}

fn read(mut pipe: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program; `None` where it is not on the search path. Where its version counts, what it says of that: engines take
/// long to say it.
pub(super) fn tool(name: &str, version_counts: bool) -> Option<String> {
    let path = on_path(name)?;
    if !version_counts {
        return Some("there".to_owned());
    }
    let path = path.to_str()?;
    for flag in ["--version", "-version"] {
        if let Ok(said) = run(path, &[flag], PATIENCE) {
            return Some(
                said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned(),
            );
        }
    }
    Some("version unknown".to_owned())
}

/// A program on the search path, or by its own path.
fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Libraries of an environment; `None` where it is not there.
pub(super) fn environment(folder: &Path) -> Option<Environment> {
    let python = folder.join("bin/python");
    let python = python.to_str().filter(|_| python.is_file())?;
    let version = |pattern: &str, name: &str, by_reference: &str| {
        let said = run(python, &["-c", LIBRARY, pattern, name, by_reference], PATIENCE)?;
        said.trim().parse().map_err(|_| format!("{name} said `{}`", said.trim()))
    };
    Some(Environment {
        cudnn: version("nvidia/cudnn/lib/libcudnn.so.*", "cudnnGetVersion", "0"),
        nccl: version("nvidia/nccl/lib/libnccl.so.*", "ncclGetVersion", "1"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_or_fails_is_a_reason() {
        assert_eq!(run("sh", &["-c", "echo yes"], PATIENCE).unwrap().trim(), "yes");
        let failed = run("sh", &["-c", "echo no >&2; exit 4"], PATIENCE).unwrap_err();
        assert!(failed.contains("exit status: 4") && failed.contains("no"), "{failed}");
        let hangs = run("sleep", &["60"], Duration::from_millis(200)).unwrap_err();
        assert!(hangs.contains("did not end"), "{hangs}");
        assert!(run("no-such-program", &[], PATIENCE).is_err());
        assert_eq!(tool("no-such-program", true), None);
        assert!(tool("sh", false).is_some() && tool("ls", true).is_some());
    }

    #[test]
    fn an_environment_that_is_not_there_is_none() {
        assert_eq!(environment(Path::new("/nothing")), None);
    }
}
