//! GPUs and their driver.

use super::{Findings, gib, gib_text};
use crate::preflight::machine::{Gpu, Gpus, Machine};
use crate::preflight::needs::{GpuNeed, Needs};

/// The GPUs that are there, where any are needed.
fn there<'a>(needs: &'a Needs, machine: &'a Machine) -> Option<(&'a GpuNeed, &'a Gpus)> {
    let need = needs.gpus.as_ref()?;
    let gpus = machine.gpus.as_ref().ok().filter(|gpus| !gpus.list.is_empty())?;
    Some((need, gpus))
}

fn numbers<'a>(gpus: impl Iterator<Item = &'a Gpu>) -> Vec<String> {
    gpus.map(|gpu| gpu.device.ordinal.to_string()).collect()
}

pub(super) fn gpus(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let Some(need) = &needs.gpus else { return };
    let otherwise = need.otherwise.as_deref().unwrap_or("run on a machine with such GPUs");
    let gpus = match &machine.gpus {
        Ok(gpus) => gpus,
        Err(reason) => return findings.refuse(reason.clone(), need.count.words(" GPUs"), otherwise),
    };
    let mut names: Vec<&str> = gpus.list.iter().map(|gpu| gpu.device.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let found = match gpus.list.len() {
        0 => "a driver, and no GPU that CUDA_VISIBLE_DEVICES shows".to_owned(),
        count => format!("{count} x {}", names.join(", ")),
    };
    findings.amount(need.count, gpus.list.len() as u64, found, " GPUs", otherwise);
    if need.alike && names.len() > 1 {
        findings.refuse(
            names.join(", "),
            "GPUs of one model",
            "select GPUs of one model with CUDA_VISIBLE_DEVICES",
        );
    }
    capability(need, gpus, findings);
    let mig = numbers(gpus.list.iter().filter(|gpu| gpu.device.mig));
    if !mig.is_empty() {
        let mig = mig.join(",");
        let remedy = format!("sudo nvidia-smi -i {mig} -mig 0, with nothing running on them");
        findings.refuse(format!("MIG is on for GPU {mig}"), "whole GPUs", remedy);
    }
    for gpu in gpus.list.iter().filter(|gpu| !gpu.health.processes.is_empty()) {
        let processes = gpu.health.processes.iter().map(|process| {
            let program = process.program.as_deref().unwrap_or("a process");
            let memory = process.memory.map(|bytes| format!(", {}", gib_text(bytes))).unwrap_or_default();
            format!("{program} (pid {}{memory})", process.pid)
        });
        let found =
            format!("GPU {} is used by {}", gpu.device.ordinal, processes.collect::<Vec<_>>().join(", "));
        let remedy = "stop the processes, or select free GPUs with CUDA_VISIBLE_DEVICES";
        findings.refuse(found, "GPUs that nothing else uses", remedy);
    }
}

fn capability(need: &GpuNeed, gpus: &Gpus, findings: &mut Findings<'_>) {
    let Some((lowest, highest)) = &need.capability else { return };
    let range = version(lowest).zip(version(highest));
    let outside = gpus.list.iter().filter(|gpu| {
        let own = [gpu.device.capability.0, gpu.device.capability.1]
            .map(|part| u64::try_from(part).unwrap_or_default());
        range
            .as_ref()
            .is_some_and(|(low, high)| own.as_slice() < low.as_slice() || own.as_slice() > high.as_slice())
    });
    let outside: Vec<String> = outside
        .map(|gpu| {
            format!(
                "GPU {} ({}) has {}.{}",
                gpu.device.ordinal, gpu.device.name, gpu.device.capability.0, gpu.device.capability.1
            )
        })
        .collect();
    if !outside.is_empty() {
        let needed =
            format!("compute capability {lowest} to {highest} required: the wheels have code for no other");
        findings.refuse(outside.join(", "), needed, "use GPUs of these generations (A100, H100, H200, L40S)");
    }
}

pub(super) fn memory(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let Some((need, gpus)) = there(needs, machine) else { return };
    let least = |value: fn(&Gpu) -> u64| gpus.list.iter().min_by_key(|gpu| value(gpu));
    if let Some(gpu) = least(|gpu| gpu.device.memory).filter(|_| !need.memory_gib.is_empty()) {
        let found = format!("{} on GPU {}", gib_text(gpu.device.memory), gpu.device.ordinal);
        findings.amount(
            need.memory_gib,
            gib(gpu.device.memory),
            found,
            " GiB on each GPU",
            "use GPUs with more memory",
        );
    }
    if let Some(gpu) = least(|gpu| gpu.device.free).filter(|_| !need.free_gib.is_empty()) {
        let found = format!("{} free on GPU {}", gib_text(gpu.device.free), gpu.device.ordinal);
        let remedy = "stop the processes that hold it: nvidia-smi lists them, in a container only its own";
        findings.amount(need.free_gib, gib(gpu.device.free), found, " GiB free on each GPU", remedy);
    }
}

pub(super) fn driver(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let Some((GpuNeed { driver: Some(need), .. }, gpus)) = there(needs, machine) else { return };
    let needed = format!("{} required, {} recommended", need.refuse, need.warn);
    let Some(found) = &gpus.driver else {
        return findings.unknown("the driver does not say its version", needed);
    };
    let is_older = |than: &str| version(found).zip(version(than)).is_some_and(|(found, than)| found < than);
    let remedy = "install a newer NVIDIA driver on the host; a container uses that of its host";
    match version(found) {
        None => findings.unknown(&format!("version `{found}`"), needed),
        Some(_) if is_older(&need.refuse) => findings.refuse(found.clone(), needed, remedy),
        Some(_) if is_older(&need.warn) => findings.warn(found.clone(), needed, remedy),
        Some(_) => findings.ok(found.clone()),
    }
}

fn version(text: &str) -> Option<Vec<u64>> {
    text.split('.').map(|part| part.trim().parse().ok()).collect()
}

pub(super) fn errors(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let Some((_, gpus)) = there(needs, machine) else { return };
    let failing = gpus.list.iter().filter_map(|gpu| {
        let count = gpu.health.uncorrected_errors.filter(|count| *count > 0)?;
        Some(format!("GPU {}: {count}", gpu.device.ordinal))
    });
    let failing: Vec<String> = failing.collect();
    if !failing.is_empty() {
        let found = format!("uncorrected memory errors: {}", failing.join(", "));
        findings.refuse(
            found,
            "no memory errors",
            "reset these GPUs (nvidia-smi -r), or leave them out with CUDA_VISIBLE_DEVICES",
        );
    }
    match &machine.xid {
        Ok(lines) => match lines.last() {
            Some(last) => {
                let found = format!("{} Xid in the kernel log, the last: {last}", lines.len());
                findings.warn(found, "no Xid", "look the number up in NVIDIA's list of Xid errors");
            }
            None if failing.is_empty() => findings.ok("no uncorrected memory error, no Xid"),
            None => {}
        },
        Err(_) if failing.is_empty() => {
            findings.ok("no uncorrected memory error; the kernel log cannot be read");
        }
        Err(_) => {}
    }
}

pub(super) fn peers(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let Some((need, gpus)) = there(needs, machine) else { return };
    if !need.peers || gpus.list.len() < 2 {
        return;
    }
    let cut = gpus.list.iter().filter(|gpu| !gpu.health.unreachable.is_empty());
    let cut: Vec<String> =
        cut.map(|gpu| format!("{} to {:?}", gpu.device.ordinal, gpu.health.unreachable)).collect();
    if !cut.is_empty() {
        let found = format!("no direct memory access: GPU {}", cut.join(", "));
        let remedy =
            "turn ACS and the IOMMU of the PCI bridges off, or give the virtual machine its GPUs together";
        findings.refuse(found, "each GPU reaches the memory of each other", remedy);
    }
    let without = numbers(gpus.list.iter().filter(|gpu| gpu.health.links == 0));
    if !without.is_empty() {
        let found = format!("no NVLink is up on GPU {}", without.join(", "));
        findings.warn(
            found,
            "NVLink between all GPUs",
            "training runs over PCIe, several times slower; see nvidia-smi nvlink -s",
        );
    } else if cut.is_empty() {
        let links = gpus.list.iter().map(|gpu| gpu.health.links).min().unwrap_or_default();
        findings.ok(format!("direct memory access between all, {links} NVLinks each"));
    }
}
