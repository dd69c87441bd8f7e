//! Programs that are asked for a short answer.

use std::io::{Read, Result};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Time between two polls of a child.
const POLL: Duration = Duration::from_millis(10);

/// A program on the search path, or by its own path.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// How a program ended, and at most `max_bytes` of each of its outputs; `None` where it was killed, as by [`wait`].
pub fn output(
    command: &mut Command,
    max_bytes: u64,
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Output>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // The pipes are read while it runs: a full one would stop it. One that writes more finds them closed.
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.by_ref().take(max_bytes).read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let stdout = child.stdout.take().map(|pipe| read(Box::new(pipe)));
    let stderr = child.stderr.take().map(|pipe| read(Box::new(pipe)));
    // A helper that outlives a killed program may hold the pipes: they are read only where it ended itself.
    let Some(status) = wait(&mut child, limit, is_cancelled)? else { return Ok(None) };
    let [stdout, stderr] = [stdout, stderr].map(|reader| {
        reader.map_or(Ok(Vec::new()), |reader| reader.join().unwrap_or_else(|_| Ok(Vec::new())))
    });
    Ok(Some(Output { status, stdout: stdout?, stderr: stderr? }))
}

/// Waits for a child, and kills it after `limit` or once `is_cancelled`; `None` then.
///
/// # Errors
/// The operating system does not say how it ended.
pub fn wait(
    child: &mut Child,
    limit: Duration,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_cancelled() || Instant::now() >= until {
            // An error means that it has ended by itself.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}
