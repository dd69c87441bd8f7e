//! Probed and repeated runs in reports and comparisons, and where the inputs of two runs part.

use paravt_reports::compare::{compare, inputs, json, tables, terminal};
use paravt_reports::terminal::{COLUMNS, Detail};
use paravt_reports::{Report, Run, Verdict, markdown};
use paravt_suite::fingerprint::Fingerprint;
use paravt_suite::probe::Probe;
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question};

use crate::common::{manifest, record, spec, whole};

const ROWS: usize = 40;

/// A strict run whose questions have options: the gold option is `right`, and the first `right` rows chose it.
fn run(right: usize) -> Run {
    let mut run = whole("mlvu", "MLVU (dev)", ROWS, right);
    run.manifest.plan.rules = Profile::Strict.into();
    for (row, record) in run.records.iter_mut().enumerate() {
        record.profile = Profile::Strict;
        let options = ["other", "right", "third"].map(str::to_owned).into();
        record.sample.question =
            Question { stem: "Q?".into(), options, letters: "ABC".into(), subtitles: None };
        record.score.prediction = Some(if row < right { "B" } else { "A" }.into());
    }
    run
}

fn probed(mut run: Run, probe: Probe) -> Run {
    run.manifest.plan.probe = Some(probe);
    run
}

/// The same answers to options in the order third, other, right.
fn shuffled(right: usize) -> Run {
    let mut run = probed(run(right), Probe::Shuffle(3));
    for record in &mut run.records {
        record.sample.question.options = ["third", "other", "right"].map(str::to_owned).into();
        record.sample.gold = Gold::Choice { answer: "C".into() };
        let letter = if record.score.value > 0.5 { "C" } else { "B" };
        record.score.prediction = Some(letter.into());
    }
    run
}

#[test]
fn a_probed_run_stands_beside_its_run_and_beside_no_published_number() {
    let runs = [run(30), probed(run(12), Probe::Blind), shuffled(30)];
    let report = Report::build(&runs, Some("ParaVT-8B")).unwrap();
    let beside: Vec<bool> = report.cells.iter().map(|cell| cell.paper.is_some()).collect();
    assert_eq!(beside, [true, false, false]);
    let [blind, shuffle] = &report.probes[..] else { panic!("{:?}", report.probes) };
    assert_eq!((blind.probe.as_str(), blind.pairs, blind.videos), ("blind", ROWS, ROWS / 2));
    assert!((blind.drop - 18.0 / 40.0).abs() < 1e-12, "{blind:?}");
    let (low, high) = blind.interval.unwrap();
    assert!(low > 0.15 && high < 0.7 && blind.p_holm.unwrap() < 0.01, "{blind:?}");
    assert_eq!((blind.consistency, &blind.caveats), (None, &vec![]));
    // All options are the same by their texts, though no letter is.
    assert_eq!((shuffle.drop, shuffle.consistency), (0.0, Some(1.0)));
    assert!(shuffle.caveats.is_empty(), "{:?}", shuffle.caveats);
    let shown = paravt_reports::terminal(&report, Detail::Brief).to_string();
    assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
    assert!(
        shown.contains("mlvu blind: 75.0 to 30.0, -45.0 (-6")
            && shown.contains("same option chosen: 100.0 %")
    );
    assert!(markdown(&report).contains("| MLVU (dev) |"), "{}", markdown(&report));
    let table = report.tables().unwrap().into_iter().find(|table| table.name == "probes").unwrap();
    assert_eq!(table.frame.height(), 2);
    let alone = Report::build(&runs[..1], None).unwrap();
    assert!(alone.probes.is_empty() && alone.tables().unwrap().iter().all(|table| table.name != "probes"));
}

#[test]
fn consistency_counts_options_by_their_text() {
    let mut other = shuffled(30);
    // Two chose another option of the same letters, one gave no answer.
    other.records[0].score.prediction = Some("A".into());
    other.records[1].score.prediction = Some("B".into());
    other.records[2].score.prediction = None;
    let report = Report::build(&[run(30), other], None).unwrap();
    let found = report.probes[0].consistency.unwrap();
    assert!((found - 37.0 / 40.0).abs() < 1e-12, "{found}");
    let (low, high) = report.probes[0].consistency_interval.unwrap();
    assert!(low < found && found < high && high <= 1.0, "{low} to {high}");
}

