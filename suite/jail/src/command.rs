//! The command line of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::{Jail, Limits, Medium};

/// Folders of the system with shared libraries, of which a link stays a link.
pub(crate) const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/lib32"];
const FONTS: &str = "/usr/share/fonts";
/// Bytes of the message of an exception that come back.
pub(crate) const ERROR_BYTES: usize = 16 << 10;
/// Open files of the interpreter.
const FILES: u32 = 256;

/// Sets the limits that a process hands on, then numbers the files as bubblewrap's flags name them: standard input is
/// the socket of the interpreter, standard output the seccomp filter, standard error a pipe for messages.
const ENTRY: &str =
    r#"set -e; ulimit -c 0; ulimit -n "$1"; ulimit -v "$2"; shift 2; exec "$@" 3<&1 4>&2 >/dev/null"#;

const WORKER: &str = include_str!("worker.py");

/// What starts the interpreter of an episode.
pub(crate) fn worker(jail: &Jail, medium: &Medium) -> Command {
    let mut command = command(jail, Some(medium), WORKER);
    command.arg(setup(&jail.limits, medium));
    command
}

/// What runs a script in a jail; its standard input, output and error are those of [`ENTRY`].
pub(crate) fn command(jail: &Jail, medium: Option<&Medium>, script: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", ENTRY, "sh"]).arg(FILES.to_string()).arg((jail.limits.memory >> 10).to_string());
    shell.arg(&jail.bubblewrap).args(flags(jail, medium)).current_dir("/").env_clear();
    shell.arg("--").arg(&jail.python.executable).args(["-I", "-B", "-c", script]);
    shell
}

/// What the interpreter is given.
fn setup(limits: &Limits, medium: &Medium) -> String {
    let Limits { stdout, figures, figure_bytes, .. } = limits;
    let setup = json!({
        "medium": medium.setup(), "stdout": stdout, "figures": figures, "figure_bytes": figure_bytes, "error": ERROR_BYTES,
    });
    setup.to_string()
}

fn flags(jail: &Jail, medium: Option<&Medium>) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    let mut add =
        |words: &[&dyn AsRef<OsStr>]| flags.extend(words.iter().map(|word| word.as_ref().to_owned()));
    for word in [
        // Python itself is process 1: when it ends, the kernel ends all of the namespace.
        "--unshare-user", "--unshare-pid", "--as-pid-1", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv",
    ] {
        add(&[&word]);
    }
    add(&[&"--cap-drop", &"ALL", &"--uid", &"1000", &"--gid", &"1000", &"--hostname", &"jail"]);
    add(&[&"--seccomp", &"3", &"--info-fd", &"4"]);
    for folder in SYSTEM.map(Path::new) {
        match std::fs::read_link(folder) {
            Ok(target) => add(&[&"--symlink", &target, &folder]),
            Err(_) => add(&[&"--ro-bind-try", &folder, &folder]),
        }
    }
    add(&[&"--ro-bind-try", &"/etc/ld.so.cache", &"/etc/ld.so.cache"]);
    // Figures are drawn with matplotlib's own fonts on every machine, and its list of fonts is made in no time.
    if Path::new(FONTS).is_dir() {
        add(&[&"--tmpfs", &FONTS, &"--remount-ro", &FONTS]);
    }
    // No /proc and no /dev but these: an interpreter needs neither.
    for device in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        add(&[&"--dev-bind", &device, &device]);
    }
    add(&[&"--size", &jail.limits.disk.to_string(), &"--tmpfs", &"/tmp"]);
    for folder in &jail.python.folders {
        if !folder.starts_with("/usr") {
            add(&[&"--ro-bind", folder, folder]);
        }
    }
    for (file, inside) in medium.iter().flat_map(|medium| medium.files().iter().zip(medium.inside())) {
        add(&[&"--ro-bind", file, &inside]);
    }
    // The root and the folders that bubblewrap makes are a tmpfs without a limit.
    add(&[&"--remount-ro", &"/", &"--chdir", &"/tmp"]);
    // Several arenas would count against the address space, and every jail would start a thread for each core.
    for (name, value) in [
        ("HOME", "/tmp"),
        ("PATH", "/usr/bin"),
        ("MPLCONFIGDIR", "/tmp/.matplotlib"),
        ("LC_CTYPE", "C.UTF-8"),
        ("MALLOC_ARENA_MAX", "2"),
        ("OMP_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
    ] {
        add(&[&"--setenv", &name, &value]);
    }
    flags
}
