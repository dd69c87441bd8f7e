//! The socket of the interpreter. Everything that comes from it may be the work of the code that runs there.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time between two looks at the clock and at the number of threads.
const POLL: Duration = Duration::from_millis(20);

/// Why a reply is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The time is over.
    Late,
    /// The interpreter ended.
    Closed,
    /// What came is not a reply, or the interpreter was caught at something.
    Broken(String),
}

/// One side of a stream socket, of frames with a length of four bytes, big-endian.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
}

/// When to stop waiting.
pub(crate) struct Watch<'a> {
    pub until: Instant,
    /// Asked while it waits; a reason ends the jail.
    pub check: &'a dyn Fn() -> Option<String>,
}

impl Watch<'_> {
    fn look(&self) -> Result<(), Stop> {
        if Instant::now() >= self.until {
            return Err(Stop::Late);
        }
        (self.check)().map_or(Ok(()), |reason| Err(Stop::Broken(reason)))
    }
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(POLL))?;
        stream.set_write_timeout(Some(POLL))?;
        Ok(Self { stream })
    }

    /// That nothing has come which was not asked for.
    pub(crate) fn check_silent(&mut self) -> Result<(), Stop> {
        let read = self.stream.set_nonblocking(true).and_then(|()| {
            let read = self.stream.read(&mut [0]);
            self.stream.set_nonblocking(false)?;
            read
        });
        match read {
            Ok(0) => Err(Stop::Closed),
            Ok(_) => Err(Stop::Broken("it wrote a reply that was not asked for".to_owned())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(Stop::Closed),
        }
    }

    pub(crate) fn send(&mut self, frame: &[u8], watch: &Watch<'_>) -> Result<(), Stop> {
        let length = u32::try_from(frame.len())
            .map_err(|_| Stop::Broken(format!("code of {} bytes is too long", frame.len())))?;
        for mut rest in [&length.to_be_bytes()[..], frame] {
            while !rest.is_empty() {
                watch.look()?;
                let written = self.stream.write(rest);
                rest = &rest[progress(written)?.unwrap_or(0)..];
            }
        }
        Ok(())
    }

    /// A frame of at most `max` bytes.
    pub(crate) fn receive(&mut self, max: usize, watch: &Watch<'_>) -> Result<Vec<u8>, Stop> {
        let mut length = [0; 4];
        self.fill(&mut length, watch)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > max {
            return Err(Stop::Broken(format!("it wrote a frame of {length} bytes, allowed are {max}")));
        }
        let mut frame = vec![0; length];
        self.fill(&mut frame, watch)?;
        Ok(frame)
    }

    fn fill(&mut self, mut rest: &mut [u8], watch: &Watch<'_>) -> Result<(), Stop> {
        while !rest.is_empty() {
            watch.look()?;
            let read = self.stream.read(rest);
            let read = progress(read)?.unwrap_or(0);
            rest = &mut rest[read..];
        }
        Ok(())
    }
}

/// Bytes that went through; `None` where it has to be tried again.
fn progress(done: std::io::Result<usize>) -> Result<Option<usize>, Stop> {
    match done {
        Ok(0) => Err(Stop::Closed),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
            _ => Err(Stop::Closed),
        },
    }
}
