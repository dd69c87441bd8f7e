//! Looks at this machine: GPUs through NVML, memory, processors, disks and limits from the kernel's files, ports and
//! addresses, and what programs say.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use paravt_supervise::{find, output};

use crate::preflight::machine::{
    Address, Cpus, Dataset, Disk, Gpu, Gpus, Limits, Machine, Memory, Port, Repository,
};
use crate::preflight::needs::Needs;

/// Above this a limit of version 1 control groups means none.
const UNLIMITED: u64 = 1 << 60;
/// Time that a program gets to say its version.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of its output that are read.
const MAX_OUTPUT: u64 = 16 << 20;

/// What the probes are given beside the needs of the recipe.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Folder of the recipe.
    pub out: PathBuf,
    pub data: PathBuf,
    /// Whether there is an access token for the hub.
    pub has_token: bool,
    /// Repositories and whether they can be had.
    pub repositories: Vec<Repository>,
    /// Data that the recipe reads.
    pub datasets: Vec<Dataset>,
}

/// Looks at this machine, as far as the needs ask for it. Nothing is changed, and no CUDA context is opened.
pub fn probe(needs: &Needs, asked: Asked) -> Machine {
    let folders = [("out", &asked.out), ("data", &asked.data)];
    let is_needed = |name: &str| needs.disk_gib.contains_key(name) || needs.disk_files.contains_key(name);
    let disks = folders.into_iter().filter(|(name, _)| is_needed(name));
    let has_gpus = needs.gpus.is_some();
    Machine {
        gpus: if has_gpus { gpus() } else { Err("not asked".to_owned()) },
        xid: if has_gpus { xid() } else { Ok(Vec::new()) },
        memory: memory(),
        shm: free(Path::new("/dev/shm")).map(|disk| disk.free),
        cpus: cpus(),
        disks: disks.map(|(name, path)| (name.to_owned(), free(path))).collect::<BTreeMap<_, _>>(),
        limits: limits(),
        cgroup_processes: cgroup_processes(),
        ports: needs.ports.iter().map(|&number| port(number)).collect(),
        address: address(needs.own_address),
        tools: needs
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), find_tool(&tool.name, tool.major.is_some())))
            .collect(),
        has_token: asked.has_token,
        repositories: asked.repositories,
        datasets: asked.datasets,
    }
}

fn gpus() -> Result<Gpus, String> {
    let cuda = paravt_devices::cuda()?;
    let health = paravt_devices::health()?;
    let list = cuda.gpus.into_iter().zip(health).map(|(device, health)| Gpu { device, health });
    Ok(Gpus { driver: cuda.driver, list: list.collect() })
}

/// Errors of GPUs in the kernel's log.
fn xid() -> Result<Vec<String>, String> {
    let log = run("dmesg", &[], Duration::from_secs(5))?;
    Ok(log.lines().filter(|line| line.contains("NVRM: Xid")).map(|line| line.trim().to_owned()).collect())
}

fn memory() -> Result<Memory, String> {
    let host = paravt_devices::host();
    let total = host.memory.ok_or("/proc/meminfo names no MemTotal")?;
    let available = host.available.unwrap_or(total);
    let limits = ["memory.max", "memory/memory.limit_in_bytes"];
    Ok(Memory { total, available, cgroup: least(&limits) })
}

fn cpus() -> Cpus {
    let cores = paravt_devices::host().cores as u64;
    let quotas = groups().into_iter().filter_map(|folder| {
        let text = std::fs::read_to_string(folder.join("cpu.max")).ok()?;
        let mut words = text.split_whitespace();
        let (quota, period) = (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?);
        (period > 0.0).then_some(quota / period)
    });
    Cpus { cores, quota: quotas.reduce(f64::min) }
}

/// Processes that the control group still admits.
fn cgroup_processes() -> Option<u64> {
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = groups().into_iter().flat_map(|folder| [folder.join("pids"), folder]).filter_map(|folder| {
        let (max, now) = (number(folder.join("pids.max"))?, number(folder.join("pids.current"))?);
        Some(max.saturating_sub(now))
    });
    left.min()
}

/// The least of a limit over this process's control groups.
fn least(names: &[&str]) -> Option<u64> {
    let files = groups().into_iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let values = files.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    values.filter(|value| *value < UNLIMITED).min()
}

