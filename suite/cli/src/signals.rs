//! Ctrl-C and SIGTERM in a command of several stages: a stage that can stop in order takes them; in all others they end
//! the process.
//!
//! A handler that tokio has registered stays for the rest of the process. Without what is here, a signal would be
//! lost in every stage after the first that waited for one.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context as _;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::exit::Exit;

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signal {
    pub(crate) const ALL: [Self; 2] = [Self::Interrupt, Self::Terminate];
}

/// The signals that are listened for, as they arrive: Ctrl-C, and SIGTERM where it was asked for.
pub(crate) struct Arrivals {
    interrupt: unix::Signal,
    terminate: Option<unix::Signal>,
}

impl Arrivals {
    /// Listens from here on, within a runtime.
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        let terminates = signals.contains(&Signal::Terminate);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: terminates.then(|| signal(SignalKind::terminate())).transpose()?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let terminate = async {
            match &mut self.terminate {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = terminate => Signal::Terminate,
        }
    }
}

/// Whether the user has asked this process to stop.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Notes that the user has asked this process to stop.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Whether the user has asked this process to stop, whatever was done about it.
pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// Places that wait for each signal at the moment.
static HANDLED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Says, as long as it lives, that these signals are waited for.
#[derive(Debug)]
pub(crate) struct SignalGuard(&'static [Signal]);

impl SignalGuard {
    /// To be made before the wait begins.
    pub(crate) fn new(signals: &'static [Signal]) -> Self {
        signals.iter().for_each(|one| _ = HANDLED[*one as usize].fetch_add(1, Ordering::SeqCst));
        Self(signals)
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(|one| _ = HANDLED[*one as usize].fetch_sub(1, Ordering::SeqCst));
    }
}

/// From now on, a signal that nothing waits for ends the process at once. Its children end with it (their guards), and
/// what was done is on the disk.
pub(crate) fn exit_on_unhandled_signals() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot wait for signals")?;
    let arrivals = runtime.block_on(async { Arrivals::new(&Signal::ALL) });
    let mut arrivals = arrivals.context("cannot wait for signals")?;
    let wait = move || {
        runtime.block_on(async move {
            loop {
                if HANDLED[arrivals.next().await as usize].load(Ordering::SeqCst) == 0 {
                    eprintln!("\nstopped; repeat the command to continue");
                    std::process::exit(Exit::Interrupted as i32);
                }
                // What waits for it may be about to end: then no stage begins after this one.
                stop();
            }
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot wait for signals")?;
    Ok(())
}
