use proptest::prelude::*;

use super::*;
use crate::backend::FinishReason;
use crate::fixtures::{failed, record, task_spec};
use crate::profile::Profile;
use crate::record::{ModelCall, ToolOutcome};
use crate::run::Sizes;
use crate::sample::Gold;
use crate::task::{Breakdown, Metric};

fn spec(metric: Metric, tags: &[&str]) -> TaskSpec {
    let breakdown = |tag: &&str| Breakdown {
        tag: (*tag).to_owned(),
        title: (*tag).to_owned(),
        order: vec!["short".to_owned(), "medium".to_owned(), "long".to_owned()],
    };
    let breakdowns = tags.iter().map(breakdown).collect();
    TaskSpec { expected_rows: 4, paper_rows: 4, metric, breakdowns, ..task_spec() }
}

fn accuracy(tags: &[&str]) -> TaskSpec {
    spec(Metric::Accuracy { macro_over: None }, tags)
}

fn grounding() -> TaskSpec {
    spec(Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] }, &[])
}

fn selection(spec: &TaskSpec, expected: usize, samples: &[Sample]) -> Selection {
    let open = samples.iter().filter(|sample| sample.gold.kind() == QuestionKind::Open).count();
    Selection {
        split_rows: expected,
        sizes: Sizes { expected, open_ended: open, groups: group_sizes(spec, samples) },
        limit: None,
        ids: None,
        shard: None,
        whole: None,
    }
}

fn samples(records: &[Record]) -> Vec<Sample> {
    records.iter().map(|record| record.sample.clone()).collect()
}

/// The summary of a run whose every sample has a record, but for `missing` of which nothing is known.
fn summary(spec: &TaskSpec, profile: Profile, missing: usize, records: &[Record]) -> Summary {
    let selection = selection(spec, records.len() + missing, &samples(records));
    summarize(spec, &profile.switches(), &selection, records).unwrap()
}

fn tagged(uid: &str, value: f64, tag: &str, labels: &[&str]) -> Record {
    let mut record = record(uid, value);
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    record.sample.tags.insert(tag.to_owned(), labels);
    record
}

fn interval(uid: &str, value: f64) -> Record {
    let mut record = record(uid, value);
    record.sample.gold = Gold::Interval { start: 1.0, end: 2.0 };
    record
}

fn open(uid: &str, value: f64) -> Record {
    let mut record = record(uid, value);
    record.sample.gold = Gold::open("Paris");
    record
}

fn group(label: &str, n: usize, value: f64) -> Group {
    Group { label: label.to_owned(), n, value }
}

fn named(metric: &MetricValue) -> (&str, f64) {
    (&metric.name, metric.value)
}

fn recall(summary: &Summary) -> Vec<(&str, f64)> {
    summary.further().map(named).collect()
}

#[test]
fn a_failed_choice_question_is_wrong_under_every_profile() {
    use SampleErrorClass::{Api, ApiInLoop, FrameLoss, MalformedCall, Protocol, VideoMissing};
    for class in [Api, ApiInLoop, FrameLoss, MalformedCall, Protocol, VideoMissing] {
        for profile in Profile::ALL {
            let records = [record("a", 1.0), failed(record("b", 0.0), class)];
            let summary = summary(&accuracy(&[]), profile, 0, &records);
            assert_eq!((summary.over_samples().value, summary.n), (0.5, 2), "{profile} {class:?}");
            assert_eq!((summary.n_scored, summary.n_errors, summary.complete), (1, 1, false));
        }
    }
}

#[test]
fn upstreams_error_rows_are_in_the_overall_score_and_not_in_durations() {
    let records = [
        tagged("a", 1.0, "duration", &["long"]),
        failed(tagged("b", 0.0, "duration", &["long"]), SampleErrorClass::Api),
        tagged("c", 0.0, "duration", &["short"]),
    ];
    let spec = accuracy(&["duration"]);
    for profile in [Profile::Release, Profile::Paper] {
        let summary = summary(&spec, profile, 0, &records);
        assert_eq!(summary.n, 3);
        assert_eq!(summary.breakdowns[0].groups, [group("short", 1, 0.0), group("long", 1, 1.0)]);
    }
    let strict = summary(&spec, Profile::Strict, 0, &records);
    assert_eq!(strict.n, 3);
    assert_eq!(strict.breakdowns[0].groups, [group("short", 1, 0.0), group("long", 2, 0.5)]);
}