/// Folders of this process's control groups, from the innermost to the root.
fn groups() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let own = root.join(own.trim_start_matches('/'));
    own.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect()
}

/// Free space and files of the file system that a folder lies on, or would lie on.
fn free(folder: &Path) -> Result<Disk, String> {
    let absolute = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let existing = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let metadata = std::fs::metadata(existing).map_err(|error| named(&error))?;
    if !metadata.is_dir() {
        return Err(format!("{} is not a folder", existing.display()));
    }
    let found = rustix::fs::statvfs(existing).map_err(|error| named(&error))?;
    Ok(Disk {
        path: folder.display().to_string(),
        file_system: metadata.dev(),
        free: found.f_bavail.saturating_mul(found.f_frsize),
        // File systems that make inodes as they need them say that they have none.
        files: (found.f_files > 0).then_some(found.f_favail),
    })
}

fn limits() -> Result<Limits, String> {
    let text = std::fs::read_to_string("/proc/self/limits")
        .map_err(|error| format!("/proc/self/limits: {error}"))?;
    parse_limits(&text).ok_or_else(|| "/proc/self/limits lacks a line".to_owned())
}

fn parse_limits(text: &str) -> Option<Limits> {
    let line = |name: &str| {
        let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
        let mut value = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some((value()?, value()?))
    };
    Some(Limits {
        open_files: line("Max open files")?,
        processes: line("Max processes")?,
        locked_memory: line("Max locked memory")?,
    })
}

/// Whether a server on this machine can listen on a port.
fn port(number: u16) -> Port {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).err().map(|error| error.to_string());
    Port { number, taken }
}

/// The address of this machine; its name is looked up, which may take a while, only where that is asked for.
fn address(look_up: bool) -> Address {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let found = look_up.then(|| (hostname.as_str(), 0).to_socket_addrs().ok()).flatten();
    let resolved = found.into_iter().flatten().map(|one| one.ip()).collect();
    let outbound = if look_up { outbound() } else { None };
    Address { hostname, resolved, outbound }
}

/// The address that packets to elsewhere leave from. No packet is sent: the kernel chooses when the socket is
/// connected.
fn outbound() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Standard output of a program that ends with 0 in time, or what it wrote as an error where that is empty.
///
/// # Errors
/// It does not start, ends otherwise, or takes longer: what it wrote last.
fn run(program: &str, arguments: &[&str], patience: Duration) -> Result<String, String> {
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
fn find_tool(name: &str, version_counts: bool) -> Option<String> {
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
    fn limits_of_the_kernel_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             unlimited            4096                 processes \n\
                    Max open files            1024                 524288               files     \n\
                    Max locked memory         67108864             unlimited            bytes     \n";
        let limits = parse_limits(text).unwrap();
        assert_eq!(limits.open_files, (Some(1024), Some(524_288)));
        assert_eq!((limits.processes, limits.locked_memory), ((None, Some(4096)), (Some(1 << 26), None)));
        assert!(parse_limits("Max processes 1 2").is_none());
        // This machine's own file has all three.
        super::limits().unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_lies_on_the_disk_of_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let (there, below) = (free(folder.path()).unwrap(), free(&folder.path().join("a/b")).unwrap());
        assert_eq!(there.file_system, below.file_system);
        assert!(there.free > 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(free(&file.join("below")).unwrap_err().contains("not a folder"));
    }

    #[test]
    fn a_program_that_hangs_or_fails_is_a_reason() {
        assert_eq!(run("sh", &["-c", "echo yes"], PATIENCE).unwrap().trim(), "yes");
        let failed = run("sh", &["-c", "echo no >&2; exit 4"], PATIENCE).unwrap_err();
        assert!(failed.contains("exit status: 4") && failed.contains("no"), "{failed}");
        let hangs = run("sleep", &["60"], Duration::from_millis(200)).unwrap_err();
        assert!(hangs.contains("did not end"), "{hangs}");
        assert!(run("no-such-program", &[], PATIENCE).is_err());
        assert_eq!(find_tool("no-such-program", true), None);
        assert!(find_tool("sh", false).is_some() && find_tool("ls", true).is_some());
    }
}
