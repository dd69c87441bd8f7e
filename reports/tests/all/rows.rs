//! What the report sums up is what the suite's own summary says.

use crate::common::{damaged, whole};
use paravt_reports::Report;
use paravt_suite::message::FrameOrigin;
use paravt_suite::record::{RecordedMessage, RecordedPart, ToolCall, ToolOutcome};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn frames_and_summary_agree(rows in 1_usize..60, right in 0_usize..60, seconds in 0.1..9.0_f64) {
        let mut run = whole("videomme", "Video-MME", rows, right.min(rows));
        for record in &mut run.records {
            record.measured.seconds = seconds * (1.0 + record.sample.row as f64);
        }
        let report = Report::build(&[run], None).unwrap();
        let (cell, details) = (&report.cells[0], &report.details);
        for breakdown in &cell.summary.breakdowns {
            for group in &breakdown.groups {
                let found = &details.breakdowns[&(0, breakdown.tag.clone(), group.label.clone())];
                prop_assert_eq!(found.n, group.n);
                prop_assert!((found.value - group.value).abs() < 1e-12);
                if let Some((low, high)) = found.interval {
                    prop_assert!(low <= group.value && group.value <= high && low < high);
                }
            }
        }
        let cost = details.costs[&0];
        prop_assert_eq!(cost.samples as usize, cell.summary.n_recorded);
        prop_assert_eq!(cost.prompt_tokens, cell.summary.prompt_tokens);
        prop_assert_eq!(cost.completion_tokens, cell.summary.completion_tokens);
        prop_assert!((cost.seconds - cell.summary.sample_seconds).abs() < 1e-9);
    }
}

#[test]
fn errors_stay_out_of_breakdowns_where_upstream_leaves_them_out() {
    let report = Report::build(&[damaged()], None).unwrap();
    let found: usize = report.details.breakdowns.values().map(|breakdown| breakdown.n).sum();
    assert_eq!(found, 4, "strict counts every row");
    assert_eq!(report.details.tools[&0].calls[&1], 1);
}

#[test]
fn windows_are_shares_of_the_videos_length() {
    let mut run = whole("videomme", "Video-MME", 2, 1);
    let frame = |time| FrameOrigin { index: 0, time };
    let record = &mut run.records[0];
    let image = |time| RecordedPart::Image { origin: Some(frame(time)), width: 1, height: 1, bytes: 1 };
    let role = paravt_suite::message::Role::User;
    record.transcript.messages = vec![RecordedMessage::new(role, vec![image(0.0), image(100.0)])];
    let call = |start, end| ToolCall {
        turn: 0,
        index: 0,
        call: serde_json::Value::Null,
        start: Some(start),
        end: Some(end),
        outcome: ToolOutcome::Frames { frames: vec![] },
    };
    // A twentieth each; beyond the end is cut; an empty window is none.
    record.transcript.tool_calls = vec![call(5.0, 15.0), call(95.0, 500.0), call(7.0, 7.0)];
    let report = Report::build(&[run], None).unwrap();
    let bins = &report.details.windows[&0];
    let covered: Vec<usize> = (0..bins.len()).filter(|&bin| bins[bin] > 0).collect();
    assert_eq!(covered, [1, 2, 19]);
    assert_eq!(report.details.tools[&0].widths[&3], 1);
}