#[test]
fn metrics_are_named_with_the_official_headline_first() {
    let all = |summary: &Summary| -> Vec<(String, f64, usize)> {
        summary.metrics.iter().map(|metric| (metric.name.clone(), metric.value, metric.n)).collect()
    };
    let merged = [("both".to_owned(), vec!["count".to_owned(), "order".to_owned()])].into();
    let macro_spec = |merged| spec(Metric::Score { macro_over: Some("kind".into()), merged }, &[]);
    let records = [
        tagged("a", 1.0, "kind", &["count"]),
        tagged("b", 0.5, "kind", &["order"]),
        tagged("c", 0.0, "kind", &["order"]),
    ];
    let mut with_speed = records.to_vec();
    with_speed.push(tagged("d", 0.0, "kind", &["speed"]));
    let found = summary(&macro_spec(BTreeMap::new()), Profile::Strict, 0, &records);
    assert_eq!(all(&found), [("mean over kind".into(), 0.625, 2), ("score".into(), 0.5, 3)]);
    let found = summary(&macro_spec(merged), Profile::Strict, 0, &with_speed);
    assert_eq!(all(&found)[0], ("mean over kind".into(), 0.3125, 2), "0 and the mean of 1 and 0.25");
    let found = summary(&grounding(), Profile::Strict, 0, &[interval("a", 0.6), interval("b", 0.4)]);
    let expected = [("mIoU", 0.5), ("R@0.3", 1.0), ("R@0.5", 0.5), ("R@0.7", 0.0)];
    assert_eq!(all(&found), expected.map(|(name, value)| (name.to_owned(), value, 2)));
}

#[test]
fn a_failed_row_is_wrong_in_every_breakdown_but_upstreams_durations_and_in_the_macro_average() {
    use SampleErrorClass::{Api, FrameLoss, MalformedCall, Protocol, VideoMissing};
    let spec = spec(Metric::Accuracy { macro_over: Some("kind".into()) }, &["kind"]);
    let rows = |outcome: fn(Record) -> Record| {
        [
            tagged("a", 1.0, "kind", &["count"]),
            outcome(tagged("b", 0.0, "kind", &["count"])),
            tagged("c", 1.0, "kind", &["order"]),
            tagged("d", 0.0, "kind", &["order"]),
        ]
    };
    for profile in Profile::ALL {
        let wrong = summary(&spec, profile, 0, &rows(|record| record));
        assert_eq!(named(wrong.headline()), ("mean over kind", 0.5));
        for class in [Api, FrameLoss, MalformedCall, Protocol, VideoMissing] {
            let mut records = rows(|record| record);
            records[1] = failed(records[1].clone(), class);
            let lost = summary(&spec, profile, 0, &records);
            assert_eq!(lost.headline(), wrong.headline(), "{profile} {class:?}");
            assert_eq!(lost.breakdowns, wrong.breakdowns, "{profile} {class:?}");
        }
    }
}

#[test]
fn minutes_that_python_cannot_read_leave_upstreams_mean() {
    let mut raised = interval("b", 0.0);
    raised.score.rule = Some(RAISES.to_owned());
    let records = [interval("a", 0.6), raised];
    assert_eq!(summary(&grounding(), Profile::Release, 0, &records).n, 1);
    assert_eq!(summary(&grounding(), Profile::Strict, 0, &records).n, 2);
}

#[test]
fn calls_before_a_failure_do_not_count_as_upstream() {
    let call = crate::record::ToolCall {
        turn: 0,
        index: 0,
        call: serde_json::Value::Null,
        start: None,
        end: None,
        outcome: ToolOutcome::Malformed { reason: "null".into() },
    };
    let mut lost = failed(record("a", 0.0), SampleErrorClass::MalformedCall);
    lost.transcript.tool_calls.push(call.clone());
    let mut scored = record("b", 1.0);
    scored.transcript.tool_calls.push(call);
    let tools = |profile| summary(&accuracy(&[]), profile, 0, &[lost.clone(), scored.clone()]).tools;
    assert_eq!(
        (tools(Profile::Release).calls_per_sample, tools(Profile::Release).share_with_calls),
        (0.5, 0.5)
    );
    assert_eq!(
        (tools(Profile::Strict).calls_per_sample, tools(Profile::Strict).share_with_calls),
        (1.0, 1.0)
    );
}

