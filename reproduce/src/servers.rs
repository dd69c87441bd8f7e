//! The servers of a model: one for each GPU or group of GPUs, or one on the CPU.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_files::quote;
use paravt_supervise::{Command, Process};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::server_watch::{self, GRACE, Limits, Server};

/// What serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Engine {
    Vllm,
    Sglang,
    /// `transformers serve`.
    Transformers,
    /// This process, without a server.
    Candle,
}

/// How a model is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    pub engine: Engine,
    /// Command that starts one server, without host and port; `{model}` in it is the model [default: that of the
    /// engine].
    pub command: Option<String>,
    /// Environment of the release that the servers run in, and that is made before [default: what is on PATH].
    pub install: Option<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// GPUs of one server, over which it splits the model's tensors; the other GPUs have further servers.
    #[serde(default = "one_gpu", skip_serializing_if = "is_one")]
    pub gpus: usize,
    /// Port of the first server; that of the n-th after it is n more.
    #[serde(default = "first_port")]
    pub port: u16,
    /// Seconds that the servers get to be ready.
    #[serde(default = "ready_seconds")]
    pub ready_seconds: u64,
    /// Seconds after which a server that does not pass `/health` is stopped.
    #[serde(default = "hang_seconds")]
    pub hang_seconds: u64,
}

fn one_gpu() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_one(gpus: &usize) -> bool {
    *gpus == 1
}

fn hang_seconds() -> u64 {
    300
}

fn first_port() -> u16 {
    8000
}

fn ready_seconds() -> u64 {
    900
}

/// A model and the servers of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Name or folder of the model.
    pub model: String,
    pub serve: Serve,
    /// GPUs as `CUDA_VISIBLE_DEVICES` names them; empty for one server on the CPU.
    pub gpus: Vec<String>,
    /// Folder of the Python environment that they run in; `None` for what is on PATH.
    pub venv: Option<PathBuf>,
}

impl TryFrom<String> for Engine {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name)
    }
}

impl Engine {
    /// The engine of a name, whatever its case.
    ///
    /// # Errors
    /// No such engine.
    pub fn named(name: &str) -> Result<Self, String> {
        let all = [Self::Vllm, Self::Sglang, Self::Transformers, Self::Candle];
        let found = all.into_iter().find(|engine| engine.as_str().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("expected vllm, sglang, transformers or candle, found `{name}`"))
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Transformers => "transformers",
            Self::Candle => "candle",
        }
    }

    /// The command of a recipe that names none, for a server of so many GPUs.
    fn command(self, gpus: usize) -> &'static str {
        match (self, gpus) {
            (Self::Vllm, _) => "vllm serve {model} --dtype bfloat16",
            (Self::Sglang, _) => "python3 -m sglang.launch_server --model-path {model}",
            (Self::Transformers, 0) => "transformers serve {model} --device cpu",
            (Self::Transformers, 1) => "transformers serve {model} --device cuda",
            // Layer by layer over the GPUs that it sees.
            (Self::Transformers, _) => "transformers serve {model} --device auto",
            (Self::Candle, _) => "",
        }
    }

    /// The flag that splits a model's tensors over GPUs, and its other names.
    fn tensor_parallel(self) -> &'static [&'static str] {
        match self {
            Self::Vllm => &["--tensor-parallel-size", "-tp"],
            Self::Sglang => &["--tp-size", "--tensor-parallel-size", "--tp"],
            Self::Transformers | Self::Candle => &[],
        }
    }
}

impl Fleet {
    /// The command of a server, with `{model}` in the place of the model.
    fn template(&self) -> &str {
        let given = self.serve.command.as_deref();
        given.unwrap_or_else(|| self.serve.engine.command(self.serve.gpus.min(self.gpus.len())))
    }

    /// The GPUs of each server; one server without any on the CPU.
    ///
    /// # Errors
    /// Fewer GPUs than one server takes.
    fn groups(&self) -> Result<Vec<&[String]>, Error> {
        let each = self.serve.gpus;
        if each == 0 || !self.gpus.is_empty() && self.gpus.len() < each {
            return Err(Error::FewGpus { each, found: self.gpus.len() });
        }
        let groups: Vec<&[String]> = self.gpus.chunks_exact(each).collect();
        Ok(if groups.is_empty() { vec![&[]] } else { groups })
    }

