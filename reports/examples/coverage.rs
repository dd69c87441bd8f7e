//! Coverage of the 95 % intervals on simulated runs, as the table that the page and the documents state.
//!
//!     cargo run --release -p paravt-reports --example coverage > reports/data/coverage.csv
#![allow(clippy::unwrap_used)]

#[path = "../tests/all/common/simulate/mod.rs"]
mod simulate;

use rayon::prelude::*;
use simulate::Setting;

fn main() {
    let mut table = csv::Writer::from_writer(std::io::stdout());
    for group in simulate::settings().chunk_by(|a, b| (a.kind, a.videos) == (b.kind, b.videos)) {
        let found: Vec<(f64, f64)> = group.par_iter().map(Setting::coverage).collect();
        table.serialize(simulate::row(group, &found)).unwrap();
        table.flush().unwrap();
    }
}
