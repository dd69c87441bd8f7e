use std::net::{IpAddr, Ipv4Addr};

use paravt_devices::{GpuProcess, Health};

use super::*;
use crate::preflight::machine::*;
use crate::preflight::needs::*;

const GIB: u64 = 1 << 30;

fn bound(refuse: u64, warn: u64) -> Bound {
    Bound { refuse: Some(refuse), warn: Some(warn) }
}

/// What training on one machine of eight GPUs needs.
fn needs() -> Needs {
    let tool = |name: &str, major| Tool {
        name: name.to_owned(),
        major,
        optional: false,
        remedy: "get it".to_owned(),
    };
    Needs {
        gpus: Some(GpuNeed {
            count: bound(8, 8),
            memory_gib: bound(79, 79),
            free_gib: bound(78, 78),
            capability: Some(("8.0".to_owned(), "9.0".to_owned())),
            alike: true,
            peers: true,
            driver: Some(DriverNeed { refuse: "525.60.13".to_owned(), warn: "570.26".to_owned() }),
            otherwise: None,
        }),
        memory_gib: bound(256, 512),
        shm_gib: bound(39, 155),
        cores: Bound { refuse: None, warn: Some(64) },
        disk_gib: [("out".to_owned(), bound(500, 600)), ("data".to_owned(), bound(700, 700))].into(),
        disk_files: [("data".to_owned(), bound(300_000, 300_000))].into(),
        open_files: bound(4096, 65_536),
        processes: bound(4096, 4096),
        locked_memory: true,
        ports: vec![8000, 8001],
        own_address: true,
        tools: vec![tool("uv", None), tool("ffprobe", Some((4, 7)))],
        hub: true,
    }
}

/// Eight H100 with everything that `needs` asks for.
fn machine() -> Machine {
    let gpu = |ordinal| Gpu {
        device: paravt_devices::Gpu {
            ordinal,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            capability: (9, 0),
            memory: 79 * GIB + GIB / 2,
            free: 79 * GIB,
            ..paravt_devices::Gpu::default()
        },
        health: Health { uncorrected_errors: Some(0), links: 18, ..Health::default() },
    };
    let disk = |path: &str, file_system| Disk {
        path: path.to_owned(),
        file_system,
        free: 900 * GIB,
        files: Some(1 << 30),
    };
    let free = |number| Port { number, taken: None };
    let repository = |id: &str, state| Repository { id: id.to_owned(), state };
    Machine {
        gpus: Ok(Gpus { driver: Some("570.124.06".to_owned()), list: (0..8).map(gpu).collect() }),
        xid: Ok(Vec::new()),
        memory: Ok(Memory { total: 1000 * GIB, available: 900 * GIB, cgroup: None }),
        shm: Ok(400 * GIB),
        cpus: Cpus { cores: 128, quota: None },
        disks: [("out".to_owned(), Ok(disk("runs", 1))), ("data".to_owned(), Ok(disk("hf", 2)))].into(),
        limits: Ok(Limits {
            open_files: (Some(1024), Some(1 << 20)),
            processes: (None, None),
            locked_memory: (None, None),
        }),
        cgroup_processes: None,
        ports: [8000, 8001].map(free).to_vec(),
        address: Address {
            hostname: "box".to_owned(),
            resolved: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5))],
            outbound: None,
        },
        tools: [
            ("uv".to_owned(), Some("uv 0.9.1".to_owned())),
            ("ffprobe".to_owned(), Some("ffprobe version n6.1.1-3 Copyright".to_owned())),
        ]
        .into(),
        has_token: true,
        repositories: vec![
            repository("ParaVT/ParaVT-Source", RepoState::Open),
            repository("Qwen/Qwen3-VL-8B-Instruct", RepoState::Local),
        ],
        datasets: Vec::new(),
    }
}

/// The findings of one item on a machine that was changed.
fn after(change: impl FnOnce(&mut Machine), item: &str) -> Vec<Finding> {
    let mut machine = machine();
    change(&mut machine);
    let report = examine("recipe", &needs(), &machine);
    report.findings.into_iter().filter(|finding| finding.item == item).collect()
}

