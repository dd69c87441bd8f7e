//! What decides a verdict and what keeps a run from having one.

use crate::common::{jpegs, page_of, published, whole};
use paravt_reports::compare::{compare, terminal};
use paravt_reports::terminal::Detail;
use paravt_reports::{About, Cell, Judged, Report, ReportError, Run, Training, Verdict, page};
use paravt_suite::backend::FinishReason;
use paravt_suite::plan::Channel;
use paravt_suite::record::{Outcome, SampleError, SampleErrorClass};
use paravt_suite::sample::Tags;
use paravt_suite::task::{Metric, NO_SUBTITLES};

const ROW: &str = "ParaVT-8B";

fn report(runs: &[Run]) -> Report {
    Report::build(runs, Some(ROW)).unwrap()
}

fn cell(run: Run) -> Cell {
    report(&[run]).cells.remove(0)
}

fn verdict(run: Run) -> Verdict {
    cell(run).paper.unwrap().verdict
}

/// Why a run is not comparable; empty where it is.
fn reasons(run: Run) -> Vec<String> {
    match verdict(run) {
        Verdict::NotComparable(why) => why,
        _ => Vec::new(),
    }
}

fn claim<'a>(report: &'a Report, id: &str) -> &'a Judged {
    report.claims.iter().find(|claim| claim.id == id).unwrap()
}

fn fail(run: &mut Run, row: usize, class: SampleErrorClass) {
    let record = &mut run.records[row];
    record.score.outcome = Outcome::Error;
    record.score.value = 0.0;
    record.error = Some(SampleError { class, message: "made up".into(), step: "turn0".into() });
}

#[test]
fn an_equal_score_is_reproduced_and_a_distant_one_is_not() {
    assert_eq!(verdict(published("videomme", 62.1)), Verdict::Reproduced);
    assert_eq!(verdict(published("mmvu", 68.6)), Verdict::Reproduced);
    assert_eq!(verdict(published("charades", 50.1)), Verdict::Reproduced);
    // The baseline that the paper improves on does not count as a reproduction.
    assert_eq!(verdict(published("videomme", 59.0)), Verdict::Inconclusive);
    assert_eq!(verdict(published("videomme", 50.0)), Verdict::Worse);
    assert_eq!(verdict(published("videomme", 75.0)), Verdict::Better);
    let cell = cell(published("videomme", 62.1));
    let paper = cell.paper.unwrap();
    let (low, high) = paper.interval.unwrap();
    assert!(low < paper.difference && paper.difference < high && high < paper.margin, "{paper:?}");
}

#[test]
fn rows_that_are_not_the_published_ones_are_not_comparable() {
    let mut run = published("videomme", 62.1);
    for record in &mut run.records {
        record.sample.flags.push(paravt_suite::task::NOT_PUBLISHED.to_owned());
    }
    let reasons = reasons(run);
    assert!(reasons.iter().any(|reason| reason.contains("not the published data")), "{reasons:?}");
}

#[test]
fn a_verdict_on_rows_that_were_not_verified_says_so() {
    let mut run = published("videomme", 62.1);
    run.manifest.backend.model = "ParaVT/ParaVT-8B".to_owned();
    let text = paravt_reports::markdown(&report(std::slice::from_ref(&run)));
    assert!(text.contains("| reproduced (data not verified) |"), "{text}");
    run.manifest.inputs.verified = true;
    let text = paravt_reports::markdown(&report(&[run]));
    assert!(text.contains("| reproduced |"), "{text}");
}

#[test]
fn subtitles_are_counted_against_the_published_ones() {
    assert!(reasons(published("videomme_wsub", 69.4)).is_empty());
    let mut without = published("videomme_wsub", 69.4);
    without.records.iter_mut().for_each(|record| record.sample.flags = vec![NO_SUBTITLES.to_owned()]);
    let mut more = published("videomme_wsub", 69.4);
    more.records.iter_mut().for_each(|record| record.sample.flags.clear());
    assert_eq!(reasons(without), ["no subtitles for 2700 rows (published: 468)"]);
    assert_eq!(reasons(more), ["no subtitles for 0 rows (published: 468)"]);
    let mut part = published("videomme_wsub", 69.4);
    part.records.truncate(100);
    assert_eq!(reasons(part), ["unfinished run: 100 of 2700 rows recorded"]);
}

