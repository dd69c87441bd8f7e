//! Rows that cannot be asked: carried as errors while they are few.

use std::collections::HashMap;
use std::path::PathBuf;

use super::TaskSpec;
use crate::data::{DataError, Rows, excerpt};
use crate::profile::Profile;
use crate::sample::{Question, Sample};

/// Share of a split's rows that may be unusable, one row at the least: beyond it the file is not the
/// published one.
pub const MAX_DEFECTIVE: f64 = 0.01;

/// Flag of a sample whose published uid another row has too.
const DUPLICATE_UID: &str = "duplicate_uid";

/// The samples in row order, with a placeholder for each row that has no sample.
///
/// # Errors
/// Anything but a bad row; more bad rows than [`MAX_DEFECTIVE`].
pub(super) fn keep_usable(
    spec: &TaskSpec,
    rows: &Rows,
    read: impl Iterator<Item = Result<Option<Sample>, DataError>>,
) -> Result<Vec<Sample>, DataError> {
    let total = rows.values.len();
    let (mut samples, mut defective, mut first) = (Vec::with_capacity(total), 0, None);
    for (number, read) in read.enumerate() {
        match read {
            Ok(sample) => samples.extend(sample),
            Err(DataError::Row { path, row, column, message }) => {
                let defect = format!("{}, column `{column}`: {message}", rows.name_of(number));
                samples.push(placeholder(spec, number, defect));
                defective += 1;
                first.get_or_insert(DataError::Row { path, row, column, message });
            }
            Err(other) => return Err(other),
        }
    }
    let allowed = ((total as f64 * MAX_DEFECTIVE) as usize).max(1);
    match first {
        Some(first) if defective > allowed || defective == total => {
            Err(DataError::Rows { defective, rows: total, first: Box::new(first) })
        }
        _ => Ok(samples),
    }
}

/// A row that nothing can be asked about.
fn placeholder(spec: &TaskSpec, row: usize, defect: String) -> Sample {
    let (uid, video, gold) = (format!("row {row}"), PathBuf::new(), spec.metric.empty_gold());
    let sample = Sample::new(&spec.name, uid, row, video, Question::default(), gold);
    Sample { defect: Some(defect), ..sample }
}

/// Refuses rows of two files with one uid: they are not parts of one table, or one part is there twice.
///
/// # Errors
/// The second of the rows, with the place of the first.
pub(super) fn refuse_uids_of_two_files(samples: &[Sample], rows: &Rows) -> Result<(), DataError> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for sample in samples.iter().filter(|sample| sample.defect.is_none()) {
        let earlier = *seen.entry(&sample.uid).or_insert(sample.row);
        let (path, row) = rows.place(sample.row);
        if rows.place(earlier).0 != path {
            return Err(DataError::Format {
                path: path.to_owned(),
                message: format!(
                    "{row} has the id `{}` of {}; the files of layout.annotations are parts of one table, and \
                     another copy of a file belongs into layout.other_annotations",
                    excerpt(&sample.uid),
                    rows.name_of(earlier)
                ),
            });
        }
    }
    Ok(())
}

/// Adds the row to a uid that an earlier row has. The reference keys nothing by uid and asks both;
/// under `strict` the second is a defect, because one of the two is not what was published.
pub(super) fn make_uids_unique(samples: &mut [Sample], profile: Profile) {
    let mut rows: HashMap<String, usize> = HashMap::new();
    for sample in samples {
        if let Some(earlier) = rows.get(&sample.uid) {
            if profile == Profile::Strict && sample.defect.is_none() {
                sample.defect =
                    Some(format!("row {}: row {earlier} has the uid `{}`, too", sample.row, sample.uid));
            }
            sample.flags.push(DUPLICATE_UID.to_owned());
            sample.uid = format!("{}#{}", sample.uid, sample.row);
        }
        rows.insert(sample.uid.clone(), sample.row);
    }
}
