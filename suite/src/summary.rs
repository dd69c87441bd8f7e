//! From records to the numbers of one split.

mod question_groups;
mod summing;
#[cfg(test)]
mod tests;
mod unread;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::profile::{ErrorCounting, Switches};
use crate::protocol::Fidelity;
use crate::record::{Record, SampleErrorClass};
use crate::run::{GroupSizes, Selection};
use crate::sample::{QuestionKind, Sample};
use crate::scoring::{Metric, MetricValue, Over, RAISES};
use crate::task::TaskSpec;
pub use question_groups::{QuestionGroup, QuestionGroups};
pub use summing::Summing;
pub use unread::Unread;

/// The only tag by which the reference's driver breaks a score down.
const DURATION: &str = "duration";

/// All numbers of one split. Shares and IoU are between 0 and 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Mean by the agent's own answer extraction over the same denominator as the headline, and the fidelity of the run
    /// to the authors' evaluation; absent where the protocol has no loop of its own.
    #[serde(rename = "own", default, skip_serializing_if = "Option::is_none")]
    pub agent_score: Option<AgentScoreSummary>,
    /// Breakdowns in the order of the official report.
    pub breakdowns: Vec<BreakdownSummary>,
    /// Open-ended questions (strict MMVU), exact match, never part of the headline.
    pub open_ended: Option<Group>,
    pub tools: ToolUse,
    /// Prompt and completion tokens, where the backend counts them.
    pub prompt_tokens: u64,
    /// See `prompt_tokens`.
    pub completion_tokens: u64,
    /// Those of them that are thoughts, where the backend counts them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Sum of the samples' seconds.
    pub sample_seconds: f64,
    /// Flags of rows, e.g. `no_subtitles`, with their counts.
    pub flags: BTreeMap<String, usize>,
    /// Every expected sample has a record and none is an error.
    pub complete: bool,
}

/// Mean score by an agent's own answer extraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentScoreSummary {
    /// Fidelity of the run to the authors' evaluation.
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
    pub tag: String,
    pub title: String,
    /// Groups in official order.
    pub groups: Vec<Group>,
}

/// One group of a breakdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
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
    /// Refuses more records than expected.
    pub fn within_expected(&self) -> Result<(), SummaryError> {
        let (expected, found) = (self.n_expected, self.n_recorded);
        if found > expected { Err(SummaryError::TooMany { expected, found }) } else { Ok(()) }
    }

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
        matches!(self.headline().over, Over::Groups | Over::QuestionGroups)
    }

    /// Metrics beside the headline and the mean over samples: recall at IoU thresholds, group scores by label.
    pub fn further(&self) -> impl Iterator<Item = &MetricValue> {
        self.metrics
            .iter()
            .skip(1)
            .filter(|metric| matches!(metric.over, Over::Threshold | Over::QuestionGroups))
    }
}

/// Records that cannot be summarised together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    let mut summing = Summing::new(spec, switches, selection);
    records.iter().for_each(|record| summing.add(record));
    Ok(summing.finish())
}

/// Refuses records that do not belong together.
///
/// # Errors
/// More records than expected, two of one sample, of another split, or of several profiles.
pub fn check(spec: &TaskSpec, expected: usize, records: &[Record]) -> Result<(), SummaryError> {
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn ratio(sum: f64, n: usize) -> f64 {
    // An empty sum of floats is a negative zero; adding zero makes it a positive one.
    if n == 0 { 0.0 } else { sum / n as f64 + 0.0 }
}
