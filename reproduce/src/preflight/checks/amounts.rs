//! Memory, space and limits.

use std::collections::BTreeMap;

use super::{Findings, gib, gib_text};
use crate::preflight::finding::Level;
use crate::preflight::machine::{Limits, Machine};
use crate::preflight::needs::{Bound, Needs};

pub(super) fn memory(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if needs.memory_gib.is_empty() {
        return;
    }
    let memory = match &machine.memory {
        Ok(memory) => memory,
        Err(reason) => return findings.unknown(reason, needs.memory_gib.words(" GiB")),
    };
    let usable = memory.cgroup.map_or(memory.total, |limit| limit.min(memory.total));
    let available = memory.available.min(usable);
    let limited = if usable < memory.total { ", limited by the control group" } else { "" };
    let found = format!("{}{limited}, {} available", gib_text(usable), gib_text(available));
    let remedy =
        "stop other programs, raise the memory limit of the container or job, or use a larger machine";
    match needs.memory_gib.level(gib(usable)) {
        // A machine sold with 256 GB shows some GiB less: one twentieth is let pass with a warning.
        Level::Refuse if needs.memory_gib.level(gib(usable) * 21 / 20 + 1) < Level::Refuse => {
            findings.warn(found, needs.memory_gib.words(" GiB"), remedy);
        }
        Level::Ok if needs.memory_gib.refuse.is_some_and(|least| gib(available) < least / 2) => {
            let half = needs.memory_gib.refuse.unwrap_or_default() / 2;
            findings.warn(found, format!("{half} GiB available recommended"), remedy);
        }
        _ => findings.amount(needs.memory_gib, gib(usable), found, " GiB", remedy),
    }
}

pub(super) fn shm(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if needs.shm_gib.is_empty() {
        return;
    }
    let remedy = "docker run --shm-size or --ipc=host; sudo mount -o remount,size=SIZE /dev/shm; or fewer prefetched \
                  batches of the loader";
    match &machine.shm {
        Ok(free) => {
            findings.amount(needs.shm_gib, gib(*free), format!("{} free", gib_text(*free)), " GiB", remedy)
        }
        Err(reason) => findings.refuse(reason.clone(), needs.shm_gib.words(" GiB"), remedy),
    }
}

pub(super) fn cores(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if needs.cores.is_empty() {
        return;
    }
    let cores =
        machine.cpus.quota.map_or(machine.cpus.cores, |quota| machine.cpus.cores.min(quota.ceil() as u64));
    let limited = if cores < machine.cpus.cores { ", limited by the control group" } else { "" };
    let remedy = "raise the limit of the container or job; with fewer, decoding of videos holds the GPUs up";
    findings.amount(needs.cores, cores, format!("{cores}{limited}"), " processors", remedy);
}

/// What the folders of one file system need together.
struct FileSystem {
    names: Vec<String>,
    free: u64,
    files: Option<u64>,
    space: Bound,
    count: Bound,
}

pub(super) fn disk(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let mut systems: BTreeMap<u64, FileSystem> = BTreeMap::new();
    for (name, disk) in &machine.disks {
        let space = needs.disk_gib.get(name).copied().unwrap_or_default();
        let count = needs.disk_files.get(name).copied().unwrap_or_default();
        if space.is_empty() && count.is_empty() {
            continue;
        }
        match disk {
            Ok(disk) => {
                let new = || FileSystem {
                    names: Vec::new(),
                    free: disk.free,
                    files: disk.files,
                    space: Bound::default(),
                    count: Bound::default(),
                };
                let system = systems.entry(disk.file_system).or_insert_with(new);
                system.names.push(format!("{name} ({})", disk.path));
                system.free = system.free.min(disk.free);
                (system.space, system.count) = (system.space + space, system.count + count);
            }
            Err(reason) => {
                findings.refuse(format!("{name}: {reason}"), space.words(" GiB free"), "name another folder")
            }
        }
    }
    for FileSystem { names, free, files, space, count } in systems.into_values() {
        let names = names.join(" and ");
        let remedy = "free some, or name folders on a larger disk with --out, --hf-home or $HF_HOME";
        if !space.is_empty() {
            // As hubs and plans have it.
            let gb = |gib: u64| (gib << 30).div_ceil(1_000_000_000);
            let space = Bound { refuse: space.refuse.map(gb), warn: space.warn.map(gb) };
            let found = format!("{:.1} GB free for {names}", free as f64 / 1e9);
            findings.amount(space, free / 1_000_000_000, found, " GB free", remedy);
        }
        if let Some(files) = files.filter(|_| !count.is_empty()) {
            let found = format!("{files} free inodes for {names}");
            findings.amount(count, files, found, " free inodes", remedy);
        }
    }
}

fn limits<'a>(machine: &'a Machine, findings: &mut Findings<'_>, needed: String) -> Option<&'a Limits> {
    machine.limits.as_ref().map_err(|reason| findings.unknown(reason, needed)).ok()
}

fn limit_words(value: Option<u64>) -> String {
    value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string())
}

pub(super) fn open_files(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if needs.open_files.is_empty() {
        return;
    }
    let Some(limits) = limits(machine, findings, needs.open_files.words(" files")) else { return };
    let (soft, hard) = limits.open_files;
    let found = format!("{}, can be raised to {}", limit_words(soft), limit_words(hard));
    // Each program that is started raises its own to the hard limit.
    match needs.open_files.level(hard.unwrap_or(u64::MAX)) {
        Level::Ok if needs.open_files.level(soft.unwrap_or(u64::MAX)) == Level::Ok => {
            findings.ok(limit_words(soft));
        }
        Level::Ok => findings.ok(format!("{found}; raised for each program that is started")),
        level => findings.add(level, found, needs.open_files.words(" files"), "raise the hard limit: ulimit -Hn as root, /etc/security/limits.conf, docker run --ulimit nofile=65536"),
    }
}

pub(super) fn processes(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if needs.processes.is_empty() {
        return;
    }
    let Some(limits) = limits(machine, findings, needs.processes.words("")) else { return };
    let user = limits.processes.1.unwrap_or(u64::MAX);
    let least = machine.cgroup_processes.map_or(user, |group| user.min(group));
    let limited = if least < user { " left in the control group" } else { "" };
    let found = if least == u64::MAX { "unlimited".to_owned() } else { format!("{least}{limited}") };
    let remedy = "raise it: ulimit -u, docker run --pids-limit, TasksMax of the systemd unit";
    findings.amount(needs.processes, least, found, " processes and threads", remedy);
}

pub(super) fn locked_memory(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if !needs.locked_memory {
        return;
    }
    let Some(limits) = limits(machine, findings, "unlimited recommended".to_owned()) else { return };
    match limits.locked_memory.1 {
        None => findings.ok("unlimited"),
        Some(bytes) => {
            let remedy = "ulimit -l unlimited as root, docker run --ulimit memlock=-1: NCCL pins its buffers";
            findings.warn(gib_text(bytes), "unlimited recommended", remedy);
        }
    }
}
