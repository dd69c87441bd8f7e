//! The page over a gate's history.

use paravt_reports::gate::{Entry, Score, Status};
use paravt_reports::page;

#[test]
fn every_check_is_shown_and_a_commit_name_is_text() {
    let entry = |score: f64, difference: f64| Entry {
        version: 1,
        time: 0.0,
        commit: "<script>alert(1)</script>".into(),
        status: if difference < -2.0 { Status::Fail } else { Status::Pass },
        baseline: None,
        host: None,
        timings: vec![],
        scores: vec![Score {
            task: "videomme".into(),
            score,
            difference,
            interval: (difference - 1.0, difference + 1.0),
        }],
    };
    let entries = [entry(62.0, 0.0), entry(62.5, 0.5), entry(58.0, -4.0)];
    let html = page::history(&entries).unwrap();
    assert!(!html.contains("<script>alert"), "{html}");
    assert_eq!(html.matches("<circle").count(), 3);
    assert!(html.contains("videomme 58.0 (-4.0)") && html.contains("FAIL"), "{html}");
    if let Some(folder) = std::env::var_os("PARAVT_SCREENSHOTS") {
        std::fs::write(std::path::Path::new(&folder).join("history.html"), html).unwrap();
    }
}
