//! The page: one HTML file that opens from disk, works offline and runs nothing that a model wrote.
//!
//! Three fences around untrusted text: minijinja escapes everything it is given; transcripts travel
//! as base64 of gzip in inert script elements and are put on the page as text nodes only; and a
//! content security policy names the page's own script and style by hash and forbids all else.

mod charts;
mod data;
mod provenance;
mod reference;
mod sections;
mod svg;
mod thumbnails;
mod visible;

pub use thumbnails::{Thumbnail, Thumbnails, Videos};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Environment, context};
use sha2::{Digest as _, Sha256};

use crate::Report;
use crate::gate::Entry;
use crate::runs::{ReportError, Run};

const STYLE: &str = include_str!("../../templates/style.css");
const SCRIPT: &str = include_str!("../../templates/page.js");

/// Runs from which on what there is of each is folded away: more than three of each published split.
const MANY: usize = 21;

/// How the numbers of the page are made: term and sentence.
const METHODS: [(&str, &str); 8] = [
    (
        "intervals",
        "95 %, clustered by video: CR1 standard error (G/(G-1)) and Student's t with G-1 degrees of freedom for G \
         videos; scores by the score interval on the effective sample size, so that none has a width of zero. One \
         video has no interval; fewer than ten are marked as weak. Simulated coverage is 95 % within its Monte-Carlo \
         error, 92 % at worst (scores near 100 % with strongly correlated answers).",
    ),
    (
        "verdicts",
        "Reproduced: the whole interval of the difference lies inside the margin. Better or worse: the whole interval \
         lies beyond it. Everything else is inconclusive. P-values are corrected by Holm over the splits of one \
         published row, claim or comparison.",
    ),
    (
        "margin of a score",
        "Four binomial standard errors of the published score, at most 5 points. The published number is a point; \
         the interval is ours.",
    ),
    (
        "margin of a claim",
        "Half of a claimed difference or gain (at least 0.1 points); differences are paired on the samples of both \
         runs. A margin of zero between two runs.",
    ),
    (
        "not comparable",
        "A run counts beside a published number only with the published profile, protocol, mode, channel, frames, \
         turns, calls at once, crops, sampling, engine and number type, and with as many rows and videos.",
    ),
    (
        "data not verified",
        "No SHA-256 of the published annotations is known for this benchmark. The rows agree with the published ones \
         in their number, their videos and, where such counts are published, in the rows of each label; other rows \
         make a run not comparable.",
    ),
    (
        "rows without an answer",
        "Failed rows, replies aborted by the server and questions sent without frames count as wrong, as in the \
         reference. Up to 0.5 % of the rows are carried and shown; more make a run not comparable.",
    ),
    (
        "training",
        "A claim about a training is judged only by trainings of the same recipe, base model and size, with an \
         interval over seeds.",
    ),
];

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A template does not render.
    #[error("the page's template is damaged: {0}")]
    Template(#[from] minijinja::Error),
    /// Transcripts cannot be packed.
    #[error("the transcripts could not be packed: {0}")]
    Data(#[from] std::io::Error),
    /// The tables cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// The page of a report over the runs that it was built from, with thumbnails where there are any.
///
/// # Errors
/// The tables cannot be made; everything else would be a bug in this module.
pub fn page(report: &Report, runs: &[Run], thumbnails: &Thumbnails) -> Result<String, PageError> {
    let ordered: Vec<&Run> = report.details.runs.iter().filter_map(|&index| runs.get(index)).collect();
    let tables = report.tables()?;
    let data = data::Data::of(&ordered, thumbnails)?;
    render(
        "page.html",
        context! {
            headline => sections::headline(report),
            incomplete => !report.complete(),
            many => Some(report.cells.len()).filter(|cells| *cells > MANY),
            forest => charts::forest(report),
            tables => sections::tables(&tables),
            study => sections::study(report),
            scores => sections::scores(report),
            claims => sections::claims(&tables),
            splits => sections::splits(report),
            windows => charts::windows(report),
            widths => charts::widths(report),
            training => charts::training(report, &ordered),
            methods => METHODS,
            // A study asks its own questions of its runs.
            comparisons => report.study.is_none().then(|| sections::comparisons(&ordered)).flatten(),
            provenance => provenance::provenance(&ordered),
            index => data.index,
            chunks => data.chunks,
            samples => data.samples,
            script => SCRIPT,
        },
    )
}

/// Where the page shows a sample: the part of the address after the file's name. `run` is the run's
/// position in the report.
pub fn address(run: usize, uid: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("#sample={run}/{}", uid.bytes().map(encode).collect::<String>())
}

/// The page of a gate's history.
///
/// # Errors
/// The template is damaged.
pub fn history(entries: &[Entry]) -> Result<String, PageError> {
    render(
        "history.html",
        context! { charts => charts::history(entries), entries => provenance::history(entries), script => "" },
    )
}

fn render(name: &str, values: minijinja::Value) -> Result<String, PageError> {
    let mut environment = Environment::new();
    environment.add_template("base.html", include_str!("../../templates/base.html"))?;
    environment.add_template("macros.html", include_str!("../../templates/macros.html"))?;
    environment.add_template("page.html", include_str!("../../templates/page.html"))?;
    environment.add_template("history.html", include_str!("../../templates/history.html"))?;
    let hash = |text: &str| format!("sha256-{}", STANDARD.encode(Sha256::digest(text)));
    let base = context! { style => STYLE, style_hash => hash(STYLE), script_hash => hash(SCRIPT) };
    Ok(environment.get_template(name)?.render(context! { ..values, ..base })?)
}
