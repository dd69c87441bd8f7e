//! Servers of a model. Each evaluation that builds on them starts them for as long as it takes.

use std::path::Path;

use paravt_supervise::variable;

use crate::error::Error;
use crate::host::Outcome;
use crate::serve::{Engine, Fleet};
use crate::slot::Key;
use crate::work::{StageContext, Work};

impl Work for Fleet {
    fn title(&self) -> String {
        match self.serve.engine {
            Engine::Candle => format!("{} in this process (candle)", self.model),
            engine => format!(
                "{} on {}: one server for each GPU, or one on the CPU; started for each split",
                self.model,
                engine.as_str()
            ),
        }
    }

    fn key(&self) -> Option<Key> {
        None
    }

    fn run(&self, _: &mut StageContext<'_>) -> Result<Outcome, Error> {
        Ok(Outcome::Complete)
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let serve = &self.serve;
        // Running the stage says what is wrong with a command.
        let command = self.command_line().ok().filter(|_| serve.engine != Engine::Candle);
        let named = serve.environment.iter().map(|(name, value)| variable(name, value));
        let gpu = ["CUDA_VISIBLE_DEVICES={gpu}, where there is one".to_owned()];
        let ports = format!("{} and up; ready within {} s", serve.port, serve.ready_seconds);
        let environ = [("environ", named.chain(gpu).collect::<Vec<_>>().join(" ")), ("ports", ports)];
        command.map(|command| ("command", command)).into_iter().chain(environ).collect()
    }
}
