//! The checks: each compares what a recipe needs with what was found on a machine.

mod amounts;
mod gpu;
mod hub;
mod network;
mod programs;

#[cfg(test)]
mod tests;

use crate::preflight::finding::{Finding, Level, Report};
use crate::preflight::machine::Machine;
use crate::preflight::needs::{Bound, Needs};

/// One check. It finds nothing where the recipe does not need what it looks at.
struct Check {
    item: &'static str,
    how: &'static str,
    run: fn(&Needs, &Machine, &mut Findings<'_>),
}

/// All checks in order.
const CHECKS: &[Check] = &[
    Check { item: "GPUs", how: "NVML", run: gpu::gpus },
    Check { item: "GPU memory", how: "NVML", run: gpu::memory },
    Check { item: "driver", how: "NVML", run: gpu::driver },
    Check { item: "GPU errors", how: "NVML ECC counters, kernel log", run: gpu::errors },
    Check { item: "GPU connections", how: "NVML P2P status and NVLink state", run: gpu::peers },
    Check { item: "memory", how: "/proc/meminfo, cgroup memory.max", run: amounts::memory },
    Check { item: "/dev/shm", how: "statvfs", run: amounts::shm },
    Check { item: "processors", how: "affinity, cgroup cpu.max", run: amounts::cores },
    Check { item: "disk", how: "statvfs", run: amounts::disk },
    Check { item: "open files", how: "/proc/self/limits", run: amounts::open_files },
    Check { item: "processes", how: "/proc/self/limits, cgroup pids.max", run: amounts::processes },
    Check { item: "locked memory", how: "/proc/self/limits", run: amounts::locked_memory },
    Check { item: "ports", how: "bind", run: network::ports },
    Check { item: "address", how: "name resolution, route", run: network::address },
    Check { item: "tools", how: "search path, --version", run: programs::tools },
    Check { item: "hub", how: "HEAD on resolve", run: hub::hub },
    Check { item: "data", how: "the files of the rows", run: hub::data },
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
        let Check { item, how, .. } = *self.check;
        let (found, needed, remedy) = (found.into(), needed.into(), remedy.into());
        self.list.push(Finding { item, level, found, how, needed, remedy });
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

    /// The bounds as `8 GPUs required, 16 GPUs recommended`; `unit` is in the plural.
    fn words(self, unit: &str) -> String {
        let amount =
            |number: u64| format!("{number}{}", if number == 1 { unit.trim_end_matches('s') } else { unit });
        match (self.refuse, self.warn) {
            (Some(least), Some(good)) if good != least => {
                format!("{} required, {} recommended", amount(least), amount(good))
            }
            (Some(least), _) => format!("{} required", amount(least)),
            (None, Some(good)) => format!("{} recommended", amount(good)),
            (None, None) => String::new(),
        }
    }
}

/// Bytes in GiB, rounded down.
fn gib(bytes: u64) -> u64 {
    bytes >> 30
}

fn gib_text(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
