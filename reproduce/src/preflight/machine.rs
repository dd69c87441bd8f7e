//! Properties of a machine, as the probes found them; where a probe failed, the reason.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

/// A machine as its probes saw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    pub gpus: Result<Gpus, String>,
    /// GPU errors in the kernel's log, latest last.
    pub xid: Result<Vec<String>, String>,
    pub memory: Result<Memory, String>,
    /// Space in `/dev/shm` in bytes.
    pub shm: Result<u64, String>,
    pub cpus: Cpus,
    /// Folders by the names of the needs.
    pub disks: BTreeMap<String, Result<Disk, String>>,
    pub limits: Result<Limits, String>,
    /// Processes that the control group still admits; `None` where it does not limit them.
    pub cgroup_processes: Option<u64>,
    pub ports: Vec<Port>,
    pub address: Address,
    /// What programs say of their version; `None` for one that is not on the search path.
    pub tools: BTreeMap<String, Option<String>>,
    /// Whether there is an access token for the hub.
    pub has_token: bool,
    /// Repositories that the recipe downloads.
    pub repositories: Vec<Repository>,
    /// Data that the recipe reads.
    pub datasets: Vec<Dataset>,
}

/// GPUs and their driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gpus {
    /// Version of the driver.
    pub driver: Option<String>,
    /// GPUs in CUDA's order.
    pub list: Vec<Gpu>,
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Number, name and memory.
    #[serde(flatten)]
    pub device: paravt_devices::Gpu,
    /// Who uses it, what has failed, how it is connected.
    #[serde(flatten)]
    pub health: paravt_devices::Health,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total: u64,
    /// That can be had without swapping.
    pub available: u64,
    /// That the control group admits.
    pub cgroup: Option<u64>,
}

/// Processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cpus {
    /// That this process may use.
    pub cores: u64,
    /// That the control group admits at a time.
    pub quota: Option<f64>,
}

/// A folder on a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    pub path: String,
    /// Number of its file system: folders of one share its space.
    pub file_system: u64,
    /// Free space in bytes.
    pub free: u64,
    /// Files that can still be made; `None` where the file system sets no number.
    pub files: Option<u64>,
}

/// Limits of a process: what it may use now, and what it may raise that to. `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    pub open_files: (Option<u64>, Option<u64>),
    pub processes: (Option<u64>, Option<u64>),
    /// Locked memory in bytes.
    pub locked_memory: (Option<u64>, Option<u64>),
}

/// A port and why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    pub number: u16,
    /// The reason, where it cannot be used.
    pub taken: Option<String>,
}

/// How other processes reach this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Address {
    /// Name of the machine.
    pub hostname: String,
    pub resolved: Vec<IpAddr>,
    /// Address that packets leave from.
    pub outbound: Option<IpAddr>,
}

/// A repository of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repository {
    pub id: String,
    /// Whether it can be had.
    pub state: RepoState,
}

/// Whether a repository can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepoState {
    /// Its files are here.
    Local,
    /// The hub serves it to this account.
    Open,
    /// The hub refuses: its reason and what to do.
    Refused(String),
    /// The hub has none of that name: its reason and what to check.
    NotFound(String),
    /// The hub did not answer.
    Unreachable(String),
}

/// Data that a recipe reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dataset {
    pub name: String,
    /// What is missing; `None` where everything is here.
    pub missing: Option<String>,
    /// Whether the recipe fetches what is missing.
    pub is_fetched: bool,
}
