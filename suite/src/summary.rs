//! From records to the numbers of one split.

mod fours;
#[cfg(test)]
mod tests;
mod unread;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::profile::{ErrorCounting, Switches};
use crate::protocol::Fidelity;
use crate::record::{ModelCall, Outcome, Record, SampleErrorClass, ToolOutcome};
use crate::run::{GroupSizes, Selection};
use crate::sample::{QuestionKind, Sample};
use crate::scoring::{Metric, MetricValue, Over, RAISES};
use crate::task::TaskSpec;
pub use fours::{Four, fours};
pub use unread::Unread;

/// The only tag by which the reference's driver breaks a score down.
const DURATION: &str = "duration";

/// All numbers of one split. Shares and IoU are between 0 and 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Name of the split.
    pub task: String,
    /// Every metric, the official headline first: the mean over samples (`accuracy`, `mIoU`, `score`), before it the
    /// mean over groups where the benchmark's headline is that (MLVU's M-Avg, Video-MME-v2's group score), after it
    /// recall at IoU thresholds and group scores by label.
    pub metrics: Vec<MetricValue>,
    /// Denominator of the headline.
    pub n: usize,
    /// Samples that the run must have. In a repeated run this and every other count is of records.
    pub n_expected: usize,
    /// Samples with a record.
    pub n_recorded: usize,
    /// Samples with an answer that was compared.
    pub n_scored: usize,
    /// Samples with a response in which no answer was found (they count as wrong).
    pub n_unparsed: usize,
    /// The same with examples, where they are more than a tenth of the replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// Samples without a response.
    pub n_errors: usize,
    /// Errors by class.
    pub errors: BTreeMap<String, usize>,
    /// Samples whose overview frames were lost and that went out as text only.
    pub n_frame_loss: usize,
    /// Samples with a video that was not decoded within its time limit, for the overview or a crop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_decode_timeouts: usize,
    /// Samples with a reply of their own, not a sub-agent's, that ended at the token limit.
    pub n_truncated: usize,
    /// Samples with a call of which the server counts less than half of the forecast's tokens: it may have cut the prompt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_short_prompts: usize,
    /// Tool calls beyond the cap.
    pub n_dropped_calls: usize,
    /// Samples with a reply whose thoughts came apart from its text (`reasoning_content`).
    pub n_reasoning: usize,
    /// Samples with a reply whose text was reassembled from what a server took apart.
    pub n_reassembled: usize,
    /// The value over every expected row, a missing or failed one counting 0.
    pub value_over_expected: f64,
    /// Mean by the agent's own extraction over the same denominator as the headline, and how near the run is to what
    /// the authors run; absent where the protocol has no loop of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnSummary>,
    /// Breakdowns in the order of the official report.
    pub breakdowns: Vec<BreakdownSummary>,
    /// Open-ended questions (strict MMVU), exact match, never part of the headline.
    pub open_ended: Option<Group>,
    /// Use of the tool.
    pub tools: ToolUse,
    /// Prompt and completion tokens, where the backend counts them.
    pub prompt_tokens: u64,
    /// See `prompt_tokens`.
    pub completion_tokens: u64,
    /// Sum of the samples' seconds.
    pub sample_seconds: f64,
    /// Flags of rows, e.g. `no_subtitles`, with their counts.
    pub flags: BTreeMap<String, usize>,
    /// Every expected sample has a record and none is an error.
    pub complete: bool,
}

/// Scores by an agent's own extraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnSummary {
    /// How near the run is to what the authors run.
    pub fidelity: Fidelity,
    /// Mean score; a missing or failed sample counts 0.
    pub value: f64,
    /// Denominator.
    pub n: usize,
}

/// One breakdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakdownSummary {
    /// Tag.
    pub tag: String,
    /// Title in reports.
    pub title: String,
    /// Groups in official order.
    pub groups: Vec<Group>,
}

/// One group of a breakdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Label.
    pub label: String,
    /// Denominator.
    pub n: usize,
    /// Mean value.
    pub value: f64,
}

/// Use of the tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// Mean tool calls per sample.
    pub calls_per_sample: f64,
    /// Share of samples with at least one call.
    pub share_with_calls: f64,
    /// Mean length of the windows asked for, in seconds, where both ends are known.
    pub mean_window_seconds: Option<f64>,
    /// Crops that failed.
    pub crop_failures: usize,
    /// Calls that could not be understood.
    pub malformed: usize,
    /// Samples whose answer had to be forced.
    pub forced: usize,
    /// Replies of sub-agents that ended at the token limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_summaries: usize,
}