#[test]
fn a_failed_call_in_the_loop_keeps_its_place_in_upstreams_breakdowns() {
    let records = [
        tagged("a", 1.0, "duration", &["long"]),
        failed(tagged("b", 0.0, "duration", &["long"]), SampleErrorClass::ApiInLoop),
    ];
    let summary = summary(&accuracy(&["duration"]), Profile::Release, 0, &records);
    assert_eq!(summary.breakdowns[0].groups, [group("long", 2, 0.5)]);
    assert_eq!(summary.errors, BTreeMap::from([("api_in_loop".to_owned(), 1)]));
}

#[test]
fn upstream_drops_failed_grounding_samples_unless_the_loop_failed() {
    let lost = failed(interval("b", 0.0), SampleErrorClass::Api);
    let in_loop = failed(interval("c", 0.0), SampleErrorClass::ApiInLoop);
    let records = [interval("a", 0.6), lost, in_loop];
    for profile in [Profile::Release, Profile::Paper] {
        let summary = summary(&grounding(), profile, 0, &records);
        assert_eq!((summary.over_samples().value, summary.n), (0.3, 2));
        assert_eq!(recall(&summary), [("R@0.3", 0.5), ("R@0.5", 0.5), ("R@0.7", 0.0)]);
        assert!(
            (summary.value_over_expected - 0.2).abs() < 1e-15,
            "the value over all rows stands beside it"
        );
    }
    let strict = summary(&grounding(), Profile::Strict, 0, &records);
    assert_eq!(strict.n, 3);
    assert!((strict.over_samples().value - 0.2).abs() < 1e-15);
    assert_eq!(recall(&strict)[0], ("R@0.3", 1.0 / 3.0));
}

#[test]
fn a_missing_sample_is_in_the_strict_denominators_and_makes_every_run_incomplete() {
    let records = [interval("a", 1.0), interval("b", 0.5)];
    for profile in Profile::ALL {
        let summary = summary(&grounding(), profile, 2, &records);
        assert_eq!((summary.n_expected, summary.n_recorded, summary.complete), (4, 2, false));
        assert_eq!(summary.value_over_expected, 0.375);
        let (n, value) = if profile == Profile::Strict { (4, 0.375) } else { (2, 0.75) };
        assert_eq!((summary.n, summary.over_samples().value), (n, value), "{profile}");
    }
}

#[test]
fn strict_breakdowns_and_macro_average_count_missing_samples() {
    let spec = spec(Metric::Accuracy { macro_over: Some("kind".into()) }, &["kind"]);
    let all = [
        tagged("a", 1.0, "kind", &["count"]),
        tagged("b", 0.0, "kind", &["count"]),
        tagged("c", 0.0, "kind", &["order"]),
    ];
    let selection = selection(&spec, 3, &samples(&all));
    let part = &all[..1];
    let strict = summarize(&spec, &Profile::Strict.switches(), &selection, part).unwrap();
    assert_eq!(strict.breakdowns[0].groups, [group("count", 2, 0.5), group("order", 1, 0.0)]);
    assert_eq!(named(strict.headline()), ("mean over kind", 0.25));
    let release = summarize(&spec, &Profile::Release.switches(), &selection, part).unwrap();
    assert_eq!(release.breakdowns[0].groups, [group("count", 1, 1.0)]);
}

#[test]
fn recall_includes_its_threshold() {
    let records = [interval("a", 0.3), interval("b", 0.5), interval("c", 0.7), interval("d", 0.29999)];
    let summary = summary(&grounding(), Profile::Strict, 0, &records);
    assert_eq!(recall(&summary), [("R@0.3", 0.75), ("R@0.5", 0.5), ("R@0.7", 0.25)]);
    assert_eq!(summary.over_samples().name, "mIoU");
    assert!((summary.over_samples().value - 1.79999 / 4.0).abs() < 1e-15);
}

#[test]
fn the_macro_average_weighs_groups_alike_and_the_headline_stays_micro() {
    let records = [
        tagged("a", 1.0, "kind", &["count"]),
        tagged("b", 1.0, "kind", &["count"]),
        tagged("c", 1.0, "kind", &["count"]),
        tagged("d", 0.0, "kind", &["order"]),
    ];
    let spec = spec(Metric::Accuracy { macro_over: Some("kind".into()) }, &[]);
    let summary = summary(&spec, Profile::Paper, 0, &records);
    assert_eq!(summary.over_samples().value, 0.75);
    assert_eq!(named(summary.headline()), ("mean over kind", 0.5));
}

