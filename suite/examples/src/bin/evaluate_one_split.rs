//! Evaluates LVBench on a model behind an OpenAI-compatible endpoint, and prints the score.
//!
//! ```sh
//! cargo run -p paravt-examples --bin evaluate_one_split -- http://localhost:8000/v1 DATA RUN
//! ```
//!
//! DATA has the layout of `$HF_HOME`; RUN is the run directory. Called again, it continues the run.

use std::error::Error;
use std::sync::Arc;

use paravt_backend_openai::{Config, OpenAi};
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::{Evaluation, Event, RunConfig, Workspace, prepare};
use paravt_suite::protocol::native;
use paravt_task_lvbench::LVBENCH;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base_url, data, dir] = arguments.as_slice() else { return Err("expected URL DATA RUN".into()) };

    let protocol = native::protocol();
    let bound = paravt_agents::bind(protocol)?;
    let config = RunConfig { nframes: Some(32), resume: true, ..RunConfig::default() };
    println!("{config}");
    let run = Evaluation::new(&LVBENCH, config, bound, dir);
    let workspace = Workspace::new(DataRoot::new(data));

    // Missing data or another run in RUN shows here, before a server is asked.
    let prepared = prepare(&run, &workspace)?;
    let backend = Arc::new(OpenAi::connect(Config::new([base_url])).await?);
    let observer = Arc::new(|event: Event<'_>| {
        if let Event::Recorded(record) = event {
            println!("{}: {:?}", record.sample.uid, record.score.prediction);
        }
    });
    let outcome = prepared.run(backend, observer).await?;
    println!(
        "{:?}: accuracy {:.3}, {} failed",
        outcome.ended,
        outcome.summary.headline().value,
        outcome.failed
    );
    Ok(())
}
