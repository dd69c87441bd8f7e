//! A backend of one's own: it always answers with the same letter. What it scores is what guessing
//! scores.
//!
//! ```sh
//! cargo run -p paravt-examples --bin own_backend -- B DATA RUN
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Request};
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::{Evaluation, RunConfig, Workspace, evaluate};
use paravt_suite::protocol::native;
use paravt_task_lvbench::LVBENCH;

struct OneLetter(String);

impl Backend for OneLetter {
    fn describe(&self) -> BackendInfo {
        BackendInfo { name: "one_letter".into(), model: self.0.clone(), details: BTreeMap::new() }
    }

    fn complete<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        async move {
            let text = format!("<answer>{}</answer>", self.0);
            Ok(Completion { text, ..Completion::default() })
        }
        .boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [letter, data, dir] = arguments.as_slice() else { return Err("expected LETTER DATA RUN".into()) };
    let protocol = native::protocol();
    let bound = paravt_agents::bind(protocol)?;
    let config = RunConfig { nframes: Some(8), ..RunConfig::default() };
    let run = Evaluation::new(&LVBENCH, config, bound, dir);
    let workspace = Workspace::new(DataRoot::new(data));
    let outcome = evaluate(&run, &workspace, Arc::new(OneLetter(letter.clone())), Arc::new(())).await?;
    println!(
        "always {letter}: accuracy {:.3} of {} samples",
        outcome.summary.headline().value,
        outcome.records
    );
    Ok(())
}
