//! Where the inputs of two runs part: text, frames, their size and bytes, prompt tokens.

use std::collections::BTreeMap;

use paravt_suite::fingerprint::Fingerprint;
use paravt_suite::message::Role;
use paravt_suite::record::{Record, RecordedMessage, RecordedPart};
use serde::Serialize;

use crate::runs::Run;
use crate::table::Table;
use crate::terminal::{Text, counted};

/// Differences that are listed per split; the others are counted.
const LISTED: usize = 8;
/// Samples that are named of each difference.
const NAMED: usize = 3;

/// Inputs of one split in two runs.
#[derive(Debug, Clone, Serialize)]
pub struct Inputs {
    pub task: String,
    pub title: String,
    /// Samples that both runs showed to a model.
    pub pairs: usize,
    /// Samples of equal inputs, part by part.
    pub same: Vec<Same>,
    /// What differs, in words, with its samples; the most frequent first.
    pub differences: Vec<Difference>,
}

/// Pairs that are equal in one part of their inputs.
#[derive(Debug, Clone, Serialize)]
pub struct Same {
    /// `text`, `frames`, `size`, `bytes` or `prompt tokens`.
    pub part: &'static str,
    /// Pairs that are equal in it.
    pub same: usize,
    /// Pairs of which both runs say it.
    pub known: usize,
}

/// Pairs that differ alike.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// E.g. `same text, same frames, other size: 308x560 against 224x420`.
    pub words: String,
    pub samples: Vec<String>,
}

/// What the model was sent of one sample.
struct SampleInput {
    fingerprint: Fingerprint,
    prompt_tokens: Option<u64>,
}

/// A part of two inputs.
struct Part {
    name: &'static str,
    /// `None` where one of the runs does not say.
    same: Option<bool>,
    /// The two values, where words can show them.
    values: Option<(String, String)>,
}

/// Inputs of the splits that both sides have, in the order of A.
pub fn inputs(a: &[Run], b: &[Run]) -> Vec<Inputs> {
    let other = |run: &Run| b.iter().find(|other| other.manifest.task.name == run.manifest.task.name);
    a.iter().filter_map(|run| Some(of_split(run, other(run)?))).collect()
}

fn of_split(a: &Run, b: &Run) -> Inputs {
    let theirs = samples_asked(b);
    let mut same: Vec<Same> = Vec::new();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut pairs = 0;
    for (uid, ours) in samples_asked(a) {
        let Some(theirs) = theirs.get(uid) else { continue };
        pairs += 1;
        let parts = parts(&ours, theirs);
        for (place, part) in parts.iter().enumerate() {
            if same.len() == place {
                same.push(Same { part: part.name, same: 0, known: 0 });
            }
            same[place].known += usize::from(part.same.is_some());
            same[place].same += usize::from(part.same == Some(true));
        }
        if parts.iter().any(|part| part.same == Some(false)) {
            groups.entry(words(&parts)).or_default().push(uid.to_owned());
        }
    }
    let mut differences: Vec<Difference> =
        groups.into_iter().map(|(words, samples)| Difference { words, samples }).collect();
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.samples.len()));
    let task = &a.manifest.task;
    Inputs { task: task.name.clone(), title: task.title.clone(), pairs, same, differences }
}

/// The samples that a model was asked, by uid; repetitions show the same.
fn samples_asked(run: &Run) -> BTreeMap<&str, SampleInput> {
    let mut all = BTreeMap::new();
    for record in &run.records {
        let uid = record.sample.uid.as_str();
        if !all.contains_key(uid)
            && let Some(fingerprint) = fingerprint(record)
        {
            let first = record.transcript.calls.first().and_then(|call| call.usage);
            all.insert(
                uid,
                SampleInput { fingerprint, prompt_tokens: first.map(|usage| usage.prompt_tokens) },
            );
        }
    }
    all
}

/// The recorded fingerprint; of a record that was written before there were any, what its messages say.
fn fingerprint(record: &Record) -> Option<Fingerprint> {
    if let Some(inputs) = &record.transcript.inputs {
        return Some(inputs.clone());
    }
    let messages = &record.transcript.messages;
    let opening: Vec<&RecordedMessage> =
        messages.iter().take_while(|message| message.role != Role::Assistant).take(2).collect();
    if opening.is_empty() {
        return None;
    }
    let last_text = |message: &&RecordedMessage| {
        message.parts.iter().rev().find_map(|part| match part {
            RecordedPart::Text { text } => Some(text.clone()),
            _ => None,
        })
    };
    let texts: Vec<String> = opening.iter().filter_map(last_text).collect();
    let frames = opening.iter().flat_map(|message| &message.parts).flat_map(RecordedPart::frames);
    let frames = frames.map(|(origin, size)| (origin.map_or(usize::MAX, |origin| origin.index), size));
    Some(Fingerprint::of_parts(texts.iter().map(String::as_str), frames))
}

