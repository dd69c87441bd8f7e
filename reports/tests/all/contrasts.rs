//! What two sets of runs answer, said alike by the page, the terminal, `compare` and the gate, in whatever order the runs
//! are given.

use crate::common::{page_of, whole};
use paravt_reports::compare::{self, compare};
use paravt_reports::gate::{self, Baseline, Rule, check};
use paravt_reports::terminal::Detail;
use paravt_reports::{Report, Run, name_runs, terminal};
use paravt_suite::protocol::PromptMode;

const ROWS: usize = 40;

fn run(folder: &str, split: &str, right: usize, change: impl Fn(&mut Run)) -> Run {
    let mut run = whole(split, split, ROWS, right);
    run.path = format!("{folder}/{split}").into();
    run.manifest.offers_tool = true;
    change(&mut run);
    run
}

fn without_tool(run: &mut Run) {
    run.manifest.offers_tool = false;
    run.manifest.plan.mode = PromptMode::named("direct");
    run.manifest.plan.max_turns = 1;
}

/// The runs of two sets on two splits, A first; `change` makes those of A.
fn sets(change: impl Fn(&mut Run) + Copy) -> [Vec<Run>; 2] {
    let of = |folder: &str, right: [usize; 2], change: &dyn Fn(&mut Run)| {
        vec![run(folder, "lvbench", right[0], change), run(folder, "mlvu", right[1], change)]
    };
    [of("a", [10, 14], &change), of("b", [30, 26], &|_| {})]
}

fn named(mut runs: Vec<Run>) -> Vec<Run> {
    name_runs(runs.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    runs
}

/// The runs in an order, by their numbers among those of A and B.
fn ordered(change: impl Fn(&mut Run) + Copy, order: &[usize]) -> Vec<Run> {
    let mut runs: Vec<Option<Run>> = sets(change).into_iter().flatten().map(Some).collect();
    named(order.iter().filter_map(|number| runs[*number].take()).collect())
}

/// All orders of four runs.
fn orders() -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for number in 0..4 {
        all = all
            .iter()
            .flat_map(|order: &Vec<usize>| {
                (0..=order.len()).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, number);
                    order
                })
            })
            .collect();
    }
    all
}

/// The lines of the page's head.
fn headlines(page: &str) -> Vec<String> {
    let lines = page.split("<p class=\"headline ").skip(1);
    lines.map(|line| line.split_once("</p>").unwrap().0.to_owned()).collect()
}

/// The head of the page, the effects of report.json, and the sentence of the terminal.
fn reported(runs: &[Run]) -> (Vec<String>, String, String) {
    let report = Report::build(runs, None).unwrap();
    let json: serde_json::Value = serde_json::from_str(&paravt_reports::json(&report)).unwrap();
    let text = terminal(&report, Detail::Brief).render(1000, false);
    let sentence = text.lines().find(|line| line.contains(" points on ")).unwrap_or_default();
    let page = page_of(&report, runs);
    (headlines(&page), serde_json::to_string_pretty(&json["contrasts"]).unwrap(), sentence.to_owned())
}

/// The first sentence of `compare` of two sets.
fn compared(a: &[Run], b: &[Run]) -> String {
    compare::terminal(&compare(a, b).unwrap(), Detail::Brief).render(1000, false)
}

/// What the gate says with these runs as its baseline.
fn gated(baseline: &[Run], runs: &[Run]) -> String {
    let baseline = Baseline::of(baseline, Rule::default(), vec![]).unwrap();
    gate::terminal(&check(&baseline, runs, None, None).unwrap(), Detail::Brief).render(1000, false)
}