#[test]
fn a_sample_with_several_labels_counts_once_in_each_group_and_once_overall() {
    let records = [tagged("a", 1.0, "kind", &["x", "y"]), tagged("b", 0.0, "kind", &["y"])];
    for profile in Profile::ALL {
        let summary = summary(&accuracy(&["kind"]), profile, 0, &records);
        assert_eq!(summary.n, 2);
        assert_eq!(summary.breakdowns[0].groups, [group("x", 1, 1.0), group("y", 2, 0.5)]);
    }
}

#[test]
fn groups_follow_the_official_order_and_others_the_alphabet() {
    let labels = ["zebra", "long", "apple", "short"];
    let records = labels.map(|label| tagged(label, 1.0, "duration", &[label]));
    let summary = summary(&accuracy(&["duration"]), Profile::Paper, 0, &records);
    let found: Vec<&str> = summary.breakdowns[0].groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(found, ["short", "long", "apple", "zebra"]);
}

#[test]
fn open_ended_questions_are_reported_apart_from_the_headline() {
    let records = [record("a", 1.0), open("b", 0.0), open("c", 1.0)];
    let spec = accuracy(&[]);
    let strict = Profile::Strict.switches();
    let all = selection(&spec, 3, &samples(&records));
    let summary = summarize(&spec, &strict, &all, &records).unwrap();
    assert_eq!((summary.over_samples().value, summary.n, summary.n_expected), (1.0, 1, 3));
    assert_eq!(summary.open_ended.map(|group| (group.n, group.value)), Some((2, 0.5)));
    assert!(summary.complete);

    let without = summarize(&spec, &strict, &all, &records[..1]).unwrap();
    assert_eq!(
        (without.over_samples().value, without.n),
        (1.0, 1),
        "a missing open-ended answer is not a missing choice"
    );
    assert_eq!(without.open_ended.map(|group| (group.n, group.value)), Some((2, 0.0)));
    assert!(!without.complete);
}

#[test]
fn upstreams_ids_may_repeat_and_uids_may_not() {
    let spec = accuracy(&[]);
    let two = [record("a", 1.0), record("b", 1.0)];
    assert_eq!(two[0].sample.id, two[1].sample.id);
    assert_eq!(summary(&spec, Profile::Paper, 0, &two).n, 2);

    let twice = [record("a", 1.0), record("a", 0.0)];
    let all = selection(&spec, 2, &samples(&twice));
    let error = summarize(&spec, &Profile::Paper.switches(), &all, &twice).unwrap_err();
    assert_eq!(error, SummaryError::Duplicate("a".into()));
}

#[test]
fn records_that_do_not_belong_together_are_refused() {
    let spec = accuracy(&[]);
    let refused = |expected: usize, records: &[Record]| {
        let all = selection(&spec, expected, &samples(records));
        summarize(&spec, &Profile::Paper.switches(), &all, records).unwrap_err().to_string()
    };
    let mut other = record("b", 1.0);
    other.sample.task = "another".into();
    assert_eq!(
        refused(2, &[record("a", 1.0), other]),
        "sample `b` belongs to split another, expected made_up"
    );
    let mut strict = record("b", 1.0);
    strict.profile = Profile::Strict;
    assert_eq!(
        refused(2, &[record("a", 1.0), strict]),
        "records of the profiles paper and strict cannot be summarised together"
    );
    assert_eq!(refused(1, &[record("a", 1.0), record("b", 1.0)]), "found 2 records, expected at most 1");
}

#[test]
fn no_record_at_all_gives_zeros_and_no_division_by_zero() {
    for profile in Profile::ALL {
        let summary = summary(&grounding(), profile, 0, &[]);
        assert_eq!((summary.over_samples().value, summary.value_over_expected), (0.0, 0.0));
        assert_eq!(summary.tools, ToolUse::default());
    }
}

/// What a proptest makes a record of: value, kind of error, group and whether it is open-ended.
type Drawn = (f64, Option<SampleErrorClass>, usize, bool);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    use SampleErrorClass::{Api, ApiInLoop, FrameLoss, MalformedCall};
    let error = prop_oneof![
        4 => Just(None),
        1 => prop::sample::select(vec![Api, ApiInLoop, FrameLoss, MalformedCall]).prop_map(Some),
    ];
    prop::collection::vec((0.0..=1.0, error, 0..3_usize, prop::bool::weighted(0.2)), 1..20)
}

