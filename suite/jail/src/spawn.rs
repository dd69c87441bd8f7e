//! The thread that starts the jails.

use std::io::{Error, Result};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};

type Job = (Command, SyncSender<Result<Child>>);

/// `--die-with-parent` means the thread that started a jail: this one lasts as long as the process.
static STARTER: LazyLock<Mutex<Option<Sender<Job>>>> = LazyLock::new(|| {
    let (sender, jobs) = channel::<Job>();
    let work = move || {
        for (mut command, reply) in jobs {
            let _ = reply.send(command.spawn());
        }
    };
    let started = std::thread::Builder::new().name("jails".to_owned()).spawn(work);
    Mutex::new(started.ok().map(|_| sender))
});

pub(crate) fn spawn(command: Command) -> Result<Child> {
    let (reply, child) = sync_channel(1);
    let no_thread = || Error::other("the thread that starts jails does not run");
    let starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    starter.as_ref().ok_or_else(no_thread)?.send((command, reply)).map_err(|_| no_thread())?;
    drop(starter);
    child.recv().map_err(|_| no_thread())?
}