/// The one finding of an item that is not ok.
fn problem(change: impl FnOnce(&mut Machine), item: &str) -> Finding {
    let mut found: Vec<Finding> =
        after(change, item).into_iter().filter(|finding| finding.level > Level::Ok).collect();
    assert_eq!(found.len(), 1, "{item}: {found:?}");
    found.remove(0)
}

fn gpu(machine: &mut Machine, number: usize) -> &mut Gpu {
    &mut machine.gpus.as_mut().unwrap().list[number]
}

#[test]
fn a_machine_with_everything_passes_every_check() {
    let report = examine("recipe", &needs(), &machine());
    assert_eq!(report.level(), Level::Ok, "{}", report.problems());
    // Nothing is passed over silently: every check but that of data says what it saw.
    let seen: Vec<&str> = report.findings.iter().map(|finding| finding.item).collect();
    for check in CHECKS.iter().filter(|check| check.item != "data") {
        assert!(seen.contains(&check.item), "{}", check.item);
    }
}

#[test]
fn a_recipe_without_needs_has_no_findings() {
    assert!(examine("recipe", &Needs::default(), &machine()).findings.is_empty());
}

#[test]
fn gpus_that_are_missing_mixed_partitioned_busy_or_of_another_generation_are_refused() {
    let refused = |change: &dyn Fn(&mut Machine), item: &str, word: &str| {
        let finding = problem(change, item);
        assert_eq!(finding.level, Level::Refuse, "{finding:?}");
        assert!(finding.found.contains(word), "{finding:?}");
        assert!(!finding.remedy.is_empty() && !finding.needed.is_empty(), "{finding:?}");
    };
    refused(&|machine| machine.gpus = Err("no CUDA driver".to_owned()), "GPUs", "no CUDA driver");
    refused(&|machine| machine.gpus.as_mut().unwrap().list.truncate(7), "GPUs", "7 x NVIDIA H100");
    refused(&|machine| gpu(machine, 3).device.name = "NVIDIA A100".to_owned(), "GPUs", "NVIDIA A100");
    refused(&|machine| gpu(machine, 3).device.mig = true, "GPUs", "GPU 3");
    refused(
        &|machine| gpu(machine, 2).device.capability = (10, 0),
        "GPUs",
        "GPU 2 (NVIDIA H100 80GB HBM3) has 10.0",
    );
    refused(&|machine| gpu(machine, 2).device.capability = (7, 5), "GPUs", "7.5");
    let busy = |machine: &mut Machine| {
        let process = GpuProcess { pid: 4711, program: Some("python".to_owned()), memory: Some(12 * GIB) };
        gpu(machine, 5).health.processes.push(process);
    };
    refused(&busy, "GPUs", "GPU 5 is used by python (pid 4711, 12.0 GiB)");
    refused(&|machine| gpu(machine, 5).device.memory = 40 * GIB, "GPU memory", "40.0 GiB on GPU 5");
    // In a container the process is not seen, its memory is.
    refused(&|machine| gpu(machine, 6).device.free = 60 * GIB, "GPU memory", "60.0 GiB free on GPU 6");
    refused(&|machine| gpu(machine, 1).health.uncorrected_errors = Some(2), "GPU errors", "GPU 1: 2");
    refused(&|machine| gpu(machine, 0).health.unreachable = vec![4], "GPU connections", "0 to [4]");
    let driver = |version: &'static str| {
        move |machine: &mut Machine| machine.gpus.as_mut().unwrap().driver = Some(version.to_owned())
    };
    refused(&driver("470.82.01"), "driver", "470.82.01");
    refused(&driver("525.60.9"), "driver", "525.60.9");
    assert_eq!(problem(driver("550.54.15"), "driver").level, Level::Warn);
    assert_eq!(problem(|machine| gpu(machine, 7).health.links = 0, "GPU connections").level, Level::Warn);
    let xid =
        problem(|machine| machine.xid = Ok(vec!["NVRM: Xid (PCI:0000:1b): 79".to_owned()]), "GPU errors");
    assert!(xid.level == Level::Warn && xid.found.contains("79"), "{xid:?}");
}

