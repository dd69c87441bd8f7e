//! Servers of a model. The first evaluation that asks them starts them, the last one stops them.

use std::path::Path;

use paravt_supervise::variable;

use crate::error::Error;
use crate::host::Outcome;
use crate::provenance;
use crate::servers::{Engine, Fleet};
use crate::work::{Role, StageContext, Work};

/// What servers do otherwise than those of the release (scripts/run_eval.sh, paravt/eval/utils.py:476-547).
const SERVERS_DEVIATE: [&str; 3] = [
    "servers stay up from one evaluation to the next; the release starts others for each data set",
    "servers are stopped by their own process group; the release kills by the name of the program",
    "servers listen on 127.0.0.1 and read nothing from the hub (HF_HUB_OFFLINE=1); the release leaves both open",
];
/// How vLLM is started otherwise.
const STARTED: &str = "started as `vllm serve MODEL`; the release starts the module vllm.entrypoints.openai.api_server with --model MODEL";
/// What the release serves with (requirements/eval.lock).
const RELEASED_ENGINE: &str = "vLLM 0.17.1 from its lock file";

impl Work for Fleet {
    fn role(&self) -> Role {
        Role::Serve
    }

    fn title(&self) -> String {
        match self.serve.engine {
            Engine::Candle => format!("{} in this process (candle)", self.model),
            engine => {
                let each = match self.serve.gpus {
                    1 => "GPU".to_owned(),
                    gpus => format!("{gpus} GPUs"),
                };
                let (model, engine) = (&self.model, engine.as_str());
                format!("{model} on {engine}: one server for each {each}, or one on the CPU")
            }
        }
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

    fn deviations(&self) -> Vec<String> {
        let serve = &self.serve;
        let here = provenance::engine(self).map(|engine| format!(" ({engine})")).unwrap_or_default();
        let other = match (serve.engine, &serve.install) {
            (Engine::Candle, _) => {
                return vec![format!(
                    "answers are computed in this process by candle; the release's by {RELEASED_ENGINE}"
                )];
            }
            (Engine::Vllm, Some(_)) => None,
            (Engine::Vllm, None) => {
                Some(format!("vLLM is the one of this machine{here}; the release's is {RELEASED_ENGINE}"))
            }
            (engine, _) => {
                Some(format!("served by {}{here}; by the release with {RELEASED_ENGINE}", engine.as_str()))
            }
        };
        let started = (serve.engine == Engine::Vllm).then(|| STARTED.to_owned());
        other.into_iter().chain(started).chain(SERVERS_DEVIATE.map(str::to_owned)).collect()
    }
}
