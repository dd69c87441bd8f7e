//! `Benchmark`: a published split as a description and the mapping of its rows.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use paravt_files::read_limited;
use serde::de::DeserializeOwned;

use super::description::{Description, Doubtful};
use super::{
    DataCheck, DataRoot, Dataset, Inspect, KeptQuirks, Published, Quirks, RowContext, Task, TaskSpec, check,
    options,
};
use crate::data::{AnnotationFiles, DataError, Folders, JsonRow, Layout, PublishedRow, Rows};
use crate::profile::Profile;
use crate::sample::Sample;
use crate::scoring::Scorer;

/// Bytes that a subtitle file may have; the published ones are below one million.
const MAX_SUBTITLES: u64 = 16 << 20;
/// Flag of a sample without subtitles in a split that shows them.
pub const NO_SUBTITLES: &str = "no_subtitles";

/// Makes the sample of one row; `None` for a row that does not count under the profile.
pub type ReadRow = fn(&RowContext<'_>) -> Result<Option<Sample>, DataError>;
/// What became of a row; nothing for one that does not count.
pub(super) type ReadSample = Result<Option<Sample>, DataError>;
/// The text that is shown of the content of a file of subtitles; empty for none.
pub type SubtitleText = fn(content: &str, quirks: KeptQuirks<'_>) -> String;

/// A struct of published columns that becomes a sample.
pub trait IntoSample: DeserializeOwned {
    /// The sample; `None` where the row does not count under the profile. Reads no file: paths are checked
    /// and relative, videos and subtitles are found by the loader.
    ///
    /// # Errors
    /// No sample can be made of the row: the error names the column.
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError>;
}

/// [`ReadRow`] of a struct of columns.
pub fn read<R: IntoSample>(cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
    cx.published.read::<R>()?.into_sample(cx)
}

/// A published split: its description and the mapping of its rows, by code or by the description's table `row`.
///
/// ```
/// use paravt_suite::data::{DataError, Id};
/// use paravt_suite::sample::{Gold, Question, Sample};
/// use paravt_suite::task::{Benchmark, IntoSample, RowContext, Task as _, letters, read};
///
/// static CLIPS: Benchmark = Benchmark::new(
///     r#"
///     name = "clips"
///     title = "Clips (test)"
///     expected_rows = 200
///     expected_videos = 40
///     metric = { kind = "accuracy" }
///     hub = { repos = ["owner/clips"], split = "test", annotations = "test.json", media = [], license = "MIT" }
///     layout = { benchmark = "clips", annotations = ["test.json"], videos = ["clips"] }
///     "#,
///     read::<Row>,
/// );
///
/// #[derive(serde::Deserialize)]
/// struct Row {
///     id: Id,
///     video: String,
///     question: String,
///     options: Vec<String>,
///     answer: String,
/// }
///
/// impl IntoSample for Row {
///     fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
///         let letters = letters(self.options.len());
///         let mut flags = Vec::new();
///         let answer = cx.letter("answer", &self.answer, &letters, &mut flags)?;
///         let question = Question { stem: self.question, options: self.options, letters, subtitles: None };
///         let video = cx.path("video", &self.video)?;
///         Ok(Some(Sample { flags, ..cx.sample(self.id.0, video, question, Gold::Choice { answer }) }))
///     }
/// }
///
/// assert_eq!(CLIPS.spec().expected_rows, 200);
/// ```
pub struct Benchmark {
    toml: &'static str,
    changes: &'static str,
    /// Mapping of rows where it is code.
    read: Option<ReadRow>,
    subtitles: Option<SubtitleText>,
    scorer: Option<&'static dyn Scorer>,
    description: OnceLock<Description>,
    /// Looked into first, where no folder of data is named: that of a task file.
    folder: Option<PathBuf>,
}

impl Benchmark {
    /// The benchmark of a `benchmark.toml` that is compiled in; it is parsed when it is first used.
    pub const fn new(toml: &'static str, read: ReadRow) -> Self {
        Self::of(toml, Some(read))
    }

    /// The same whose description has a table `row`, which says which columns make a sample.
    pub const fn described(toml: &'static str) -> Self {
        Self::of(toml, None)
    }

    const fn of(toml: &'static str, read: Option<ReadRow>) -> Self {
        Self {
            toml,
            changes: "",
            read,
            subtitles: None,
            scorer: None,
            description: OnceLock::new(),
            folder: None,
        }
    }

    pub(super) fn of_file(description: Description, folder: PathBuf) -> Self {
        Self { description: OnceLock::from(description), folder: Some(folder), ..Self::described("") }
    }

    /// Says how many rows and videos there are.
    pub(super) fn expect(&mut self, rows: usize, videos: usize) {
        if let Some(Description { spec, .. }) = self.description.get_mut() {
            (spec.expected_rows, spec.paper_rows, spec.expected_videos) = (rows, rows, videos);
        }
    }

    /// Whether the task is a user's file and not part of the build.
    pub fn is_file(&self) -> bool {
        self.folder.is_some()
    }

    /// Folder of the task file; `None` for a task of the build.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The root, where it names no folder of data, with that of the task file.
    fn with_task_dir(&self, root: &DataRoot) -> DataRoot {
        DataRoot { data: root.data.clone().or_else(|| self.folder.clone()), ..root.clone() }
    }

    /// The folder of the task file as a root, where another folder of data is named.
    fn task_dir_root(&self, root: &DataRoot) -> Option<DataRoot> {
        let folder = self.folder.clone().filter(|folder| root.data.as_ref() != Some(folder))?;
        Some(DataRoot { data: Some(folder), ..root.clone() })
    }

    /// The files of rows below a root, else beside the task file, and the rows.
    fn rows(&self, root: &DataRoot) -> Result<(AnnotationFiles, Rows), DataError> {
        let found = self.annotations(root)?;
        let rows = Rows::read(&found.files, self.layout().pictures.as_deref())?;
        Ok((found, rows))
    }

    /// The files of rows below a root, else beside the task file.
    fn annotations(&self, root: &DataRoot) -> Result<AnnotationFiles, DataError> {
        let (spec, layout) = (self.spec(), self.layout());
        let found = layout.annotations(root, &spec.name, &spec.hub);
        let (Err(DataError::Missing { looked, .. }), Some(beside)) = (&found, self.task_dir_root(root))
        else {
            return found;
        };
        let before = looked.clone();
        layout.annotations(&beside, &spec.name, &spec.hub).map_err(|error| match error {
            DataError::Missing { task, what, looked, remedy } => {
                DataError::Missing { task, what, looked: [before, looked].concat(), remedy }
            }
            other => other,
        })
    }

    /// Folders of the files of rows, those beside the task file last.
    pub(super) fn folders(&self, root: &DataRoot, annotations: Option<&AnnotationFiles>) -> Vec<Folders> {
        let mut folders = self.layout().folders(root, annotations);
        if let Some(beside) = self.task_dir_root(root) {
            folders.extend(self.layout().folders(&beside, annotations));
        }
        folders
    }

    /// Another split of the same files: `changes` is TOML whose values replace those of the description.
    pub const fn with_changes(mut self, changes: &'static str) -> Self {
        self.changes = changes;
        self
    }

    /// Shows the subtitles of the video: `STEM.srt`, or with the layout's extension, in its folder of subtitles.
    pub const fn with_subtitles(mut self, text: SubtitleText) -> Self {
        self.subtitles = Some(text);
        self
    }

    /// Scores by the rules that the benchmark was published with, except under `strict`.
    pub const fn with_scorer(mut self, scorer: &'static dyn Scorer) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// Whether subtitles are part of the questions.
    pub(super) fn shows_subtitles(&self) -> bool {
        self.subtitles.is_some()
    }

    /// Whether `all` names the split too.
    pub fn is_part_of_all(&self) -> bool {
        self.description().part_of_all
    }

    pub(super) fn description(&self) -> &Description {
        let parse = || Description::parse(self.toml, self.changes);
        self.description.get_or_init(|| {
            parse().unwrap_or_else(|error| panic!("{error}: a benchmark that is compiled in parses"))
        })
    }

    /// Paths of the files below a data root.
    pub fn layout(&self) -> &Layout {
        &self.description().layout
    }

    /// Facts about the published rows.
    pub fn published(&self) -> &Published {
        &self.description().published
    }

    /// Quirks of the reference, by the profiles that keep them.
    pub fn quirks(&self) -> &Quirks {
        &self.description().quirks
    }

    /// The sample of one row, as published: the video's path is relative, and no file is read.
    ///
    /// # Errors
    /// No sample can be made of the row: the error names file, row and column.
    pub fn sample(
        &self,
        file: &Path,
        row: usize,
        value: &JsonRow,
        profile: Profile,
    ) -> Result<Option<Sample>, DataError> {
        self.sample_of(row, PublishedRow { file, row: row.into(), value }, profile)
    }

    /// The sample of the row of this number in the split.
    fn sample_of(
        &self,
        number: usize,
        published: PublishedRow<'_>,
        profile: Profile,
    ) -> Result<Option<Sample>, DataError> {
        let quirks = self.quirks().under(profile);
        let cx = RowContext { task: &self.spec().name, number, profile, quirks, published };
        let mut sample = match (self.read, &self.description().row) {
            (Some(read), _) => read(&cx),
            (None, Some(columns)) => columns.sample(&cx),
            (None, None) => panic!("{}: neither code nor a table `row` makes samples", cx.task),
        }?;
        if let Some(Sample { question, gold, flags, tags, .. }) = &mut sample {
            self.spec().metric.member(tags).map_err(|(tag, message)| cx.error(tag, message))?;
            flags.extend(options::flags(question, gold).map(str::to_owned));
        }
        Ok(sample)
    }

    /// The samples of rows, as published.
    pub(super) fn read(&self, rows: &Rows, profile: Profile) -> Vec<ReadSample> {
        rows.iter().enumerate().map(|(number, row)| self.sample_of(number, row, profile)).collect()
    }

    /// Finds the files of a sample: its video, still relative to its folder, and its subtitles where the split shows
    /// them.
    ///
    /// # Errors
    /// The file of the subtitles is there and is not a regular, readable file of at most 16 MiB. Only `strict` refuses
    /// a folder in its place: the reference goes on without subtitles.
    pub fn find_files(
        &self,
        mut sample: Sample,
        file: &Path,
        folders: &Folders,
        profile: Profile,
    ) -> Result<Sample, DataError> {
        if let Some(shown) = self.subtitles {
            let content = folders.subtitles.as_ref().map(|folder| {
                let name = sample.video.with_extension(&self.layout().subtitle_extension);
                subtitles(folder, &name, profile)
            });
            let content = content.transpose().map_err(|(name, error)| DataError::Row {
                path: file.to_owned(),
                row: sample.row.into(),
                column: "subtitles".to_owned(),
                message: format!("{name}: {error}"),
            })?;
            let text = content.flatten().map(|content| shown(&content, self.quirks().under(profile)));
            sample.question.subtitles = text.filter(|text| !text.is_empty());
            if sample.question.subtitles.is_none() {
                sample.flags.push(NO_SUBTITLES.to_owned());
            }
        }
        Ok(sample.with_media(|path| self.layout().video(&folders.videos, path, profile)))
    }
}

/// Content of a file of subtitles; `None` when there are none. Bytes that are not UTF-8 are dropped, as
/// by upstream, which reads with errors ignored.
fn subtitles(
    folder: &Path,
    name: &Path,
    profile: Profile,
) -> Result<Option<String>, (String, std::io::Error)> {
    let file = folder.join(name);
    match read_limited(&file, MAX_SUBTITLES) {
        Ok(bytes) => Ok(Some(bytes.utf8_chunks().map(|chunk| chunk.valid()).collect())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(_) if profile != Profile::Strict && file.is_dir() => Ok(None),
        Err(error) => Err((name.display().to_string(), error)),
    }
}

impl Task for Benchmark {
    fn spec(&self) -> &TaskSpec {
        &self.description().spec
    }

    fn scorer(&self) -> Option<&'static dyn Scorer> {
        self.scorer
    }

    fn is_about_images(&self) -> bool {
        self.description().images
    }

    fn doubtful(&self) -> &[Doubtful] {
        &self.description().doubtful
    }

    fn kept_quirks(&self, profile: Profile) -> Vec<String> {
        let kept = self.quirks().iter().filter(|(_, profiles)| profiles.contains(&profile));
        kept.map(|(name, _)| name.to_owned()).collect()
    }

    fn load(&self, root: &DataRoot, profile: Profile) -> Result<Dataset, DataError> {
        let root = &self.with_task_dir(root);
        let (found, rows) = self.rows(root)?;
        self.dataset(found, &rows, root, profile)
    }

    fn check(&self, root: &DataRoot, how: &dyn Inspect) -> DataCheck {
        // Published rows have quirks that `strict` refuses; rows of one's own are to be sound.
        let profile = if self.is_file() { Profile::Strict } else { Profile::Release };
        let (root, reported) = (&self.with_task_dir(root), &self.description().reported);
        let loaded = self.rows(root).and_then(|(found, rows)| {
            let dataset = self.dataset(found, &rows, root, profile)?;
            Ok(Dataset { origin: self.origin_under_all(&rows), ..dataset })
        });
        check::check(self.spec(), self.layout(), loaded, root, (reported, self.doubtful()), how)
    }
}
