//! Rows that have been read as the samples of a split, with the files that belong to them.

use std::path::PathBuf;

use super::benchmark::ReadSample;
use super::columns::Columns;
use super::{Benchmark, DataRoot, Dataset, NOT_PUBLISHED, Origin, Task as _, rows};
use crate::data::{AnnotationFiles, DataError, Folders, Rows};
use crate::profile::Profile;
use crate::sample::Sample;
use crate::videos::VideoStore;

/// Rows whose videos are looked for to tell which folder holds the videos.
const PROBED_ROWS: usize = 16;

impl Benchmark {
    /// The samples of rows with the files that belong to them.
    pub(super) fn dataset(
        &self,
        found: AnnotationFiles,
        rows: &Rows,
        root: &DataRoot,
        profile: Profile,
    ) -> Result<Dataset, DataError> {
        let read = self.read(rows, profile);
        let origin = self.origin(&rows.values, &read, profile);
        // Of several folders, the one that holds a video of the first rows.
        let candidates = self.folders(root, Some(&found));
        let holds_a_video = |folders: &&Folders| {
            let first = read.iter().take(PROBED_ROWS).filter_map(|read| read.as_ref().ok()?.as_ref());
            let video = |row: &Sample| self.layout().video(&folders.videos, &row.video, profile);
            first.into_iter().any(|row| folders.videos.join(video(row)).is_file())
        };
        let chosen = if candidates.len() > 1 { candidates.iter().find(holds_a_video) } else { None };
        let folders = chosen.unwrap_or(&candidates[0]);
        let complete = |(number, read): (usize, ReadSample)| {
            read?.map(|sample| self.find_files(sample, rows.place(number).0, folders, profile)).transpose()
        };
        let mut samples = rows::keep_usable(self.spec(), rows, read.into_iter().enumerate().map(complete))?;
        rows::refuse_uids_of_two_files(&samples, rows)?;
        let videos = VideoStore::new(&self.layout().benchmark, folders.videos.clone())
            .and_in(self.layout().other_folders(root));
        samples = samples.into_iter().map(|sample| sample.with_media(|path| videos.name(path))).collect();
        rows::make_uids_unique(&mut samples, profile);
        if matches!(origin, Origin::Other(_)) {
            samples.iter_mut().for_each(|sample| sample.flags.push(NOT_PUBLISHED.to_owned()));
        }
        let warning = self.subtitles_warning(&samples, rows.values.len());
        let empty = samples.is_empty().then(|| self.why_empty(&found, rows.values.len()));
        let (files, shows_subtitles) = (found.files, self.shows_subtitles());
        let revision = found.snapshot.map(|(_, revision)| revision);
        Ok(Dataset { samples, videos, files, revision, origin, shows_subtitles, warning, empty })
    }

    /// Why rows give no sample.
    fn why_empty(&self, found: &AnnotationFiles, rows: usize) -> String {
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files: Vec<String> = found.files.iter().map(name).collect();
        let only = self.description().row.as_ref().and_then(Columns::only);
        match (rows, only) {
            (0, _) => format!("no rows in {}", files.join(", ")),
            (_, Some(only)) => format!("row.only: {only} matches 0 of {rows} rows of {}", files.join(", ")),
            (_, None) => format!("none of the {rows} rows of {} counts", files.join(", ")),
        }
    }
}