/// MLVU's M-Avg is printed, and the published number, a mean over samples, is compared with that.
#[test]
fn the_headline_is_the_score_and_the_published_metric_is_what_is_compared() {
    let mut run = published("mlvu", 65.0);
    run.manifest.task.metric = Metric::Accuracy { macro_over: Some("task".into()) };
    run.manifest.task.breakdowns[0].tag = "task".into();
    // Right in all of a third of the rows, and in few of the others.
    for record in &mut run.records {
        let label = if record.score.value == 1.0 && record.sample.row % 2 == 0 { "easy" } else { "hard" };
        record.sample.tags = Tags::from([("task".to_owned(), vec![label.to_owned()])]);
    }
    let values = |wanted: &str| {
        let of_group = run.records.iter().filter(|record| record.sample.tags["task"] == [wanted]);
        of_group.map(|record| record.score.value).collect::<Vec<f64>>()
    };
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let headline = (mean(values("easy")) + mean(values("hard"))) / 2.0;
    let report = report(&[run]);
    let cell = &report.cells[0];
    assert!((cell.score().unwrap() - headline).abs() < 1e-12 && headline > 0.7, "{headline}");
    let (low, high) = cell.interval.unwrap();
    assert!(low < headline && headline < high && high - low < 0.06, "{low} {high}");
    let paper = cell.paper.as_ref().unwrap();
    assert_eq!((paper.verdict.clone(), paper.difference.abs() < 0.03), (Verdict::Reproduced, true));
    let shown = paravt_reports::terminal(&report, Detail::Brief).to_string();
    let line = shown.lines().find(|line| line.starts_with("mlvu")).unwrap();
    assert!(line.contains(&format!(" {:.1} ", 100.0 * headline)), "{shown}");
    let note = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(note.contains("score: mean over task; accuracy over samples, as published: 65.0"), "{shown}");
}

#[test]
fn runs_that_failed_compare_as_nothing_even_with_each_other() {
    let failed = |split: &str, rows: usize| {
        let mut run = published(split, 50.0);
        (0..rows).for_each(|row| fail(&mut run, row, SampleErrorClass::Api));
        run
    };
    let verdict = |a: Run, b: Run| compare(&[a], &[b]).unwrap().splits.remove(0).verdict;
    for (rows, split, of) in [(625, "mmvu", 625), (600, "mmvu", 625), (3_720, "charades", 3_720)] {
        let found = verdict(failed(split, rows), failed(split, rows));
        let why = |name: &str| format!("{name}: {rows} of {of} rows failed");
        assert_eq!(found, Verdict::NotComparable(vec![why("A"), why("B")]), "{split}");
    }
    let text = terminal(&compare(&[failed("mmvu", 625)], &[failed("mmvu", 625)]).unwrap(), Detail::Full);
    let text = text.to_string();
    assert!(text.contains("625 of 625 rows failed") && !text.contains("no score differs"), "{text}");
    // A few rows that fail in both runs leave the rest to compare.
    assert_eq!(verdict(failed("mmvu", 30), failed("mmvu", 30)), Verdict::Unchanged);
}

#[test]
fn the_splits_of_a_row_are_one_family() {
    let splits = ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"];
    let scores = [62.1, 69.4, 60.4, 39.8, 65.0, 68.6, 40.0];
    let runs: Vec<Run> = splits.iter().zip(scores).map(|(name, score)| published(name, score)).collect();
    let report = report(&runs);
    let verdicts: Vec<_> = report.cells.iter().map(|cell| cell.paper.clone().unwrap().verdict).collect();
    assert_eq!(verdicts[..6], vec![Verdict::Reproduced; 6]);
    assert_eq!(verdicts[6], Verdict::Worse);
    let alone = self::report(&runs[5..6]).cells[0].paper.clone().unwrap();
    let together = report.cells[5].paper.clone().unwrap();
    assert!(together.p_holm.unwrap() >= alone.p_holm.unwrap());
}