    /// SHA-256 over how a server of any model is started, its variables included; `None` for a model in this process.
    pub(crate) fn command_hash(&self) -> Option<String> {
        let mut how = serde_json::json!([self.template(), self.serve.environment]);
        if let (true, Some(how)) = (self.serve.gpus > 1, how.as_array_mut()) {
            how.push(self.serve.gpus.into());
        }
        (self.serve.engine != Engine::Candle).then(|| paravt_files::sha256(how.to_string()))
    }

    /// Program and arguments of a server, without its port.
    fn words(&self) -> Result<Vec<String>, Error> {
        let text = self.template();
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| Error::Command(text.to_owned()))?;
        let mut words: Vec<String> =
            words.into_iter().map(|word| word.replace("{model}", &self.model)).collect();
        let flags = self.serve.engine.tensor_parallel();
        let named = |word: &String| flags.iter().any(|flag| word.split('=').next() == Some(flag));
        if let Some(flag) = flags.first().filter(|_| self.serve.gpus > 1 && !words.iter().any(named)) {
            words.extend([(*flag).to_owned(), self.serve.gpus.to_string()]);
        }
        Ok(words)
    }

    /// The value of a flag of the command; of several the last counts, as for the engines.
    pub(crate) fn flag(&self, name: &str) -> Option<String> {
        let words = self.words().ok()?;
        let (place, word) =
            words.iter().enumerate().rfind(|(_, word)| word.split('=').next() == Some(name))?;
        word.split_once('=').map(|(_, value)| value.to_owned()).or_else(|| words.get(place + 1).cloned())
    }

    /// The command of the servers as a shell would take it, without secrets; `{port}` stands for a server's port.
    ///
    /// # Errors
    /// A command with an open quote.
    pub fn command_line(&self) -> Result<String, Error> {
        let mut words = paravt_supervise::words(&self.words()?);
        words.extend(["--host", "127.0.0.1", "--port", "{port}"].map(str::to_owned));
        Ok(words.iter().map(quote).collect::<Vec<_>>().join(" "))
    }

    /// The program of a server; `None` for a model in this process or a command that cannot be split.
    pub fn program(&self) -> Option<String> {
        let words = self.words().ok().filter(|_| self.serve.engine != Engine::Candle)?;
        words.into_iter().next()
    }

    /// Ports of all servers.
    pub fn ports(&self) -> Vec<u16> {
        let servers = self.groups().map_or(1, |groups| groups.len());
        let numbers = 0..u16::try_from(servers).unwrap_or(u16::MAX);
        numbers.filter_map(|number| self.serve.port.checked_add(number)).collect()
    }

    /// Ports and commands of all servers.
    fn commands(&self) -> Result<Vec<(u16, Command)>, Error> {
        let needs_gpu = matches!(self.serve.engine, Engine::Vllm | Engine::Sglang);
        if needs_gpu && self.gpus.is_empty() && self.serve.command.is_none() {
            return Err(Error::NoGpu(self.serve.engine.as_str()));
        }
        let mut words = self.words()?.into_iter();
        let program = words.next().ok_or_else(|| Error::Command(String::new()))?;
        let args: Vec<String> = words.collect();
        let groups = self.groups()?;
        let numbered = groups.into_iter().enumerate();
        numbered
            .map(|(number, gpus)| {
                let port = u16::try_from(number).ok().and_then(|number| self.serve.port.checked_add(number));
                let port =
                    port.ok_or(Error::Port { port: self.serve.port, why: "is too high".to_owned() })?;
                let mut env = self.serve.environment.clone();
                if !gpus.is_empty() {
                    env.insert("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(","));
                }
                if let Some(venv) = &self.venv {
                    env.insert("PATH".to_owned(), first_on_path(venv));
                }
                let tail =
                    ["--host".to_owned(), "127.0.0.1".to_owned(), "--port".to_owned(), port.to_string()];
                let args = args.iter().cloned().chain(tail).collect();
                Ok((port, Command { program: program.clone().into(), args, env, dir: None }))
            })
            .collect()
    }
}

