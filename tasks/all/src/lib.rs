#![forbid(unsafe_code)]
//! Every benchmark of the suite. Adding one is a folder beside this one and a line in `ALL`.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let task = paravt_tasks::named("mlvu").expect("a task of this build");
//! assert_eq!(task.spec().title, "MLVU (dev)");
//! assert!(paravt_tasks::named("imagenet").is_none());
//! ```

use paravt_suite::task::{Benchmark, Task as _};

/// Every split: those of the paper's table in its order, then others.
static ALL: &[&Benchmark] = &[
    &paravt_task_videomme::VIDEO_MME,
    &paravt_task_videomme::VIDEO_MME_WITH_SUBTITLES,
    &paravt_task_longvideobench::LONG_VIDEO_BENCH,
    &paravt_task_lvbench::LVBENCH,
    &paravt_task_mlvu::MLVU,
    &paravt_task_mmvu::MMVU,
    &paravt_task_charades_sta::CHARADES_STA,
    &paravt_task_vsi_bench::VSI_BENCH,
];

/// Every split: those of the paper's table in its order, then others.
pub fn all() -> &'static [&'static Benchmark] {
    ALL
}

/// The split of that name.
pub fn named(name: &str) -> Option<&'static Benchmark> {
    ALL.iter().copied().find(|task| task.spec().name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
