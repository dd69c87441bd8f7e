//! A model under the table's protocol beside the same model under that of its authors.

use paravt_reports::compare::{self, compare};
use paravt_reports::terminal::Detail;
use paravt_reports::{Report, Run, Verdict, markdown, terminal};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::AgentScore;

use crate::common::whole;

const ROWS: usize = 2174;

/// As in the table: 59 % are right.
fn table() -> Run {
    let mut run = whole("mlvu", "MLVU (dev)", ROWS, 1283);
    run.manifest.paper_row = Some("Conan-7B".into());
    run.manifest.backend.model = "RUBBISHLIKE/Conan-7B".into();
    run
}

/// As by its authors: 60 % by the suite's extraction, 64 % by their own.
fn authors(fidelity: Fidelity) -> Run {
    let mut run = whole("mlvu", "MLVU (dev)", ROWS, 1304);
    run.manifest.paper_row = Some("Conan-7B (by its authors)".into());
    run.manifest.backend.model = "RUBBISHLIKE/Conan-7B".into();
    run.manifest.plan.rules = Profile::Strict.into();
    run.manifest.protocol = "conan".into();
    run.manifest.fidelity = Some(fidelity);
    for (row, record) in run.records.iter_mut().enumerate() {
        record.profile = Profile::Strict;
        let mut score = record.score.clone();
        score.value = f64::from(u8::from(row < 1391));
        record.agent_score = Some(AgentScore { fidelity, score });
    }
    run
}

#[test]
fn both_protocols_stand_beside_the_published_pair() {
    let report = Report::build(&[table(), authors(Fidelity::Exact)], None).unwrap();
    let [one] = &report.protocols[..] else { panic!("{:?}", report.protocols) };
    assert_eq!((one.row.as_str(), one.task.as_str(), one.pairs), ("Conan-7B", "mlvu", ROWS));
    let published = [&one.table, &one.authors].map(|side| (1000.0 * side.published.unwrap()).round());
    assert_eq!(published, [592.0, 634.0]);
    let share = |right: u32| f64::from(right) / ROWS as f64;
    assert!((one.table.score.unwrap() - share(1283)).abs() < 1e-12);
    assert!((one.authors.score.unwrap() - share(1391)).abs() < 1e-12, "by the authors' extraction");
    assert!((one.difference.unwrap() - share(1391 - 1283)).abs() < 1e-12);
    let (low, high) = one.interval.unwrap();
    assert!(0.0 < low && low < share(108) && share(108) < high, "{low} {high}");

    let own = report.cells.iter().find(|cell| cell.protocol == "conan").unwrap();
    let paper = own.paper.as_ref().unwrap();
    assert_eq!(paper.published, 63.4);
    assert!((paper.difference - (100.0 * share(1391) - 63.4)).abs() < 1e-9);
    let Verdict::NotComparable(why) = &paper.verdict else { panic!("{:?}", paper.verdict) };
    assert_eq!(*why, ["1087 distinct videos, published 1122"], "the made-up rows, and nothing else");

    let said = terminal(&report, Detail::Brief).to_string();
    let (_, grid) = said.split_once("published, and ours").expect(&said);
    let grid: Vec<Vec<&str>> = grid.lines().take(5).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(grid[1][..6], ["Conan-7B", "55.5", "62.8", "54.5", "38.2", "59.2"]);
    assert!(grid[2].contains(&"59.0x"), "{said}");
    assert!(grid[3].starts_with(&["by", "its", "authors"]) && grid[3].contains(&"63.4"), "{said}");
    assert!(grid[4].contains(&"64.0x"), "by the authors' extraction: {said}");
    assert!(said.contains("  Conan-7B mlvu: 59.2 and 63.4; 59.0 and 64.0, +5.0 ("), "{said}");
    assert!(said.contains("what differs: the table asks in ParaVT's prompt"), "{said}");
    let row = "| Conan-7B | MLVU (dev) | 59.2 | 63.4 | +4.2 | 59.0 | 64.0 |";
    assert!(markdown(&report).contains(row));

    let two = compare(&[table()], &[authors(Fidelity::Exact)]).unwrap();
    assert!(two.splits.is_empty(), "of two profiles");
    let said = compare::terminal(&two, Detail::Brief).to_string();
    assert!(said.contains("  Conan-7B mlvu: 59.2 and 63.4; 59.0 and 64.0, +5.0 ("), "{said}");
    assert!(compare::markdown(&two, |_, _| None).contains(row));
    let (mut one, other) = (table(), authors(Fidelity::Exact));
    one.manifest.paper_row = Some("ParaVT-8B".into());
    compare(&[one], &[other]).unwrap_err();
}

#[test]
fn one_of_the_two_is_enough_and_a_variant_is_not_compared() {
    let report = Report::build(&[authors(Fidelity::Variant)], None).unwrap();
    let [one] = &report.protocols[..] else { panic!("{:?}", report.protocols) };
    assert_eq!((&one.table.run, one.pairs, one.difference), (&None, 0, None));
    let Verdict::NotComparable(why) = &report.cells[0].paper.as_ref().unwrap().verdict else { panic!() };
    assert!(why.contains(&"a variant of its authors' protocol".to_owned()), "{why:?}");
    let mut other = authors(Fidelity::Exact);
    other.manifest.protocol = "paravt".into();
    let report = Report::build(&[other], None).unwrap();
    let Verdict::NotComparable(why) = &report.cells[0].paper.as_ref().unwrap().verdict else { panic!() };
    assert!(why.contains(&"protocol paravt (its authors': conan)".to_owned()), "{why:?}");
}
