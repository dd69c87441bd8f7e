//! The numbers of a split while its records are counted.

use std::collections::BTreeMap;

use super::{
    AgentScoreSummary, BreakdownSummary, ErrorCounting, Group, QuestionGroups, Selection, Summary, Switches,
    TaskSpec, ToolUse, Unread, counts, leaves_groups, macro_mean, merged, question_groups, raised, ratio,
};
use crate::protocol::Fidelity;
use crate::record::{Outcome, Record, ToolOutcome};
use crate::scoring::{MetricValue, Over};

/// Sum of the values of some records and their number.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    value: f64,
    n: usize,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.value += value;
        self.n += 1;
    }
}

/// Counts records one by one, so that none has to be kept. Sums of floats depend on the order of their terms: records
/// come by row.
#[derive(Debug)]
pub struct Summing<'a> {
    spec: &'a TaskSpec,
    switches: &'a Switches,
    selection: &'a Selection,
    /// With everything that is a plain count.
    summary: Summary,
    /// Open-ended questions, and all others.
    open: Sum,
    main: Sum,
    /// Those of the headline.
    counted: Sum,
    /// Of these, the ones that reach each threshold of the metric.
    reached: Vec<usize>,
    /// Of these, by tag and label.
    groups: BTreeMap<&'a str, BTreeMap<String, Sum>>,
    question_groups: QuestionGroups<'a>,
    agent_score: Option<(Fidelity, f64)>,
    calls: usize,
    with_calls: usize,
    windows: Sum,
    unread: Unread,
}

impl<'a> Summing<'a> {
    /// Nothing yet.
    pub fn new(spec: &'a TaskSpec, switches: &'a Switches, selection: &'a Selection) -> Self {
        let tags = spec.breakdowns.iter().map(|breakdown| breakdown.tag.as_str());
        let tags = tags.chain(spec.metric.macro_over());
        Self {
            spec,
            switches,
            selection,
            summary: Summary {
                task: spec.name.clone(),
                n_expected: selection.sizes.expected,
                // As the standard library sums nothing.
                sample_seconds: -0.0,
                ..Summary::default()
            },
            open: Sum::default(),
            main: Sum::default(),
            counted: Sum::default(),
            reached: vec![0; spec.metric.thresholds().len()],
            groups: tags.map(|tag| (tag, BTreeMap::new())).collect(),
            question_groups: QuestionGroups::new(spec, switches),
            agent_score: None,
            calls: 0,
            with_calls: 0,
            windows: Sum::default(),
            unread: Unread::default(),
        }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.count(record);
        self.count_calls(record);
        self.question_groups.add(record);
        let value = record.score.value;
        if record.sample.gold.is_excluded_from_headline() {
            return self.open.add(value);
        }
        self.main.add(value);
        if let Some(agent_score) = &record.agent_score {
            self.agent_score.get_or_insert((agent_score.fidelity, 0.0)).1 += agent_score.score.value;
        }
        if !counts(record, self.switches) {
            return;
        }
        self.counted.add(value);
        for (reached, threshold) in self.reached.iter_mut().zip(self.spec.metric.thresholds()) {
            *reached += usize::from(value >= *threshold);
        }
        // A record with several labels counts in each.
        for (tag, groups) in &mut self.groups {
            if leaves_groups(record, tag, self.switches) {
                continue;
            }
            for label in record.sample.tags.get(*tag).into_iter().flatten() {
                match groups.get_mut(label) {
                    Some(group) => group.add(value),
                    None => groups.entry(label.clone()).or_default().add(value),
                }
            }
        }
    }

    fn count(&mut self, record: &Record) {
        let (summary, transcript) = (&mut self.summary, &record.transcript);
        summary.n_recorded += 1;
        match record.score.outcome {
            Outcome::Scored => summary.n_scored += 1,
            Outcome::Unparsed => summary.n_unparsed += 1,
            Outcome::Error => {}
        }
        self.unread.add(record);
        if let Some(error) = &record.error {
            summary.n_errors += 1;
            *summary.errors.entry(error.class.as_str().to_owned()).or_default() += 1;
        }
        summary.n_frame_loss += usize::from(transcript.frame_loss.is_some());
        summary.n_decode_timeouts += usize::from(transcript.decode_timeout);
        summary.n_truncated += usize::from(transcript.truncated);
        summary.n_dropped_calls += transcript.dropped_calls;
        summary.n_short_prompts +=
            usize::from(transcript.calls.iter().any(|call| call.forecast_tokens.is_some()));
        summary.n_reasoning += usize::from(transcript.calls.iter().any(|call| call.reasoning.is_some()));
        summary.n_reassembled += usize::from(transcript.calls.iter().any(|call| call.reassembled));
        for usage in transcript.calls.iter().filter_map(|call| call.usage) {
            summary.prompt_tokens += usage.prompt_tokens;
            summary.completion_tokens += usage.completion_tokens;
            if let Some(thoughts) = usage.reasoning_tokens {
                *summary.reasoning_tokens.get_or_insert_default() += thoughts;
            }
        }
        summary.sample_seconds += record.measured.seconds;
        for flag in &record.sample.flags {
            *summary.flags.entry(flag.clone()).or_default() += 1;
        }
    }

