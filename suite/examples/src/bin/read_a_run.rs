//! Reads a run directory: what was run, and each sample's question, answer and tool calls.
//!
//! ```sh
//! cargo run -p paravt-examples --bin read_a_run -- RUN
//! ```

use std::error::Error;
use std::path::Path;

use paravt_suite::journal::read_run;
use paravt_suite::summary::summarize;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("expected RUN")?;
    let (manifest, contents) = read_run(Path::new(&dir))?;
    println!("{} by {}, {} records", manifest.task.title, manifest.backend.model, contents.records.len());
    for record in &contents.records {
        println!(
            "{} {:<40.40} {:>8} ({:?}), {} tool calls, {:.1} s",
            record.sample.uid,
            record.sample.question.stem,
            record.score.prediction.as_deref().unwrap_or("none"),
            record.score.outcome,
            record.transcript.tool_calls.len(),
            record.measured.seconds
        );
    }
    let summary =
        summarize(&manifest.task, manifest.plan.switches(), &manifest.records_selected(), &contents.records)?;
    println!("score {:.3}, complete: {}", summary.headline().value, summary.complete);
    Ok(())
}
