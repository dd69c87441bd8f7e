//! What a recipe needs, as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a recipe needs of a machine. Everything that is left out is not needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    pub gpus: Option<GpuNeed>,
    /// Memory in GiB: of the machine, or of the control group where that has less.
    pub memory_gib: Bound,
    /// Space in `/dev/shm` in GiB.
    pub shm_gib: Bound,
    pub cores: Bound,
    /// Free space in GiB by the name of a folder: `out` for that of the recipe, `data` for the data root.
    pub disk_gib: BTreeMap<String, Bound>,
    /// Files that can still be made, by the same names.
    pub disk_files: BTreeMap<String, Bound>,
    pub open_files: Bound,
    pub processes: Bound,
    /// Memory that cannot be swapped out is not limited.
    pub locked_memory: bool,
    pub ports: Vec<u16>,
    /// Other processes reach this machine by its own address and not by the loopback.
    pub own_address: bool,
    /// Programs on the search path.
    pub tools: Vec<Tool>,
    /// Repositories of the hub are asked whether this account may download them, unless they are here.
    pub hub: bool,
}

/// An amount at which a run is refused below, and one at which there is a warning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Less than this is refused.
    pub refuse: Option<u64>,
    /// Less than this is a warning.
    pub warn: Option<u64>,
}

/// What is needed of the GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuNeed {
    pub count: Bound,
    pub memory_gib: Bound,
    /// Free memory of each in GiB.
    pub free_gib: Bound,
    /// Lowest and highest compute capability, such as `["8.0", "9.0"]`.
    pub capability: Option<(String, String)>,
    pub alike: bool,
    /// Each reaches the memory of each other.
    pub peers: bool,
    pub driver: Option<DriverNeed>,
    /// What can be done without such GPUs.
    pub otherwise: Option<String>,
}

/// Versions of the NVIDIA driver, such as `525.60.13`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverNeed {
    /// An older one is refused.
    pub refuse: String,
    /// An older one is a warning.
    pub warn: String,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name on the search path.
    pub name: String,
    /// Lowest and highest major version.
    pub major: Option<(u64, u64)>,
    /// Its absence is a warning only.
    #[serde(default)]
    pub optional: bool,
    /// What it is for, and how to get it.
    pub remedy: String,
}

impl Bound {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.refuse.is_none() && self.warn.is_none()
    }
}

impl std::ops::Add for Bound {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or_default() + b.unwrap_or_default()),
        };
        // Where only one says what is better, the other adds what it cannot do without.
        let better = |bound: Self| bound.warn.or(bound.refuse);
        let has_better = self.warn.is_some() || other.warn.is_some();
        Self {
            refuse: sum(self.refuse, other.refuse),
            warn: if has_better { sum(better(self), better(other)) } else { None },
        }
    }
}