fn parts(a: &SampleInput, b: &SampleInput) -> [Part; 5] {
    let (ours, theirs) = (&a.fingerprint, &b.fingerprint);
    let any = ours.frames.is_some() || theirs.frames.is_some();
    let count = |of: &Fingerprint| of.count.map_or_else(|| "none".to_owned(), |count| count.to_string());
    let counts = (ours.count != theirs.count).then(|| (count(ours), count(theirs)));
    let size = |(width, height): (u32, u32)| format!("{width}x{height}");
    let sizes = ours.size.zip(theirs.size);
    let bytes = ours.bytes.as_ref().zip(theirs.bytes.as_ref());
    let tokens = a.prompt_tokens.zip(b.prompt_tokens);
    let part = |name, same, values| Part { name, same, values };
    [
        part("text", Some(ours.text == theirs.text), None),
        part("frames", any.then_some(ours.frames == theirs.frames), counts),
        part("size", sizes.map(|(a, b)| a == b), sizes.map(|(a, b)| (size(a), size(b)))),
        part("bytes", bytes.map(|(a, b)| a == b), None),
        part("prompt tokens", tokens.map(|(a, b)| a == b), None),
    ]
}

/// The parts one by one. Bytes go without saying where frames or size differ; tokens where anything before them does.
fn words(parts: &[Part; 5]) -> String {
    let differs = |parts: &[Part]| parts.iter().any(|part| part.same == Some(false));
    let said = parts.iter().enumerate().filter(|(place, part)| match part.name {
        "bytes" => !differs(&parts[1..*place]),
        "prompt tokens" => part.same == Some(false) && !differs(&parts[..*place]),
        _ => true,
    });
    let word = |(_, part): (usize, &Part)| match (part.same?, &part.values) {
        (true, _) => Some(format!("same {}", part.name)),
        (false, Some((a, b))) => Some(format!("other {}: {a} against {b}", part.name)),
        (false, None) => Some(format!("other {}", part.name)),
    };
    said.filter_map(word).collect::<Vec<_>>().join(", ")
}

/// Equal inputs by part, and the differences, as tables.
pub(super) fn tables(all: &[Inputs]) -> [Table; 2] {
    let same: Vec<(&Inputs, &Same)> =
        all.iter().flat_map(|inputs| inputs.same.iter().map(move |same| (inputs, same))).collect();
    let differences: Vec<(&Inputs, &Difference, &String)> = all
        .iter()
        .flat_map(|inputs| inputs.differences.iter().map(move |difference| (inputs, difference)))
        .flat_map(|(inputs, difference)| difference.samples.iter().map(move |uid| (inputs, difference, uid)))
        .collect();
    let same = Table::of("inputs", "Equal inputs", &same)
        .text("split", "split", |(inputs, _)| inputs.title.clone())
        .text("part", "part", |(_, same)| same.part.to_owned())
        .count("same", "same", |(_, same)| same.same)
        .count("known", "known in both", |(_, same)| same.known)
        .count("pairs", "pairs", |(inputs, _)| inputs.pairs)
        .table();
    let differences = Table::of("input_differences", "Inputs that differ", &differences)
        .text("split", "split", |(inputs, ..)| inputs.task.clone())
        .text("sample", "sample", |(.., uid)| (*uid).clone())
        .text("difference", "B against A", |(_, difference, _)| difference.words.clone())
        .table();
    [same, differences]
}

/// Adds the inputs to a comparison for a terminal.
pub(super) fn show(text: &mut Text, all: &[Inputs]) {
    for inputs in all {
        let parts = inputs.same.iter().filter(|same| same.known > 0).map(|same| {
            let of = if same.known == inputs.pairs { String::new() } else { format!(" of {}", same.known) };
            format!("{} {}{of}", same.part, same.same)
        });
        let parts: Vec<String> = parts.collect();
        text.line("");
        text.line(format!(
            "inputs of {}, {}; equal: {}",
            inputs.task,
            counted(inputs.pairs, "pair"),
            parts.join(", ")
        ));
        for Difference { words, samples } in inputs.differences.iter().take(LISTED) {
            let named = samples[..samples.len().min(NAMED)].join(", ");
            let more = if samples.len() > NAMED { ", …" } else { "" };
            text.line(format!("  {words}: {} ({named}{more})", counted(samples.len(), "sample")));
        }
        match inputs.differences.len().saturating_sub(LISTED) {
            0 => {}
            more => text.line(format!("  {}", counted(more, "further difference"))),
        }
    }
}