/// The search path of this process with the programs of an environment first.
fn first_on_path(venv: &Path) -> String {
    let bin = venv.join("bin");
    let bin = std::path::absolute(&bin).unwrap_or(bin).display().to_string();
    std::env::var("PATH").map_or_else(|_| bin.clone(), |path| format!("{bin}:{path}"))
}

/// Running servers. Dropping them stops them.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
    urls: Vec<String>,
    /// Folder of their logs.
    folder: PathBuf,
    limits: Limits,
    /// Bytes in use on each GPU before the start; empty on the CPU and where the driver does not say.
    memory: Vec<u64>,
}

impl Servers {
    /// Starts all servers of a fleet and waits until each passes the probe, which gets its base URL. Logs are in
    /// `folder`.
    ///
    /// # Errors
    /// A port that is taken, an engine without its GPU, a server that ends or does not pass the probe in time.
    pub fn start(
        fleet: &Fleet,
        folder: &Path,
        mut probe: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<Self, Error> {
        let commands = fleet.commands()?;
        for (port, _) in &commands {
            TcpListener::bind((Ipv4Addr::LOCALHOST, *port))
                .map_err(|error| Error::Port { port: *port, why: format!("cannot be used: {error}") })?;
        }
        let memory = if fleet.gpus.is_empty() { Ok(Vec::new()) } else { paravt_devices::memory_in_use() };
        let mut servers = Self {
            servers: Vec::new(),
            urls: Vec::new(),
            folder: folder.to_owned(),
            limits: Limits {
                hang: Duration::from_secs(fleet.serve.hang_seconds),
                ready: Duration::from_secs(fleet.serve.ready_seconds),
            },
            memory: memory.unwrap_or_default(),
        };
        for (number, (port, command)) in commands.into_iter().enumerate() {
            let name = format!("server-{number}");
            let process = Process::start(&name, &command, folder)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            servers.servers.push(Server { name, address, command, process, restarts: 0 });
            servers.urls.push(format!("http://127.0.0.1:{port}/v1"));
        }
        for (server, url) in servers.servers.iter_mut().zip(&servers.urls) {
            let address = server.address;
            server.process.wait_ready(servers.limits.ready, || {
                TcpStream::connect(address).map_err(|error| error.to_string())?;
                probe(url)
            })?;
        }
        Ok(servers)
    }

    /// Base URLs.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Runs `work` on their base URLs. A server that hangs meanwhile is stopped, and one that ends is started again where
    /// there are others; `say` gets a line about each at once. Returns the result, and how many have ended.
    pub fn watched<T>(
        &mut self,
        work: impl FnOnce(&[String]) -> T,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> (T, usize) {
        let Self { servers, urls, folder, limits, .. } = self;
        let (end, done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || server_watch::watch(servers, folder, *limits, &done, say));
            let result = work(urls);
            drop(end);
            (result, watcher.join().unwrap_or_default())
        })
    }

    /// Stops all of them and waits until their GPUs are free.
    ///
    /// # Errors
    /// Memory of a GPU that stays in use.
    pub fn finish(mut self) -> Result<(), Error> {
        self.stop();
        server_watch::released(&self.memory, paravt_devices::memory_in_use)
            .map_err(|(gpu, used)| Error::GpuMemory { gpu, used: used >> 20 })
    }