#[test]
fn an_ablation_of_the_tool_is_said_alike_in_every_order_and_place() {
    let (headline, json, sentence) = reported(&ordered(without_tool, &[0, 1, 2, 3]));
    for order in orders() {
        let found = reported(&ordered(without_tool, &order));
        assert_eq!(found, (headline.clone(), json.clone(), sentence.clone()), "{order:?}");
    }
    insta::assert_snapshot!("ablation_page.txt", headline.join("\n"));
    insta::assert_snapshot!("ablation_report.json", json);
    insta::assert_snapshot!("ablation_report.txt", sentence);
    let split = |order: &[usize]| {
        let mut first = ordered(without_tool, order);
        let second = first.split_off(2);
        (first, second)
    };
    let (a, b) = split(&[0, 1, 2, 3]);
    let (c, d) = split(&[3, 2, 1, 0]);
    let (forth, back) = (compared(&a, &b), compared(&c, &d));
    // The splits are in the order of the folders.
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&forth), lines(&back));
    assert_eq!(forth.lines().next(), Some(&*sentence));
    insta::assert_snapshot!("ablation_compare.txt", forth);
    for (baseline, runs) in [(&a, &b), (&b, &a)] {
        let said = gated(baseline, runs);
        assert!(said.lines().any(|line| line == sentence), "{said}");
    }
    insta::assert_snapshot!("ablation_check.txt", gated(&a, &b));
}

#[test]
fn of_two_models_neither_is_better_and_both_are_named() {
    let other = |run: &mut Run| run.manifest.backend.model = "owner/other-8b".into();
    let (headline, _, sentence) = reported(&ordered(other, &[0, 1, 2, 3]));
    assert!(
        sentence.starts_with("made-up-8b − other-8b: +40.0 points on the mean of the splits"),
        "{sentence}"
    );
    assert!(headline[0].starts_with("apart\">"), "{headline:?}");
    let (headline, _, back) = reported(&ordered(other, &[2, 3, 0, 1]));
    assert!(back.starts_with("other-8b − made-up-8b: -40.0 points"), "{back}");
    assert!(headline[0].starts_with("apart\">"), "{headline:?}");
    let [a, b] = sets(other);
    for (a, b, word) in [(&a, &b, "higher"), (&b, &a, "lower")] {
        let said = compared(a, b);
        assert!(said.contains(word) && !said.contains("better") && !said.contains("worse"), "{said}");
    }
}

#[test]
fn what_else_differs_is_said_and_takes_the_colour() {
    let other = |run: &mut Run| {
        without_tool(run);
        run.manifest.plan.temperature = 0.7;
    };
    let (headline, _, sentence) = reported(&ordered(other, &[0, 1, 2, 3]));
    assert!(sentence.ends_with("; also differs: temperature was 0.7, now 0.0"), "{sentence}");
    assert!(headline[0].starts_with("apart\">"), "{headline:?}");
}

#[test]
fn the_rows_of_a_split_with_subtitles_are_compared_with_those_without() {
    let with = |run: &mut Run| {
        run.records.iter_mut().for_each(|record| record.sample.question.subtitles = Some("words".into()));
    };
    let runs = [run("a", "videomme_wsub", 30, with), run("a", "videomme", 20, |_| {})];
    let (_, _, sentence) = reported(&runs);
    assert!(
        sentence.starts_with("With subtitles against without: +25.0 points on videomme_wsub"),
        "{sentence}"
    );
    for (a, b) in [(0, 1), (1, 0)] {
        let said = compared(&runs[a..=a], &runs[b..=b]);
        assert!(said.starts_with(&sentence), "{said}");
    }
}

#[test]
fn videos_that_two_splits_share_are_one_draw() {
    let effect = |apart: bool| {
        let mut runs = ordered(without_tool, &[0, 1, 2, 3]);
        for run in runs.iter_mut().filter(|run| apart && run.manifest.task.name == "mlvu") {
            let records = run.records.iter_mut();
            records.for_each(|record| {
                record.sample.video = format!("other/{}", record.sample.video_name()).into()
            });
        }
        let report = Report::build(&runs, None).unwrap();
        report.contrasts[0].effects[0].estimates[0].unwrap()
    };
    let (shared, apart) = (effect(false), effect(true));
    assert_eq!((shared.clusters, apart.clusters), (ROWS / 2, ROWS));
    assert!(
        (shared.estimate - apart.estimate).abs() < 1e-12 && shared.standard_error != apart.standard_error
    );
}