#[test]
fn a_shuffled_twin_is_comparable_and_another_question_is_not() {
    let comparison = compare(&[run(30)], &[shuffled(20)]).unwrap();
    let pair = &comparison.splits[0];
    assert_eq!(pair.verdict, Verdict::Worse);
    assert_eq!(pair.differs, ["probe was not set, now shuffle:3"]);
    let mut other = shuffled(20);
    other.records[0].sample.question.options[2] = "something else".into();
    let comparison = compare(&[run(30)], &[other]).unwrap();
    assert!(matches!(comparison.splits[0].verdict, Verdict::NotComparable(_)));
}

/// Each sample asked four times; of sample `row` the first `row % 5` draws are right.
fn repeated_run() -> Run {
    let mut run = run(0);
    run.manifest.plan.repeat = 4;
    let once = std::mem::take(&mut run.records);
    for (row, record) in once.into_iter().enumerate() {
        for epoch in 0..4 {
            let mut draw = record.clone();
            draw.epoch = epoch;
            draw.score.value = f64::from(u8::from(epoch < row % 5));
            draw.score.prediction = Some(if epoch < row % 5 { "B" } else { "A" }.into());
            run.records.push(draw);
        }
    }
    run
}

#[test]
fn a_repeated_run_has_mean_pass_majority_and_agreement() {
    let report = Report::build(&[repeated_run()], None).unwrap();
    let cell = &report.cells[0];
    assert_eq!((cell.summary.n_recorded, cell.summary.n_expected), (160, 160));
    assert!(cell.complete());
    let [repeats] = &report.repeats[..] else { panic!("{:?}", report.repeats) };
    let value = |name: &str| {
        let measure = repeats.measures.iter().find(|measure| measure.name == name).unwrap();
        assert_eq!((measure.samples, measure.videos), (ROWS, ROWS / 2), "{name}");
        let (low, high) = measure.interval.unwrap();
        assert!(low < measure.value && measure.value < high, "{measure:?}");
        measure.value
    };
    // 0, 1, 2, 3 and 4 of 4 right, equally often.
    for (name, wanted) in [
        ("mean", 0.5),
        ("pass@1", 0.5),
        ("pass@2", (0.0 + 0.5 + 5.0 / 6.0 + 1.0 + 1.0) / 5.0),
        ("pass@4", 0.8),
        ("pass^2", (0.0 + 0.0 + 1.0 / 6.0 + 0.5 + 1.0) / 5.0),
        ("pass^4", 0.2),
        // Two against two: the earlier draws were right.
        ("majority", 0.6),
        ("agreement", (1.0 + 0.5 + 1.0 / 3.0 + 0.5 + 1.0) / 5.0),
    ] {
        assert!((value(name) - wanted).abs() < 1e-12, "{name}: {}", value(name));
    }
    // Draws of one sample belong to its video: the interval is that of the means of the samples.
    let means: Vec<f64> = (0..ROWS).map(|row| (row % 5) as f64 / 4.0).collect();
    let mut once = run(0);
    once.records.iter_mut().zip(means).for_each(|(record, mean)| record.score.value = mean);
    let (a, b) = (cell.interval.unwrap(), Report::build(&[once], None).unwrap().cells[0].interval.unwrap());
    assert!((a.0 - b.0).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12, "{a:?} {b:?}");
    let shown = paravt_reports::terminal(&report, Detail::Brief).to_string();
    assert!(shown.contains("mlvu: 4 repetitions") && shown.contains("majority   60.0"), "{shown}");
    let samples = &paravt_reports::tables::records(&[repeated_run()])[0];
    assert!(samples.headings.iter().any(|heading| heading.name == "epoch"));
    let plain = &paravt_reports::tables::records(&[run(1)])[0];
    assert!(plain.headings.iter().all(|heading| heading.name != "epoch"));
}

#[test]
fn repeated_samples_pair_by_their_means() {
    let comparison = compare(&[run(0)], &[repeated_run()]).unwrap();
    let pair = &comparison.splits[0];
    assert_eq!((pair.n, pair.unpaired), (ROWS, 0));
    assert!((pair.b - 0.5).abs() < 1e-12, "{}", pair.b);
    // 2, 3 and 4 of 4 count as right.
    assert_eq!(pair.flips.gained, 24);
    assert_eq!(pair.differs, ["repeat was not set, now 4"]);
}