fn made(drawn: &[Drawn], temporal: bool) -> Vec<Record> {
    let labels = ["short", "medium", "long"];
    let make = |(number, &(value, error, label, open_ended)): (usize, &Drawn)| {
        let mut record = tagged(&number.to_string(), value, "duration", &labels[label..]);
        record.sample.gold = match (temporal, open_ended) {
            (true, _) => Gold::Interval { start: 0.0, end: 1.0 },
            (false, true) => Gold::open("x"),
            (false, false) => record.sample.gold,
        };
        match error {
            Some(class) => failed(record, class),
            None => record,
        }
    };
    drawn.iter().enumerate().map(make).collect()
}

/// All shares of a summary by name, so that two summaries can be compared one by one.
fn shares(summary: &Summary) -> BTreeMap<String, f64> {
    let metrics = summary.metrics.iter().map(|metric| (metric.name.clone(), metric.value));
    let groups = summary.breakdowns.iter().flat_map(|breakdown| &breakdown.groups);
    let groups = groups.chain(&summary.open_ended).map(|group| (group.label.clone(), group.value));
    metrics.chain(groups).chain([("all".to_owned(), summary.value_over_expected)]).collect()
}

proptest! {
    #[test]
    fn every_share_is_between_0_and_1_and_a_lost_record_never_raises_a_score(
        drawn in drawn(), temporal: bool, lost: prop::sample::Index,
    ) {
        let metric = if temporal {
            Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] }
        } else {
            Metric::Accuracy { macro_over: Some("duration".into()) }
        };
        let spec = spec(metric, &["duration"]);
        let all = made(&drawn, temporal);
        let selection = selection(&spec, all.len(), &samples(&all));
        let mut part = all.clone();
        part.remove(lost.index(all.len()));
        for profile in Profile::ALL {
            let whole = summarize(&spec, &profile.switches(), &selection, &all).unwrap();
            let partial = summarize(&spec, &profile.switches(), &selection, &part).unwrap();
            prop_assert!(!partial.complete);
            for (name, value) in shares(&whole).into_iter().chain(shares(&partial)) {
                prop_assert!((0.0..=1.0).contains(&value), "{profile} {name} {value}");
            }
            let before = shares(&whole);
            for (name, value) in shares(&partial) {
                // Upstream's own denominators shrink with the records; only the value over all
                // expected rows is safe there, which is why it is printed beside the headline.
                if profile == Profile::Strict || name == "all" {
                    prop_assert!(value <= before[&name] + 1e-12, "{profile} {name}");
                }
            }
        }
    }
}

#[test]
fn cut_replies_of_sub_agents_are_counted_beside_cut_samples() {
    let call = |step: &str, reason: FinishReason| ModelCall {
        step: step.to_owned(),
        finish_reason: Some(reason),
        ..ModelCall::default()
    };
    let mut one = record("a", 1.0);
    one.transcript.calls = vec![
        call("turn0", FinishReason::Stop),
        call("turn0/sub0", FinishReason::Length),
        call("turn0/sub1", FinishReason::Length),
        call("turn1", FinishReason::Stop),
    ];
    let mut other = record("b", 0.0);
    other.transcript.calls = vec![call("turn0", FinishReason::Length)];
    other.transcript.truncated = true;
    let found = summary(&accuracy(&[]), Profile::Strict, 0, &[one, other]);
    assert_eq!((found.n_truncated, found.tools.cut_summaries), (1, 2));
    // A summary of an earlier version has no such count.
    let mut stored = serde_json::to_value(&found).unwrap();
    stored["tools"].as_object_mut().unwrap().remove("cut_summaries").unwrap();
    assert_eq!(serde_json::from_value::<Summary>(stored).unwrap().tools.cut_summaries, 0);
}

#[test]
fn replies_that_a_server_took_apart_are_counted_by_sample() {
    let records: Vec<Record> = (0..4)
        .map(|number| {
            let mut record = record(&number.to_string(), 1.0);
            let call = |reasoning: Option<&str>, reassembled| ModelCall {
                reasoning: reasoning.map(str::to_owned),
                reassembled,
                ..ModelCall::default()
            };
            record.transcript.calls = match number {
                0 => vec![call(Some("a"), false), call(Some("b"), true)],
                1 => vec![call(None, true)],
                _ => vec![call(None, false)],
            };
            record
        })
        .collect();
    let found = summary(&accuracy(&[]), Profile::Strict, 0, &records);
    assert_eq!((found.n_reasoning, found.n_reassembled), (1, 2));
}
