//! A limit to the time that one file may take.
//!
//! FFmpeg asks before each read of the file whether it should go on. A read that the system does not answer, and a
//! decoder that never returns, are beyond that.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ffmpeg_next::ffi;

use crate::error::MediaError;

/// Time that one request to a file may take where nothing else is said: a long video in a slow codec takes a minute.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

/// A point in time after which a file is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Milliseconds of [`now`].
    at: u64,
    limit: Duration,
}

impl Deadline {
    /// After this time from now.
    pub(crate) fn after(limit: Duration) -> Self {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self { at: now().saturating_add(milliseconds), limit }
    }

    /// Fails after the deadline. Frames returned before it may be truncated even without an error from the reader.
    pub(crate) fn check(self) -> Result<(), MediaError> {
        if now() < self.at { Ok(()) } else { Err(MediaError::Timeout { limit: self.limit }) }
    }

    /// What FFmpeg is to call. The time itself takes the place of a pointer to it, so that nothing has to outlive the
    /// context.
    pub(crate) fn interrupt(self) -> ffi::AVIOInterruptCB {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        ffi::AVIOInterruptCB { callback: Some(is_over), opaque: std::ptr::without_provenance_mut(at) }
    }
}

extern "C" fn is_over(at: *mut c_void) -> c_int {
    c_int::from(now() >= at.addr() as u64)
}

/// Milliseconds since the first call.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes() {
        assert_eq!(Deadline::after(Duration::MAX).check(), Ok(()));
        let over = Deadline::after(Duration::ZERO);
        assert_eq!(over.check(), Err(MediaError::Timeout { limit: Duration::ZERO }));
        let interrupt = over.interrupt();
        assert_eq!(interrupt.callback.map(|_| is_over(interrupt.opaque)), Some(1));
    }
}
