//! Long runs: their records are counted up a part at a time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::whole;
use paravt_reports::compare::{compare, compare_counted, json as compared};
use paravt_reports::statistics::mean;
use paravt_reports::{Report, count_runs, find_runs, json};
use paravt_suite::journal::{JOURNAL, Journal};
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::{AgentScore, Record};

const ROWS: usize = 3_000;
/// Bytes of a reply.
const REPLY: usize = 40_000;
/// Names the run directory to the process whose memory is measured.
const DIR: &str = "PARAVT_TEST_LONG_RUN";

/// A run of long replies, written as an interrupted run of many at a time leaves them: not quite in the order of their
/// rows, some twice, the last line torn.
fn write(dir: &Path, right: usize) -> PathBuf {
    let mut run = whole("videomme", "Video-MME", ROWS, right);
    run.manifest.fidelity = Some(Fidelity::Exact);
    run.manifest.label = Some(format!("{right} right"));
    for record in &mut run.records {
        record.transcript.final_text = "words ".repeat(REPLY / 6);
        // The agent's own extraction is there from some row on: the failed ones before have none.
        let own = AgentScore { fidelity: Fidelity::Exact, score: record.score.clone() };
        record.agent_score = Some(own).filter(|_| record.sample.row > 10);
    }
    let replaced: Vec<Record> = run.records.iter().step_by(500).cloned().collect();
    let mut order: Vec<Record> = run.records.clone();
    order.chunks_mut(7).for_each(<[Record]>::reverse);
    for record in order.iter_mut().filter(|record| record.sample.row % 500 == 0) {
        record.score.value = 1.0 - record.score.value;
    }
    let path = dir.join(right.to_string());
    let mut journal = Journal::create(&path, &run.manifest).unwrap();
    order.chunks(100).chain([&replaced[..]]).for_each(|records| journal.append(records).unwrap());
    let torn = std::fs::read(path.join(JOURNAL)).unwrap();
    std::fs::write(path.join(JOURNAL), [&torn[..], &torn[..100]].concat()).unwrap();
    path
}

#[test]
fn a_long_run_is_counted_in_little_memory_as_one_that_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [ROWS / 2, ROWS / 3].map(|right| write(dir.path(), right));
    let kept = [&a, &b].map(|path| find_runs(std::slice::from_ref(path)).unwrap());
    let read = Report::read(std::slice::from_ref(&a), None).unwrap();
    assert_eq!(json(&read), json(&Report::build(&kept[0], None).unwrap()));
    let cell = &read.cells[0];
    assert_eq!((cell.summary.n_recorded, cell.torn_bytes), (ROWS, 100));
    assert_eq!(
        mean(cell.digest.agent_scores.values()),
        cell.summary.agent_score.as_ref().map(|own| own.value)
    );
    assert_eq!(mean(cell.digest.clusters.values()), cell.score());
    let counted = [&a, &b].map(|path| count_runs(std::slice::from_ref(path)).unwrap());
    let [kept, counted] =
        [compare(&kept[0], &kept[1]), compare_counted(&counted[0], &counted[1])].map(Result::unwrap);
    assert_eq!(compared(&kept), compared(&counted));
    if cfg!(target_os = "linux") {
        let mut counting = Command::new(std::env::current_exe().unwrap());
        let test = "long::the_memory_of_counting_a_run";
        let output = counting.args(["--exact", "--ignored", "--nocapture", test]).env(DIR, &a).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let peak = output.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        let peak: usize = peak.unwrap_or_else(|| panic!("{output}")).trim().parse().unwrap();
        assert!(1024 * peak < ROWS * REPLY, "{peak} KiB for a journal of {} KiB", ROWS * REPLY / 1024);
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn the_memory_of_counting_a_run() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    Report::read(&[dir.into()], None).unwrap();
    print!("\n{}", std::fs::read_to_string("/proc/self/status").unwrap());
}
