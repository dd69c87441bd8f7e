//! GPUs through NVML.

use std::time::Duration;

use super::run;
use crate::preflight::machine::{Gpu, GpuProcess, Gpus};

pub(super) fn gpus() -> Result<Gpus, String> {
    let cuda = paravt_devices::cuda()?;
    let health = paravt_devices::health()?;
    let list = cuda.gpus.into_iter().zip(health).map(|(device, health)| Gpu {
        device,
        processes: health.processes.into_iter().map(process).collect(),
        uncorrected_errors: health.uncorrected_errors,
        links: health.links,
        unreachable: health.unreachable,
    });
    Ok(Gpus { driver: cuda.driver, list: list.collect() })
}

fn process(process: paravt_devices::GpuProcess) -> GpuProcess {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).ok();
    GpuProcess { pid: process.pid, program: name.map(|name| name.trim().to_owned()), memory: process.memory }
}

/// Errors of GPUs in the kernel's log.
pub(super) fn xid() -> Result<Vec<String>, String> {
    let log = run("dmesg", &[], Duration::from_secs(5))?;
    Ok(log.lines().filter(|line| line.contains("NVRM: Xid")).map(|line| line.trim().to_owned()).collect())
}