impl Summary {
    /// The official headline: the mean over samples, or over groups where the benchmark has it so.
    pub fn headline(&self) -> &MetricValue {
        &self.metrics[0]
    }

    /// The mean over samples, the headline or not.
    pub fn over_samples(&self) -> &MetricValue {
        let mean = self.metrics.iter().find(|metric| metric.over == Over::Samples);
        mean.expect("every summary has the mean over its samples")
    }

    /// Whether the official headline is a mean over groups.
    pub fn is_over_groups(&self) -> bool {
        matches!(self.headline().over, Over::Groups | Over::Fours)
    }

    /// Metrics beside the headline and the mean over samples: recall at IoU thresholds, group scores by label.
    pub fn further(&self) -> impl Iterator<Item = &MetricValue> {
        self.metrics.iter().skip(1).filter(|metric| matches!(metric.over, Over::Threshold | Over::Fours))
    }
}

/// Records that cannot be summarised together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum SummaryError {
    /// Two records of one sample.
    #[error("sample `{0}` has two records")]
    Duplicate(String),
    /// A record of another split.
    #[error("sample `{uid}` belongs to split {found}, expected {wanted}")]
    OtherTask { uid: String, found: String, wanted: String },
    /// Records of several profiles.
    #[error("records of the profiles {0} and {1} cannot be summarised together")]
    MixedProfiles(String, String),
    /// More records than the run should have.
    #[error("found {found} records, expected at most {expected}")]
    TooMany { expected: usize, found: usize },
}

/// Summarises the records of one split.
///
/// # Errors
/// Records that do not belong together.
pub fn summarize(
    spec: &TaskSpec,
    switches: &Switches,
    selection: &Selection,
    records: &[Record],
) -> Result<Summary, SummaryError> {
    let expected = selection.sizes.expected;
    check(spec, expected, records)?;
    let (open, main): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.sample.gold.is_excluded_from_headline());
    let counted: Vec<&Record> = main.iter().copied().filter(|record| counts(record, switches)).collect();
    let every_row = switches.errors == ErrorCounting::EveryExpectedRow;
    let expected_open = selection.sizes.open_ended.max(open.len());
    let expected_main = expected.saturating_sub(expected_open);
    let groups = |tag: &str, order: &[String]| {
        let sizes = selection.sizes.groups.get(tag).filter(|_| every_row);
        groups(&counted, tag, order, switches, sizes)
    };
    let n = if every_row { expected_main } else { counted.len() };
    let sum: f64 = counted.iter().map(|record| record.score.value).sum();

    let breakdowns: Vec<BreakdownSummary> = spec
        .breakdowns
        .iter()
        .map(|breakdown| BreakdownSummary {
            tag: breakdown.tag.clone(),
            title: breakdown.title.clone(),
            groups: groups(&breakdown.tag, &breakdown.order),
        })
        // A tag that no row has: a column of some forms of the data only.
        .filter(|breakdown| !breakdown.groups.is_empty())
        .collect();
    let of = |name: String, value: f64, n: usize, over: Over| MetricValue { name, value, n, over };
    let fours = fours(spec, switches, selection, records);
    let of_fours = |name, value, n| of(name, value, n, Over::Fours);
    let mut fours =
        fours::means(&spec.metric, &fours).into_iter().map(|(name, n, value)| of_fours(name, value, n));
    let over_groups = spec.metric.macro_over().map(|tag| {
        let groups = merged(&spec.metric, groups(tag, &[]));
        of(format!("mean over {tag}"), macro_mean(&groups), groups.len(), Over::Groups)
    });
    let over_samples = of(spec.metric.name().to_owned(), ratio(sum, n), n, Over::Samples);
    let recall = spec.metric.thresholds().iter().map(|threshold| {
        let reached = counted.iter().filter(|record| record.score.value >= *threshold).count();
        of(format!("R@{threshold}"), ratio(reached as f64, n), n, Over::Threshold)
    });
    let errors = error_classes(records);
    let n_errors = errors.values().sum();
    Ok(Summary {
        task: spec.name.clone(),
        metrics: over_groups
            .into_iter()
            .chain(fours.next())
            .chain([over_samples])
            .chain(recall)
            .chain(fours)
            .collect(),
        n,
        n_expected: expected,
        n_recorded: records.len(),
        n_scored: count(records, |record| record.score.outcome == Outcome::Scored),
        n_unparsed: count(records, |record| record.score.outcome == Outcome::Unparsed),
        unread: Unread::of(records),
        n_errors,
        errors,
        n_frame_loss: count(records, |record| record.transcript.frame_loss.is_some()),
        n_decode_timeouts: count(records, |record| record.transcript.decode_timeout),
        n_truncated: count(records, |record| record.transcript.truncated),
        n_short_prompts: with_call(records, |call| call.forecast_tokens.is_some()),
        n_dropped_calls: records.iter().map(|record| record.transcript.dropped_calls).sum(),
        n_reasoning: with_call(records, |call| call.reasoning.is_some()),
        n_reassembled: with_call(records, |call| call.reassembled),
        value_over_expected: ratio(main.iter().map(|record| record.score.value).sum(), expected_main),
        own: own_scores(&main, n),
        breakdowns,
        open_ended: (expected_open > 0).then(|| Group {
            label: "open-ended (exact match)".to_owned(),
            n: expected_open,
            value: ratio(open.iter().map(|record| record.score.value).sum(), expected_open),
        }),
        tools: tool_use(records, switches),
        prompt_tokens: usage(records, |usage| usage.prompt_tokens),
        completion_tokens: usage(records, |usage| usage.completion_tokens),
        sample_seconds: records.iter().map(|record| record.measured.seconds).sum(),
        flags: flags(records),
        complete: records.len() == expected && n_errors == 0,
    })
}

