//! The page: one HTML file that opens from disk, works offline and runs nothing that a model wrote.
//!
//! Three fences around untrusted text: minijinja escapes everything it is given; transcripts travel
//! as base64 of gzip in inert script elements and are put on the page as text nodes only; and a
//! content security policy names the page's own script and style by hash and forbids all else.

mod about;
mod charts;
mod data;
mod methods;
mod provenance;
mod reference;
mod sections;
mod svg;
mod thumbnails;
mod visible;

pub use thumbnails::{Thumbnail, Thumbnails, Videos};

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Environment, context};
use sha2::{Digest as _, Sha256};

use crate::Report;
use crate::gate::Entry;
use crate::paper::PaperError;
use crate::runs::{ReportError, Run};

const STYLE: &str = include_str!("../../templates/style.css");
const SCRIPT: &str = include_str!("../../templates/page.js");

/// Runs from which on what there is of each is folded away: more than three of each published split.
const MANY: usize = 21;

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
    /// The published numbers are damaged.
    #[error(transparent)]
    Paper(#[from] PaperError),
}

/// The page of a report over the runs that it was built from, with thumbnails where there are any.
///
/// # Errors
/// The tables cannot be made; everything else would be a bug in this module.
pub fn page(report: &Report, runs: &[Run], thumbnails: &Thumbnails) -> Result<String, PageError> {
    let ordered: Vec<&Run> = report.cells.iter().filter_map(|cell| runs.get(cell.position)).collect();
    let tables = report.tables()?;
    let data = data::Data::of(&ordered, thumbnails)?;
    // A study asks its own questions of its runs.
    let pairs = match &report.study {
        Some(_) => BTreeMap::new(),
        None => reference::comparisons(&ordered),
    };
    render(
        "page.html",
        context! {
            measured => about::measured(report, &ordered),
            published => sections::published(report)?,
            headline => sections::headline(report, &pairs),
            incomplete => !report.complete(),
            many => Some(report.cells.len()).filter(|cells| *cells > MANY),
            forest => charts::forest(report),
            tables => sections::tables(&tables),
            study => sections::study(report),
            scores => sections::scores(report),
            claims => sections::claims(report),
            splits => sections::splits(report),
            windows => charts::windows(report),
            widths => charts::widths(report),
            training => charts::training(report, &ordered),
            methods => methods::methods(report, &ordered),
            setups => sections::setups(report, &ordered),
            comparisons => sections::comparisons(&ordered, &pairs),
            provenance => provenance::provenance(&ordered),
            deviations => provenance::deviations(report),
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