#[test]
fn every_setting_that_moves_a_score_is_compared() {
    type Change = fn(&mut Run);
    let changes: [(&str, Change); 14] = [
        ("mode direct", |run| run.manifest.plan.mode = paravt_suite::protocol::PromptMode::named("direct")),
        ("channel video", |run| run.manifest.plan.channel = Channel::Video),
        ("nframes 2", |run| run.manifest.plan.nframes = 2),
        ("max_turns 0", |run| run.manifest.plan.max_turns = 0),
        ("max_parallel 1", |run| run.manifest.plan.max_parallel = 1),
        ("crop subagent", |run| run.manifest.plan.crop = paravt_suite::plan::CropMode::Subagent),
        ("max_tokens 16", |run| run.manifest.plan.max_tokens = 16),
        ("temperature 0.9", |run| run.manifest.plan.temperature = 0.9),
        ("seed 3", |run| run.manifest.plan.seed = Some(3)),
        ("dialect native", |run| {
            run.manifest.plan.dialect = serde_json::from_str("\"native\"").unwrap();
        }),
        ("request.top_p 0.8", |run| run.manifest.plan.request.sampling.top_p = Some(0.8)),
        ("dtype f32", |run| {
            run.manifest.backend.details.insert("dtype".into(), "f32".into());
        }),
        ("backend candle", |run| run.manifest.backend.name = "candle".into()),
        ("unpinned protocol", |run| run.manifest.protocol_source.pinned = false),
    ];
    assert!(reasons(published("videomme", 62.1)).is_empty());
    for (reason, change) in changes {
        let mut run = published("videomme", 62.1);
        change(&mut run);
        let why = reasons(run);
        assert!(why.len() == 1 && why[0].starts_with(reason), "{reason}: {why:?}");
    }
    // Settings that move nothing, and the recorded engine of a replay.
    let mut run = published("videomme", 62.1);
    run.manifest.plan.request.header_env.insert("Authorization".into(), "KEY".into());
    run.manifest.backend.name = "replay".into();
    run.manifest.backend.details.insert("recorded_with".into(), "openai".into());
    run.manifest.backend.details.insert("dtype".into(), "bf16".into());
    assert!(reasons(run).is_empty());
}

#[test]
fn another_model_stands_beside_no_published_row() {
    let as_model = |name: &str| {
        let mut run = published("videomme", 62.1);
        run.manifest.backend.model = name.to_owned();
        run
    };
    for (name, other) in [
        ("Qwen/Qwen3-VL-4B-Instruct", true),
        ("ParaVT-8B-SFT", true),
        ("/models/ParaVT-8B-FP8", true),
        ("/models/ParaVT-8B", false),
        ("mine", false),
    ] {
        let cell = cell(as_model(name));
        let paper = cell.paper.as_ref().unwrap();
        match &paper.verdict {
            Verdict::NotComparable(why) if other => {
                assert_eq!(why[..], [format!("another model: {name} (published: ParaVT/ParaVT-8B)")]);
            }
            verdict => assert!(!other && *verdict == Verdict::Reproduced, "{name}: {verdict:?}"),
        }
        assert_eq!(paper.unknown_model.is_some(), name == "mine");
    }
    let report = report(&[as_model("mine")]);
    let text = paravt_reports::terminal(&report, Detail::Brief).to_string();
    assert!(text.contains("model unknown: served as mine"), "{text}");
    // A training of one's own is of the row's model where it starts from the same one.
    let of = |base: &str| {
        let about = About { base_model: base.to_owned(), ..para(Some(1)) };
        verdict(trained(as_model("final"), Some(about), 0.5))
    };
    assert_eq!(of("Qwen3-VL-8B"), Verdict::Reproduced);
    let Verdict::NotComparable(why) = of("Qwen3-VL-4B") else { panic!() };
    assert!(why[0].starts_with("another model: trained from Qwen3-VL-4B"), "{why:?}");
}

