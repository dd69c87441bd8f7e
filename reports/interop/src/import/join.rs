//! Rows of a log beside the samples of a split of this suite.

use std::collections::HashMap;
use std::path::PathBuf;

use paravt_suite::sample::Sample;

use super::error::ImportError;
use super::log::Log;

/// For each row of a log its sample, by the name of the sample, its upstream id, or the row of the published file.
///
/// # Errors
/// No row belongs to the split, or one has another gold answer than its sample: another version of the data numbers or
/// answers questions otherwise, and nothing would be right.
pub fn join(log: &Log, split: &str, samples: &[Sample]) -> Result<Vec<Option<Sample>>, ImportError> {
    let mut names: HashMap<&str, Option<&Sample>> = HashMap::new();
    for sample in samples {
        // An id that two samples have names neither.
        names.entry(&sample.id).and_modify(|known| *known = None).or_insert(Some(sample));
    }
    names.extend(samples.iter().map(|sample| (sample.uid.as_str(), Some(sample))));
    let rows: HashMap<usize, &Sample> = samples.iter().map(|sample| (sample.row, sample)).collect();
    let error = |message: String| ImportError::Join { path: PathBuf::from(log.name()), message };
    let mut found = Vec::with_capacity(log.rows.len());
    for row in &log.rows {
        let named = names.get(row.id.as_str()).copied().flatten();
        let sample = match row.row {
            // The tool counts rows: its ids are numbers that may be names of other samples.
            Some(number) => rows.get(&number).copied().or(named),
            None => named,
        };
        if let (Some(sample), Some(gold)) = (sample, &row.gold)
            && !same_gold(sample, gold)
        {
            return Err(error(format!(
                "row {}: sample {} has the gold answer `{}` here and `{}` in {split}: not the same questions",
                row.place, row.id, gold, sample.gold
            )));
        }
        found.push(sample.cloned());
    }
    if found.iter().all(Option::is_none) {
        let example = samples.first().map_or("", |sample| sample.uid.as_str());
        let first = log.rows.first().map_or("", |row| row.id.as_str());
        return Err(error(format!(
            "no row belongs to {split}: its samples are named like `{example}`, the rows like `{first}`"
        )));
    }
    Ok(found)
}

/// The same letter, text, interval or number; a choice may be given by the text of its option.
fn same_gold(sample: &Sample, gold: &str) -> bool {
    let (ours, theirs) = (sample.gold.to_string(), gold.trim());
    let option = || {
        let position = sample.question.letters.find(ours.as_str())?;
        sample.question.options.get(position)
    };
    let numbers = |text: &str| -> Option<Vec<f64>> {
        let parts = text.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().ok()).collect()
    };
    ours.eq_ignore_ascii_case(theirs)
        || option().is_some_and(|option| option.trim() == theirs)
        || (!sample.question.letters.contains(theirs)
            && sample.question.letters.is_empty()
            && numbers(&ours).is_some_and(|ours| !ours.is_empty() && Some(ours) == numbers(theirs)))
}
