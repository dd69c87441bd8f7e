//! The log of a process: lines of bounded length in a file, the last ones also in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::secret::Secrets;

/// Bytes of a line that are kept; of a longer one the count of the others is.
const LINE: usize = 4096;
/// Bytes after which the file is set aside as `NAME.log.old`, in the place of the one before.
const FILE: u64 = 64 << 20;
/// Lines that an error shows.
const TAIL: usize = 50;
/// Lines with an exception that it shows besides.
const EXCEPTIONS: usize = 8;
/// What such a line holds: `RuntimeError: …` of Python.
const EXCEPTION: &str = "Error: ";

/// A log and the thread that fills it.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    tail: VecDeque<String>,
    /// The last lines that name an exception. Of several processes, those of the one that failed first are pushed out of
    /// the tail by the others.
    exceptions: VecDeque<String>,
    heard: Instant,
    /// Lines that held each text that is counted.
    counts: Vec<(&'static str, u64)>,
}

impl Log {
    /// Appends to a file, without these secrets; the second value is the end of the pipe that the process writes to.
    pub(crate) fn open(
        path: &Path,
        texts: &[&'static str],
        secrets: Secrets,
    ) -> std::io::Result<(Self, PipeWriter)> {
        // A link of somebody else is not written through.
        if path.is_symlink() {
            std::fs::remove_file(path)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        let (mut reader, writer) = std::io::pipe()?;
        let counts = texts.iter().map(|&text| (text, 0)).collect();
        let state = Arc::new(Mutex::new(State {
            tail: VecDeque::new(),
            exceptions: VecDeque::new(),
            heard: Instant::now(),
            counts,
        }));
        let mut lines = Lines {
            bytes: file.metadata()?.len(),
            path: path.to_owned(),
            file,
            state: Arc::clone(&state),
            // Long enough that a secret at the cut is still recognised.
            limit: LINE + secrets.longest(),
            secrets,
            line: Vec::new(),
            cut: 0,
        };
        let reader =
            std::thread::Builder::new().name("log".to_owned()).spawn(move || lines.read(&mut reader))?;
        Ok((Self { path: path.to_owned(), state, reader: Some(reader) }, writer))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Time since the last output.
    pub(crate) fn silence(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).heard.elapsed()
    }

    /// The last lines, after those with an exception that came before them.
    pub(crate) fn tail(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.exceptions.iter().filter(|line| !state.tail.contains(line));
        before.chain(&state.tail).map(|line| format!("  {line}\n")).collect()
    }

    /// Lines so far that held a text that is counted; of long lines, the part that is kept.
    pub(crate) fn count(&self, text: &str) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts.iter().find(|(counted, _)| *counted == text).map_or(0, |(_, count)| *count)
    }

    /// Waits a moment until everything that was written is in the file. A process that left the group may hold the
    /// pipe open for ever.
    pub(crate) fn drain(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while let Some(reader) = self.reader.take() {
            if reader.is_finished() || Instant::now() > until {
                return;
            }
            self.reader = Some(reader);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Splits output into lines.
struct Lines {
    path: PathBuf,
    file: File,
    bytes: u64,
    state: Arc<Mutex<State>>,
    secrets: Secrets,
    /// Bytes of a line that are looked at.
    limit: usize,
    line: Vec<u8>,
    cut: usize,
}

impl Lines {
    fn read(&mut self, pipe: &mut PipeReader) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.add(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if !self.line.is_empty() {
            self.end_line();
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).heard = Instant::now();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let kept = text.len().min(self.limit - self.line.len());
            self.line.extend_from_slice(&text[..kept]);
            self.cut += text.len() - kept;
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut text = self.secrets.masked(&String::from_utf8_lossy(&self.line), &mut self.cut);
        if text.len() > LINE {
            let end = text.floor_char_boundary(LINE);
            self.cut += text.len() - end;
            text.truncate(end);
        }
        if self.cut > 0 {
            text.push_str(&format!(" … [{} bytes cut]", self.cut));
        }
        (self.line, self.cut) = (Vec::new(), 0);
        if self.bytes > FILE {
            let old = self.path.with_extension("log.old");
            if paravt_files::rename(&self.path, &old).is_ok()
                && let Ok(file) = File::create(&self.path)
            {
                (self.file, self.bytes) = (file, 0);
            }
        }
        // A log that cannot be written must not stop the process that writes it.
        if writeln!(self.file, "{text}").is_ok() {
            self.bytes += text.len() as u64 + 1;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (counted, count) in &mut state.counts {
            *count += u64::from(text.contains(*counted));
        }
        if text.contains(EXCEPTION) {
            if state.exceptions.len() == EXCEPTIONS {
                state.exceptions.pop_front();
            }
            state.exceptions.push_back(text.clone());
        }
        if state.tail.len() == TAIL {
            state.tail.pop_front();
        }
        state.tail.push_back(text);
    }
}