    fn count_calls(&mut self, record: &Record) {
        let (tools, transcript) = (&mut self.summary.tools, &record.transcript);
        // Upstream's empty results say that no call was made: so do the means over samples under its counting.
        let calls = if raised(record, self.switches) { 0 } else { transcript.tool_calls.len() };
        self.calls += calls;
        self.with_calls += usize::from(calls > 0);
        for call in &transcript.tool_calls {
            let length = call.start.zip(call.end).map(|(start, end)| end - start);
            length.filter(|length| *length > 0.0).into_iter().for_each(|length| self.windows.add(length));
            tools.crop_failures += usize::from(matches!(call.outcome, ToolOutcome::CropFailed { .. }));
            tools.malformed += usize::from(matches!(call.outcome, ToolOutcome::Malformed { .. }));
        }
        tools.forced += usize::from(transcript.forced);
        let cut = transcript.calls.iter().filter(|call| call.is_subagent() && call.is_cut());
        tools.cut_summaries += cut.count();
    }

    /// All numbers.
    pub fn finish(mut self) -> Summary {
        let (spec, sizes) = (self.spec, &self.selection.sizes);
        let every_row = self.switches.errors == ErrorCounting::EveryExpectedRow;
        let expected_open = sizes.open_ended.max(self.open.n);
        let expected_main = sizes.expected.saturating_sub(expected_open);
        let n = if every_row { expected_main } else { self.counted.n };
        let of = |name: String, value: f64, n: usize, over: Over| MetricValue { name, value, n, over };
        let question_groups =
            std::mem::replace(&mut self.question_groups, QuestionGroups::new(spec, self.switches));
        let question_groups = question_groups::means(&spec.metric, &question_groups.finish(self.selection));
        let mut question_groups =
            question_groups.into_iter().map(|(name, n, value)| of(name, value, n, Over::QuestionGroups));
        let over_groups = spec.metric.macro_over().map(|tag| {
            let groups = merged(&spec.metric, self.groups(tag, &[]));
            of(format!("mean over {tag}"), macro_mean(&groups), groups.len(), Over::Groups)
        });
        let over_samples = of(spec.metric.name().to_owned(), ratio(self.counted.value, n), n, Over::Samples);
        let recall = spec.metric.thresholds().iter().zip(&self.reached).map(|(threshold, reached)| {
            of(format!("R@{threshold}"), ratio(*reached as f64, n), n, Over::Threshold)
        });
        let metrics =
            over_groups.into_iter().chain(question_groups.next()).chain([over_samples]).chain(recall);
        let breakdowns = spec.breakdowns.iter().map(|breakdown| BreakdownSummary {
            tag: breakdown.tag.clone(),
            title: breakdown.title.clone(),
            groups: self.groups(&breakdown.tag, &breakdown.order),
        });
        // A tag that no row has: a column of some forms of the data only.
        let breakdowns = breakdowns.filter(|breakdown| !breakdown.groups.is_empty()).collect();
        let recorded = self.summary.n_recorded;
        Summary {
            metrics: metrics.chain(question_groups).collect(),
            n,
            unread: self.unread.where_many(),
            value_over_expected: ratio(self.main.value, expected_main),
            agent_score: self.agent_score.map(|(fidelity, value)| AgentScoreSummary {
                fidelity,
                value: ratio(value, n),
                n,
            }),
            breakdowns,
            open_ended: (expected_open > 0).then(|| Group {
                label: "open-ended (exact match)".to_owned(),
                n: expected_open,
                value: ratio(self.open.value, expected_open),
            }),
            tools: ToolUse {
                calls_per_sample: ratio(self.calls as f64, recorded),
                share_with_calls: ratio(self.with_calls as f64, recorded),
                mean_window_seconds: (self.windows.n > 0).then(|| ratio(self.windows.value, self.windows.n)),
                ..self.summary.tools
            },
            complete: recorded == sizes.expected && self.summary.n_errors == 0,
            ..self.summary
        }
    }

    /// Group means of one tag. Where every row counts, a label's denominator is what the run must have of it, recorded
    /// or not.
    fn groups(&self, tag: &str, order: &[String]) -> Vec<Group> {
        let every_row = self.switches.errors == ErrorCounting::EveryExpectedRow;
        let sizes = self.selection.sizes.groups.get(tag).filter(|_| every_row);
        let mut sums: BTreeMap<&str, (Sum, usize)> = BTreeMap::new();
        for (label, size) in sizes.into_iter().flatten() {
            sums.entry(label).or_default().1 = *size;
        }
        for (label, sum) in self.groups.get(tag).into_iter().flatten() {
            sums.entry(label).or_default().0 = *sum;
        }
        let mut groups: Vec<Group> = sums
            .into_iter()
            .map(|(label, (sum, expected))| {
                let n = sum.n.max(expected);
                Group { label: label.to_owned(), n, value: ratio(sum.value, n) }
            })
            .collect();
        groups
            .sort_by_key(|group| order.iter().position(|label| *label == group.label).unwrap_or(order.len()));
        groups
    }
}