fn own_scores(main: &[&Record], n: usize) -> Option<OwnSummary> {
    let own = || main.iter().filter_map(|record| record.own.as_ref());
    let fidelity = own().next()?.fidelity;
    Some(OwnSummary { fidelity, value: ratio(own().map(|own| own.score.value).sum(), n), n })
}

/// Samples with a model call of this kind.
fn with_call(records: &[Record], is: impl Fn(&ModelCall) -> bool) -> usize {
    count(records, |record| record.transcript.calls.iter().any(&is))
}

fn check(spec: &TaskSpec, expected: usize, records: &[Record]) -> Result<(), SummaryError> {
    if records.len() > expected {
        return Err(SummaryError::TooMany { expected, found: records.len() });
    }
    let mut seen = HashSet::new();
    for record in records {
        if !seen.insert(record.key()) {
            return Err(SummaryError::Duplicate(record.sample.uid.clone()));
        }
        if record.sample.task != spec.name {
            return Err(SummaryError::OtherTask {
                uid: record.sample.uid.clone(),
                found: record.sample.task.clone(),
                wanted: spec.name.clone(),
            });
        }
        if record.profile != records[0].profile {
            return Err(SummaryError::MixedProfiles(
                records[0].profile.to_string(),
                record.profile.to_string(),
            ));
        }
    }
    Ok(())
}

/// Samples by label of every tag that the split is broken down by, open-ended ones left out.
pub fn group_sizes(spec: &TaskSpec, samples: &[Sample]) -> GroupSizes {
    let tags = spec.breakdowns.iter().map(|breakdown| breakdown.tag.as_str()).chain(spec.metric.group_tag());
    let mut sizes = GroupSizes::new();
    for tag in tags.collect::<BTreeSet<_>>() {
        let main = samples.iter().filter(|sample| !sample.gold.is_excluded_from_headline());
        for label in main.filter_map(|sample| sample.tags.get(tag)).flatten() {
            *sizes.entry(tag.to_owned()).or_default().entry(label.clone()).or_default() += 1;
        }
    }
    sizes
}

/// Whether a record is in the headline's denominator. Open-ended questions are reported apart.
/// Upstream drops grounding samples that raised, except where the tool loop's call failed: that text
/// is scored there, and gives 0.
pub fn counts(record: &Record, switches: &Switches) -> bool {
    let gold = &record.sample.gold;
    !gold.is_excluded_from_headline() && (gold.kind() != QuestionKind::Grounding || !raised(record, switches))
}

/// Whether a record is missing from the groups of a tag. Upstream's error rows carry no duration and
/// leave its breakdown by duration; every other breakdown, and the macro average, has them as wrong.
pub fn leaves_groups(record: &Record, tag: &str, switches: &Switches) -> bool {
    tag == DURATION && raised(record, switches)
}

/// Whether upstream's `eval_one` raised for this sample: it then returns an empty result.
fn raised(record: &Record, switches: &Switches) -> bool {
    let by_error = record.error.as_ref().is_some_and(|error| error.class != SampleErrorClass::ApiInLoop);
    let by_score = record.score.rule.as_deref() == Some(RAISES);
    switches.errors == ErrorCounting::Upstream && (by_error || by_score)
}

