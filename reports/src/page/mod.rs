//! The page: one HTML file that opens from disk, works offline and runs nothing that a model wrote.
//!
//! Three fences around untrusted text: minijinja escapes everything it is given; transcripts travel
//! as base64 of gzip in inert script elements and are put on the page as text nodes only; and a
//! content security policy names the page's own script and style by hash and forbids all else.

mod about;
mod by_run;
mod charts;
mod live;
mod methods;
mod names;
mod provenance;
mod samples;
mod sections;
mod svg;
mod thumbnails;
mod visible;

pub use thumbnails::{Jpegs, Thumbnail, Thumbnails, Videos};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::DateTime;
use minijinja::{Environment, context};
use sha2::{Digest as _, Sha256};

use crate::Report;
use crate::gate::Entry;
use crate::paper::PaperError;
use crate::runs::{Damaged, ReportError, Run};
use crate::table::Table;

const STYLE: &str = include_str!("../../templates/style.css");
/// One script, so that the policy names one hash.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("../../templates/script/dom.js"),
    include_str!("../../templates/script/state.js"),
    include_str!("../../templates/script/tables.js"),
    include_str!("../../templates/script/transcript.js"),
    include_str!("../../templates/script/list.js"),
    include_str!("../../templates/script/start.js"),
    "})();\n"
);

/// Runs from which on what there is of each is folded away.
const MANY: usize = 12;

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
    let names = names::Names::new(&report.cells);
    let samples = samples::Packed::of(&ordered, (&names, &report.contrasts), thumbnails)?;
    let legend = charts::legend(&names);
    let judged = sections::contrasts(report).iter().flat_map(|contrast| &contrast.pairs);
    let judged = judged.filter(|pair| pair.p_holm.is_some()).count();
    render(
        "page.html",
        context! {
            measured => about::measured(report, &ordered),
            of_paper => report.is_of_paper(),
            published => sections::published(report)?,
            headlines => sections::headlines(report),
            incomplete => !report.complete(),
            many => Some(report.cells.len()).filter(|cells| *cells > MANY),
            crowd => Some(legend.len()).filter(|sets| *sets > MANY),
            legend,
            chart_of_scores => charts::scores(report, &names),
            breakdowns => charts::breakdowns(report, &names),
            tables => sections::of_study(&tables),
            by_run => by_run::table(report, &names, &tables),
            sections => sections::own(report),
            study => sections::study(report),
            scores => sections::scores(report, &names),
            unread => sections::unread(report),
            claims => sections::claims(report)?,
            windows => charts::windows(report),
            widths => charts::widths(report),
            training => charts::training(report, &ordered),
            methods => methods::methods(report, &ordered, judged),
            setups => sections::html(&sections::setups(report, &ordered).whole()),
            comparisons => sections::comparisons(report, &ordered),
            provenance => provenance::provenance(&ordered),
            deviations => provenance::deviations(report),
            index => samples.index,
            chunks => samples.chunks,
            samples => samples.samples,
            script => SCRIPT,
        },
    )
}

/// The tables that the page has beside [`Report::tables`]: the comparisons among the runs, and what they were measured
/// with.
pub fn tables(report: &Report, runs: &[Run]) -> Vec<Table> {
    let ordered: Vec<&Run> = report.cells.iter().filter_map(|cell| runs.get(cell.position)).collect();
    sections::compared(report, &ordered).into_iter().chain([sections::setups(report, &ordered)]).collect()
}

/// Where the page shows a sample of a run, with the same sample of another run beside it: the part of the address after
/// the file's name. Runs are given by their positions in the report; the address has their names, which stay when runs
/// are added.
pub fn address(report: &Report, run: usize, beside: Option<usize>, uid: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let encoded = |text: &str| text.bytes().map(encode).collect::<String>();
    let names = names::Names::new(&report.cells);
    let split = report.cells.get(run).map_or("", |cell| cell.task.as_str());
    let beside = beside.map_or_else(String::new, |other| format!("&beside={}", encoded(names.of(other))));
    format!("#sample={}&show={}{beside}", encoded(&format!("{split}/{uid}")), encoded(names.of(run)))
}

/// The page of runs while they run; `now` is Unix time in seconds.
pub fn live(runs: &[Run], damaged: &[Damaged], now: f64) -> Result<String, PageError> {
    let time = DateTime::from_timestamp(now as i64, 0).map(|time| time.format("%H:%M:%S").to_string());
    let names: Vec<String> = damaged.iter().map(|one| visible::visible(&one.run)).collect();
    let values = context! { runs => live::runs(runs, now), damaged => names.join(", "), time, script => "" };
    render("live.html", values)
}

/// The page of a gate's history.
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
    environment.add_template("live.html", include_str!("../../templates/live.html"))?;
    environment.add_template("history.html", include_str!("../../templates/history.html"))?;
    let hash = |text: &str| format!("sha256-{}", STANDARD.encode(Sha256::digest(text)));
    let base = context! { style => STYLE, style_hash => hash(STYLE), script_hash => hash(SCRIPT) };
    Ok(environment.get_template(name)?.render(context! { ..values, ..base })?)
}
