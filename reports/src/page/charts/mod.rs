//! The charts, one file each: plain numbers in, SVG out.

mod curves;
mod marks;
mod scores;
mod tools;

pub(super) use curves::{history, training};
pub(super) use scores::{breakdowns, legend, scores};
pub(super) use tools::{widths, windows};

use crate::Report;

/// Room for the names of runs, in pixels, and what fits there in characters.
const LEFT: f64 = 210.0;
const FITS: usize = 28;
/// Characters of a cut name that stay at its end, where models and labels differ.
const END: usize = 16;

/// Name of a run beside the others: its split, and the run where there are several of that split.
fn name(report: &Report, index: usize) -> String {
    let Some(cell) = report.cells.get(index) else { return String::new() };
    let name = match report.cells.iter().filter(|other| other.task == cell.task).count() {
        1 => cell.title.clone(),
        _ => format!("{} · {}", cell.task, cell.run),
    };
    match name.chars().count() {
        0..=FITS => name,
        long => {
            let end = name.chars().skip(long - END);
            name.chars().take(FITS - END - 1).chain(['…']).chain(end).collect()
        }
    }
}
