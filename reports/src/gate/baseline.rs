//! A baseline: what runs measured, sample by sample, and the rule that later runs are judged by.
//!
//! ```text
//! {"version":1,"sha256":"…","body":{"rule":…,"splits":[{"manifest":…,"n":16,"records":[…]}],…}}
//! ```
//!
//! The hash is over the bytes of `body`: a baseline that was cut, doubled or edited by hand is refused. The
//! counts and ranges inside are checked as well.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paravt_files::{read_limited, sha256, write_named};
use paravt_suite::record::{RECORD_VERSION, Record, Transcript};
use paravt_suite::run::{Manifest, RUN_VERSION};
use paravt_suite::sample::Question;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::benches::Estimate;
use super::seeds::Seeds;
use super::{GateError, Rule, ScoreRule, measurement};
use crate::decide::Lost;
use crate::runs::{Run, check_record};
use crate::training::Training;

/// Bytes that a baseline may have.
const MAX_FILE: u64 = 4 << 30;
const VERSION: u64 = 1;

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub rule: Rule,
    /// One entry per run.
    pub splits: Vec<Split>,
    /// Scores of several training seeds, where the rule is [`ScoreRule::Seeds`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Seeds>,
    /// Criterion's estimates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub benches: Vec<Estimate>,
}

/// One run of one split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Settings of the run, machine aside.
    pub manifest: Manifest,
    pub n: usize,
    /// Samples without a full answer.
    pub lost: Lost,
    /// Every sample with what the checks need: the transcript is left out.
    pub records: Vec<Record>,
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct File<'a> {
    version: u64,
    sha256: String,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl Baseline {
    /// The baseline that runs make.
    ///
    /// # Errors
    /// An invalid rule; a run that is incomplete, failed, or measures the same as another one.
    pub fn of(runs: &[Run], rule: Rule, benches: Vec<Estimate>) -> Result<Self, GateError> {
        rule.check().map_err(GateError::Rule)?;
        if runs.is_empty() && benches.is_empty() {
            return Err(GateError::Rule("a baseline needs a run or a bench".to_owned()));
        }
        for run in runs {
            fit(run, &rule)?;
        }
        if rule.score == ScoreRule::Seeds {
            let seeds = Seeds::of(runs)?;
            return Ok(Self { rule, splits: Vec::new(), seeds: Some(seeds), benches });
        }
        for (number, run) in runs.iter().enumerate() {
            let same =
                |other: &&Run| measurement::differences(&other.manifest, &run.manifest, &rule).is_empty();
            if let Some(other) = runs[..number].iter().find(same) {
                return Err(unfit(run, &format!("it is the same measurement as {}; give one", name(other))));
            }
        }
        Ok(Self { rule, splits: runs.iter().map(Split::of).collect(), seeds: None, benches })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, of another version, or was changed since it was written.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let bytes =
            read_limited(path, MAX_FILE).map_err(|source| GateError::Io { path: path.to_owned(), source })?;
        let (baseline, _) =
            Self::parse(&bytes).map_err(|message| GateError::Damaged { path: path.to_owned(), message })?;
        Ok(baseline)
    }

    fn parse(bytes: &[u8]) -> Result<(Self, String), String> {
        let again = "make it again with --write";
        let Version { version } =
            serde_json::from_slice(bytes).map_err(|error| format!("not a baseline: {error}; {again}"))?;
        if version > VERSION {
            return Err(format!(
                "written by a newer version (format {version}, this build reads {VERSION}); update paravt-bench"
            ));
        }
        let file: File<'_> = serde_json::from_slice(bytes).map_err(|error| match error.is_data() {
            true => format!("not a baseline: {error}; name one that `check --write` has made"),
            false => format!("{error}; {again}"),
        })?;
        let hash = sha256(file.body.get());
        if hash != file.sha256 {
            return Err(format!("the file was changed after it was written: its hash differs; {again}"));
        }
        let baseline: Self =
            serde_json::from_str(file.body.get()).map_err(|error| format!("{error}; {again}"))?;
        baseline.verify().map_err(|message| format!("{message}; {again}"))?;
        Ok((baseline, hash))
    }

    /// Writes the file, one sample a line, so that a change of it can be read. What is written is read
    /// back before it takes the place of an older baseline.
    ///
    /// # Errors
    /// It cannot be written, or could not be read again.
    pub fn write(&self, path: &Path) -> Result<(), GateError> {
        let damaged = |message: String| GateError::Damaged { path: path.to_owned(), message };
        let text = self.text().map_err(|error| damaged(format!("cannot be written: {error}")))?;
        match Self::parse(text.as_bytes()) {
            Ok((read, _)) if read == *self => {}
            Ok(_) => return Err(damaged("not written: it would not read back as it is".to_owned())),
            Err(message) => return Err(damaged(format!("not written: {message}"))),
        }
        write_named(path, text.as_bytes()).map_err(|source| GateError::Io { path: path.to_owned(), source })
    }

    /// SHA-256 of the content: the identity by which a history knows its baseline.
    pub fn hash(&self) -> String {
        sha256(self.body().expect("plain structs with string keys serialise"))
    }

    fn body(&self) -> Result<String, serde_json::Error> {
        // One line per record: its opening brace follows a comma or the bracket of the list.
        let mut body = format!("{{\"rule\":{},\n\"splits\":[", serde_json::to_string(&self.rule)?);
        for (number, split) in self.splits.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let manifest = serde_json::to_string(&split.manifest)?;
            let lost = serde_json::to_string(&split.lost)?;
            body += &format!(
                "{comma}\n{{\"manifest\":{manifest},\"n\":{},\"lost\":{lost},\"records\":[",
                split.n
            );
            let records: Vec<String> =
                split.records.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            body += &format!("\n{}]}}", records.join(",\n"));
        }
        body += "]";
        if let Some(seeds) = &self.seeds {
            body += &format!(",\n\"seeds\":{}", serde_json::to_string(seeds)?);
        }
        if !self.benches.is_empty() {
            body += &format!(",\n\"benches\":{}", serde_json::to_string(&self.benches)?);
        }
        Ok(body + "}")
    }

    fn text(&self) -> Result<String, serde_json::Error> {
        let body = self.body()?;
        let sha256 = sha256(&body);
        let body = RawValue::from_string(body)?;
        Ok(serde_json::to_string(&File { version: VERSION, sha256, body: &body })? + "\n")
    }

    fn verify(&self) -> Result<(), String> {
        self.rule.check()?;
        if (self.rule.score == ScoreRule::Seeds) != self.seeds.is_some() {
            return Err("the rule and the scores of seeds do not belong together".to_owned());
        }
        self.seeds.iter().try_for_each(Seeds::verify)?;
        self.benches.iter().try_for_each(Estimate::verify)?;
        self.splits.iter().try_for_each(Split::verify)
    }
}

