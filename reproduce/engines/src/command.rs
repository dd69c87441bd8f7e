//! Commands as they are run and as they are shown.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use paravt_supervise::{Command, variable};

use crate::error::{Error, Result};

/// A command as a plan or a record shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedCommand {
    /// Program and arguments as a shell would take them.
    pub line: String,
    /// Variables that are set for it, `NAME=VALUE`, without secrets.
    pub environment: Vec<String>,
}

/// A program of an environment with variables; `PATH` begins with the environment's programs.
pub(crate) fn command(
    environment: &Path,
    program: &str,
    args: Vec<String>,
    dir: &Path,
    env: BTreeMap<String, String>,
) -> Command {
    Command { program: environment.join("bin").join(program).into(), args, env, dir: Some(dir.to_owned()) }
}

/// The variables with which a program of an environment finds the others, beside those of this process.
pub(crate) fn with_path(environment: &Path, mut command: Command) -> Command {
    let mut paths = vec![environment.join("bin")];
    paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    if let Ok(path) = std::env::join_paths(paths) {
        command.env.insert("PATH".to_owned(), path.to_string_lossy().into_owned());
    }
    command
}

/// The command without paths of the machine: `replaced` are folders with the words in their place.
pub(crate) fn print_command(command: &Command, replaced: &[(&Path, &str)]) -> PrintedCommand {
    let plain = |text: &str| {
        replaced
            .iter()
            .fold(text.to_owned(), |text, (folder, word)| text.replace(&*folder.to_string_lossy(), word))
    };
    let program = command.program.to_string_lossy().into_owned();
    let words: Vec<String> =
        std::iter::once(program).chain(command.args.clone()).map(|word| plain(&word)).collect();
    let line = paravt_supervise::words(&words).iter().map(paravt_files::quote).collect::<Vec<_>>().join(" ");
    let environment = command.env.iter().map(|(name, value)| variable(name, &plain(value))).collect();
    PrintedCommand { line, environment }
}

/// Sets further variables. Folders for `PYTHONPATH` come before those that are there.
pub(crate) fn extend(env: &mut BTreeMap<String, String>, further: &BTreeMap<String, String>) {
    for (name, value) in further {
        match env.get_mut(name) {
            Some(path) if name == "PYTHONPATH" => *path = format!("{value}:{path}"),
            _ => {
                env.insert(name.clone(), value.clone());
            }
        }
    }
}

/// A port of this machine that nothing listens on, for a command that takes one.
pub(crate) fn free_port() -> Result<u16> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port())
        .map_err(|source| Error::file("cannot get a port on", Path::new("127.0.0.1"), source))
}