/// Group means of one tag; a record with several labels counts in each. With `sizes`, a label's
/// denominator is what the run must have of it, recorded or not.
fn groups(
    counted: &[&Record],
    tag: &str,
    order: &[String],
    switches: &Switches,
    sizes: Option<&BTreeMap<String, usize>>,
) -> Vec<Group> {
    let expected = |label: &str| sizes.and_then(|sizes| sizes.get(label)).copied().unwrap_or_default();
    let labels = sizes.into_iter().flat_map(BTreeMap::keys);
    let mut sums: BTreeMap<&str, (f64, usize)> = labels.map(|label| (label.as_str(), (0.0, 0))).collect();
    for record in counted {
        if leaves_groups(record, tag, switches) {
            continue;
        }
        for label in record.sample.tags.get(tag).into_iter().flatten() {
            let entry = sums.entry(label).or_default();
            entry.0 += record.score.value;
            entry.1 += 1;
        }
    }
    let mut groups: Vec<Group> = sums
        .into_iter()
        .map(|(label, (sum, recorded))| {
            let n = recorded.max(expected(label));
            Group { label: label.to_owned(), n, value: ratio(sum, n) }
        })
        .collect();
    groups.sort_by_key(|group| order.iter().position(|label| *label == group.label).unwrap_or(order.len()));
    groups
}

/// The groups with those that count as one merged, last.
fn merged(metric: &Metric, mut groups: Vec<Group>) -> Vec<Group> {
    for (label, parts) in metric.merged().into_iter().flatten() {
        let (inside, outside): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|group| parts.contains(&group.label));
        groups = outside;
        if !inside.is_empty() {
            let value = inside.iter().map(|group| group.value).sum::<f64>() / inside.len() as f64;
            groups.push(Group { label: label.clone(), n: inside.iter().map(|group| group.n).sum(), value });
        }
    }
    groups
}

/// The mean over groups: each counts once.
fn macro_mean(groups: &[Group]) -> f64 {
    ratio(groups.iter().map(|group| group.value).sum(), groups.len())
}

fn error_classes(records: &[Record]) -> BTreeMap<String, usize> {
    let mut classes = BTreeMap::new();
    for error in records.iter().filter_map(|record| record.error.as_ref()) {
        *classes.entry(error.class.as_str().to_owned()).or_default() += 1;
    }
    classes
}

/// Upstream's empty results say that no call was made: so do the means over samples under its counting.
fn tool_use(records: &[Record], switches: &Switches) -> ToolUse {
    let calls_of = |record: &Record| {
        if raised(record, switches) { 0 } else { record.transcript.tool_calls.len() }
    };
    let calls = || records.iter().flat_map(|record| &record.transcript.tool_calls);
    let windows: Vec<f64> =
        calls().filter_map(|call| Some(call.end? - call.start?)).filter(|length| *length > 0.0).collect();
    let outcomes = |wanted: fn(&ToolOutcome) -> bool| calls().filter(|call| wanted(&call.outcome)).count();
    ToolUse {
        calls_per_sample: ratio(records.iter().map(calls_of).sum::<usize>() as f64, records.len()),
        share_with_calls: ratio(count(records, |record| calls_of(record) > 0) as f64, records.len()),
        mean_window_seconds: (!windows.is_empty()).then(|| ratio(windows.iter().sum(), windows.len())),
        crop_failures: outcomes(|outcome| matches!(outcome, ToolOutcome::CropFailed { .. })),
        malformed: outcomes(|outcome| matches!(outcome, ToolOutcome::Malformed { .. })),
        forced: count(records, |record| record.transcript.forced),
        cut_summaries: model_calls(records).filter(|call| call.is_subagent() && call.is_cut()).count(),
    }
}

fn model_calls(records: &[Record]) -> impl Iterator<Item = &ModelCall> {
    records.iter().flat_map(|record| &record.transcript.calls)
}

fn usage(records: &[Record], field: fn(&crate::backend::Usage) -> u64) -> u64 {
    model_calls(records).filter_map(|call| call.usage.as_ref()).map(field).sum()
}

fn flags(records: &[Record]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for flag in records.iter().flat_map(|record| &record.sample.flags) {
        *counts.entry(flag.clone()).or_default() += 1;
    }
    counts
}

fn count(records: &[Record], wanted: impl Fn(&Record) -> bool) -> usize {
    records.iter().filter(|record| wanted(record)).count()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn ratio(sum: f64, n: usize) -> f64 {
    // An empty sum of floats is a negative zero; adding zero makes it a positive one.
    if n == 0 { 0.0 } else { sum / n as f64 + 0.0 }
}
