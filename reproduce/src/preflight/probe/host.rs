//! Memory, processors, disks and limits, from the kernel's files.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::preflight::machine::{Cpus, Disk, Limits, Memory};

/// Above this a limit of version 1 control groups means none.
const UNLIMITED: u64 = 1 << 60;

pub(super) fn memory() -> Result<Memory, String> {
    let host = paravt_devices::host();
    let total = host.memory.ok_or("/proc/meminfo names no MemTotal")?;
    let available = host.available.unwrap_or(total);
    let limits = ["memory.max", "memory/memory.limit_in_bytes"];
    Ok(Memory { total, available, cgroup: least(&limits) })
}

pub(super) fn cpus() -> Cpus {
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
pub(super) fn cgroup_processes() -> Option<u64> {
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
pub(super) fn free(folder: &Path) -> Result<Disk, String> {
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

pub(super) fn limits() -> Result<Limits, String> {
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
}