#[test]
fn charades_is_compared_in_its_own_mode_and_channel() {
    let mut run = published("charades", 50.1);
    run.manifest.plan.mode = paravt_suite::protocol::PromptMode::named("agentic_general");
    run.manifest.plan.channel = Channel::Image;
    let why = reasons(run);
    assert!(why.iter().any(|why| why == "mode agentic_general (published: agentic_minimal)"), "{why:?}");
    assert!(why.iter().any(|why| why == "channel image (published: video)"), "{why:?}");
}

#[test]
fn rows_alone_do_not_make_the_published_data() {
    let mut run = published("videomme", 62.1);
    for record in &mut run.records {
        record.sample.video = format!("videos/{}.mp4", record.sample.row % 3).into();
    }
    assert_eq!(reasons(run), ["3 distinct videos, published 900"]);
    let why = reasons(whole("videomme", "Video-MME", 8, 5));
    assert_eq!(why, ["8 of 2700 rows", "4 distinct videos, published 900"]);
    let mut unfinished = published("videomme", 62.1);
    unfinished.records.truncate(2_699);
    assert_eq!(reasons(unfinished), ["unfinished run: 2699 of 2700 rows recorded"]);
}

#[test]
fn a_few_lost_rows_are_carried_and_many_are_not() {
    let mut one = published("charades", 50.1);
    fail(&mut one, 7, SampleErrorClass::MalformedCall);
    let report = report(&[one]);
    assert!(report.complete(), "a failed row is not a missing one");
    let cell = &report.cells[0];
    assert_eq!(cell.paper.as_ref().unwrap().verdict, Verdict::Reproduced);
    assert_eq!((cell.lost.failed, cell.lost.rows, cell.lost.allowed()), (1, 1, 18));
    assert!(paravt_reports::markdown(&report).contains("1 failed"));

    let mut blind = published("videomme", 62.1);
    for record in &mut blind.records {
        record.transcript.frame_loss = Some("moov atom not found".into());
    }
    assert_eq!(reasons(blind), ["2700 of 2700 rows lack a full answer (2700 frame loss), at most 13 may"]);

    let mut aborted = published("videomme", 62.1);
    for record in aborted.records.iter_mut().step_by(10) {
        record.transcript.calls[0].finish_reason = Some(FinishReason::Other("abort".into()));
        record.score.outcome = Outcome::Unparsed;
    }
    assert_eq!(reasons(aborted), ["270 of 2700 rows lack a full answer (270 aborted), at most 13 may"]);

    let mut failed = published("videomme", 62.1);
    (0..100).for_each(|row| fail(&mut failed, row, SampleErrorClass::Api));
    let report = self::report(&[failed]);
    assert!(!report.complete());
    assert!(matches!(report.cells[0].paper.as_ref().unwrap().verdict, Verdict::NotComparable(_)));
}

#[test]
fn one_video_has_neither_interval_nor_verdict() {
    let mut run = published("videomme", 62.1);
    run.records.iter_mut().for_each(|record| record.sample.video = "videos/0.mp4".into());
    let report = report(std::slice::from_ref(&run));
    assert_eq!((report.cells[0].interval, report.cells[0].videos), (None, 1));
    assert_eq!(report.cells[0].digest.interval("duration", "short"), None);
    let mut other = published("videomme", 10.0);
    other.records.iter_mut().for_each(|record| record.sample.video = "videos/0.mp4".into());
    let ablation = compare(&[run], &[other]).unwrap();
    let pair = &ablation.splits[0];
    assert_eq!((pair.interval, pair.p, pair.p_holm), (None, None, None));
    assert_eq!(pair.verdict, Verdict::Inconclusive);
    assert!(terminal(&ablation, Detail::Full).to_string().contains("fewer than two videos"));
}