fn name(run: &Run) -> String {
    format!("{} ({})", run.manifest.task.name, run.manifest.display_name())
}

fn unfit(run: &Run, why: &str) -> GateError {
    GateError::Unfit { run: name(run), why: why.to_owned() }
}

/// Refuses a run that cannot be a baseline: incomplete, failed, or not deterministic where answers are compared.
fn fit(run: &Run, rule: &Rule) -> Result<(), GateError> {
    let summary = run.summary()?;
    let (recorded, expected) = (run.records.len(), run.manifest.expected_records());
    if recorded != expected || expected == 0 {
        return Err(unfit(run, &format!("it is incomplete: {recorded} of {expected} samples")));
    }
    if summary.n_errors == recorded {
        return Err(unfit(run, "every sample failed"));
    }
    if let Some(why) = Lost::of(&run.records).excess_over(&Lost::default()) {
        return Err(unfit(run, &format!("{why}: repair the data or the server and redo them with --resume")));
    }
    if matches!(rule.score, ScoreRule::Exact { .. }) && !run.manifest.plan.is_greedy() {
        let temperature = run.manifest.plan.temperature_text();
        return Err(unfit(
            run,
            &format!(
                "--changed compares answers one by one, which needs temperature 0, not one {temperature}"
            ),
        ));
    }
    Ok(())
}

impl Split {
    fn of(run: &Run) -> Self {
        let bare = |record: &Record| {
            let mut record = record.clone();
            let frame_loss = record.transcript.frame_loss.take().map(|_| "frames lost".to_owned());
            record.transcript = Transcript { frame_loss, ..Transcript::default() };
            record.sample.question = Question::default();
            record.sample.tags.clear();
            if let Some(error) = &mut record.error {
                // A server's words may hold its address.
                error.message.clear();
            }
            record.measured.call_seconds.clear();
            record.measured.call_retries.clear();
            record.measured.first_token_seconds.clear();
            record
        };
        Self {
            manifest: measurement::kept(&run.manifest),
            n: run.records.len(),
            lost: Lost::of(&run.records),
            records: run.records.iter().map(bare).collect(),
        }
    }

    /// As a run, for pairing.
    pub(super) fn run(&self) -> Run {
        Run {
            path: PathBuf::new(),
            manifest: self.manifest.clone(),
            records: self.records.clone(),
            torn_bytes: 0,
            training: Training::default(),
        }
    }

    fn verify(&self) -> Result<(), String> {
        let manifest = &self.manifest;
        let task = &manifest.task.name;
        if manifest.version > RUN_VERSION || self.records.iter().any(|record| record.version > RECORD_VERSION)
        {
            return Err(format!("{task}: runs of a newer version; update paravt-bench"));
        }
        let (found, n, expected) = (self.records.len(), self.n, manifest.expected_records());
        if found != n || n != expected || n == 0 {
            return Err(format!("{task}: {found} records where {n} were written and {expected} were run"));
        }
        // The model calls are left out, so that aborted ones can be counted no more.
        let again = Lost { aborted: self.lost.aborted, rows: self.lost.rows, ..Lost::of(&self.records) };
        if again != self.lost || self.lost.rows > n {
            return Err(format!("{task}: the counts of lost samples do not belong to its records"));
        }
        let keys: BTreeSet<(&str, usize)> = self.records.iter().map(Record::key).collect();
        if keys.len() != found {
            return Err(format!("{task}: it holds a sample twice"));
        }
        for record in &self.records {
            let of = |message: String| format!("{task}: sample `{}`: {message}", record.sample.uid);
            check_record(manifest, record).map_err(of)?;
        }
        Ok(())
    }
}
