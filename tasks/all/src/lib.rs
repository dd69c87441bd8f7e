#![forbid(unsafe_code)]
//! Every benchmark of the suite. Adding one is a folder beside this one, a line of `Cargo.toml` and one of the list below.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let task = paravt_tasks::named("mlvu").expect("a task of this build");
//! assert_eq!(task.spec().title, "MLVU (dev)");
//! assert!(paravt_tasks::named("imagenet").is_none());
//! ```

use std::sync::LazyLock;

use paravt_suite::nearest::nearest;
use paravt_suite::task::{Benchmark, Task as _};

/// The splits of each benchmark in the order of lists: those of the paper's table in its order, then others.
static SPLITS: &[&[&Benchmark]] = &[
    paravt_task_videomme::SPLITS,
    paravt_task_longvideobench::SPLITS,
    paravt_task_lvbench::SPLITS,
    paravt_task_mlvu::SPLITS,
    paravt_task_mmvu::SPLITS,
    paravt_task_charades_sta::SPLITS,
    paravt_task_vsi_bench::SPLITS,
    paravt_task_video_holmes::SPLITS,
    paravt_task_lsdbench::SPLITS,
    paravt_task_videomme_v2::SPLITS,
    paravt_task_video_mmmu::SPLITS,
    paravt_task_vstar::SPLITS,
    paravt_task_hrbench::SPLITS,
    paravt_task_extremewhen::SPLITS,
    paravt_task_timelens::SPLITS,
    paravt_task_cgbench::SPLITS,
    paravt_task_timescope::SPLITS,
];

/// Every split: those of the paper's table in its order, then others.
pub fn all() -> &'static [&'static Benchmark] {
    static ALL: LazyLock<Vec<&'static Benchmark>> = LazyLock::new(|| SPLITS.concat());
    &ALL
}

/// The split of that name.
pub fn named(name: &str) -> Option<&'static Benchmark> {
    all().iter().copied().find(|task| task.spec().name == name)
}

/// A name that no split has.
#[derive(Debug, thiserror::Error)]
#[error("unknown task {0} `paravt-bench tasks` lists all")]
pub struct UnknownTask(String);

/// The splits of those names, each once; `all` is every split that is part of it.
///
/// # Errors
/// A name that no split has.
pub fn select(names: &[impl AsRef<str>]) -> Result<Vec<&'static Benchmark>, UnknownTask> {
    let mut selected: Vec<&'static Benchmark> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        if name == "all" {
            return Ok(all().iter().copied().filter(|task| task.is_part_of_all()).collect());
        }
        match named(name) {
            Some(task) if selected.iter().any(|other| other.spec().name == task.spec().name) => {}
            Some(task) => selected.push(task),
            None => {
                let nearest = nearest(name, all().iter().map(|task| task.spec().name.as_str()));
                let nearest = nearest.map(|name| format!(" did you mean `{name}`?")).unwrap_or_default();
                return Err(UnknownTask(format!("`{name}`;{nearest}")));
            }
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_folder_beside_this_one_is_a_benchmark_of_the_build() {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut folders = 0;
        for entry in std::fs::read_dir(beside).unwrap() {
            let Ok(text) = std::fs::read_to_string(entry.unwrap().path().join("benchmark.toml")) else {
                continue;
            };
            let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
            let line = "tasks/all names its crate in Cargo.toml and its splits in src/lib.rs";
            assert!(named(name.trim_matches('"')).is_some(), "{name}: not in the build; {line}");
            folders += 1;
        }
        assert_eq!(folders, SPLITS.len());
    }

    #[test]
    fn descriptions_parse_and_names_differ() {
        let names: BTreeSet<&str> = all().iter().map(|task| task.spec().name.as_str()).collect();
        assert_eq!(names.len(), all().len());
        for task in all() {
            let spec = task.spec();
            assert!(spec.paper_rows <= spec.expected_rows, "{}", spec.name);
            assert!(task.layout().annotations.contains(&spec.hub.annotations), "{}", spec.name);
        }
        assert!(named("lvbench").is_some_and(|task| task.spec().title == "LVBench"));
        assert!(named("lvbenc").is_none());
    }
}
