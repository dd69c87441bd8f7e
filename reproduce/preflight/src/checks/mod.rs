//! The checks: each compares what a recipe needs with what was found on a machine.

mod amounts;
mod gpu;
mod host;
mod hub;
mod network;

#[cfg(test)]
mod tests;

use crate::finding::{Finding, Level, Report};
use crate::machine::Machine;
use crate::needs::{Bound, Needs};

/// One check. It finds nothing where the recipe does not need what it looks at.
pub struct Check {
    /// Its number on the page.
    pub number: u8,
    /// Its name.
    pub item: &'static str,
    /// Where it is looked for.
    pub how: &'static str,
    run: fn(&Needs, &Machine, &mut Findings<'_>),
}

/// All checks in order.
pub const CHECKS: &[Check] = &[
    Check { number: 1, item: "GPUs", how: "NVML", run: gpu::gpus },
    Check { number: 2, item: "GPU memory", how: "NVML", run: gpu::memory },
    Check { number: 3, item: "driver", how: "NVML", run: gpu::driver },
    Check { number: 4, item: "GPU errors", how: "NVML ECC counters, kernel log", run: gpu::errors },
    Check { number: 5, item: "GPU connections", how: "NVML P2P status and NVLink state", run: gpu::peers },
    Check { number: 6, item: "cuDNN", how: "cudnnGetVersion in the environment", run: gpu::cudnn },
    Check { number: 7, item: "NCCL", how: "ncclGetVersion in the environment", run: gpu::nccl },
    Check { number: 8, item: "memory", how: "/proc/meminfo, cgroup memory.max", run: amounts::memory },
    Check { number: 9, item: "/dev/shm", how: "statvfs", run: amounts::shm },
    Check { number: 10, item: "processors", how: "affinity, cgroup cpu.max", run: amounts::cores },
    Check { number: 11, item: "disk", how: "statvfs", run: amounts::disk },
    Check { number: 12, item: "open files", how: "/proc/self/limits", run: amounts::open_files },
    Check {
        number: 13,
        item: "processes",
        how: "/proc/self/limits, cgroup pids.max",
        run: amounts::processes,
    },
    Check { number: 14, item: "locked memory", how: "/proc/self/limits", run: amounts::locked_memory },
    Check { number: 15, item: "ports", how: "bind, ip_local_port_range", run: network::ports },
    Check { number: 16, item: "address", how: "name resolution, route", run: network::address },
    Check { number: 17, item: "clock and user", how: "clock, id -un", run: host::clock_and_user },
    Check { number: 18, item: "tools", how: "search path, --version", run: host::tools },
    Check { number: 19, item: "hub", how: "HEAD on resolve", run: hub::hub },
    Check { number: 20, item: "divisibility", how: "the recipe", run: host::divisibility },
    Check { number: 21, item: "data", how: "the files of the rows", run: hub::data },
    Check { number: 22, item: "leftovers", how: "the folder of the recipe", run: host::leftovers },
];

/// Compares what a recipe needs with what was found on a machine.
pub fn examine(recipe: &str, needs: &Needs, machine: &Machine) -> Report {
    let mut findings = Vec::new();
    for check in CHECKS {
        (check.run)(needs, machine, &mut Findings { check, list: &mut findings });
    }
    Report { recipe: recipe.to_owned(), findings }
}

/// Takes the findings of one check.
struct Findings<'a> {
    check: &'a Check,
    list: &'a mut Vec<Finding>,
}

impl Findings<'_> {
    fn add(
        &mut self,
        level: Level,
        found: impl Into<String>,
        needed: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let Check { number, item, how, .. } = *self.check;
        let (found, needed, remedy) = (found.into(), needed.into(), remedy.into());
        self.list.push(Finding { number, item, level, found, how, needed, remedy });
    }

    fn ok(&mut self, found: impl Into<String>) {
        self.add(Level::Ok, found, "", "");
    }

    fn refuse(&mut self, found: impl Into<String>, needed: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Refuse, found, needed, remedy);
    }

    fn warn(&mut self, found: impl Into<String>, needed: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Warn, found, needed, remedy);
    }

    /// Compares an amount with its bounds.
    fn amount(&mut self, bound: Bound, value: u64, found: String, unit: &str, remedy: &str) {
        match bound.level(value) {
            Level::Ok => self.ok(found),
            level => self.add(level, found, bound.words(unit), remedy),
        }
    }

    /// Something that could not be found out.
    fn unknown(&mut self, reason: &str, needed: impl Into<String>) {
        self.warn(format!("could not be found out: {reason}"), needed, "check it by hand");
    }
}

impl Bound {
    fn level(self, value: u64) -> Level {
        let is_less = |bound: Option<u64>| bound.is_some_and(|bound| value < bound);
        if is_less(self.refuse) {
            Level::Refuse
        } else if is_less(self.warn) {
            Level::Warn
        } else {
            Level::Ok
        }
    }

    fn words(self, unit: &str) -> String {
        match (self.refuse, self.warn) {
            (Some(least), Some(good)) if good != least => {
                format!("at least {least}{unit}, better {good}{unit}")
            }
            (Some(least), _) | (None, Some(least)) => format!("at least {least}{unit}"),
            (None, None) => String::new(),
        }
    }
}

/// Bytes in GiB, rounded down.
fn gib(bytes: u64) -> u64 {
    bytes >> 30
}

/// Bytes as text.
fn shown(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