#[test]
fn a_group_without_spread_has_a_width() {
    let report = report(&[whole("videomme", "Video-MME", 24, 24)]);
    for label in ["short", "long"] {
        let (low, high) = report.cells[0].digest.interval("duration", label).unwrap();
        assert!(low > 0.5 && low < 0.9 && high == 1.0, "{low} {high}");
    }
}

/// A run of an ablation's row.
fn of_row(row: &str, mut run: Run) -> Run {
    run.manifest.paper_row = Some(row.to_owned());
    run
}

const SFT: &str = "A: + SFT cold-start";
const PARA: &str = "A: + SFT + PARA-GRPO";

/// A run like `from` with some answers changed.
fn changed(from: &Run, gained: usize, lost: usize) -> Run {
    let mut run = published("videomme", 60.7);
    run.records.clone_from(&from.records);
    let flip = |run: &mut Run, value: f64, count: usize| {
        let rows = run.records.iter_mut().filter(|record| record.score.value != value);
        rows.step_by(7).take(count).for_each(|record| record.score.value = value);
    };
    flip(&mut run, 1.0, gained);
    flip(&mut run, 0.0, lost);
    run
}

#[test]
fn a_difference_is_judged_by_its_pairs() {
    // Published: +1.4 points.
    let sft = of_row(SFT, published("videomme", 60.7));
    let verdict = |gained, lost| {
        let report =
            Report::build(&[changed_row(&sft), of_row(PARA, changed(&sft, gained, lost))], None).unwrap();
        let claim = claim(&report, "ablation_a_para/videomme").clone();
        (claim.verdict, claim.measured.unwrap(), claim.interval.unwrap())
    };
    // +1.4 by 38 answers out of 2,700: 38 flips in the same direction are a narrow interval.
    let (found, measured, (low, high)) = verdict(38, 0);
    assert!((measured - 100.0 * 38.0 / 2_700.0).abs() < 1e-9);
    assert_eq!(found, Verdict::Reproduced, "{low} {high}");
    assert!(high - low < 1.4, "the pairs share their noise: {low} {high}");
    // -1.2 points does not reproduce +1.4.
    let (found, measured, _) = verdict(0, 32);
    assert!(measured < -1.1);
    assert_eq!(found, Verdict::Worse);
    // +1.4 by many flips in both directions may be nothing at all.
    assert_eq!(verdict(148, 110).0, Verdict::Inconclusive);
}

fn changed_row(run: &Run) -> Run {
    of_row(SFT, changed(run, 0, 0))
}

#[test]
fn two_runs_of_one_row_are_ambiguous() {
    let runs = || [published("videomme", 62.1), published("videomme", 50.0)];
    let report = report(&runs());
    let claim = claim(&report, "cells/videomme");
    assert!(matches!(&claim.verdict, Verdict::NotComparable(why) if why[0].starts_with("2 runs of")));
    assert_eq!(report.cells[0].paper.as_ref().unwrap().verdict, Verdict::Reproduced);
    assert!(matches!(compare(&runs(), &runs()[..1]), Err(ReportError::Ambiguous { .. })));
}

fn trained(mut run: Run, about: Option<About>, peak: f64) -> Run {
    let series = [("f_tau".to_owned(), vec![(1.0, 0.13), (2.0, peak)])].into();
    run.training = Training { series, about, ..Training::default() };
    run
}

fn para(seed: Option<u64>) -> About {
    About {
        recipe: "paragrpo_8b".into(),
        base_model: "Qwen3-VL-8B".into(),
        parameters: 8_767_123_696,
        protocol: None,
        seed,
    }
}