#[test]
fn memory_processors_and_shared_memory_count_the_limits_of_the_container() {
    let limited = |machine: &mut Machine| machine.memory.as_mut().unwrap().cgroup = Some(64 * GIB);
    let finding = problem(limited, "memory");
    assert!(finding.level == Level::Refuse && finding.found.contains("control group"), "{finding:?}");
    // 256 GB as they are sold.
    let sold = |machine: &mut Machine| machine.memory.as_mut().unwrap().total = 251 * GIB;
    assert_eq!(problem(sold, "memory").level, Level::Warn);
    let full = |machine: &mut Machine| machine.memory.as_mut().unwrap().available = 90 * GIB;
    assert_eq!(problem(full, "memory").level, Level::Warn);
    assert_eq!(problem(|machine| machine.shm = Ok(64 << 20), "/dev/shm").level, Level::Refuse);
    assert_eq!(problem(|machine| machine.shm = Ok(64 * GIB), "/dev/shm").level, Level::Warn);
    let quota = problem(|machine| machine.cpus.quota = Some(15.5), "processors");
    assert!(quota.level == Level::Warn && quota.found.starts_with("16"), "{quota:?}");
}

#[test]
fn folders_of_one_disk_share_its_space_and_inodes() {
    let disk = |machine: &mut Machine, name: &str, change: &dyn Fn(&mut Disk)| {
        change(machine.disks.get_mut(name).unwrap().as_mut().unwrap());
    };
    let finding = problem(|machine| disk(machine, "data", &|disk| disk.free = 699 * GIB), "disk");
    assert!(finding.level == Level::Refuse && finding.found.contains("data (hf)"), "{finding:?}");
    assert_eq!(
        problem(|machine| disk(machine, "out", &|disk| disk.free = 550 * GIB), "disk").level,
        Level::Warn
    );
    let inodes = problem(|machine| disk(machine, "data", &|disk| disk.files = Some(1000)), "disk");
    assert!(inodes.found.contains("1000 free inodes"), "{inodes:?}");
    assert!(
        after(|machine| disk(machine, "data", &|disk| disk.files = None), "disk")
            .iter()
            .all(|finding| finding.level == Level::Ok)
    );
    // 900 GiB are enough for either and not for both.
    let shared = problem(|machine| disk(machine, "data", &|disk| disk.file_system = 1), "disk");
    assert!(shared.needed.contains("1289 GB") && shared.found.contains(" and "), "{shared:?}");
}

#[test]
fn limits_of_processes_are_compared_with_what_they_can_be_raised_to() {
    let limits =
        |change: fn(&mut Limits)| move |machine: &mut Machine| change(machine.limits.as_mut().unwrap());
    let low = problem(limits(|limits| limits.open_files = (Some(1024), Some(2048))), "open files");
    assert!(low.level == Level::Refuse && low.found.contains("2048"), "{low:?}");
    // The soft limit is raised: what the hard one allows counts.
    let middling = problem(limits(|limits| limits.open_files = (Some(1024), Some(20_000))), "open files");
    assert!(middling.level == Level::Warn && middling.found.contains("20000"), "{middling:?}");
    assert_eq!(
        problem(limits(|limits| limits.processes = (None, Some(1000))), "processes").level,
        Level::Refuse
    );
    assert_eq!(problem(|machine| machine.cgroup_processes = Some(100), "processes").level, Level::Refuse);
    let pinned =
        problem(limits(|limits| limits.locked_memory = (Some(1 << 16), Some(1 << 26))), "locked memory");
    assert_eq!(pinned.level, Level::Warn);
}