fn set_inputs(run: &mut Run, row: usize, inputs: Fingerprint, prompt_tokens: u64) {
    let transcript = &mut run.records[row].transcript;
    transcript.inputs = Some(inputs);
    transcript.calls[0].usage.as_mut().unwrap().prompt_tokens = prompt_tokens;
}

#[test]
fn inputs_that_part_are_said_in_words() {
    let (mut a, mut b) = (run(3), run(3));
    let of = |question: &str, frames: usize, size: (u32, u32)| {
        Fingerprint::of_parts(["Answer.", question], (0..frames).map(|index| (index, size)))
    };
    let pixels = |of: Fingerprint, first: &str| Fingerprint { bytes: Some((first.into(), "z".into())), ..of };
    let same = pixels(of("Q?", 8, (308, 560)), "a");
    for row in 0..ROWS {
        set_inputs(&mut a, row, same.clone(), 1000);
        set_inputs(&mut b, row, same.clone(), 1000);
    }
    set_inputs(&mut b, 0, pixels(of("Q?", 8, (224, 420)), "b"), 700);
    set_inputs(&mut b, 1, pixels(of("Q?", 8, (224, 420)), "b"), 710);
    set_inputs(&mut b, 2, pixels(of("R?", 4, (308, 560)), "a"), 500);
    set_inputs(&mut b, 3, pixels(of("Q?", 8, (308, 560)), "c"), 1000);
    set_inputs(&mut b, 4, same.clone(), 1001);
    set_inputs(&mut b, 5, of("Q?", 0, (0, 0)), 100);
    // A record of an earlier version: nothing is known of it, not even messages.
    b.records[6].transcript.inputs = None;
    let found = inputs(&[a], &[b]);
    let [split] = &found[..] else { panic!("{found:?}") };
    let counts: Vec<_> = split.same.iter().map(|same| (same.part, same.same, same.known)).collect();
    assert_eq!(split.pairs, ROWS - 1);
    assert_eq!(
        counts,
        [
            ("text", 38, 39),
            ("frames", 37, 39),
            ("size", 36, 38),
            ("bytes", 35, 38),
            ("prompt tokens", 34, 39)
        ]
    );
    let words: Vec<_> = split.differences.iter().map(|one| (one.words.as_str(), one.samples.len())).collect();
    assert_eq!(words[0], ("same text, same frames, other size: 308x560 against 224x420", 2));
    for wanted in [
        "other text, other frames: 8 against 4, same size",
        "same text, same frames, same size, other bytes",
        "same text, same frames, same size, same bytes, other prompt tokens",
        "same text, other frames: 8 against none",
    ] {
        assert!(words.contains(&(wanted, 1)), "{wanted} in {words:?}");
    }
    let mut comparison = compare(&[run(3)], &[run(3)]).unwrap();
    assert!(!json(&comparison).contains("\"inputs\""), "said only where it was asked for");
    comparison.inputs = found;
    let text = terminal(&comparison, Detail::Brief).to_string();
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    assert!(text.contains("inputs of mlvu, 39 pairs; equal: text 38, frames 37"), "{text}");
    let names: Vec<_> = tables(&comparison).iter().map(|table| table.name).collect();
    assert_eq!(names, ["comparison", "flips", "inputs", "input_differences"]);
}

#[test]
fn a_record_of_an_epoch_that_the_run_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(
        spec("mlvu", "MLVU", paravt_suite::task::Metric::Accuracy { macro_over: None }, 1),
        Profile::Paper,
        1,
    );
    let mut foreign = record("mlvu", Profile::Paper, 0, 1.0);
    foreign.epoch = 1;
    std::fs::write(dir.path().join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    let line = serde_json::to_string(&foreign).unwrap() + "\n";
    std::fs::write(dir.path().join("journal.jsonl"), line).unwrap();
    let error = Run::read(dir.path().to_owned()).unwrap_err().to_string();
    assert!(error.contains("epoch 1"), "{error}");
}
