//! Compares two runs of one split sample by sample: the difference of their scores with an interval over
//! videos.
//!
//! ```sh
//! cargo run -p paravt-examples --bin compare_two_runs -- RUN_A RUN_B
//! ```

use std::error::Error;
use std::path::PathBuf;

use paravt_reports::compare::{compare_counted, terminal};
use paravt_reports::count_runs;
use paravt_reports::terminal::Detail;

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [a, b] = folders.as_slice() else { return Err("expected RUN_A RUN_B".into()) };
    let (a, b) = (count_runs(std::slice::from_ref(a))?, count_runs(std::slice::from_ref(b))?);
    print!("{}", terminal(&compare_counted(&a, &b)?, Detail::Full));
    Ok(())
}