#[test]
fn trainings_of_other_models_are_not_compared_with_the_paper() {
    let mut toy = trained(whole("videomme", "Video-MME", 8, 5), None, 1.0);
    toy.manifest.protocol_source.repository = "paravt-bench".into();
    let verdict = |run: &Run| claim(&report(std::slice::from_ref(run)), "format_peak").verdict.clone();
    let Verdict::NotComparable(why) = verdict(&toy) else { panic!() };
    assert_eq!(why[0], "native protocol");
    assert!(why[1].contains("does not state what was trained"), "{why:?}");
    toy.training.about = Some(About { recipe: "paravt-nano".into(), parameters: 1_234_567, ..para(None) });
    let Verdict::NotComparable(why) = verdict(&toy) else { panic!() };
    assert_eq!(why[1..], ["recipe paravt-nano (claim: paragrpo_8b)", "1.2 M parameters (claim: 9.5 B)"]);
    // Nor is the paper's value drawn across its curve.
    let runs = [toy];
    let page = page_of(&report(&runs), &runs);
    assert!(!page.contains("published-line\""), "no line of the 8B paper");
    assert!(!page.contains("does not see the video"), "nor what the release's trainer does");
}

#[test]
fn trainings_are_repetitions_by_seed_or_ambiguous() {
    let run = |name: &str, about, peak| {
        let mut run = trained(whole("videomme", "Video-MME", 8, 5), Some(about), peak);
        run.manifest.label = Some(name.to_owned());
        run
    };
    let verdict = |runs: &[Run]| claim(&report(runs), "format_peak").verdict.clone();
    assert_eq!(verdict(&[run("a", para(None), 0.64)]), Verdict::Inconclusive, "one training has no interval");
    let seeds = [0.64, 0.65, 0.63].iter().zip(0..);
    let three: Vec<Run> = seeds.map(|(peak, seed)| run("s", para(Some(seed)), *peak)).collect();
    assert_eq!(verdict(&three), Verdict::Reproduced);
    let page = page_of(&report(&three), &three);
    assert!(
        page.contains("does not see the video") && page.contains("loses every group"),
        "beside its claims"
    );
    let two = [run("b", para(None), 0.64), run("a", para(None), 0.2)];
    let back = [run("a", para(None), 0.2), run("b", para(None), 0.64)];
    let Verdict::NotComparable(why) = verdict(&two) else { panic!() };
    assert!(why[0].ends_with("a, b"), "{why:?}");
    assert_eq!(verdict(&two), verdict(&back), "the order of folders decides nothing");
}

/// Seven splits with the same flips in each.
fn sets() -> [Vec<Run>; 2] {
    let splits = ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"];
    let run = |folder: &str, name: &&str, right| {
        let mut run = whole(name, name, 200, right);
        run.path = format!("{folder}/{name}").into();
        run
    };
    [
        splits.iter().map(|name| run("a", name, 100)).collect(),
        splits.iter().map(|name| run("b", name, 112)).collect(),
    ]
}

#[test]
fn the_pages_p_values_are_those_of_compare() {
    let [a, b] = sets();
    let ablation = compare(&a, &b).unwrap();
    let pair = &ablation.splits[0];
    let (p, p_holm) = (pair.p.unwrap(), pair.p_holm.unwrap());
    assert!((p_holm - (7.0 * p).min(1.0)).abs() < 1e-12 && p < 0.05 && p_holm > 0.05, "{p} {p_holm}");
    let runs: Vec<Run> = a.into_iter().chain(b).collect();
    let page = page_of(&Report::build(&runs, None).unwrap(), &runs);
    let cells = |p: f64| page.matches(&format!("<td class=\"number\">{p:.3}</td>")).count();
    assert_eq!((cells(p_holm), cells(p)), (7, 0));
}

/// The index of the page's samples.
fn index(page: &str) -> serde_json::Value {
    use base64::Engine as _;
    let (_, packed) = page.split_once("id=\"index\">").unwrap();
    let (packed, _) = packed.split_once("</script>").unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(packed.trim()).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(&bytes[..])).unwrap()
}

