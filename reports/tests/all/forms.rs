//! The report's three forms on a small made-up set of records.

use crate::common::{LONGEST_TITLE, damaged, whole};
use paravt_reports::{COLUMNS, Format as _, Json, Markdown, Report, Run, Terminal, Verdict};
use paravt_suite::profile::Profile;
use paravt_suite::record::Outcome;

fn report(runs: &[Run]) -> Report {
    Report::build(runs, Some("ParaVT-8B")).unwrap()
}

fn small() -> Report {
    report(&[damaged(), whole("videomme", "Video-MME (w/o subtitles)", 8, 5)])
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn terminal() {
    let text = Terminal.render(&small());
    assert_fits(&text);
    insta::assert_snapshot!(text, @r#"
    split                     profile score        95 %         N paper   diff verdict
    Video-MME (w/o subtitles)   paper  62.5   11.8-95.4       8/8  62.1   +0.4 not comparable
    Charades-STA (test)        strict  24.0    0.1-79.4       4/5  50.1  -26.1 INCOMPLETE not comparable
    videomme_wsub             not run
    longvideobench            not run
    lvbench                   not run
    mlvu                      not run
    mmvu                      not run

    Video-MME (w/o subtitles) (paper, agentic_general · made-up-8b)
      accuracy 62.5 over N 8; nothing lost
      not comparable: 8 of 2700 rows; 4 distinct videos, published 900
      Duration
        short                              75.0  N 4
        long                               50.0  N 4
      tools: 0.00 calls a sample, 0.0 % of samples, 0 failed crops, 0 malformed, 0 forced answers
      cost: 8000 prompt and 80 completion tokens, 4.0 sample seconds

    Charades-STA (test) (strict, agentic_general · made-up-8b)
      mIoU 24.0 over N 5; 1 unparsed, 1 failed, 1 truncated, 2 dropped calls
      INCOMPLETE not comparable: channel image (published: video); mode agentic_general (published:
          agentic_minimal); profile strict (published: paper); 5 of 3720 rows; unfinished run: 4 of 5
          rows recorded; 1 of 4 rows lack a full answer (1 failed), at most 0 may
      the last record is torn and left out; resume the run to redo it
      R@0.3: 40.0
      R@0.5: 20.0
      R@0.7: 20.0
      Duration
        short                              40.0  N 2
        long                               20.0  N 2
      tools: 0.25 calls a sample, 25.0 % of samples, 0 failed crops, 0 malformed, 0 forced answers
      cost: 4000 prompt and 40 completion tokens, 2.0 sample seconds
      flagged example_in_prompt: 1
    "#);
}

#[test]
fn markdown() {
    insta::assert_snapshot!(Markdown.render(&small()), @r#"
    | split | profile | score | 95 % | N | lost | paper | diff | verdict |
    |---|---|--:|--:|--:|---|--:|--:|---|
    | Video-MME (w/o subtitles) | paper | 62.5 | 11.8-95.4 | 8/8 | nothing lost | 62.1 | +0.4 | not comparable: 8 of 2700 rows; 4 distinct videos, published 900 |
    | Charades-STA (test) | strict | 24.0 | 0.1-79.4 | 4/5 | 1 unparsed, 1 failed, 1 truncated, 2 dropped calls | 50.1 | -26.1 | INCOMPLETE not comparable: channel image (published: video); mode agentic_general (published: agentic_minimal); profile strict (published: paper); 5 of 3720 rows; unfinished run: 4 of 5 rows recorded; 1 of 4 rows lack a full answer (1 failed), at most 0 may |
    | videomme_wsub | | | | | | | | not run |
    | longvideobench | | | | | | | | not run |
    | lvbench | | | | | | | | not run |
    | mlvu | | | | | | | | not run |
    | mmvu | | | | | | | | not run |
    "#);
}

#[test]
fn json() {
    insta::assert_snapshot!("report.json", Json.render(&report(&[damaged()])));
}

#[test]
fn the_overview_fits_for_every_title_verdict_and_size() {
    let mut runs =
        vec![whole("videomme", "Video-MME", 3_720, 3_720), whole("videomme_wsub", LONGEST_TITLE, 3_720, 0)];
    // As wide as it gets: an incomplete run that is not comparable, all numbers at full length.
    runs[1].records.pop();
    let incomplete = report(&runs);
    let text = Terminal.render(&incomplete);
    assert_fits(&text);
    let line = text.lines().find(|line| line.starts_with(LONGEST_TITLE)).unwrap();
    assert!(line.ends_with("INCOMPLETE not comparable"), "one line, not folded: {line}");
    assert!(matches!(incomplete.cells[1].paper.as_ref().unwrap().verdict, Verdict::NotComparable(_)));

    let unnamed = Terminal.render(&Report::build(&runs, None).unwrap());
    assert_fits(&unnamed);
    let line = unnamed.lines().find(|line| line.starts_with(LONGEST_TITLE)).unwrap();
    assert!(line.ends_with("INCOMPLETE no paper value"), "{line}");
}

#[test]
fn long_names_and_losses_are_folded_and_nothing_is_cut() {
    let mut run = whole("videomme", LONGEST_TITLE, 2_700, 2_700);
    run.manifest.backend.model = format!("/models/{}/checkpoint", "é".repeat(150));
    run.manifest.protocol_source.pinned = false;
    run.manifest.plan.profile = Profile::Strict;
    for record in &mut run.records {
        record.profile = Profile::Strict;
        record.transcript.frame_loss = Some("lost".into());
        record.transcript.truncated = true;
        record.transcript.dropped_calls = 100;
        record.transcript.forced = true;
        record.score.outcome = Outcome::Unparsed;
        record.sample.tags.insert("duration".into(), vec!["a label of many words ".repeat(8)]);
    }
    run.manifest.selection.expected = 2_701;
    let text = Terminal.render(&report(&[run]));
    assert_fits(&text);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&text).contains("2700 unparsed, 2700 frame loss, 2700 truncated, 270000 dropped calls"),
        "{text}"
    );
    assert!(words(&text).contains(
        "INCOMPLETE not comparable: profile strict (published: paper); unpinned protocol; 2701 of 2700 rows;"
    ));
    assert_eq!(text.matches('é').count(), 150);
    assert!(words(&text).contains(&words(&"a label of many words ".repeat(8))));
}

#[test]
fn a_bar_or_line_break_in_a_title_does_not_break_the_markdown_table() {
    let mut run = whole("videomme", "a | b\nc", 2, 1);
    run.manifest.task.breakdowns.clear();
    let text = Markdown.render(&report(&[run]));
    let line = text.lines().nth(2).unwrap();
    assert!(line.starts_with("| a \\| b c | paper |"), "{line}");
}
