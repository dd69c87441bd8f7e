//! Looks at this machine.

mod gpu;
mod host;
mod network;
mod programs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use programs::run;

use crate::preflight::machine::{Dataset, Machine, Repository};
use crate::preflight::needs::Needs;

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
        gpus: if has_gpus { gpu::gpus() } else { Err("not asked".to_owned()) },
        xid: if has_gpus { gpu::xid() } else { Ok(Vec::new()) },
        memory: host::memory(),
        shm: host::free(Path::new("/dev/shm")).map(|disk| disk.free),
        cpus: host::cpus(),
        disks: disks.map(|(name, path)| (name.to_owned(), host::free(path))).collect::<BTreeMap<_, _>>(),
        limits: host::limits(),
        cgroup_processes: host::cgroup_processes(),
        ports: needs.ports.iter().map(|&number| network::port(number)).collect(),
        address: network::address(needs.own_address),
        tools: needs
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), programs::tool(&tool.name, tool.major.is_some())))
            .collect(),
        has_token: asked.has_token,
        repositories: asked.repositories,
        datasets: asked.datasets,
    }
}