    /// Stops all of them in parallel and waits for their end.
    fn stop(&mut self) {
        std::thread::scope(|scope| {
            for server in &mut self.servers {
                scope.spawn(|| server.process.stop(GRACE));
            }
        });
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(command: &str, gpus: &[&str]) -> Fleet {
        let text = format!("engine = \"vLLM\"\nport = 8100\ncommand = {command:?}");
        let serve: Serve = toml::from_str(&text).unwrap();
        Fleet {
            model: "owner/a model".to_owned(),
            serve,
            gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
            venv: None,
        }
    }

    #[test]
    fn every_gpu_has_a_server_and_a_port() {
        let fleet = fleet("serve {model} --limit '{\"image\": 8}'", &["2", "GPU-5f"]);
        let commands = fleet.commands().unwrap();
        let [(first, one), (second, two)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!((*first, *second), (8100, 8101));
        assert_eq!(
            (one.env["CUDA_VISIBLE_DEVICES"].as_str(), two.env["CUDA_VISIBLE_DEVICES"].as_str()),
            ("2", "GPU-5f")
        );
        assert_eq!(
            one.args,
            ["owner/a model", "--limit", "{\"image\": 8}", "--host", "127.0.0.1", "--port", "8100"]
        );
        assert_eq!(
            fleet.command_line().unwrap(),
            "serve 'owner/a model' --limit '{\"image\": 8}' --host 127.0.0.1 --port {port}"
        );
    }

    #[test]
    fn a_large_model_has_a_server_for_each_group_of_gpus() {
        let all: Vec<String> = (0..8).map(|number| number.to_string()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let of = |each, gpus: &[&str], command: &str| {
            let mut fleet = fleet(command, gpus);
            fleet.serve.gpus = each;
            fleet
        };
        let four = of(4, &all, "vllm serve {model}");
        let commands = four.commands().unwrap();
        let [(8100, one), (8101, two)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!(one.args[..4], ["serve", "owner/a model", "--tensor-parallel-size", "4"]);
        let visible = [one, two].map(|command| command.env["CUDA_VISIBLE_DEVICES"].as_str());
        assert_eq!(visible, ["0,1,2,3", "4,5,6,7"]);
        assert_eq!(four.ports(), [8100, 8101]);
        assert_ne!(four.command_hash(), of(1, &all, "vllm serve {model}").command_hash());
        // What the command says itself is not said twice.
        let own = of(2, &all[..2], "vllm serve {model} --tensor-parallel-size=2");
        assert_eq!(own.commands().unwrap()[0].1.args.len(), 7);
        // Three of eight are of no use to a server of three.
        assert_eq!(of(3, &all, "vllm serve {model}").commands().unwrap().len(), 2);
        let mut auto = of(2, &all[..4], "");
        (auto.serve.command, auto.serve.engine) = (None, Engine::Transformers);
        assert_eq!(auto.commands().unwrap()[1].1.args[2..4], ["--device", "auto"]);
        let few = of(4, &all[..2], "vllm serve {model}").commands().unwrap_err().to_string();
        assert!(few.contains("gpus = 4") && few.contains("at most the 2"), "{few}");
        assert_eq!(of(4, &[], "serve").commands().unwrap().len(), 1, "on the CPU");
    }

    #[test]
    fn a_secret_in_the_command_is_not_shown() {
        let secret = fleet("serve {model} --api-key sk-1", &[]);
        assert!(!secret.command_line().unwrap().contains("sk-1"));
        assert!(secret.commands().unwrap()[0].1.args.contains(&"sk-1".to_owned()));
        let error = fleet("serve --api-key sk-1 'open", &[]).commands().unwrap_err().to_string();
        assert!(error.contains("open quote") && !error.contains("sk-1"), "{error}");
    }

    #[test]
    fn without_a_gpu_there_is_one_server_or_a_refusal() {
        assert_eq!(fleet("serve", &[]).commands().unwrap().len(), 1);
        let mut without = fleet("serve", &[]);
        without.serve.command = None;
        assert!(without.commands().unwrap_err().to_string().contains("vllm"));
        without.serve.engine = Engine::Transformers;
        assert_eq!(without.commands().unwrap()[0].1.args[..4], ["serve", "owner/a model", "--device", "cpu"]);
        assert!(matches!(fleet("serve 'open", &[]).commands(), Err(Error::Command(_))));
    }

    #[test]
    fn a_port_that_is_taken_is_named_before_anything_starts() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut fleet = fleet("sleep 400", &[]);
        fleet.serve.port = taken.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let error = Servers::start(&fleet, folder.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains(&fleet.serve.port.to_string()) && error.contains("--base-url"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
