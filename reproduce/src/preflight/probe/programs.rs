//! What programs say.

use std::process::{Command, Output};
use std::time::Duration;

use paravt_supervise::{find, output};

/// Time that a program gets to say its version.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of its output that are read.
const MAX_OUTPUT: u64 = 16 << 20;

/// Standard output of a program that ends with 0 in time, or what it wrote as an error where that is empty.
///
/// # Errors
/// It does not start, ends otherwise, or takes longer: what it wrote last.
pub(crate) fn run(program: &str, arguments: &[&str], patience: Duration) -> Result<String, String> {
    let ended = output(Command::new(program).args(arguments), MAX_OUTPUT, patience, &|| false);
    let ended = ended.map_err(|error| format!("{program}: {error}"))?;
    let late = || format!("{program} did not end in {} s", patience.as_secs());
    let Output { status, stdout, stderr } = ended.ok_or_else(late)?;
    let [output, error] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if status.success() {
        return Ok(if output.trim().is_empty() { error } else { output });
    }
    let last = error.lines().chain(output.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} ended with {status}: {}", last.trim()))
}

/// A program; `None` where it is not on the search path. Where its version counts, what it says of that: engines take
/// long to say it.
pub(super) fn tool(name: &str, version_counts: bool) -> Option<String> {
    let path = find(name)?;
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
}