#[test]
fn ports_and_addresses() {
    let taken = |machine: &mut Machine| machine.ports[1].taken = Some("address in use".to_owned());
    let finding = problem(taken, "ports");
    assert!(finding.level == Level::Refuse && finding.found.contains("8001"), "{finding:?}");
    let loopback =
        |machine: &mut Machine| machine.address.resolved = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1))];
    assert_eq!(problem(loopback, "address").level, Level::Refuse);
    let routed = |machine: &mut Machine| {
        loopback(machine);
        machine.address.outbound = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)));
    };
    assert!(after(routed, "address").iter().all(|finding| finding.level == Level::Ok));
}

#[test]
fn programs_and_their_versions() {
    let missing = problem(|machine| drop(machine.tools.insert("uv".to_owned(), None)), "tools");
    assert!(missing.level == Level::Refuse && missing.found.contains("uv"), "{missing:?}");
    let old = |machine: &mut Machine| {
        drop(machine.tools.insert("ffprobe".to_owned(), Some("ffprobe version 3.4".into())))
    };
    assert_eq!(problem(old, "tools").needed, "ffprobe 4 to 7");
    let mut one = needs();
    one.tools[0].major = Some((12, 12));
    let finding = examine("recipe", &one, &machine()).problems();
    assert!(finding.contains("FAIL  tools: uv 12\n"), "{finding}");
}

#[test]
fn a_gated_repository_and_a_hub_out_of_reach_are_refused_with_what_to_do() {
    let refused = |machine: &mut Machine| {
        machine.has_token = false;
        machine.repositories[0].state =
            RepoState::Refused("gated: accept the terms (403 Forbidden)".to_owned());
    };
    let finding = problem(refused, "hub");
    assert!(finding.level == Level::Refuse && finding.found.contains("403"), "{finding:?}");
    assert!(finding.remedy.contains("HF_TOKEN"), "{finding:?}");
    let unknown = |machine: &mut Machine| {
        machine.repositories[0].state =
            RepoState::NotFound("ParaVT/ParaVT-Source: no such repository".to_owned());
    };
    let finding = problem(unknown, "hub");
    assert!(finding.found == "ParaVT/ParaVT-Source: no such repository", "{finding:?}");
    assert!(finding.remedy.contains("name") && !finding.remedy.contains("terms"), "{finding:?}");
    let away = |machine: &mut Machine| {
        machine.repositories[0].state = RepoState::Unreachable("connection refused".to_owned());
    };
    assert!(problem(away, "hub").remedy.contains("HF_ENDPOINT"));
    let set =
        |is_fetched| Dataset { name: "mlvu".to_owned(), missing: Some("no rows".to_owned()), is_fetched };
    let missing = problem(|machine| machine.datasets.push(set(false)), "data");
    assert_eq!(missing.remedy, "paravt-bench data fetch mlvu");
    let other = Dataset { name: "mmvu".to_owned(), ..set(true) };
    let fetched = after(|machine| machine.datasets.extend([set(true), other]), "data");
    assert_eq!((fetched.len(), fetched[0].level), (1, Level::Ok), "{fetched:?}");
    assert_eq!(fetched[0].found, "the recipe fetches mlvu, mmvu");
}

/// A laptop: the page says what is missing and fits a terminal.
#[test]
fn a_machine_without_a_gpu_is_a_page_of_80_columns() {
    let mut machine = machine();
    machine.gpus = Err("no CUDA driver on this machine (libnvidia-ml.so.1 not found)".to_owned());
    machine.memory = Ok(Memory { total: 16 * GIB, available: 9 * GIB, cgroup: None });
    machine.shm = Ok(8 * GIB);
    machine.cpus.cores = 8;
    machine.disks.insert(
        "data".to_owned(),
        Ok(Disk {
            path: "/home/me/.cache/huggingface".to_owned(),
            file_system: 1,
            free: 90 * GIB,
            files: None,
        }),
    );
    machine.tools.insert("uv".to_owned(), None);
    let report = examine("paravt-8b-train", &needs(), &machine);
    let page = report.page();
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    insta::assert_snapshot!(page);
}
