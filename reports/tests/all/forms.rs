//! The report for a terminal, as Markdown and as JSON, on a small made-up set of records.
use crate::common::{LONGEST_TITLE, damaged, whole};
use paravt_reports::terminal::{COLUMNS, Detail};
use paravt_reports::{Report, Run, Verdict};
use paravt_suite::profile::Profile;
use paravt_suite::record::Outcome;

fn report(runs: &[Run]) -> Report {
    Report::build(runs, Some("ParaVT-8B")).unwrap()
}

fn small() -> Report {
    report(&[damaged(), whole("videomme", "Video-MME (w/o subtitles)", 8, 5)])
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns: {line}", line.chars().count());
    }
}

fn terminal(report: &Report, detail: Detail) -> String {
    let text = paravt_reports::terminal(report, detail);
    assert_fits(&text.to_string());
    text.to_string()
}

#[test]
fn a_terminal_of_80_columns() {
    insta::assert_snapshot!("report_brief.txt", terminal(&small(), Detail::Brief));
    insta::assert_snapshot!("report_full.txt", terminal(&small(), Detail::Full));
}

#[test]
fn colours_change_no_character() {
    let text = paravt_reports::terminal(&small(), Detail::Full);
    let (plain, coloured) = (text.to_string(), text.coloured());
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[33mINCOMPLETE\u{1b}[0m"), "{coloured:?}");
    let stripped = ["\u{1b}[33m", "\u{1b}[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(stripped, plain);
}

#[test]
fn runs_of_one_split_are_told_apart_by_their_names() {
    let mut labelled = whole("videomme", "Video-MME", 8, 2);
    labelled.manifest.label = Some("sequential".to_owned());
    let report = report(&[whole("videomme", "Video-MME", 8, 5), labelled, whole("lvbench", "LVBench", 8, 5)]);
    let text = terminal(&report, Detail::Brief);
    let lines: Vec<&str> = text.lines().collect();
    let starts = [
        "split ",
        "run: agentic_general · made-up-8b, profile paper",
        "Video-MME ",
        "LVBench ",
        "run: sequential",
        "Video-MME ",
    ];
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{text}");
    }
}

#[test]
fn markdown() {
    insta::assert_snapshot!(paravt_reports::markdown(&small()), @r#"
    | split | profile | run | score | 95 % | N | errors | paper | diff | verdict |
    |---|---|---|--:|--:|--:|---|--:|--:|---|
    | Video-MME (w/o subtitles) | paper | agentic_general · made-up-8b | 62.5 | 7.5 to 100.0 | 8 | none | 62.1 | - | not comparable: 8 of 2700 rows; 4 distinct videos, published 900 |
    | Charades-STA (test) | strict | agentic_general · made-up-8b | 24.0 | 0.0 to 80.0 | 5 (4 of 5 samples recorded; selection: 5 of 8 samples) | 1 unparsed, 1 failed, 1 truncated, 2 dropped calls | 50.1 | - | INCOMPLETE not comparable: channel image (published: video); mode agentic_general (published: agentic_minimal); profile strict (published: paper); 5 of 3720 rows; unfinished run: 4 of 5 rows recorded; 1 of 4 rows lack a full answer (1 failed), at most 0 may |
    | videomme_wsub |  |  |  |  |  |  |  |  | not run |
    | longvideobench |  |  |  |  |  |  |  |  | not run |
    | lvbench |  |  |  |  |  |  |  |  | not run |
    | mlvu |  |  |  |  |  |  |  |  | not run |
    | mmvu |  |  |  |  |  |  |  |  | not run |
    "#);
}

#[test]
fn json() {
    insta::assert_snapshot!("report.json", paravt_reports::json(&report(&[damaged()])));
}

#[test]
fn the_overview_fits_for_every_title_verdict_and_size() {
    let mut runs =
        vec![whole("videomme", "Video-MME", 3_720, 3_720), whole("videomme_wsub", LONGEST_TITLE, 3_720, 0)];
    // As wide as it gets: an incomplete run that is not comparable, all numbers at full length.
    runs[1].records.pop();
    let incomplete = report(&runs);
    let text = terminal(&incomplete, Detail::Brief);
    let line = text.lines().find(|line| line.starts_with(LONGEST_TITLE)).unwrap();
    assert!(line.ends_with("INCOMPLETE"), "one line, not folded: {line}");
    assert!(matches!(incomplete.cells[1].paper.as_ref().unwrap().verdict, Verdict::NotComparable(_)));
    assert!(words(&terminal(&incomplete, Detail::Full)).contains("INCOMPLETE not comparable:"));

    let unnamed = Report::build(&runs, None).unwrap();
    let text = terminal(&unnamed, Detail::Brief);
    let ends = ["      -", "INCOMPLETE"];
    for (split, end) in ["Video-MME  ", LONGEST_TITLE].iter().zip(ends) {
        let line = text.lines().find(|line| line.starts_with(split)).unwrap();
        assert!(line.ends_with(end), "{line}");
    }
}

#[test]
fn long_names_and_losses_are_folded_and_nothing_is_cut() {
    let mut run = whole("videomme", LONGEST_TITLE, 2_700, 2_700);
    run.manifest.backend.model = format!("/models/{}/checkpoint", "é".repeat(150));
    run.manifest.protocol_source.pinned = false;
    run.manifest.plan.rules = Profile::Strict.into();
    for record in &mut run.records {
        record.profile = Profile::Strict;
        record.transcript.frame_loss = Some("lost".into());
        record.transcript.truncated = true;
        record.transcript.dropped_calls = 100;
        record.transcript.forced = true;
        record.score.outcome = Outcome::Unparsed;
        record.sample.tags.insert("duration".into(), vec!["a label of many words ".repeat(8)]);
    }
    run.manifest.selection.sizes.expected = 2_701;
    let report = report(&[run]);
    let losses = "2700 unparsed, 2700 frame loss, 2700 truncated, 270000 dropped calls";
    assert!(words(&terminal(&report, Detail::Brief)).contains(losses));
    let text = terminal(&report, Detail::Full);
    assert!(words(&text).contains(losses), "{text}");
    assert!(words(&text).contains(
        "INCOMPLETE not comparable: profile strict (published: paper); unpinned protocol; 2701 of 2700 rows;"
    ));
    assert_eq!(text.matches('é').count(), 300, "in the overview and in the section");
    assert!(words(&text).contains(&words(&"a label of many words ".repeat(8))));
}

#[test]
fn a_bar_or_line_break_in_a_title_does_not_break_the_markdown_table() {
    let mut run = whole("videomme", "a | b\nc", 2, 1);
    run.manifest.task.breakdowns.clear();
    let text = paravt_reports::markdown(&report(&[run]));
    let line = text.lines().nth(2).unwrap();
    assert!(line.starts_with("| a \\| b c | paper |"), "{line}");
}