#[test]
fn flips_are_against_the_run_that_the_table_compares_with() {
    let run = |mode, right| {
        let mut run = whole("videomme", "Video-MME", 10, right);
        run.manifest.label = Some(format!("{mode}"));
        run
    };
    let mut strict = run(3, 10);
    strict.manifest.plan.rules = paravt_suite::profile::Profile::Strict.into();
    let runs = [run(0, 2), run(1, 5), strict, run(2, 3)];
    let report = Report::build(&runs, None).unwrap();
    let index = index(&page_of(&report, &runs));
    // Runs are ordered by profile; each is compared with the first of its own, never with the one before it.
    let of = |name: &str| {
        index["runs"].as_array().unwrap().iter().map(|run| run[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("against"), [serde_json::Value::Null, 0.into(), 0.into(), serde_json::Value::Null]);
    assert_eq!(of("name"), ["0 (paper)", "1 (paper)", "2 (paper)", "3 (strict)"]);
    // The answers to one question lie together.
    let column = |name: &str| -> Vec<u64> {
        index["samples"][name].as_array().unwrap().iter().map(|cell| cell.as_u64().unwrap()).collect()
    };
    assert_eq!((&column("run")[..5], &column("question")[..5]), (&[0, 1, 2, 3, 0][..], &[0, 0, 0, 0, 1][..]));
    let right = |run| {
        let rows = column("run").into_iter().zip(column("result"));
        rows.filter(|(of, result)| (*of, *result) == (run, 0)).count()
    };
    assert_eq!([0, 1, 2, 3].map(right), [2, 5, 3, 10]);
}

#[test]
fn thumbnails_are_the_recorded_frames() {
    use paravt_suite::fixtures::{crop, image};
    use paravt_suite::message::{FrameOrigin, Role};
    use paravt_suite::record::{RecordedMessage, RecordedPart};
    let dir = tempfile::tempdir().unwrap();
    let video = dir.path().join("film.mp4");
    std::fs::write(&video, "").unwrap();
    let frame = |index: usize| FrameOrigin { index, time: index as f64 / 5.0 };
    let mut run = whole("videomme", "Video-MME", 2, 1);
    run.records.iter_mut().for_each(|record| record.sample.video.clone_from(&video));
    let transcript = &mut run.records[0].transcript;
    transcript.messages =
        vec![RecordedMessage::new(Role::User, [7, 42, 5_000].map(|index| image(frame(index))).into())];
    transcript.tool_calls = vec![crop(0, 0, (2.0, 9.0), vec![frame(11), frame(13)])];
    // The server chose the frames of this one: there are none to show.
    run.records[1].transcript.messages = vec![RecordedMessage::new(
        Role::User,
        vec![RecordedPart::Video { file: "film.mp4".into(), nframes: None }],
    )];
    let videos = run
        .records
        .iter()
        .map(|record| (("videomme".to_owned(), record.sample.uid.clone()), video.clone()))
        .collect();
    let runs = [run];
    let thumbnails = page::Thumbnails::write(&runs, &videos, dir.path(), &jpegs).unwrap();
    let mut written: Vec<String> = std::fs::read_dir(dir.path().join("frames/v0"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    written.sort();
    assert_eq!(written, ["11.jpg", "13.jpg", "42.jpg", "7.jpg"]);
    assert_eq!((thumbnails.overview(&runs[0].records[0]).len(), thumbnails.unreadable), (2, 0));
    assert!(thumbnails.overview(&runs[0].records[1]).is_empty());
}

#[test]
fn an_insignificant_difference_is_below_the_detectable_one() {
    let a = || published("lvbench", 40.0);
    for right in [38.0, 40.0, 41.0, 42.0, 45.0, 60.0] {
        let ablation = compare(&[a()], &[published("lvbench", right)]).unwrap();
        let pair = &ablation.splits[0];
        let shown = matches!(pair.verdict, Verdict::Better | Verdict::Worse);
        let Some((low, high)) = pair.interval else {
            assert_eq!((pair.verdict.clone(), right), (Verdict::Unchanged, 40.0), "no score differs");
            continue;
        };
        assert_eq!(shown, low > 0.0 || high < 0.0, "p-value and interval agree");
        assert_eq!(shown, pair.p_holm.unwrap() <= 0.05);
        if let (false, Some(detectable)) = (shown, pair.detectable) {
            assert!(pair.difference.abs() < detectable, "{pair:?}");
        }
    }
}

#[test]
fn other_questions_and_lost_frames_are_not_compared() {
    let mut other = published("videomme", 70.0);
    for record in &mut other.records[..5] {
        record.sample.gold = paravt_suite::sample::Gold::Choice { answer: "C".into() };
    }
    let verdict = |b: Run| compare(&[published("videomme", 62.1)], &[b]).unwrap().splits.remove(0).verdict;
    let Verdict::NotComparable(why) = verdict(other) else { panic!() };
    assert!(why[0].starts_with("5 of 2700 samples have another gold answer"), "{why:?}");
    let mut blind = published("videomme", 70.0);
    blind.records.iter_mut().for_each(|record| record.transcript.frame_loss = Some("lost".into()));
    let Verdict::NotComparable(why) = verdict(blind) else { panic!() };
    assert!(why[0].starts_with("B: 2700 of 2700 rows lack a full answer"), "{why:?}");
}

#[test]
fn the_page_says_what_was_measured_and_keeps_other_measurements_out_of_the_published_table() {
    let mut toy = whole("videomme", "Video-MME", 8, 5);
    toy.manifest.data_revision = Some("0".repeat(40));
    toy.manifest.started_at = 1_795_399_204.0;
    let shown = |run: Run| {
        let runs = [run];
        page_of(&report(&runs), &runs)
    };
    let page = shown(toy);
    let (_, head) = page.split_once("<header>").unwrap();
    let (head, _) = head.split_once("</header>").unwrap();
    for fact in
        ["<h1>made-up-8b on Video-MME</h1>", "8 samples in 1 run; generated data", "2026-11-23", "paper"]
    {
        assert!(head.contains(fact), "{fact}: {head}");
    }
    let section = |page: &str| {
        let (_, section) = page.split_once("<section id=\"published\">").unwrap();
        section.split_once("</section>").unwrap().0.to_owned()
    };
    let text = section(&page);
    let (table, apart) = text.split_once("Ours, not comparable: 1").unwrap();
    assert!(table.contains("GPT-4o") && !table.contains("ours: made-up-8b"), "{table}");
    assert!(apart.contains("ours: made-up-8b") && !apart.contains("GPT-4o"), "{apart}");
    let text = section(&shown(published("videomme", 62.1)));
    assert!(text.contains("ours: made-up-8b") && !text.contains("Ours, not comparable"), "{text}");
}

#[test]
fn a_run_without_a_counted_sample_has_no_score() {
    let mut empty = whole("videomme", "Video-MME", 20, 5);
    empty.records.clear();
    let report = report(&[empty]);
    assert_eq!((report.cells[0].score(), report.cells[0].n()), (None, 0));
    let text = paravt_reports::terminal(&report, Detail::Full).to_string();
    assert!(text.contains("0 of 20 samples recorded") && !text.contains("-0.0"), "{text}");
    assert!(paravt_reports::markdown(&report).contains("| - | - | 0 (0 of 20 samples recorded) |"));
}

#[test]
fn a_selection_is_named_wherever_its_score_is() {
    let mut some = whole("videomme", "Video-MME", 20, 5);
    some.manifest.selection.split_rows = 2_174;
    let runs = [some];
    let report = report(&runs);
    let texts = [
        paravt_reports::terminal(&report, Detail::Brief).to_string(),
        paravt_reports::markdown(&report),
        page_of(&report, &runs),
    ];
    for text in texts {
        assert!(text.contains("selection: 20 of 2174 samples"), "{text}");
    }
}
